/* FROZEN. A model plugin as somebody outside wrote it against version 1.0 of the ABI; uses every function of
 * it.
 *
 * The device has one space "regs" of 64 bytes:
 *   0x00 rw  scratch                      0x08 rw  host address          0x10 rw  length (at most 64)
 *   0x18 wo  command: 1 reads host memory into the window "cell", 2 writes it back, 3 raises vector 1,
 *            4 starts a timer of 1 ms that then raises vector 0
 *   0x20 ro  commands so far
 * Every access takes 10 ns. */
#include "tapeback_model.h"
#include <stdlib.h>
#include <string.h>

struct device {
  uint64_t scratch, address, length, commands, now, timer; /* timer: 0 or when it is due */
  unsigned char cell[64];
};

struct instance {
  struct device device;
  const tapeback_model_host *host;
  const char *error;
};

static int create(const tapeback_model_host *host, const tapeback_model_option *options,
                  uint32_t option_count, void **instance, char *error, size_t size) {
  struct instance *made;
  uint64_t scratch = 0;
  uint32_t i;
  if (host->struct_size < sizeof *host)
    return TAPEBACK_MODEL_E_INTERNAL;
  for (i = 0; i < option_count; ++i) {
    if (strcmp(options[i].key, "scratch") != 0) {
      strncpy(error, "the only option is scratch", size);
      return TAPEBACK_MODEL_E_USAGE;
    }
    scratch = strtoull(options[i].value, NULL, 0);
  }
  made = calloc(1, sizeof *made);
  if (!made)
    return TAPEBACK_MODEL_E_NO_MEMORY;
  made->host = host;
  made->error = "";
  made->device.scratch = scratch;
  host->log(host->host, 2, "made");
  *instance = made;
  return TAPEBACK_MODEL_OK;
}

static void destroy(void *instance) {
  free(instance);
}
static const char *last_error(void *instance) {
  return ((struct instance *)instance)->error;
}

static int reset(void *instance, uint32_t kind) {
  struct device *device = &((struct instance *)instance)->device;
  uint64_t now = device->now;
  memset(device, 0, sizeof *device);
  device->now = now;
  device->scratch = 0xee00 + kind;
  return TAPEBACK_MODEL_OK;
}

static void pass(struct instance *self, uint64_t nanoseconds) {
  struct device *device = &self->device;
  device->now += nanoseconds;
  if (device->timer && device->timer <= device->now) {
    device->timer = 0;
    self->host->interrupt(self->host->host, 0);
  }
}

static int read_register(void *instance, uint32_t space, uint64_t address, uint32_t width, uint64_t *value) {
  struct instance *self = instance;
  (void)space;
  pass(self, 10);
  if (width != 8) {
    self->error = "64-bit accesses only";
    return TAPEBACK_MODEL_E_USAGE;
  }
  switch (address) {
  case 0x00: *value = self->device.scratch; break;
  case 0x08: *value = self->device.address; break;
  case 0x10: *value = self->device.length; break;
  case 0x20: *value = self->device.commands; break;
  default: self->error = "nothing there"; return TAPEBACK_MODEL_E_BUS;
  }
  return TAPEBACK_MODEL_OK;
}

static int command(struct instance *self, uint64_t value) {
  struct device *device = &self->device;
  const tapeback_model_host *host = self->host;
  int status = TAPEBACK_MODEL_OK;
  ++device->commands;
  if (value == 1)
    status = host->dma_read(host->host, device->address, device->cell, device->length);
  else if (value == 2)
    status = host->dma_write(host->host, device->address, device->cell, device->length);
  else if (value == 3)
    status = host->interrupt(host->host, 1);
  else if (value == 4)
    device->timer = device->now + 1000000;
  if (status)
    self->error = "the host refused";
  return status;
}

static int write_register(void *instance, uint32_t space, uint64_t address, uint32_t width, uint64_t value) {
  struct instance *self = instance;
  (void)space;
  (void)width;
  pass(self, 10);
  switch (address) {
  case 0x00: self->device.scratch = value; break;
  case 0x08: self->device.address = value; break;
  case 0x10: self->device.length = value > 64 ? 64 : value; break;
  case 0x18: return command(self, value);
  default: self->error = "nothing there"; return TAPEBACK_MODEL_E_BUS;
  }
  return TAPEBACK_MODEL_OK;
}

static int advance(void *instance, uint64_t budget, uint64_t *advanced) {
  struct instance *self = instance;
  struct device *device = &self->device;
  *advanced = budget;
  if (device->timer && device->timer - device->now < budget)
    *advanced = device->timer - device->now;
  else if (!device->timer)
    *advanced = 0; /* Nothing happens by itself. */
  pass(self, *advanced);
  return TAPEBACK_MODEL_OK;
}

static int device_time(void *instance, uint64_t *nanoseconds) {
  *nanoseconds = ((struct instance *)instance)->device.now;
  return TAPEBACK_MODEL_OK;
}

static int counter(void *instance, uint32_t id, uint64_t *value) {
  *value = ((struct instance *)instance)->device.commands * 10 + id;
  return TAPEBACK_MODEL_OK;
}

static int peek(void *instance, uint32_t window, uint64_t offset, void *out, uint64_t size) {
  (void)window;
  memcpy(out, ((struct instance *)instance)->device.cell + offset, size);
  return TAPEBACK_MODEL_OK;
}

static int snapshot_size(void *instance, uint64_t *size) {
  (void)instance;
  *size = sizeof(struct device);
  return TAPEBACK_MODEL_OK;
}

static int snapshot_save(void *instance, void *out, uint64_t size) {
  memcpy(out, &((struct instance *)instance)->device, size);
  return TAPEBACK_MODEL_OK;
}

static int snapshot_load(void *instance, const void *in, uint64_t size) {
  memcpy(&((struct instance *)instance)->device, in, size);
  return TAPEBACK_MODEL_OK;
}

static int trace_begin(void *instance, const char *path) {
  (void)instance;
  (void)path;
  return TAPEBACK_MODEL_OK;
}

static int trace_end(void *instance) {
  (void)instance;
  return TAPEBACK_MODEL_OK;
}

static const tapeback_model_space spaces[] = {{"regs", 64}};
static const tapeback_model_fact facts[] = {{"vendor", "nobody"}, {"version", "1"}};
static const tapeback_model_window windows[] = {{"cell", 64}};

const tapeback_model *tapeback_model_entry(uint32_t host_abi_major) {
  static const tapeback_model table = {
      sizeof table,
      1,
      0,
      TAPEBACK_MODEL_CAP_MEMORY | TAPEBACK_MODEL_CAP_INTERRUPTS | TAPEBACK_MODEL_CAP_SNAPSHOT |
          TAPEBACK_MODEL_CAP_DEVICE_TIME | TAPEBACK_MODEL_CAP_COUNTERS | TAPEBACK_MODEL_CAP_PEEK |
          TAPEBACK_MODEL_CAP_TRACE,
      2,
      "abi-v1",
      facts,
      2,
      1,
      spaces,
      windows,
      1,
      3,
      create,
      destroy,
      last_error,
      reset,
      read_register,
      write_register,
      advance,
      device_time,
      counter,
      peek,
      snapshot_size,
      snapshot_save,
      snapshot_load,
      trace_begin,
      trace_end,
  };
  return host_abi_major == 1 ? &table : NULL;
}
