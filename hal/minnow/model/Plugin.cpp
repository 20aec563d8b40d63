// Minnow's reference model as a plugin of hal/model/tapeback_model.h: mostly translation. No globals but
// tables.
#include "hal/minnow/model/Device.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace minnow {
namespace {

struct Instance {
  Device device;
  const tapeback_model_host *host;
  char error[160];
};

Instance &self(void *instance) {
  return *static_cast<Instance *>(instance);
}

int fail(void *instance, int status, const char *text) {
  snprintf(self(instance).error, sizeof Instance::error, "%s", text);
  return status;
}

// What the device asks of the host.

bool dmaRead(void *context, uint64_t address, void *out, uint64_t size) {
  const tapeback_model_host *host = self(context).host;
  return host->dma_read(host->host, address, out, size) == TAPEBACK_MODEL_OK;
}

bool dmaWrite(void *context, uint64_t address, const void *in, uint64_t size) {
  const tapeback_model_host *host = self(context).host;
  return host->dma_write(host->host, address, in, size) == TAPEBACK_MODEL_OK;
}

void interrupt(void *context) {
  const tapeback_model_host *host = self(context).host;
  // The one vector this model declares: the host has no reason to refuse it, and no device could do anything
  // about it.
  (void)host->interrupt(host->host, 0);
}

// Life.

int create(const tapeback_model_host *host, const tapeback_model_option *options, uint32_t count,
           void **instance, char *error, size_t size) {
  Options parsed;
  if (!parseOptions(options, count, parsed, error, size))
    return TAPEBACK_MODEL_E_USAGE;
  auto *made = static_cast<Instance *>(calloc(1, sizeof(Instance))); // Plain data: no constructor is missing.
  if (!made) {
    snprintf(error, size, "no memory");
    return TAPEBACK_MODEL_E_NO_MEMORY;
  }
  made->host = host;
  made->device.options = parsed;
  made->device.bus = {made, dmaRead, dmaWrite, interrupt};
  resetDevice(made->device);
  *instance = made;
  return TAPEBACK_MODEL_OK;
}

void destroy(void *instance) {
  free(instance);
}

const char *lastError(void *instance) {
  return self(instance).error;
}

/// Minnow has one kind of reset.
int reset(void *instance, uint32_t) {
  resetDevice(self(instance).device);
  return TAPEBACK_MODEL_OK;
}

// Registers and time.

constexpr char badAccess[] = "minnow's registers take 32-bit aligned accesses only";

int read(void *instance, uint32_t, uint64_t address, uint32_t width, uint64_t *value) {
  if (readRegister(self(instance).device, address, width, *value))
    return TAPEBACK_MODEL_OK;
  return fail(instance, TAPEBACK_MODEL_E_BUS, badAccess);
}

int write(void *instance, uint32_t, uint64_t address, uint32_t width, uint64_t value) {
  if (writeRegister(self(instance).device, address, width, value))
    return TAPEBACK_MODEL_OK;
  return fail(instance, TAPEBACK_MODEL_E_BUS, badAccess);
}

int advanceTime(void *instance, uint64_t budget, uint64_t *advanced) {
  *advanced = advance(self(instance).device, budget);
  return TAPEBACK_MODEL_OK;
}

int deviceTime(void *instance, uint64_t *nanoseconds) {
  *nanoseconds = self(instance).device.state.now;
  return TAPEBACK_MODEL_OK;
}

// Looking inside.

/// The running counter, not what SNAPSHOT last copied.
int counter(void *instance, uint32_t id, uint64_t *value) {
  if (id >= counterCount)
    return fail(instance, TAPEBACK_MODEL_E_USAGE, "there is no such counter");
  *value = self(instance).device.state.counters[id];
  return TAPEBACK_MODEL_OK;
}

int peek(void *instance, uint32_t window, uint64_t offset, void *out, uint64_t size) {
  if (window != 0 || offset > scratchpadBytes || size > scratchpadBytes - offset)
    return fail(instance, TAPEBACK_MODEL_E_USAGE, "outside the window");
  memcpy(out, self(instance).device.state.scratchpad + offset, size);
  return TAPEBACK_MODEL_OK;
}

int peekReg(void *instance, uint32_t, uint64_t address, uint32_t width, uint64_t *value) {
  if (peekRegister(self(instance).device, address, width, *value))
    return TAPEBACK_MODEL_OK;
  return fail(instance, TAPEBACK_MODEL_E_USAGE, "not a register that can be looked at");
}

int snapshotSize(void *, uint64_t *size) {
  *size = sizeof(State);
  return TAPEBACK_MODEL_OK;
}

int snapshotSave(void *instance, void *out, uint64_t size) {
  if (size != sizeof(State))
    return fail(instance, TAPEBACK_MODEL_E_USAGE, "wrong snapshot size");
  memcpy(out, &self(instance).device.state, sizeof(State));
  return TAPEBACK_MODEL_OK;
}

int snapshotLoad(void *instance, const void *in, uint64_t size) {
  State state;
  if (size != sizeof state)
    return fail(instance, TAPEBACK_MODEL_E_USAGE, "wrong snapshot size");
  memcpy(&state, in, sizeof state);
  if (!isValid(state))
    return fail(instance, TAPEBACK_MODEL_E_USAGE, "not a snapshot of this version of the model");
  self(instance).device.state = state;
  return TAPEBACK_MODEL_OK;
}

// The table.

constexpr tapeback_model_fact facts[] = {
    {"version", "1.0"},
    {"implementation", "tapeback reference model"},
};
constexpr tapeback_model_space spaces[] = {{"bar0", 0x10000}};
constexpr tapeback_model_window windows[] = {{"scratchpad", scratchpadBytes}};

constexpr tapeback_model table = {
    .struct_size = sizeof(tapeback_model),
    .abi_major = TAPEBACK_MODEL_ABI_MAJOR,
    .abi_minor = TAPEBACK_MODEL_ABI_MINOR,
    .capabilities = TAPEBACK_MODEL_CAP_MEMORY | TAPEBACK_MODEL_CAP_INTERRUPTS | TAPEBACK_MODEL_CAP_SNAPSHOT |
                    TAPEBACK_MODEL_CAP_FORK_SAFE | TAPEBACK_MODEL_CAP_DEVICE_TIME |
                    TAPEBACK_MODEL_CAP_COUNTERS | TAPEBACK_MODEL_CAP_PEEK | TAPEBACK_MODEL_CAP_PEEK_REGISTERS,
    .interrupt_vectors = 1,
    .name = "minnow",
    .facts = facts,
    .fact_count = sizeof facts / sizeof facts[0],
    .space_count = sizeof spaces / sizeof spaces[0],
    .spaces = spaces,
    .windows = windows,
    .window_count = sizeof windows / sizeof windows[0],
    .counter_count = counterCount,
    .create = create,
    .destroy = destroy,
    .last_error = lastError,
    .reset = reset,
    .read = read,
    .write = write,
    .advance = advanceTime,
    .device_time = deviceTime,
    .counter = counter,
    .peek = peek,
    .snapshot_size = snapshotSize,
    .snapshot_save = snapshotSave,
    .snapshot_load = snapshotLoad,
    .trace_begin = nullptr,
    .trace_end = nullptr,
    .peek_register = peekReg,
};

} // namespace
} // namespace minnow

const tapeback_model *tapeback_model_entry(uint32_t hostAbiMajor) {
  return hostAbiMajor == TAPEBACK_MODEL_ABI_MAJOR ? &minnow::table : nullptr;
}
