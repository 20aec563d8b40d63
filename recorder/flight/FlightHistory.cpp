// The writer's side of a flight history: what comes in. What goes is in FlightEviction.cpp.
#include "recorder/flight/FlightHistory.h"
#include "format/Failure.h"
#include "recorder/flight/FlightSnapshot.h"
#include "llvm/Support/xxhash.h"
#include <cstring>

using namespace llvm;

namespace tapeback {

static constexpr size_t maxTriggerMarks = 65536;

FlightHistory::FlightHistory(Manifest newManifest, FlightOptions newOptions, TapeWriter *through)
    : manifest(std::move(newManifest)), options(newOptions), through(through) {
  options.chunkPackets = std::clamp<uint32_t>(options.chunkPackets, 1, maxPacketsPerBlock);
}

FlightHistory::~FlightHistory() = default;

Expected<uint16_t> FlightHistory::addDevice(const DeviceRecord &device) {
  if (through) {
    Expected<uint16_t> id = through->addDevice(device);
    if (!id)
      return id;
  }
  descriptions.emplace_back();
  if (!device.description.empty()) {
    Expected<Description> parsed = parseDescription(device.description, device.descriptionName);
    if (!parsed)
      return parsed.takeError();
    descriptions.back().emplace(std::move(*parsed));
  }
  uint16_t id = uint16_t(devices.size());
  devices.push_back(device);
  const std::optional<Description> &description = descriptions.back();
  shadows.push_back(std::make_unique<ShadowState>(description ? &*description : nullptr, spaces, id));
  return id;
}

Expected<uint16_t> FlightHistory::addSpace(StringRef name) {
  if (through) {
    Expected<uint16_t> id = through->addSpace(name);
    if (!id)
      return id;
  }
  spaces.push_back(name.str());
  uint16_t id = uint16_t(spaces.size() - 1);
  for (const std::unique_ptr<ShadowState> &shadow : shadows)
    shadow->addSpace(id, name);
  return id;
}

Expected<uint8_t> FlightHistory::addClock(const TapeClock &clock) {
  if (through) {
    Expected<uint8_t> id = through->addClock(clock);
    if (!id)
      return id;
  }
  clocks.push_back(clock);
  return uint8_t(clocks.size() - 1);
}

FlightContentPointer FlightHistory::find(BlobId id) const {
  auto found = known.find(id);
  return found == known.end() ? nullptr : found->second.lock();
}

bool FlightHistory::hasBlob(BlobId id) const {
  // What a file has already need not be in memory any more: it is to be given again.
  return find(id) != nullptr;
}

FlightContentPointer FlightHistory::store(ArrayRef<uint8_t> content) {
  XXH128_hash_t hash = xxh3_128bits(content);
  BlobId id{hash.high64, hash.low64};
  if (FlightContentPointer there = find(id))
    return there;
  if (known.size() >= sweepAt) {
    for (auto at = known.begin(); at != known.end();)
      at = at->second.expired() ? known.erase(at) : std::next(at);
    sweepAt = std::max<size_t>(4096, known.size() * 2);
  }
  auto stored = std::make_shared<const FlightContent>(id, content, live);
  known[id] = stored;
  return stored;
}

Expected<BlobId> FlightHistory::blob(ArrayRef<uint8_t> content) {
  if (through)
    if (Expected<BlobId> id = through->blob(content); !id)
      return id;
  staged = store(content);
  return staged->id;
}

void FlightHistory::counted(uint64_t packets) {
  count += packets;
  if (count - windows.back().first < options.maxWindowPackets)
    return;
  windows.push_back({count, false});
  ++closedWindows;
}

Error FlightHistory::append(const Packet &packet, const PacketExtra &extra) {
  if (through)
    if (Error error = through->append(packet, extra))
      return error;
  if (extra.payload) {
    FlightContentPointer content = staged && staged->id == extra.payload ? staged : find(extra.payload);
    if (!content)
      return failUsage("bad-packet", "the packet's payload was not stored before it");
    openContents.push_back(std::move(content));
  }
  staged.reset();
  if (packet.kind == PacketKind::Loss)
    sums.loss.add(packet);
  open.append(packet, extra);
  counted(1);
  return open.packets.size() >= options.chunkPackets ? seal() : Error::success();
}

Error FlightHistory::append(ArrayRef<Packet> all) {
  if (through)
    if (Error error = through->append(all))
      return error;
  while (!all.empty()) {
    size_t room = options.chunkPackets - open.packets.size();
    ArrayRef<Packet> run =
        all.take_front(std::min<uint64_t>(room, options.maxWindowPackets - (count - windows.back().first)));
    size_t before = open.packets.size();
    open.packets.insert(open.packets.end(), run.begin(), run.end());
    for (size_t i = before; i < open.packets.size(); ++i) {
      open.packets[i].extra = 0;
      if (LLVM_UNLIKELY(open.packets[i].kind == PacketKind::Loss))
        sums.loss.add(open.packets[i]);
    }
    counted(run.size());
    all = all.drop_front(run.size());
    if (open.packets.size() >= options.chunkPackets)
      if (Error error = seal())
        return error;
  }
  return Error::success();
}

Error FlightHistory::endWindow(bool quiescent) {
  if (through)
    if (Error error = through->endWindow(quiescent))
      return error;
  if (windows.back().first == count)
    return Error::success();
  windows.push_back({count, quiescent});
  ++closedWindows;
  return Error::success();
}

/// Only those of the very start say what no packet does.
Error FlightHistory::keyframe(Keyframe keyframe) {
  if (through)
    if (Error error = through->keyframe(keyframe))
      return error;
  staged.reset();
  bool quiescent = keyframe.restorable;
  ++sums.keyframes;
  if (count == 0) {
    keyframe.packet = keyframe.window = 0;
    for (const std::vector<KeyframeExtent> *extents : {&keyframe.memory, &keyframe.internal})
      for (const KeyframeExtent &extent : *extents)
        if (FlightContentPointer content = find(extent.content))
          base.contents.push_back(std::move(content));
    if (keyframe.device < shadows.size())
      shadows[keyframe.device]->seed(keyframe, [&](BlobId id) -> ArrayRef<uint8_t> {
        FlightContentPointer content = find(id);
        return content ? ArrayRef<uint8_t>(content->bytes) : ArrayRef<uint8_t>();
      });
    base.restorable &= keyframe.restorable;
    if (!keyframe.restorable)
      base.reason = keyframe.reason;
    base.keyframes.push_back(std::move(keyframe));
  }
  if (windows.back().first == count)
    return Error::success();
  windows.push_back({count, quiescent});
  ++closedWindows;
  return Error::success();
}

Error FlightHistory::trigger(uint64_t packet, StringRef text) {
  if (through)
    if (Error error = through->trigger(packet, text))
      return error;
  triggerMarks.push_back({packet, text.str()});
  if (triggerMarks.size() > maxTriggerMarks)
    triggerMarks.pop_front();
  return Error::success();
}

Error FlightHistory::foreignBlock(uint16_t type, ArrayRef<uint8_t> raw) {
  return through ? through->foreignBlock(type, raw) : Error::success();
}

Error FlightHistory::flush() {
  return through ? through->flush() : Error::success();
}

Expected<TapeSummary> FlightHistory::finish(const Outcome &outcome) {
  if (finished)
    return failUsage("writer-closed", "the history was finished already");
  finished = true;
  result = outcome;
  if (through) {
    Expected<TapeSummary> summary = through->finish(outcome);
    if (!summary)
      return summary;
    sums = *summary;
  }
  if (windows.back().first != count) {
    windows.push_back({count, false});
    ++closedWindows;
  }
  sums.packets = count;
  sums.windows = closedWindows;
  return sums;
}

void FlightHistory::discard() {
  finished = true;
  if (through)
    through->discard();
}

Error FlightHistory::seal() {
  if (open.packets.empty())
    return Error::success();
  std::sort(openContents.begin(), openContents.end(), orderedById);
  openContents.erase(std::unique(openContents.begin(), openContents.end()), openContents.end());
  uint64_t first = count - open.packets.size();
  Error error = encoder.encode(open, {}, [&](ArrayRef<uint8_t> raw) {
    auto chunk = std::make_shared<FlightChunk>(
        live, raw.size() + openContents.size() * sizeof(FlightContentPointer) + sizeof(FlightChunk));
    chunk->first = first;
    chunk->packets = uint32_t(open.packets.size());
    for (const Packet &packet : open.packets)
      chunk->latest = std::max(chunk->latest, packet.issueTime);
    chunk->encoded.resize((raw.size() + 7) / 8);
    std::memcpy(chunk->encoded.data(), raw.data(), raw.size());
    chunk->encodedBytes = raw.size();
    chunk->contents = std::move(openContents);
    chunks.push_back(std::move(chunk));
    return Error::success();
  });
  if (error)
    return error;
  open.clear();
  openContents.clear();
  return evict();
}

//===- Looking back ----------------------------------------------------------------------------------===//

triggers::CaptureHistory::Facts FlightHistory::factsOf(const Packet &packet, const PacketExtra &extra) {
  Facts facts;
  facts.time = packet.issueTime;
  facts.bytes = packetBytes + (extra.payload ? extra.length : 0);
  return facts;
}

Expected<triggers::CaptureHistory::Facts> FlightHistory::facts(uint64_t packet) {
  if (packet < base.packet || packet >= count)
    return failUsage("no-such-packet", "packet " + std::to_string(packet) + " is not in the history");
  uint64_t openFirst = count - open.packets.size();
  if (packet >= openFirst) {
    const Packet &is = open.packets[packet - openFirst];
    return factsOf(is, open.extra(is));
  }
  if (packet < looked.firstOrdinal || packet - looked.firstOrdinal >= looked.packets.size()) {
    auto found =
        std::upper_bound(chunks.begin(), chunks.end(), packet,
                         [](uint64_t p, const FlightChunkPointer &chunk) { return p < chunk->first; });
    if (Error error = decode(**std::prev(found), looked))
      return error;
  }
  const Packet &is = looked.packets[packet - looked.firstOrdinal];
  return factsOf(is, looked.extra(is));
}

Expected<triggers::CaptureHistory::Window> FlightHistory::windowOf(uint64_t packet) {
  if (packet < base.packet || packet >= count)
    return failUsage("no-such-packet", "packet " + std::to_string(packet) + " is not in the history");
  auto next = std::upper_bound(windows.begin(), windows.end(), packet,
                               [](uint64_t p, const WindowStart &window) { return p < window.first; });
  Window window;
  window.first = std::prev(next)->first;
  window.end = next == windows.end() ? count : next->first;
  return window;
}

bool FlightHistory::startsWindow(uint64_t packet) const {
  auto found = std::lower_bound(windows.begin(), windows.end(), packet,
                                [](const WindowStart &window, uint64_t p) { return window.first < p; });
  return found != windows.end() && found->first == packet;
}

Expected<std::unique_ptr<TapeReader>> FlightHistory::snapshot(uint64_t end, const Outcome &outcome) {
  if (end <= base.packet || end > count)
    return failUsage("no-such-packet", "packet " + std::to_string(end) + " is not in the history");
  if (end > count - open.packets.size())
    if (Error error = seal())
      return error;
  if (end <= base.packet)
    return failSystem("history-full", "the history's memory was used up before a capture could be taken");
  FlightSnapshotParts parts;
  parts.manifest = manifest;
  parts.devices = devices;
  parts.spaces = spaces;
  parts.clocks = clocks;
  parts.base = base.packet;
  parts.end = end;
  parts.keyframes = base.keyframes;
  parts.contents = base.contents;
  for (const FlightChunkPointer &chunk : chunks)
    if (chunk->first < end)
      parts.chunks.push_back(chunk);
  for (size_t i = 0; i < windows.size() && windows[i].first < end; ++i) {
    bool closed = i + 1 < windows.size() && windows[i + 1].first <= end;
    parts.windows.push_back({std::max(windows[i].first, base.packet), closed && windows[i + 1].quiet});
  }
  for (const TapeReader::TriggerRecord &mark : triggerMarks)
    if (mark.packet >= base.packet && mark.packet < end)
      parts.triggers.push_back(mark);
  parts.outcome = outcome;
  return makeFlightSnapshot(std::move(parts));
}

FlightStatus FlightHistory::status() const {
  FlightStatus status;
  status.packets = count - base.packet;
  status.bytes = bytes();
  status.evicted = base.packet;
  status.evictedEarly = evictedEarly;
  status.prefixDropped = prefixDropped;
  status.restorable = base.restorable;
  status.reason = base.reason;
  return status;
}

} // namespace tapeback
