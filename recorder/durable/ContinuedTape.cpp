#include "recorder/durable/ContinuedTape.h"
#include "format/Failure.h"
#include <algorithm>

using namespace llvm;

namespace tapeback {

/// When the packet came to its place on the tape.
static uint64_t placeTime(const Packet &packet) {
  return packet.completeTime;
}

/// Packets that the collector makes by itself belong to no thread.
static bool isCollectors(const Packet &packet) {
  return packet.kind == PacketKind::Loss || packet.kind == PacketKind::Tick;
}

void ContinuedTape::took(const Packet &packet) {
  uint64_t ordinal = taken++;
  if (isCollectors(packet) || packet.completion == Completion::Pending)
    return;
  Last &thread = last[packet.thread];
  if (uint64_t time = placeTime(packet); time > thread.time || thread.count == 0)
    thread = {time, 1};
  else if (time == thread.time)
    ++thread.count;
  constexpr size_t mostRecent = 65536;
  recent.push_back({placeTime(packet), ordinal, packet.thread, packet.kind});
  if (recent.size() > mostRecent)
    recent.pop_front();
}

bool ContinuedTape::onTape(const Packet &packet) {
  if (isCollectors(packet) || packet.completion == Completion::Pending)
    return false;
  auto found = last.find(packet.thread);
  if (found == last.end() || found->second.count == 0 || placeTime(packet) > found->second.time)
    return false;
  if (placeTime(packet) == found->second.time)
    --found->second.count;
  return true;
}

uint64_t ContinuedTape::recentOrdinal(const Packet &packet) const {
  auto found = std::find_if(recent.rbegin(), recent.rend(), [&](const Recent &one) {
    return one.thread == packet.thread && one.time == placeTime(packet) && one.kind == packet.kind;
  });
  return found == recent.rend() ? noLink : found->ordinal;
}

/// The place of `name` in `names`, or nothing.
static std::optional<size_t> placeOf(const std::vector<std::string> &names, StringRef name, size_t from) {
  for (size_t i = from; i < names.size(); ++i)
    if (name == names[i])
      return i;
  return std::nullopt;
}

Expected<uint16_t> ContinuedTape::addDevice(const DeviceRecord &device) {
  std::optional<size_t> there = placeOf(aliases, device.alias, 0);
  if (!there) {
    Expected<uint16_t> added = writer->addDevice(device);
    if (!added)
      return added.takeError();
    there = *added;
    aliases.push_back(device.alias);
    if (log)
      log->tookDevice(device);
  }
  devices.push_back(uint16_t(*there));
  return uint16_t(*there);
}

Expected<uint16_t> ContinuedTape::addSpace(StringRef name) {
  std::optional<size_t> there = placeOf(spaceNames, name, 1);
  if (!there) {
    Expected<uint16_t> added = writer->addSpace(name);
    if (!added)
      return added.takeError();
    there = *added;
    spaceNames.push_back(name.str());
    if (log)
      log->tookSpace(name);
  }
  spaces.push_back(uint16_t(*there));
  return uint16_t(*there);
}

Expected<uint8_t> ContinuedTape::addClock(const TapeClock &clock) {
  if (std::optional<size_t> there = placeOf(clockNames, clock.name, 1))
    return uint8_t(*there);
  clockNames.push_back(clock.name);
  return writer->addClock(clock);
}

Error ContinuedTape::append(const Packet &given, const PacketExtra &givenExtra) {
  Packet packet = given;
  PacketExtra extra = givenExtra;
  // Losses name a device even if none was opened.
  packet.device = packet.device < devices.size() ? devices[packet.device] : 0;
  packet.space = packet.space < spaces.size() ? spaces[packet.space] : 0;
  if (learning) {
    ordinals.push_back(noLink);
    return Error::success();
  }
  if (onTape(packet)) {
    ++known;
    ordinals.push_back(recentOrdinal(packet));
    return Error::success();
  }
  if (linksToPacket(packet.kind) && extra.link != noLink)
    extra.link = extra.link < ordinals.size() ? ordinals[extra.link] : noLink;
  uint64_t ordinal = writer->packetCount();
  if (Error error = writer->append(packet, extra))
    return error;
  ordinals.push_back(ordinal);
  ++written;
  if (log)
    log->took(packet);
  return Error::success();
}

Error ContinuedTape::endWindow(bool) {
  return learning ? Error::success() : writer->endWindow(false);
}

Error ContinuedTape::keyframe(Keyframe) {
  return endWindow(false);
}

Error ContinuedTape::trigger(uint64_t packet, StringRef text) {
  if (packet >= ordinals.size() || ordinals[packet] == noLink)
    return Error::success();
  return writer->trigger(ordinals[packet], text);
}

Error ContinuedTape::foreignBlock(uint16_t, ArrayRef<uint8_t>) {
  return failUsage("bad-block", "a collector writes no blocks of other versions");
}

Expected<TapeSummary> ContinuedTape::finish(const Outcome &) {
  TapeSummary summary;
  summary.packets = writer->packetCount();
  summary.windows = writer->windowCount();
  return summary;
}

} // namespace tapeback
