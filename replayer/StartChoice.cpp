#include "replayer/StartChoice.h"
#include "replayer/Established.h"
#include <algorithm>

namespace tapeback {

llvm::Expected<bool> tryKeyframe(TapeSource &source, uint64_t window, uint64_t from, uint64_t end,
                                 ChosenStart &chosen, std::string &why) {
  llvm::Expected<WindowInfo> info = source.reader().window(window);
  if (!info)
    return info.takeError();
  uint64_t cut = info->firstPacket;
  llvm::Expected<std::optional<uint64_t>> loss = findLoss(source, cut, from);
  if (!loss)
    return loss.takeError();
  if (*loss) {
    why = "window " + std::to_string(window) + ": packets were lost behind it, at packet " +
          std::to_string(**loss);
    return false;
  }
  std::vector<std::unique_ptr<History>> histories;
  for (size_t device = 0; device < source.deviceCount(); ++device) {
    llvm::Expected<std::unique_ptr<History>> history =
        History::before(source, uint16_t(device), cut, /*contents=*/true);
    if (!history)
      return history.takeError();
    llvm::Expected<Keyframe> keyframe = (*history)->state().keyframe(
        [](llvm::ArrayRef<uint8_t>) -> llvm::Expected<BlobId> { return BlobId(); });
    if (!keyframe)
      return keyframe.takeError();
    if (!keyframe->restorable) {
      why = "window " + std::to_string(window) + ": " + keyframe->reason;
      return false;
    }
    histories.push_back(std::move(*history));
  }
  for (size_t device = 0; device < source.deviceCount(); ++device) {
    // The check walks on; what is kept for writing must stay at the cut.
    llvm::Expected<std::optional<std::string>> missing =
        findUnestablished(source, uint16_t(device), cut, end);
    if (!missing)
      return missing.takeError();
    if (*missing) {
      why = "window " + std::to_string(window) + ": " + **missing;
      return false;
    }
  }
  chosen.packet = cut;
  chosen.window = window;
  chosen.histories = std::move(histories);
  chosen.withKeyframe = true;
  return true;
}

llvm::Expected<std::optional<uint64_t>> findLoss(TapeSource &source, uint64_t first, uint64_t last) {
  PacketBatch batch;
  for (uint64_t position = first; position < last; position += batch.packets.size()) {
    if (llvm::Error error = source.reader().readBlockFrom(position, batch))
      return error;
    if (batch.packets.empty())
      break;
    for (size_t i = 0; i < batch.packets.size() && position + i < last; ++i) {
      const Packet &packet = batch.packets[i];
      // A recording that begins late says so at its head, behind its keyframes.
      bool atHead =
          packet.address == uint64_t(LossCause::NotRecording) && position + i < source.deviceCount() + 8;
      if (packet.kind == PacketKind::Loss && packet.value && !atHead)
        return std::optional<uint64_t>(position + i);
    }
  }
  return std::optional<uint64_t>();
}

llvm::Expected<std::vector<uint64_t>> restorableWindows(TapeSource &source, uint64_t firstWindow) {
  constexpr uint64_t farthest = 256;
  constexpr size_t most = 8;
  std::vector<uint64_t> found;
  uint64_t first = firstWindow > farthest ? firstWindow - farthest : 1;
  std::vector<std::unique_ptr<History>> histories;
  for (uint64_t window = first; window < firstWindow; ++window) {
    llvm::Expected<WindowInfo> info = source.reader().window(window);
    if (!info)
      return info.takeError();
    bool restorable = true;
    for (size_t device = 0; device < source.deviceCount(); ++device) {
      if (device == histories.size()) {
        llvm::Expected<std::unique_ptr<History>> history =
            History::before(source, uint16_t(device), info->firstPacket, /*contents=*/true);
        if (!history)
          return history.takeError();
        histories.push_back(std::move(*history));
      } else if (llvm::Error error = histories[device]->advanceTo(info->firstPacket)) {
        return error;
      }
      if (!histories[device]->state().quiescent()) {
        restorable = false;
        continue;
      }
      llvm::Expected<Keyframe> keyframe = histories[device]->state().keyframe(
          [](llvm::ArrayRef<uint8_t>) -> llvm::Expected<BlobId> { return BlobId(); });
      if (!keyframe)
        return keyframe.takeError();
      restorable &= keyframe->restorable;
    }
    if (restorable)
      found.push_back(window);
  }
  std::reverse(found.begin(), found.end());
  if (found.size() > most)
    found.resize(most);
  return found;
}

llvm::Expected<Outcome> outcomeOfRange(TapeSource &source, uint64_t start, uint64_t from, uint64_t end,
                                       bool &inside) {
  TapeReader &reader = source.reader();
  inside = false;
  Outcome result = reader.outcome();
  if (result.kind != Outcome::Kind::Failed)
    return result;
  // Without a place it is the program's end that failed, which only the tape's end knows.
  inside = result.packet ? *result.packet >= from && *result.packet < end : end == reader.summary().packets;
  if (!inside) {
    std::string text = "the recorded failure lies outside this range (" + result.text + ")";
    result = Outcome();
    result.text = std::move(text);
    return result;
  }
  if (!result.packet || !result.signature || !start) {
    if (result.packet)
      *result.packet -= start;
    return result;
  }
  Packet packet;
  PacketExtra extra;
  if (llvm::Error error = source.packetAt(*result.packet, packet, extra))
    return error;
  llvm::Expected<std::unique_ptr<History>> before =
      History::before(source, packet.device, start, /*contents=*/false);
  if (!before)
    return before.takeError();
  const ShadowState &atCut = (*before)->state();
  Signature &signature = *result.signature;
  // Walk the new tape's part with counters that begin at its start.
  ShadowState counted(source.description(packet.device), source.spaceNames(), packet.device);
  llvm::Error failure = llvm::Error::success();
  PacketBatch batch;
  for (uint64_t position = start; position <= *result.packet; position += batch.packets.size()) {
    if (llvm::Error error = reader.readBlockFrom(position, batch))
      return error;
    if (batch.packets.empty())
      break;
    for (size_t i = 0; i < batch.packets.size() && position + i <= *result.packet; ++i) {
      const Packet &seen = batch.packets[i];
      if (seen.kind != PacketKind::Marker)
        continue;
      counted.apply(position + i, seen, batch.extra(seen), [&](BlobId id) -> llvm::ArrayRef<uint8_t> {
        llvm::Expected<llvm::ArrayRef<uint8_t>> content = reader.blob(id);
        if (content)
          return *content;
        failure = llvm::joinErrors(std::move(failure), content.takeError());
        return {};
      });
    }
  }
  if (failure)
    return failure;
  if (counted.markerOccurrence()) {
    signature.marker = counted.marker();
    signature.markerOccurrence = counted.markerOccurrence();
  } else {
    signature.marker.clear();
    signature.markerOccurrence = 0;
    signature.command -= std::min(signature.command, atCut.commandsSinceMarker());
  }
  result.packet = *result.packet - start;
  return result;
}

} // namespace tapeback
