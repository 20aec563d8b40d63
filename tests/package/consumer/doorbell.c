/* A device model of the smallest kind: a register that identifies it, one that keeps what was written.
 * Option fault=N: from the Nth write on, the kept value has bit 0 flipped. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tapeback_model.h>

struct doorbell {
  uint32_t kept;
  unsigned long writes, fault;
  const char *error;
};

static int create(const tapeback_model_host *host, const tapeback_model_option *options, uint32_t count,
                  void **instance, char *error, size_t size) {
  struct doorbell *self = calloc(1, sizeof *self);
  uint32_t i;
  (void)host;
  if (!self)
    return TAPEBACK_MODEL_E_NO_MEMORY;
  self->error = "";
  for (i = 0; i < count; ++i) {
    if (strcmp(options[i].key, "fault") != 0) {
      snprintf(error, size, "unknown option '%s'", options[i].key);
      free(self);
      return TAPEBACK_MODEL_E_USAGE;
    }
    self->fault = strtoul(options[i].value, NULL, 10);
  }
  *instance = self;
  return TAPEBACK_MODEL_OK;
}

static void destroy(void *instance) {
  free(instance);
}

static const char *lastError(void *instance) {
  return ((struct doorbell *)instance)->error;
}

static int reset(void *instance, uint32_t kind) {
  struct doorbell *self = instance;
  (void)kind;
  self->kept = 0;
  self->writes = 0;
  return TAPEBACK_MODEL_OK;
}

static int refuse(struct doorbell *self, uint32_t space, uint64_t address, uint32_t width) {
  if (space == 0 && width == 4 && (address == 0 || address == 8))
    return TAPEBACK_MODEL_OK;
  self->error = "there is no such register";
  return TAPEBACK_MODEL_E_USAGE;
}

static int readRegister(void *instance, uint32_t space, uint64_t address, uint32_t width, uint64_t *value) {
  struct doorbell *self = instance;
  const int status = refuse(self, space, address, width);
  if (status == TAPEBACK_MODEL_OK)
    *value = address == 0 ? 0xd00bbe11u : self->kept;
  return status;
}

static int writeRegister(void *instance, uint32_t space, uint64_t address, uint32_t width, uint64_t value) {
  struct doorbell *self = instance;
  const int status = refuse(self, space, address, width);
  if (status == TAPEBACK_MODEL_OK && address == 8) {
    ++self->writes;
    self->kept = (uint32_t)value ^ (self->fault != 0 && self->writes >= self->fault ? 1u : 0u);
  }
  return status;
}

static int advance(void *instance, uint64_t budget, uint64_t *advanced) {
  (void)instance;
  *advanced = budget;
  return TAPEBACK_MODEL_OK;
}

static const tapeback_model_space spaces[] = {{"bar0", 4096}};
static const tapeback_model_fact facts[] = {{"vendor", "0x1af0"}, {"device", "0xd00b"}};

static const tapeback_model model = {
    .struct_size = sizeof(tapeback_model),
    .abi_major = TAPEBACK_MODEL_ABI_MAJOR,
    .abi_minor = TAPEBACK_MODEL_ABI_MINOR,
    .name = "doorbell",
    .facts = facts,
    .fact_count = 2,
    .spaces = spaces,
    .space_count = 1,
    .create = create,
    .destroy = destroy,
    .last_error = lastError,
    .reset = reset,
    .read = readRegister,
    .write = writeRegister,
    .advance = advance,
};

const tapeback_model *tapeback_model_entry(uint32_t hostMajor) {
  return hostMajor == TAPEBACK_MODEL_ABI_MAJOR ? &model : NULL;
}
