#include "hal/Target.h"
#include "hal/TargetFailure.h"
#include "llvm/ADT/StringExtras.h"

namespace tapeback {

llvm::Error atPacket(llvm::Error error, uint64_t packet) {
  Failure failure = toFailure(std::move(error));
  std::string where = "packet " + std::to_string(packet);
  failure.where = failure.where.empty() ? where : where + ", " + failure.where;
  return llvm::make_error<Failure>(std::move(failure));
}

llvm::Error unsupportedByTarget(const TargetIdentity &identity, const llvm::Twine &what) {
  return failUsage("unsupported", (identity.kind + ": target '" + identity.name + "' " + what).str(),
                   identity.uri, "use a target that can, or do without");
}

llvm::Error checkAccess(llvm::ArrayRef<TargetSpace> spaces, TargetSpaceId space, uint64_t address,
                        unsigned width) {
  if (width != 1 && width != 2 && width != 4 && width != 8)
    return failUsage("bad-width",
                     "an access of " + std::to_string(width) + " bytes; there are 1, 2, 4 and 8");
  if (space >= spaces.size())
    return failUsage("unknown-space", "there is no register space number " + std::to_string(space), {},
                     "this target has " + std::to_string(spaces.size()));
  if (address >= spaces[space].size || spaces[space].size - address < width)
    return failUsage("out-of-space",
                     "offset 0x" + llvm::utohexstr(address, true) + " is outside space '" +
                         spaces[space].name + "'",
                     {}, "the space has 0x" + llvm::utohexstr(spaces[space].size, true) + " bytes");
  return llvm::Error::success();
}

std::optional<TargetSpaceId> Target::findSpace(llvm::StringRef name) const {
  llvm::ArrayRef<TargetSpace> all = spaces();
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].name == name)
      return TargetSpaceId(i);
  return std::nullopt;
}

llvm::Error Target::submit(llvm::MutableArrayRef<TargetOperation> batch, size_t *completed) {
  *completed = 0;
  for (TargetOperation &operation : batch) {
    llvm::Error error = llvm::Error::success();
    switch (operation.kind) {
    case TargetOperation::Kind::Read:
      if (llvm::Expected<uint64_t> value = read(operation.space, operation.address, operation.width))
        operation.value = *value;
      else
        error = value.takeError();
      break;
    case TargetOperation::Kind::Write:
      error = write(operation.space, operation.address, operation.width, operation.value);
      break;
    case TargetOperation::Kind::WriteMemory:
      error = writeMemory(operation.address, llvm::ArrayRef<uint8_t>(operation.data, operation.length));
      break;
    }
    if (error)
      return atPacket(std::move(error), operation.packet);
    ++*completed;
  }
  return llvm::Error::success();
}

llvm::Expected<uint64_t> Target::counter(uint32_t) {
  return unsupportedByTarget(identity(), "has no counters");
}
llvm::Error Target::counters(llvm::ArrayRef<uint32_t> ids, llvm::MutableArrayRef<uint64_t> values) {
  for (auto [id, value] : llvm::zip_equal(ids, values)) {
    llvm::Expected<uint64_t> read = counter(id);
    if (!read)
      return read.takeError();
    value = *read;
  }
  return llvm::Error::success();
}
llvm::Expected<uint64_t> Target::deviceTime() {
  return unsupportedByTarget(identity(), "has no clock to read");
}
llvm::Error Target::peek(llvm::StringRef, uint64_t, llvm::MutableArrayRef<uint8_t>) {
  return unsupportedByTarget(identity(), "does not let internal windows be seen");
}
llvm::Expected<uint64_t> Target::snapshot() {
  return unsupportedByTarget(identity(), "has no snapshots");
}
llvm::Error Target::restore(uint64_t) {
  return unsupportedByTarget(identity(), "has no snapshots");
}
llvm::Error Target::releaseSnapshot(uint64_t) {
  return unsupportedByTarget(identity(), "has no snapshots");
}
llvm::Error Target::beginTrace(llvm::StringRef) {
  return unsupportedByTarget(identity(), "writes no waveform");
}
llvm::Error Target::endTrace() {
  return unsupportedByTarget(identity(), "writes no waveform");
}

} // namespace tapeback
