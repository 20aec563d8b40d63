#include "replayer/History.h"

namespace tapeback {

History::History(TapeSource &source, uint16_t device, bool contents)
    : source(source), contents(contents), shadow(source.description(device), source.spaceNames(), device) {}

llvm::Expected<std::unique_ptr<History>> History::before(TapeSource &source, uint16_t device, uint64_t packet,
                                                         bool contents) {
  std::unique_ptr<History> history(new History(source, device, contents));
  if (llvm::Error error = history->seed(device))
    return error;
  if (llvm::Error error = history->advanceTo(packet))
    return error;
  return history;
}

/// A tape that begins in the middle of a run begins with keyframes of its first packet.
llvm::Error History::seed(uint16_t device) {
  llvm::Error failure = llvm::Error::success();
  for (uint64_t n = 0; n < source.reader().keyframeCount(); ++n) {
    llvm::Expected<Keyframe> keyframe = source.reader().keyframe(n);
    if (!keyframe)
      return llvm::joinErrors(std::move(failure), keyframe.takeError());
    if (keyframe->packet > 0)
      break;
    if (keyframe->device != device)
      continue;
    shadow.seed(*keyframe, [&](BlobId id) -> llvm::ArrayRef<uint8_t> {
      if (!contents || failure)
        return {};
      llvm::Expected<llvm::ArrayRef<uint8_t>> content = source.reader().blob(id);
      if (content)
        return *content;
      failure = llvm::joinErrors(std::move(failure), content.takeError());
      return {};
    });
  }
  return failure;
}

llvm::Error History::advanceTo(uint64_t end) {
  llvm::Error failure = llvm::Error::success();
  PacketKind kind = PacketKind::Tick;
  ShadowState::BlobLookup blobs = [&](BlobId id) -> llvm::ArrayRef<uint8_t> {
    bool wanted = contents || kind == PacketKind::Marker;
    if (!wanted || failure)
      return {};
    llvm::Expected<llvm::ArrayRef<uint8_t>> content = source.reader().blob(id);
    if (content)
      return *content;
    failure = llvm::joinErrors(std::move(failure), content.takeError());
    return {};
  };
  while (position < end) {
    if (batch.packets.empty() || position < batch.firstOrdinal ||
        position - batch.firstOrdinal >= batch.packets.size()) {
      if (llvm::Error error = source.reader().readBlockFrom(position, batch))
        return error;
      if (batch.packets.empty())
        break;
    }
    const Packet &packet = batch.packets[position - batch.firstOrdinal];
    kind = packet.kind;
    shadow.apply(position, packet, batch.extra(packet), blobs);
    ++position;
    if (failure)
      return failure;
  }
  return failure;
}

} // namespace tapeback
