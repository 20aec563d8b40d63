#include "recorder/durable/LogTail.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>

using namespace llvm;

namespace tapeback {

using durable::Entry;

bool LogTail::belongsTo(const Manifest &manifest) const {
  auto fact = manifest.facts.find(durable::manifestKey);
  return fact != manifest.facts.end() && !log.id.empty() && fact->second == log.id;
}

void LogTail::tookDevice(const DeviceRecord &device) {
  devices.push_back(device);
  std::optional<uint32_t> found;
  for (size_t i = 0; i < log.devices.size(); ++i)
    if (!device.alias.empty() && log.devices[i].alias == device.alias)
      found = uint32_t(i);
  logDevices.push_back(found);
}

void LogTail::took(const Packet &packet) {
  if (packet.kind == PacketKind::Loss)
    complete = false;
  if (packet.kind != PacketKind::RegisterRead && packet.kind != PacketKind::RegisterWrite &&
      packet.kind != PacketKind::Poll)
    return;
  if (packet.origin != Origin::Program || packet.device >= logDevices.size() ||
      packet.space >= spaces.size() || !logDevices[packet.device] ||
      !log.logs(*logDevices[packet.device], spaces[packet.space], packet.address, packet.width))
    return;
  ++counts[packet.thread];
  if (seen.size() < durable::entryCount)
    seen.push_back({});
  seen[nextSeen++ % durable::entryCount] = {packet.issueTime, packet.address, packet.thread, packet.kind};
}

/// By counting where that is possible. Otherwise by time: the log's is taken a moment before the packet's, by
/// another clock perhaps; in doubt it is on the tape, because no packet must be made up.
bool LogTail::isOnTape(const Entry &entry) const {
  if (complete) {
    auto count = counts.find(entry.thread);
    return count != counts.end() && entry.ordinal <= count->second;
  }
  constexpr uint64_t before = 1'000'000, behind = 10'000'000'000;
  uint64_t until = entry.answered ? entry.answered + before : entry.time + behind;
  return std::any_of(seen.begin(), seen.end(), [&](const Seen &packet) {
    return packet.thread == entry.thread && uint8_t(packet.kind) == entry.kind &&
           packet.address == entry.address && packet.time + before >= entry.time && packet.time <= until;
  });
}

bool LogTail::wentOn(const Entry &entry) const {
  return std::any_of(log.entries.begin(), log.entries.end(), [&](const Entry &other) {
    return other.thread == entry.thread && other.number > entry.number;
  });
}

std::string LogTail::nameOf(const Entry &entry) const {
  const char *what = PacketKind(entry.kind) == PacketKind::RegisterWrite  ? "write to "
                     : PacketKind(entry.kind) == PacketKind::RegisterRead ? "read of "
                                                                          : "poll of ";
  const DurableLog::Device &device = log.devices[entry.device];
  return what + device.alias + " " + device.spaces[entry.space] + "+0x" + utohexstr(entry.address, true) +
         " (" + std::to_string(entry.width) + " bytes) by thread " + std::to_string(entry.thread);
}

Expected<std::optional<uint16_t>> LogTail::spaceOf(const Entry &entry, TapeWriter &writer) {
  const std::string &name = log.devices[entry.device].spaces[entry.space];
  auto found = std::find(spaces.begin() + 1, spaces.end(), name);
  if (found != spaces.end())
    return uint16_t(found - spaces.begin());
  if (name.empty() || spaces.size() > 4096)
    return std::nullopt;
  Expected<uint16_t> added = writer.addSpace(name);
  if (!added)
    return added.takeError();
  spaces.push_back(name);
  return *added;
}

Expected<RecoverTail::Result> LogTail::appendPending(TapeWriter &writer) {
  RecoverTail::Result result;
  uint64_t unanswered = 0, answered = 0;
  if (log.damaged)
    result.notes.push_back(std::to_string(log.damaged) + " entries of the durable log are damaged; left out");
  for (const Entry &entry : log.entries) {
    if (isOnTape(entry))
      continue;
    auto device = std::find(logDevices.begin(), logDevices.end(), std::optional<uint32_t>(entry.device));
    Expected<std::optional<uint16_t>> space = spaceOf(entry, writer);
    if (!space)
      return space.takeError();
    if (device == logDevices.end() || !*space) {
      result.notes.push_back("the durable log has a " + nameOf(entry) +
                             ", but the tape has no such device: left out");
      continue;
    }
    bool pending = !entry.answered;
    if (pending && wentOn(entry)) {
      ++unanswered;
      continue;
    }
    Packet packet;
    packet.kind = PacketKind(entry.kind);
    packet.device = uint16_t(device - logDevices.begin());
    packet.thread = entry.thread;
    packet.space = **space;
    packet.width = entry.width;
    packet.address = entry.address;
    packet.issueTime = entry.time;
    packet.completion = pending ? Completion::Pending : Completion(entry.completion);
    packet.completeTime = pending ? 0 : std::max(entry.answered, entry.time);
    packet.value = packet.kind == PacketKind::RegisterWrite ? entry.value : pending ? 0 : entry.answer;
    PacketExtra extra;
    if (packet.kind == PacketKind::Poll) {
      extra.mask = entry.mask;
      extra.expected = entry.expected;
      extra.deadline = entry.deadline;
    }
    answered += !pending;
    if (pending)
      result.notes.push_back("from the durable log: a " + nameOf(entry) +
                             " was issued and never came back; it is packet " +
                             std::to_string(writer.packetCount()) + ", pending");
    if (Error error = writer.append(packet, extra))
      return error;
    ++result.packets;
  }
  if (answered)
    result.notes.push_back("from the durable log: " + std::to_string(answered) +
                           " accesses that came back and that the tape lost");
  if (unanswered)
    result.notes.push_back("the durable log has " + std::to_string(unanswered) +
                           " more accesses that came back with an answer that is lost");
  return result;
}

} // namespace tapeback
