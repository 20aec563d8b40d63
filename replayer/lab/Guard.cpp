#include "replayer/lab/Guard.h"
#include "format/Failure.h"
#include "replayer/Needs.h"
#include "replayer/Rows.h"
#include "llvm/ADT/STLExtras.h"

namespace tapeback {

static llvm::Error refuseRange(const ForbiddenRange &range, const std::string &what,
                               const std::string &where) {
  return failUsage(
      "forbidden-write", what + " '" + range.name + "', which the lab forbids a replay to write", where,
      "--allow-register " + range.name + " if you know that it does no harm; --dry-run lists all writes");
}

llvm::Error refuseForbiddenRanges(TapeSource &source, llvm::ArrayRef<ForbiddenRange> all,
                                  llvm::ArrayRef<std::string> allowed, std::optional<uint64_t> endPacket) {
  std::vector<ForbiddenRange> ranges;
  for (const ForbiddenRange &range : all)
    if (!llvm::is_contained(allowed, range.name))
      ranges.push_back(range);
  if (ranges.empty())
    return llvm::Error::success();
  for (uint64_t n = 0; n < source.reader().keyframeCount(); ++n) {
    llvm::Expected<Keyframe> keyframe = source.reader().keyframe(n);
    if (!keyframe)
      return keyframe.takeError();
    if (keyframe->packet > 0)
      break;
    for (const KeyframeRegister &reg : keyframe->registers)
      if (const ForbiddenRange *range =
              findForbidden(ranges, source.spaceName(reg.space), reg.address, reg.width))
        return refuseRange(*range, "the keyframe at the start restores a register in", "keyframe 0");
  }
  return source.eachBlock(endPacket, [&](const PacketBatch &batch, size_t count) -> llvm::Expected<bool> {
    for (size_t i = 0; i < count; ++i) {
      const Packet &packet = batch.packets[i];
      std::string space = "memory";
      uint64_t length = 0;
      switch (packet.kind) {
      case PacketKind::RegisterWrite:
        space = source.spaceName(packet.space);
        if (isBusConfigurationSpace(source.description(packet.device), space))
          continue; // Never issued again.
        length = packet.width;
        break;
      case PacketKind::MemoryWrite:
      case PacketKind::Submit: {
        llvm::Expected<Rows> rows = Rows::of(packet, batch.extra(packet));
        if (!rows) { // The replay will refuse it.
          llvm::consumeError(rows.takeError());
          continue;
        }
        length = rows->count ? (rows->count - 1) * rows->stride + rows->rowBytes : 0;
        break;
      }
      case PacketKind::MemoryMap: length = batch.extra(packet).length; break;
      default: continue;
      }
      if (const ForbiddenRange *range = findForbidden(ranges, space, packet.address, length))
        return refuseRange(*range, "the tape writes into",
                           "packet " + std::to_string(batch.firstOrdinal + i));
    }
    return true;
  });
}

} // namespace tapeback
