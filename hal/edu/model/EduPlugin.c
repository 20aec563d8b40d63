/* The edu model as a plugin: the worked example of hal/model/tapeback_model.h.
 *
 * A plugin is three things: a device (EduModel.c), a table that says what it has and can do (at the end of
 * this file), and the functions of that table, which mostly translate. Copy this file to start a plugin of
 * your own; the comments say what the ABI expects at each place. */
#include "hal/edu/model/EduModel.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An instance is whatever you like; the host passes back the pointer that create() gave it. Everything the
 * device is lives in here: the process may one day hold two instances. */
typedef struct Instance {
  EduModel model;
  const tapeback_model_host *host;
  char error[160];
} Instance;

/* ---- What the device asks of the host. Allowed only while the host is calling us. ---- */

static int dmaRead(void *context, uint64_t address, void *out, uint64_t size) {
  const tapeback_model_host *host = ((Instance *)context)->host;
  return host->dma_read(host->host, address, out, size);
}

static int dmaWrite(void *context, uint64_t address, const void *in, uint64_t size) {
  const tapeback_model_host *host = ((Instance *)context)->host;
  return host->dma_write(host->host, address, in, size);
}

static int interrupt(void *context, uint32_t vector) {
  const tapeback_model_host *host = ((Instance *)context)->host;
  return host->interrupt(host->host, vector);
}

static void warn(void *context, const char *text) {
  const tapeback_model_host *host = ((Instance *)context)->host;
  host->log(host->host, 1, text);
}

/* ---- Life ---- */

/* Options are strings from the target's URI: "model:edu?fault=factorial&operand=5". Refuse what you do not
 * know, with a message that says what there is; the user reads it. */
static int create(const tapeback_model_host *host, const tapeback_model_option *options, uint32_t count,
                  void **instance, char *error, size_t size) {
  EduOptions parsed;
  if (!eduParseOptions(options, count, &parsed, error, size))
    return TAPEBACK_MODEL_E_USAGE;
  Instance *made = calloc(1, sizeof *made);
  if (!made) {
    snprintf(error, size, "no memory");
    return TAPEBACK_MODEL_E_NO_MEMORY;
  }
  made->host = host;
  made->model.options = parsed;
  made->model.bus = (EduBus){made, dmaRead, dmaWrite, interrupt, warn};
  eduReset(&made->model); /* A new instance is a device that was just switched on. */
  *instance = made;
  return TAPEBACK_MODEL_OK;
}

static void destroy(void *instance) {
  free(instance);
}

/* The text for the failure just returned. Never NULL; "" lets the host find words of its own. */
static const char *lastError(void *instance) {
  return ((Instance *)instance)->error;
}

static int fail(Instance *self, int status, const char *text) {
  snprintf(self->error, sizeof self->error, "%s", text);
  return status;
}

/* edu knows one kind of reset. */
static int reset(void *instance, uint32_t kind) {
  (void)kind;
  eduReset(&((Instance *)instance)->model);
  return TAPEBACK_MODEL_OK;
}

/* ---- Registers ---- */

/* The host has checked that the space exists, that the width is 1, 2, 4 or 8 and that the access lies inside.
 */
static int readRegister(void *instance, uint32_t space, uint64_t address, uint32_t width, uint64_t *value) {
  (void)space;
  *value = eduRead(&((Instance *)instance)->model, address, width);
  return TAPEBACK_MODEL_OK;
}

static int writeRegister(void *instance, uint32_t space, uint64_t address, uint32_t width, uint64_t value) {
  Instance *self = instance;
  (void)space;
  if (eduWrite(&self->model, address, width, value))
    return TAPEBACK_MODEL_OK;
  return fail(self, TAPEBACK_MODEL_E_BUS, "DMA outside the device's buffer (4096 bytes at 0x40000)");
}

/* ---- Time ---- */

/* The clock moves only inside calls: by accessTime in an access, and here. Returning early is allowed (we do
 * when an interrupt was raised); *advanced says how much passed. */
static int advance(void *instance, uint64_t budget, uint64_t *advanced) {
  *advanced = eduAdvance(&((Instance *)instance)->model, budget);
  return TAPEBACK_MODEL_OK;
}

static int deviceTime(void *instance, uint64_t *nanoseconds) {
  *nanoseconds = ((Instance *)instance)->model.state.now;
  return TAPEBACK_MODEL_OK;
}

/* ---- Looking inside ---- */

/* A peek has no side effect and takes no device time. Windows are numbered as in the table below. */
static int peek(void *instance, uint32_t window, uint64_t offset, void *out, uint64_t size) {
  Instance *self = instance;
  if (window != 0 || offset > EduBufferSize || size > EduBufferSize - offset)
    return fail(self, TAPEBACK_MODEL_E_USAGE, "outside the window");
  memcpy(out, self->model.state.buffer + offset, size);
  return TAPEBACK_MODEL_OK;
}

static int peekRegister(void *instance, uint32_t space, uint64_t address, uint32_t width, uint64_t *value) {
  Instance *self = instance;
  (void)space;
  if (eduPeek(&self->model, address, width, value))
    return TAPEBACK_MODEL_OK;
  return fail(self, TAPEBACK_MODEL_E_USAGE, "not a register that can be looked at");
}

/* ---- Snapshots: one flat structure, so that saving and loading is copying ---- */

static int snapshotSize(void *instance, uint64_t *size) {
  (void)instance;
  *size = sizeof(EduState);
  return TAPEBACK_MODEL_OK;
}

static int snapshotSave(void *instance, void *out, uint64_t size) {
  Instance *self = instance;
  if (size != sizeof(EduState))
    return fail(self, TAPEBACK_MODEL_E_USAGE, "wrong snapshot size");
  memcpy(out, &self->model.state, sizeof(EduState));
  return TAPEBACK_MODEL_OK;
}

static int snapshotLoad(void *instance, const void *in, uint64_t size) {
  Instance *self = instance;
  EduState state;
  if (size != sizeof state)
    return fail(self, TAPEBACK_MODEL_E_USAGE, "wrong snapshot size");
  memcpy(&state, in, sizeof state);
  if (!eduStateValid(&state))
    return fail(self, TAPEBACK_MODEL_E_USAGE, "not a snapshot of this version of the model");
  self->model.state = state;
  return TAPEBACK_MODEL_OK;
}

/* ---- The table ---- */

static const tapeback_model_fact facts[] = {
    {"vendor", "0x1234"},
    {"device", "0x11e8"},
    {"implementation", "tapeback reference model"},
};

/* Names are those of the device description, hal/edu/edu.yaml. */
static const tapeback_model_space spaces[] = {{"bar0", EduBarSize}};
static const tapeback_model_window windows[] = {{"buffer", EduBufferSize}};

static const tapeback_model table = {
    .struct_size = sizeof(tapeback_model),
    .abi_major = TAPEBACK_MODEL_ABI_MAJOR,
    .abi_minor = TAPEBACK_MODEL_ABI_MINOR,
    .capabilities = TAPEBACK_MODEL_CAP_MEMORY | TAPEBACK_MODEL_CAP_INTERRUPTS | TAPEBACK_MODEL_CAP_SNAPSHOT |
                    TAPEBACK_MODEL_CAP_FORK_SAFE | TAPEBACK_MODEL_CAP_DEVICE_TIME | TAPEBACK_MODEL_CAP_PEEK |
                    TAPEBACK_MODEL_CAP_PEEK_REGISTERS,
    .interrupt_vectors = 1,
    .name = "edu",
    .facts = facts,
    .fact_count = sizeof facts / sizeof facts[0],
    .space_count = sizeof spaces / sizeof spaces[0],
    .spaces = spaces,
    .windows = windows,
    .window_count = sizeof windows / sizeof windows[0],
    .counter_count = 0,
    .create = create,
    .destroy = destroy,
    .last_error = lastError,
    .reset = reset,
    .read = readRegister,
    .write = writeRegister,
    .advance = advance,
    .device_time = deviceTime,
    .peek = peek,
    .snapshot_size = snapshotSize,
    .snapshot_save = snapshotSave,
    .snapshot_load = snapshotLoad,
    .peek_register = peekRegister,
};

/* The one symbol that a plugin exports. */
const tapeback_model *tapeback_model_entry(uint32_t hostAbiMajor) {
  return hostAbiMajor == TAPEBACK_MODEL_ABI_MAJOR ? &table : NULL;
}
