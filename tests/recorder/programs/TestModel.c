/* A model for the recorder's tests: memory-like registers, a copy engine, an interrupt, counters, and
 * registers that misbehave on purpose.
 *
 *   0x000–0x0ff  plain registers of any width
 *   0x100        a read never returns
 *   0x108        a read fails on the bus
 *   0x110        counts its reads
 *   0x120        the model's clock: it goes on only while somebody waits
 *   0x200        a write raises interrupt 0
 *   0x300 SRC, 0x308 DST, 0x310 LENGTH, 0x318 GO: writing 1 copies LENGTH bytes of host memory from SRC to
 * DST at once; reading GO gives 0. Writing 3 only promises to: GO reads 1 until the model's clock has
 * advanced 1 ms.
 */
#include "hal/model/tapeback_model.h"
#include <stdlib.h>
#include <string.h>

struct device {
  tapeback_model_host host;
  uint8_t registers[0x400];
  uint64_t reads, now, busyUntil;
};

static const tapeback_model_space spaces[] = {{"bar0", 0x400}, {"bar2", 0x100}};
static const tapeback_model_fact facts[] = {{"vendor", "0x7e57"}, {"device", "0x0001"}};

static int create(const tapeback_model_host *host, const tapeback_model_option *options, uint32_t count,
                  void **instance, char *error, size_t size) {
  (void)options;
  if (count) {
    strncpy(error, "no options here", size - 1);
    return TAPEBACK_MODEL_E_USAGE;
  }
  struct device *device = calloc(1, sizeof(*device));
  if (!device)
    return TAPEBACK_MODEL_E_NO_MEMORY;
  device->host = *host;
  *instance = device;
  return TAPEBACK_MODEL_OK;
}
static void destroy(void *instance) {
  free(instance);
}
static const char *lastError(void *instance) {
  (void)instance;
  return "as told";
}
static int reset(void *instance, uint32_t kind) {
  struct device *device = instance;
  (void)kind;
  memset(device->registers, 0, sizeof(device->registers));
  device->reads = 0;
  device->busyUntil = 0;
  return TAPEBACK_MODEL_OK;
}

static uint64_t quad(struct device *device, uint64_t at) {
  uint64_t value;
  memcpy(&value, device->registers + at, 8);
  return value;
}

static int readRegister(void *instance, uint32_t space, uint64_t address, uint32_t width, uint64_t *value) {
  struct device *device = instance;
  *value = 0;
  if (space == 1)
    return TAPEBACK_MODEL_OK;
  if (address == 0x100)
    for (volatile int loop = 1; loop;)
      ;
  if (address == 0x108)
    return TAPEBACK_MODEL_E_BUS;
  if (address == 0x110) {
    *value = ++device->reads;
    return TAPEBACK_MODEL_OK;
  }
  if (address == 0x120) {
    *value = device->now;
    return TAPEBACK_MODEL_OK;
  }
  if (address == 0x318) {
    *value = device->now < device->busyUntil;
    return TAPEBACK_MODEL_OK;
  }
  memcpy(value, device->registers + address, width);
  return TAPEBACK_MODEL_OK;
}

static int copy(struct device *device) {
  uint64_t length = quad(device, 0x310);
  void *buffer = malloc(length ? length : 1);
  if (!buffer)
    return TAPEBACK_MODEL_E_NO_MEMORY;
  int status = device->host.dma_read(device->host.host, quad(device, 0x300), buffer, length);
  if (status == 0)
    status = device->host.dma_write(device->host.host, quad(device, 0x308), buffer, length);
  free(buffer);
  return status;
}

static int writeRegister(void *instance, uint32_t space, uint64_t address, uint32_t width, uint64_t value) {
  struct device *device = instance;
  if (space == 1)
    return TAPEBACK_MODEL_OK;
  if (address == 0x200)
    return device->host.interrupt(device->host.host, 0);
  memcpy(device->registers + address, &value, width);
  if (address == 0x318 && (value & 1)) {
    if (value & 2)
      device->busyUntil = device->now + 1000000;
    return copy(device);
  }
  return TAPEBACK_MODEL_OK;
}

static int advance(void *instance, uint64_t budget, uint64_t *advanced) {
  struct device *device = instance;
  device->now += budget;
  *advanced = budget;
  return TAPEBACK_MODEL_OK;
}
static int deviceTime(void *instance, uint64_t *nanoseconds) {
  *nanoseconds = ((struct device *)instance)->now;
  return TAPEBACK_MODEL_OK;
}

static const tapeback_model model = {
    .struct_size = sizeof(tapeback_model),
    .abi_major = TAPEBACK_MODEL_ABI_MAJOR,
    .abi_minor = TAPEBACK_MODEL_ABI_MINOR,
    .capabilities =
        TAPEBACK_MODEL_CAP_MEMORY | TAPEBACK_MODEL_CAP_INTERRUPTS | TAPEBACK_MODEL_CAP_DEVICE_TIME,
    .interrupt_vectors = 1,
    .name = "recorder-test",
    .facts = facts,
    .fact_count = 2,
    .space_count = 2,
    .spaces = spaces,
    .create = create,
    .destroy = destroy,
    .last_error = lastError,
    .reset = reset,
    .read = readRegister,
    .write = writeRegister,
    .advance = advance,
    .device_time = deviceTime,
};

const tapeback_model *tapeback_model_entry(uint32_t host_abi_major) {
  return host_abi_major == TAPEBACK_MODEL_ABI_MAJOR ? &model : NULL;
}
