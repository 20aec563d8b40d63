// The table of libtapeback-backend.so: Target's calls as plain C. Everything C++ ends here.
#include "format/Failure.h"
#include "hal/Target.h"
#include "hal/backend/tapeback_backend.h"
#include "hal/description/Description.h"
#include <cstring>
#include <new>
#include <vector>

using namespace tapeback;

struct tapeback_backend_target {
  std::unique_ptr<Target> target;
  std::vector<std::pair<std::string, std::string>> identity;
  std::optional<Description> description; ///< Only once a counter was looked up by name.
};

namespace {

void copyText(char *out, size_t size, llvm::StringRef text) {
  size_t length = std::min(size - 1, text.size());
  std::memcpy(out, text.data(), length);
  out[length] = 0;
}

int fail(tapeback_backend_failure *failure, int status, llvm::StringRef code, llvm::StringRef message) {
  copyText(failure->code, sizeof(failure->code), code);
  copyText(failure->message, sizeof(failure->message), message);
  return status;
}

int fail(tapeback_backend_failure *failure, llvm::Error error) {
  Failure taken = toFailure(std::move(error));
  std::string text = taken.message;
  if (!taken.where.empty())
    text += " (" + taken.where + ")";
  if (!taken.hint.empty())
    text += "; " + taken.hint;
  int status = taken.code == "unsupported"         ? TAPEBACK_BACKEND_E_UNSUPPORTED
               : taken.cls == FailureClass::Usage  ? TAPEBACK_BACKEND_E_USAGE
               : taken.cls == FailureClass::Target ? TAPEBACK_BACKEND_E_TARGET
               : taken.code == "out-of-memory"     ? TAPEBACK_BACKEND_E_NO_MEMORY
                                                   : TAPEBACK_BACKEND_E_TARGET;
  return fail(failure, status, taken.code, text);
}

/// Runs `work` (returning a status), and turns whatever is thrown into one.
template <typename Work>
int guarded(tapeback_backend_failure *failure, Work work) noexcept {
  try {
    return work();
  } catch (const std::bad_alloc &) {
    return fail(failure, TAPEBACK_BACKEND_E_NO_MEMORY, "out-of-memory", "out of memory");
  } catch (const std::exception &exception) {
    return fail(failure, TAPEBACK_BACKEND_E_TARGET, "exception", exception.what());
  } catch (...) {
    return fail(failure, TAPEBACK_BACKEND_E_TARGET, "exception", "unknown exception");
  }
}

/// The common shape: an Error to a status.
template <typename Work>
int done(tapeback_backend_failure *failure, Work work) noexcept {
  return guarded(failure, [&] {
    llvm::Error error = work();
    return error ? fail(failure, std::move(error)) : int(TAPEBACK_BACKEND_OK);
  });
}

/// The common shape: an Expected<uint64_t> to a status and *value.
template <typename Work>
int valued(tapeback_backend_failure *failure, uint64_t *value, Work work) noexcept {
  return guarded(failure, [&] {
    llvm::Expected<uint64_t> result = work();
    if (!result)
      return fail(failure, result.takeError());
    *value = *result;
    return int(TAPEBACK_BACKEND_OK);
  });
}

int backendOpen(const char *uri, tapeback_backend_target **out, tapeback_backend_failure *failure) {
  return guarded(failure, [&] {
    auto opened = std::make_unique<tapeback_backend_target>();
    llvm::Expected<std::unique_ptr<Target>> target = openTarget(uri);
    if (!target)
      return fail(failure, target.takeError());
    opened->target = std::move(*target);
    const TargetIdentity &identity = opened->target->identity();
    opened->identity = {{"kind", identity.kind}, {"name", identity.name}};
    for (const auto &[key, value] : identity.facts)
      if (key != "kind" && key != "name")
        opened->identity.emplace_back(key, value);
    *out = opened.release();
    return int(TAPEBACK_BACKEND_OK);
  });
}

void backendClose(tapeback_backend_target *target) {
  tapeback_backend_failure ignored; // Destruction does not fail.
  guarded(&ignored, [&] {
    delete target;
    return int(TAPEBACK_BACKEND_OK);
  });
}

uint32_t backendCapabilities(tapeback_backend_target *target) {
  TargetCapabilities capabilities = target->target->capabilities();
  return (capabilities.memory ? TAPEBACK_BACKEND_CAP_MEMORY : 0) |
         (capabilities.interrupts ? TAPEBACK_BACKEND_CAP_INTERRUPTS : 0) |
         (capabilities.reset ? TAPEBACK_BACKEND_CAP_RESET : 0) |
         (capabilities.counters ? TAPEBACK_BACKEND_CAP_COUNTERS : 0) |
         (capabilities.deviceTime ? TAPEBACK_BACKEND_CAP_DEVICE_TIME : 0);
}

uint32_t backendSpaceCount(tapeback_backend_target *target) {
  return uint32_t(target->target->spaces().size());
}

const char *backendSpace(tapeback_backend_target *target, uint32_t index, uint64_t *size) {
  llvm::ArrayRef<TargetSpace> spaces = target->target->spaces();
  if (index >= spaces.size())
    return nullptr;
  *size = spaces[index].size;
  return spaces[index].name.c_str();
}

const char *backendIdentity(tapeback_backend_target *target, uint32_t index, const char **value) {
  if (index >= target->identity.size())
    return nullptr;
  *value = target->identity[index].second.c_str();
  return target->identity[index].first.c_str();
}

int backendRead(tapeback_backend_target *target, uint32_t space, uint64_t offset, uint32_t width,
                uint64_t *value, tapeback_backend_failure *failure) {
  return valued(failure, value, [&] { return target->target->read(TargetSpaceId(space), offset, width); });
}

int backendWrite(tapeback_backend_target *target, uint32_t space, uint64_t offset, uint32_t width,
                 uint64_t value, tapeback_backend_failure *failure) {
  return done(failure, [&] { return target->target->write(TargetSpaceId(space), offset, width, value); });
}

int backendFlush(tapeback_backend_target *target, tapeback_backend_failure *failure) {
  return done(failure, [&] { return target->target->flush(); });
}

int backendMap(tapeback_backend_target *target, uint64_t size, uint64_t alignment,
               tapeback_backend_region *region, tapeback_backend_failure *failure) {
  return guarded(failure, [&] {
    MapRequest request;
    request.size = size;
    request.alignment = alignment;
    llvm::Expected<MemoryRegion> mapped = target->target->map(request);
    if (!mapped)
      return fail(failure, mapped.takeError());
    *region = {mapped->iova, mapped->size, mapped->host};
    return int(TAPEBACK_BACKEND_OK);
  });
}

int backendUnmap(tapeback_backend_target *target, uint64_t iova, tapeback_backend_failure *failure) {
  return done(failure, [&] { return target->target->unmap(iova); });
}

int backendReadMemory(tapeback_backend_target *target, uint64_t iova, void *out, uint64_t size,
                      tapeback_backend_failure *failure) {
  return done(failure, [&] {
    return target->target->readMemory(iova,
                                      llvm::MutableArrayRef<uint8_t>(static_cast<uint8_t *>(out), size));
  });
}

int backendWriteMemory(tapeback_backend_target *target, uint64_t iova, const void *in, uint64_t size,
                       tapeback_backend_failure *failure) {
  return done(failure, [&] {
    return target->target->writeMemory(iova, llvm::ArrayRef<uint8_t>(static_cast<const uint8_t *>(in), size));
  });
}

int backendWaitInterrupt(tapeback_backend_target *target, uint32_t vector, uint64_t deadlineNs,
                         uint64_t *count, tapeback_backend_failure *failure) {
  return guarded(failure, [&] {
    llvm::Expected<InterruptResult> result = target->target->waitInterrupt(vector, deadlineNs);
    if (!result)
      return fail(failure, result.takeError());
    *count = result->fired ? std::max<uint64_t>(result->count, 1) : 0;
    return int(TAPEBACK_BACKEND_OK);
  });
}

int backendAdvance(tapeback_backend_target *target, uint64_t nanoseconds, tapeback_backend_failure *failure) {
  return done(failure, [&] { return target->target->advance(nanoseconds); });
}

int backendReset(tapeback_backend_target *target, uint32_t kind, tapeback_backend_failure *failure) {
  return done(failure, [&] { return target->target->reset(ResetKind(kind)); });
}

int backendCounters(tapeback_backend_target *target, const uint32_t *ids, uint64_t *values, uint32_t count,
                    tapeback_backend_failure *failure) {
  return done(failure, [&] {
    return target->target->counters(llvm::ArrayRef<uint32_t>(ids, count),
                                    llvm::MutableArrayRef<uint64_t>(values, count));
  });
}

int backendDeviceTime(tapeback_backend_target *target, uint64_t *value, tapeback_backend_failure *failure) {
  return valued(failure, value, [&] { return target->target->deviceTime(); });
}

int backendFindCounter(tapeback_backend_target *target, const char *description, const char *name,
                       tapeback_backend_counter *counter, tapeback_backend_failure *failure) {
  return guarded(failure, [&] {
    if (!target->description) {
      llvm::Expected<DescriptionText> text =
          loadDescriptionText(description ? llvm::StringRef(description) : target->target->identity().name);
      if (!text)
        return fail(failure, text.takeError());
      llvm::Expected<Description> parsed = parseDescription(text->text, text->name);
      if (!parsed)
        return fail(failure, parsed.takeError());
      target->description = std::move(*parsed);
    }
    const Description &known = *target->description;
    for (size_t id = 0; id < known.counters.size(); ++id) {
      if (known.counters[id].name != name)
        continue;
      if (known.counters[id].content)
        return fail(failure, TAPEBACK_BACKEND_E_USAGE, "unknown-counter",
                    "counter '" + known.counters[id].name +
                        "' comes with a transfer and cannot be asked for");
      const RegisterDescription &reg = known.registers[known.counters[id].reg];
      std::optional<TargetSpaceId> space = target->target->findSpace(reg.space);
      if (!space)
        return fail(failure, TAPEBACK_BACKEND_E_USAGE, "unknown-space",
                    "the counter's register is in space '" + reg.space + "', which the target does not have");
      *counter = {uint32_t(id), *space, reg.offset, reg.width, known.counters[id].widthBits};
      return int(TAPEBACK_BACKEND_OK);
    }
    return fail(failure, TAPEBACK_BACKEND_E_USAGE, "unknown-counter",
                "the description '" + known.name + "' has no counter '" + name + "'");
  });
}

const tapeback_backend table = {sizeof(tapeback_backend),
                                TAPEBACK_BACKEND_ABI,
                                backendOpen,
                                backendClose,
                                backendCapabilities,
                                backendSpaceCount,
                                backendSpace,
                                backendIdentity,
                                backendRead,
                                backendWrite,
                                backendFlush,
                                backendMap,
                                backendUnmap,
                                backendReadMemory,
                                backendWriteMemory,
                                backendWaitInterrupt,
                                backendAdvance,
                                backendReset,
                                backendCounters,
                                backendFindCounter,
                                backendDeviceTime};

} // namespace

extern "C" const tapeback_backend *tapeback_backend_entry(uint32_t abi) {
  return abi == TAPEBACK_BACKEND_ABI ? &table : nullptr;
}
