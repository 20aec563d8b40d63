// What leaves a flight history, and what has to stay for that.
#include "format/Failure.h"
#include "format/Layout.h"
#include "recorder/flight/FlightHistory.h"

using namespace llvm;

namespace tapeback {

Error FlightHistory::decode(const FlightChunk &chunk, PacketBatch &batch) {
  BlockHeader header;
  header.firstPacket = chunk.first;
  header.itemCount = chunk.packets;
  std::vector<WindowEnd> none;
  return decoder.decode(
      ArrayRef<uint8_t>(reinterpret_cast<const uint8_t *>(chunk.encoded.data()), chunk.encodedBytes), header,
      "the flight history", batch, none);
}

/// Whether all of it lies outside the history that was asked for.
bool FlightHistory::unwanted(const FlightChunk &chunk) const {
  switch (options.history.unit) {
  case triggers::CaptureUnit::Packets:
    return count - chunk.end() >= options.history.amount && chunk.end() < count;
  case triggers::CaptureUnit::Nanoseconds: {
    uint64_t newest = chunks.back()->latest;
    return newest > chunk.latest && newest - chunk.latest > options.history.amount;
  }
  case triggers::CaptureUnit::Windows:
    return windows.size() > options.history.amount &&
           windows[windows.size() - 1 - size_t(options.history.amount)].first >= chunk.end();
  case triggers::CaptureUnit::Bytes: return bytes() > options.history.amount;
  }
  return false;
}

Error FlightHistory::evict() {
  full = false;
  // The chunk just sealed stays.
  while (walked + 1 < chunks.size()) {
    const FlightChunk &chunk = *chunks[walked];
    bool over = bytes() > options.memoryBytes, goes = unwanted(chunk);
    if (!goes && !over)
      break;
    if (chunk.end() > held) {
      full = over;
      break;
    }
    if (!goes)
      evictedEarly += chunk.packets;
    if (Error error = walk(chunk))
      return error;
    ++walked;
    dropBeforeBase();
    // The pinned prefix is what was walked and is not behind the base.
    uint64_t prefix = 0;
    for (size_t i = 0; i < walked; ++i)
      prefix += chunks[i]->encodedBytes;
    if (walked == 0 || (prefix <= options.prefixBytes && bytes() <= options.memoryBytes))
      continue;
    Expected<bool> moved = tryBase(chunks[walked - 1]->end(), /*force=*/true);
    if (!moved)
      return moved.takeError();
    prefixDropped += base.restorable ? 0 : 1;
    dropBeforeBase();
  }
  return Error::success();
}

void FlightHistory::dropBeforeBase() {
  while (walked && chunks.front()->end() <= base.packet) {
    chunks.pop_front();
    --walked;
  }
  while (windows.size() > 1 && windows[1].first <= base.packet)
    windows.pop_front();
  while (!triggerMarks.empty() && triggerMarks.front().packet < base.packet)
    triggerMarks.pop_front();
}

/// Lets the shadow states see a chunk. The last place in it where the devices were quiet becomes the base, if
/// their state can be restored there.
Error FlightHistory::walk(const FlightChunk &chunk) {
  if (Error error = decode(chunk, walking))
    return error;
  uint64_t quietPlace = 0;
  for (auto window = std::upper_bound(windows.begin(), windows.end(), chunk.first,
                                      [](uint64_t p, const WindowStart &w) { return p < w.first; });
       window != windows.end() && window->first <= chunk.end(); ++window)
    if (window->quiet)
      quietPlace = window->first;
  auto contents = [&](BlobId id) -> ArrayRef<uint8_t> {
    const FlightContent *content = chunk.content(id);
    return content ? ArrayRef<uint8_t>(content->bytes) : ArrayRef<uint8_t>();
  };
  ShadowState::BlobLookup lookup = contents;
  uint64_t ordinal = chunk.first;
  for (const Packet &packet : walking.packets) {
    if (ordinal == quietPlace && ordinal > chunk.first)
      if (Expected<bool> moved = tryBase(ordinal, /*force=*/false); !moved)
        return moved.takeError();
    const PacketExtra &extra = walking.extra(packet);
    if (packet.kind == PacketKind::Loss) {
      for (const std::unique_ptr<ShadowState> &shadow : shadows)
        shadow->apply(ordinal, packet, extra, lookup);
    } else if (packet.device < shadows.size()) {
      shadows[packet.device]->apply(ordinal, packet, extra, lookup);
    }
    ++ordinal;
  }
  if (quietPlace == chunk.end())
    if (Expected<bool> moved = tryBase(quietPlace, /*force=*/false); !moved)
      return moved.takeError();
  return Error::success();
}

/// Makes `packet`, which the shadow states have come to, the base: if every device can be restored there, or
/// if it must be.
Expected<bool> FlightHistory::tryBase(uint64_t packet, bool force) {
  Base next;
  next.packet = packet;
  auto look = [](ArrayRef<uint8_t>) -> Expected<BlobId> { return BlobId(); };
  auto keep = [&](ArrayRef<uint8_t> content) -> Expected<BlobId> {
    next.contents.push_back(store(content));
    return next.contents.back()->id;
  };
  for (const std::unique_ptr<ShadowState> &shadow : shadows) {
    if (!force) {
      Expected<Keyframe> looked = shadow->keyframe(look);
      if (!looked)
        return looked.takeError();
      if (!looked->restorable)
        return false;
    }
  }
  for (size_t device = 0; device < shadows.size(); ++device) {
    Expected<Keyframe> taken = shadows[device]->keyframe(keep);
    if (!taken)
      return taken.takeError();
    taken->device = uint16_t(device);
    taken->packet = taken->window = 0;
    if (!taken->restorable) {
      next.restorable = false;
      next.reason += (next.reason.empty() ? "" : "; ") + taken->reason;
    }
    next.keyframes.push_back(std::move(*taken));
  }
  base = std::move(next);
  return true;
}

} // namespace tapeback
