/* A plugin whose table breaks the ABI in the one way that FLAW_* says (FLAW_NEWER_TABLE: does not break it).
 */
#include "hal/model/tapeback_model.h"
#include <string.h>

static int dummy;

static int create(const tapeback_model_host *host, const tapeback_model_option *options, uint32_t count,
                  void **instance, char *error, size_t size) {
  (void)host, (void)options, (void)count, (void)error, (void)size;
  *instance = &dummy;
  return 0;
}
static void destroy(void *instance) {
  (void)instance;
}
static const char *lastError(void *instance) {
  (void)instance;
  return "";
}
static int reset(void *instance, uint32_t kind) {
  (void)instance, (void)kind;
  return 0;
}
static int readRegister(void *instance, uint32_t space, uint64_t address, uint32_t width, uint64_t *value) {
  (void)instance, (void)space, (void)address, (void)width;
  *value = 42;
  return 0;
}
static int writeRegister(void *instance, uint32_t space, uint64_t address, uint32_t width, uint64_t value) {
  (void)instance, (void)space, (void)address, (void)width, (void)value;
  return 0;
}
static int advance(void *instance, uint64_t budget, uint64_t *advanced) {
  (void)instance;
  *advanced = budget;
  return 0;
}

/* What a later minor version may look like: the same beginning, more behind. */
static struct {
  tapeback_model model;
  void *later[16];
} table;

static tapeback_model_space spaces[] = {{"bar0", 4096}, {"", 16}};
static tapeback_model_fact facts[] = {{"vendor", NULL}};
static char longName[1024];

const tapeback_model *tapeback_model_entry(uint32_t hostAbiMajor) {
  (void)hostAbiMajor;
  tapeback_model *model = &table.model;
  model->struct_size = sizeof *model;
  model->abi_major = TAPEBACK_MODEL_ABI_MAJOR;
  model->name = "bad";
  model->space_count = 1;
  model->spaces = spaces;
  model->create = create;
  model->destroy = destroy;
  model->last_error = lastError;
  model->reset = reset;
  model->read = readRegister;
  model->write = writeRegister;
  model->advance = advance;
  memset(longName, 'x', sizeof longName);
  (void)facts;
#if defined(FLAW_NULL_ENTRY)
  return NULL;
#elif defined(FLAW_OTHER_MAJOR)
  model->abi_major = 7;
  model->struct_size = 0xffffffff;
#elif defined(FLAW_SMALL_TABLE)
  model->struct_size = 64;
#elif defined(FLAW_HUGE_TABLE)
  model->struct_size = 0xfffffff0;
#elif defined(FLAW_NULL_READ)
  model->read = NULL;
#elif defined(FLAW_NULL_PEEK)
  model->capabilities = TAPEBACK_MODEL_CAP_PEEK;
#elif defined(FLAW_NULL_PEEK_REGISTER)
  model->capabilities = TAPEBACK_MODEL_CAP_PEEK_REGISTERS;
#elif defined(FLAW_NULL_COUNTER)
  model->capabilities = TAPEBACK_MODEL_CAP_COUNTERS;
#elif defined(FLAW_NULL_SNAPSHOT)
  model->capabilities = TAPEBACK_MODEL_CAP_SNAPSHOT;
#elif defined(FLAW_HUGE_SPACES)
  model->space_count = 0x40000000;
#elif defined(FLAW_NULL_SPACES)
  model->spaces = NULL;
#elif defined(FLAW_HUGE_VECTORS)
  model->interrupt_vectors = 0xffffffff;
#elif defined(FLAW_LONG_NAME)
  model->name = longName;
#elif defined(FLAW_EMPTY_SPACE_NAME)
  model->space_count = 2;
#elif defined(FLAW_NULL_FACT)
  model->facts = facts;
  model->fact_count = 1;
#elif defined(FLAW_NEWER_TABLE)
  model->abi_minor = 9;
  model->struct_size = sizeof table;
  memset(table.later, 0x5a, sizeof table.later);
#else
#error "which flaw?"
#endif
  return model;
}
