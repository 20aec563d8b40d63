// rtl:minnow as a plugin: hal/model/tapeback_model.h over MinnowRtl.
#include "hal/minnow/rtl/MinnowRtl.h"
#include <cstdio>
#include <iterator>
#include <new>

namespace tapeback::minnow {
namespace {

struct Instance {
  Instance(const tapeback_model_host &host, const RtlOptions &options) : device(host, options) {}
  MinnowRtl device;
  std::string error;
};

Instance &of(void *instance) {
  return *static_cast<Instance *>(instance);
}

int fail(void *instance, int status, std::string text) {
  of(instance).error = std::move(text);
  return status;
}

int create(const tapeback_model_host *host, const tapeback_model_option *options, uint32_t count,
           void **instance, char *error, size_t size) {
  RtlOptions parsed;
  std::string text;
  if (!parseRtlOptions(options, count, parsed, text)) {
    std::snprintf(error, size, "%s", text.c_str());
    return TAPEBACK_MODEL_E_USAGE;
  }
  auto *made = new (std::nothrow) Instance(*host, parsed);
  if (!made) {
    std::snprintf(error, size, "no memory");
    return TAPEBACK_MODEL_E_NO_MEMORY;
  }
  *instance = made;
  return TAPEBACK_MODEL_OK;
}

void destroy(void *instance) {
  delete &of(instance);
}

const char *lastError(void *instance) {
  return of(instance).error.c_str();
}

int reset(void *instance, uint32_t kind) {
  if (!of(instance).device.reset(/*power=*/kind == 3))
    return fail(instance, TAPEBACK_MODEL_E_INTERNAL, "the reset does not end");
  return TAPEBACK_MODEL_OK;
}

// ---- Registers: 32 bits, aligned; the host has checked that the access lies inside the space ----

bool allowed(uint64_t address, uint32_t width) {
  return width == 4 && address % 4 == 0;
}

int refuse(void *instance) {
  of(instance).device.refuseAccess();
  return fail(instance, TAPEBACK_MODEL_E_BUS, "registers take aligned accesses of 32 bits only");
}

int readRegister(void *instance, uint32_t, uint64_t address, uint32_t width, uint64_t *value) {
  if (!allowed(address, width))
    return refuse(instance);
  *value = of(instance).device.read(uint32_t(address));
  return TAPEBACK_MODEL_OK;
}

int writeRegister(void *instance, uint32_t, uint64_t address, uint32_t width, uint64_t value) {
  if (!allowed(address, width))
    return refuse(instance);
  of(instance).device.write(uint32_t(address), uint32_t(value));
  return TAPEBACK_MODEL_OK;
}

// ---- Time, and looking inside ----

int advance(void *instance, uint64_t budget, uint64_t *advanced) {
  *advanced = of(instance).device.advance(budget);
  return TAPEBACK_MODEL_OK;
}

int deviceTime(void *instance, uint64_t *nanoseconds) {
  *nanoseconds = of(instance).device.timeNs();
  return TAPEBACK_MODEL_OK;
}

int counter(void *instance, uint32_t id, uint64_t *value) {
  if (id >= MinnowRtl::counterCount)
    return fail(instance, TAPEBACK_MODEL_E_USAGE, "there is no such counter");
  *value = of(instance).device.counter(id);
  return TAPEBACK_MODEL_OK;
}

int peek(void *instance, uint32_t window, uint64_t offset, void *out, uint64_t size) {
  if (window != 0 || offset > MinnowRtl::scratchpadSize || size > MinnowRtl::scratchpadSize - offset)
    return fail(instance, TAPEBACK_MODEL_E_USAGE, "outside the scratchpad");
  of(instance).device.peekScratchpad(offset, static_cast<uint8_t *>(out), size);
  return TAPEBACK_MODEL_OK;
}

int peekRegister(void *instance, uint32_t, uint64_t address, uint32_t width, uint64_t *value) {
  if (!allowed(address, width) || !MinnowRtl::canPeek(uint32_t(address)))
    return fail(instance, TAPEBACK_MODEL_E_USAGE, "not a register that can be looked at");
  *value = of(instance).device.peekRegister(uint32_t(address));
  return TAPEBACK_MODEL_OK;
}

// ---- Snapshots ----

int snapshotSize(void *instance, uint64_t *size) {
  *size = of(instance).device.savedSize();
  return TAPEBACK_MODEL_OK;
}

int snapshotSave(void *instance, void *out, uint64_t size) {
  std::vector<uint8_t> bytes;
  of(instance).device.save(bytes);
  if (size != bytes.size())
    return fail(instance, TAPEBACK_MODEL_E_USAGE, "wrong snapshot size");
  std::copy(bytes.begin(), bytes.end(), static_cast<uint8_t *>(out));
  return TAPEBACK_MODEL_OK;
}

int snapshotLoad(void *instance, const void *in, uint64_t size) {
  if (!of(instance).device.load(static_cast<const uint8_t *>(in), size))
    return fail(instance, TAPEBACK_MODEL_E_USAGE, "not a snapshot of this build of the RTL");
  return TAPEBACK_MODEL_OK;
}

// ---- Waveforms ----

int traceBegin(void *instance, const char *path) {
  std::string error;
  if (!of(instance).device.beginTrace(path, error))
    return fail(instance, TAPEBACK_MODEL_E_USAGE, std::move(error));
  return TAPEBACK_MODEL_OK;
}

int traceEnd(void *instance) {
  of(instance).device.endTrace();
  return TAPEBACK_MODEL_OK;
}

// ---- The table ----

/// Nothing may be thrown through the ABI; what the functions throw is want of memory.
template <auto function, typename... Arguments>
int guarded(void *instance, Arguments... arguments) {
  try {
    return function(instance, arguments...);
  } catch (const std::bad_alloc &) {
    return TAPEBACK_MODEL_E_NO_MEMORY;
  }
}

const tapeback_model_fact facts[] = {{"implementation", "RTL"}, {"id", "0x4d4e5731"}, {"version", "1.0"}};
const tapeback_model_space spaces[] = {{"bar0", MinnowRtl::barSize}};
const tapeback_model_window windows[] = {{"scratchpad", MinnowRtl::scratchpadSize}};

const tapeback_model table = {
    sizeof(tapeback_model),
    TAPEBACK_MODEL_ABI_MAJOR,
    TAPEBACK_MODEL_ABI_MINOR,
    TAPEBACK_MODEL_CAP_MEMORY | TAPEBACK_MODEL_CAP_INTERRUPTS | TAPEBACK_MODEL_CAP_SNAPSHOT |
        TAPEBACK_MODEL_CAP_FORK_SAFE | TAPEBACK_MODEL_CAP_DEVICE_TIME | TAPEBACK_MODEL_CAP_COUNTERS |
        TAPEBACK_MODEL_CAP_PEEK | TAPEBACK_MODEL_CAP_TRACE | TAPEBACK_MODEL_CAP_PEEK_REGISTERS,
    /*interrupt_vectors=*/1,
    "minnow",
    facts,
    uint32_t(std::size(facts)),
    uint32_t(std::size(spaces)),
    spaces,
    windows,
    uint32_t(std::size(windows)),
    MinnowRtl::counterCount,
    create,
    destroy,
    lastError,
    guarded<reset, uint32_t>,
    guarded<readRegister, uint32_t, uint64_t, uint32_t, uint64_t *>,
    guarded<writeRegister, uint32_t, uint64_t, uint32_t, uint64_t>,
    guarded<advance, uint64_t, uint64_t *>,
    deviceTime,
    counter,
    peek,
    guarded<snapshotSize, uint64_t *>,
    guarded<snapshotSave, void *, uint64_t>,
    guarded<snapshotLoad, const void *, uint64_t>,
    guarded<traceBegin, const char *>,
    traceEnd,
    guarded<peekRegister, uint32_t, uint64_t, uint32_t, uint64_t *>,
};

} // namespace
} // namespace tapeback::minnow

extern "C" const tapeback_model *tapeback_model_entry(uint32_t hostAbiMajor) {
  return hostAbiMajor == TAPEBACK_MODEL_ABI_MAJOR ? &tapeback::minnow::table : nullptr;
}
