#include "recorder/flight/FlightSnapshot.h"
#include "format/Failure.h"
#include "format/Layout.h"
#include "format/PacketCodec.h"
#include <map>

using namespace llvm;

namespace tapeback {
namespace {

class Snapshot final : public TapeReader {
public:
  explicit Snapshot(FlightSnapshotParts given) : parts(std::move(given)), shift(parts.base ? 1 : 0) {
    sums.packets = parts.end - parts.base + shift;
    sums.windows = parts.windows.size();
    sums.keyframes = parts.keyframes.size();
    for (TriggerRecord &trigger : parts.triggers)
      trigger.packet = ordinalOf(trigger.packet);
    if (parts.outcome.packet) {
      if (*parts.outcome.packet >= parts.base && *parts.outcome.packet < parts.end)
        parts.outcome.packet = ordinalOf(*parts.outcome.packet);
      else
        parts.outcome = Outcome();
    }
    auto add = [this](const FlightContentPointer &content) {
      contents[{content->id.hi, content->id.lo}] = content.get();
    };
    for (const FlightContentPointer &content : parts.contents)
      add(content);
    for (const FlightChunkPointer &chunk : parts.chunks)
      for (const FlightContentPointer &content : chunk->contents)
        add(content);
    if (!parts.chunks.empty() && decodeChunk(0) && shift) {
      sums.firstTime = decoded.packets[parts.base - decoded.firstOrdinal].issueTime;
    }
  }

  const Manifest &manifest() const override { return parts.manifest; }
  ArrayRef<DeviceRecord> devices() const override { return parts.devices; }
  ArrayRef<std::string> spaces() const override { return parts.spaces; }
  ArrayRef<TapeClock> clocks() const override { return parts.clocks; }
  const TapeSummary &summary() const override { return sums; }
  const Outcome &outcome() const override { return parts.outcome; }
  uint16_t formatVersion() const override { return tapeFormatVersion; }
  std::array<uint8_t, 16> tapeId() const override { return {}; }
  uint64_t createdNs() const override { return 0; }
  uint64_t fileBytes() const override { return 0; }
  Expected<WindowInfo> window(uint64_t n) override;
  Expected<uint64_t> windowOfPacket(uint64_t packet) override;
  Error readPackets(uint64_t first, uint64_t count, PacketBatch &batch) override;
  Error readWindow(uint64_t n, PacketBatch &batch) override;
  Error readBlockFrom(uint64_t first, PacketBatch &batch) override;
  Expected<ArrayRef<uint8_t>> blob(BlobId id) override;
  uint64_t keyframeCount() const override { return parts.keyframes.size(); }
  Expected<Keyframe> keyframe(uint64_t n) override;
  Expected<std::vector<TriggerRecord>> triggers() override { return parts.triggers; }

private:
  uint64_t ordinalOf(uint64_t packet) const { return packet - parts.base + shift; }
  /// False if it does not decode; `damage` says why.
  bool decodeChunk(size_t n);
  Error read(uint64_t first, uint64_t end, PacketBatch &batch);
  void add(const Packet &packet, PacketExtra extra, PacketBatch &batch) const;
  size_t chunkOf(uint64_t packet) const {
    auto found =
        std::upper_bound(parts.chunks.begin(), parts.chunks.end(), packet,
                         [](uint64_t p, const FlightChunkPointer &chunk) { return p < chunk->first; });
    return size_t(found - parts.chunks.begin()) - 1;
  }

  FlightSnapshotParts parts;
  uint64_t shift;
  TapeSummary sums;
  std::map<std::pair<uint64_t, uint64_t>, const FlightContent *> contents;
  PacketDecoder decoder;
  PacketBatch decoded;
  size_t decodedChunk = ~size_t(0);
  std::string damage;
};

bool Snapshot::decodeChunk(size_t n) {
  if (decodedChunk == n)
    return true;
  const FlightChunk &chunk = *parts.chunks[n];
  BlockHeader header;
  header.firstPacket = chunk.first;
  header.itemCount = chunk.packets;
  std::vector<WindowEnd> none;
  decodedChunk = ~size_t(0);
  if (Error error = decoder.decode(
          ArrayRef<uint8_t>(reinterpret_cast<const uint8_t *>(chunk.encoded.data()), chunk.encodedBytes),
          header, "the flight history", decoded, none)) {
    damage = toString(std::move(error));
    return false;
  }
  decodedChunk = n;
  return true;
}

void Snapshot::add(const Packet &packet, PacketExtra extra, PacketBatch &batch) const {
  if (linksToPacket(packet.kind) && extra.link != noLink)
    extra.link = extra.link >= parts.base ? ordinalOf(extra.link) : 0;
  batch.append(packet, extra);
}

/// Adds packets [first, end) of one chunk, or the Loss in front.
Error Snapshot::read(uint64_t first, uint64_t end, PacketBatch &batch) {
  if (first < shift) {
    Packet loss;
    loss.kind = PacketKind::Loss;
    loss.origin = Origin::Recorder;
    loss.address = uint64_t(LossCause::NotRecording);
    loss.value = parts.base;
    loss.issueTime = loss.completeTime = sums.firstTime;
    batch.append(loss, {});
    ++first;
  }
  for (uint64_t at = first - shift + parts.base; at < end - shift + parts.base;) {
    if (!decodeChunk(chunkOf(at)))
      return failSystem("damaged-history", damage);
    for (size_t i = size_t(at - decoded.firstOrdinal);
         i < decoded.packets.size() && at < end - shift + parts.base; ++i, ++at)
      add(decoded.packets[i], decoded.extra(decoded.packets[i]), batch);
  }
  return Error::success();
}

Expected<WindowInfo> Snapshot::window(uint64_t n) {
  if (n >= parts.windows.size())
    return failUsage("no-such-window", "there is no window " + std::to_string(n));
  WindowInfo info;
  uint64_t first = parts.windows[n].first;
  uint64_t end = n + 1 < parts.windows.size() ? parts.windows[n + 1].first : parts.end;
  info.firstPacket = n ? ordinalOf(first) : 0;
  info.packetCount = ordinalOf(end) - info.firstPacket;
  info.quiescent = parts.windows[n].quiescent;
  return info;
}

Expected<uint64_t> Snapshot::windowOfPacket(uint64_t packet) {
  if (packet >= sums.packets)
    return failUsage("no-such-packet", "there is no packet " + std::to_string(packet));
  if (packet < shift)
    return 0;
  auto next = std::upper_bound(
      parts.windows.begin(), parts.windows.end(), packet - shift + parts.base,
      [](uint64_t p, const FlightSnapshotParts::Window &window) { return p < window.first; });
  return uint64_t(next - parts.windows.begin()) - 1;
}

Error Snapshot::readPackets(uint64_t first, uint64_t count, PacketBatch &batch) {
  batch.clear();
  batch.firstOrdinal = first;
  if (first > sums.packets || count > sums.packets - first)
    return failUsage("no-such-packet", "there is no packet " + std::to_string(first + count));
  return count ? read(first, first + count, batch) : Error::success();
}

Error Snapshot::readWindow(uint64_t n, PacketBatch &batch) {
  Expected<WindowInfo> info = window(n);
  if (!info)
    return info.takeError();
  return readPackets(info->firstPacket, info->packetCount, batch);
}

Error Snapshot::readBlockFrom(uint64_t first, PacketBatch &batch) {
  batch.clear();
  batch.firstOrdinal = first;
  if (first >= sums.packets)
    return Error::success();
  uint64_t packet = first < shift ? parts.base : first - shift + parts.base;
  uint64_t end = std::min(parts.chunks[chunkOf(packet)]->end(), parts.end);
  return read(first, ordinalOf(end), batch);
}

Expected<ArrayRef<uint8_t>> Snapshot::blob(BlobId id) {
  auto found = contents.find({id.hi, id.lo});
  if (found == contents.end())
    return failTape("no-such-content", "the flight history does not have this content");
  return ArrayRef<uint8_t>(found->second->bytes);
}

Expected<Keyframe> Snapshot::keyframe(uint64_t n) {
  if (n >= parts.keyframes.size())
    return failUsage("no-such-keyframe", "there is no keyframe " + std::to_string(n));
  return parts.keyframes[n];
}

} // namespace

std::unique_ptr<TapeReader> makeFlightSnapshot(FlightSnapshotParts parts) {
  return std::make_unique<Snapshot>(std::move(parts));
}

} // namespace tapeback
