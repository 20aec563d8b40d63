/* FROZEN. A model plugin as somebody outside wrote it against version 1.1 of the ABI: with peek_register.
 *
 * The device has one space "regs": 0x00 rw a word; 0x04 ro how often that was read, which cannot be peeked.
 * Window "cell" (3000 bytes) is filled with the word's low byte; writing 13 there makes its peeks fail. */
#include "tapeback_model.h"
#include <stdlib.h>
#include <string.h>

struct instance {
  uint32_t word, reads;
};

static int create(const tapeback_model_host *host, const tapeback_model_option *options,
                  uint32_t option_count, void **instance, char *error, size_t size) {
  (void)host, (void)options;
  if (option_count) {
    strncpy(error, "there are no options", size);
    return TAPEBACK_MODEL_E_USAGE;
  }
  *instance = calloc(1, sizeof(struct instance));
  return *instance ? TAPEBACK_MODEL_OK : TAPEBACK_MODEL_E_NO_MEMORY;
}
static void destroy(void *instance) {
  free(instance);
}
static const char *last_error(void *instance) {
  (void)instance;
  return "refused";
}
static int reset(void *instance, uint32_t kind) {
  (void)kind;
  memset(instance, 0, sizeof(struct instance));
  return TAPEBACK_MODEL_OK;
}
static int read_register(void *instance, uint32_t space, uint64_t address, uint32_t width, uint64_t *value) {
  struct instance *self = instance;
  (void)space, (void)width;
  if (address == 0)
    ++self->reads;
  *value = address ? self->reads : self->word;
  return TAPEBACK_MODEL_OK;
}
static int write_register(void *instance, uint32_t space, uint64_t address, uint32_t width, uint64_t value) {
  (void)space, (void)address, (void)width;
  ((struct instance *)instance)->word = (uint32_t)value;
  return TAPEBACK_MODEL_OK;
}
static int advance(void *instance, uint64_t budget, uint64_t *advanced) {
  (void)instance, (void)budget;
  *advanced = 0;
  return TAPEBACK_MODEL_OK;
}
static int peek(void *instance, uint32_t window, uint64_t offset, void *out, uint64_t size) {
  struct instance *self = instance;
  (void)window, (void)offset;
  if (self->word == 13)
    return TAPEBACK_MODEL_E_INTERNAL;
  memset(out, (int)(self->word & 0xff), size);
  return TAPEBACK_MODEL_OK;
}
static int peek_register(void *instance, uint32_t space, uint64_t address, uint32_t width, uint64_t *value) {
  (void)space, (void)width;
  if (address)
    return TAPEBACK_MODEL_E_USAGE;
  *value = ((struct instance *)instance)->word;
  return TAPEBACK_MODEL_OK;
}

static const tapeback_model_space spaces[] = {{"regs", 8}};
static const tapeback_model_window windows[] = {{"cell", 3000}};
static const tapeback_model table = {
    .struct_size = sizeof(tapeback_model),
    .abi_major = 1,
    .abi_minor = 1,
    .capabilities = TAPEBACK_MODEL_CAP_PEEK | TAPEBACK_MODEL_CAP_PEEK_REGISTERS,
    .name = "abi-v1.1",
    .space_count = 1,
    .spaces = spaces,
    .windows = windows,
    .window_count = 1,
    .create = create,
    .destroy = destroy,
    .last_error = last_error,
    .reset = reset,
    .read = read_register,
    .write = write_register,
    .advance = advance,
    .peek = peek,
    .peek_register = peek_register,
};

const tapeback_model *tapeback_model_entry(uint32_t host_abi_major) {
  return host_abi_major == 1 ? &table : NULL;
}
