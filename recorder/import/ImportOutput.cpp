#include "recorder/import/ImportOutput.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace tapeback {

namespace {
// A capture that names more than these is not one of a person's machine.
constexpr size_t maxDevices = 256, maxSpaces = 256, maxMappings = 65536;
constexpr uint64_t shownPerCode = 5;
constexpr size_t maxCodes = 64;
constexpr uint64_t pageBytes = 4096;

bool changesDevice(const Packet &packet) {
  return packet.kind == PacketKind::RegisterWrite || packet.kind == PacketKind::Submit;
}
} // namespace

void ImportOutput::keep(Error error) {
  if (!error)
    return;
  Failure kept = toFailure(std::move(error));
  if (!failure)
    failure.emplace(std::move(kept));
}

Error ImportOutput::takeError() {
  return failure ? make_error<Failure>(*failure) : Error::success();
}

void ImportOutput::machineDied(StringRef name, StringRef lastWords) {
  Signature signature;
  signature.oracle = "target-died";
  signature.name = name.str();
  signature.object = lastWords.str();
  diedOf = std::move(signature);
}

void ImportOutput::describeIfNone(StringRef text, StringRef name) {
  if (descriptions.count(""))
    return;
  DeviceRecord record;
  record.description = text.str();
  record.descriptionName = name.str();
  descriptions[""] = std::move(record);
}

void ImportOutput::clock(StringRef name, uint64_t ticksPerSecond) {
  Expected<uint8_t> id = tape.addClock({name.str(), ticksPerSecond});
  if (!id)
    return keep(id.takeError());
  clockId = *id;
}

std::optional<uint16_t> ImportOutput::device(StringRef alias,
                                             const std::map<std::string, std::string> &identity) {
  auto known = devices.find(alias);
  if (known != devices.end())
    return known->second;
  if (devices.size() == maxDevices)
    return std::nullopt;
  DeviceRecord record;
  auto described = descriptions.find(alias.str());
  if (described == descriptions.end())
    described = descriptions.find("");
  if (described != descriptions.end())
    record = described->second;
  record.alias = alias.str();
  record.identity.insert(identity.begin(), identity.end());
  Expected<uint16_t> id = tape.addDevice(record);
  if (!id) {
    keep(id.takeError());
    return std::nullopt;
  }
  devices[alias] = *id;
  Packet open;
  open.kind = PacketKind::Open;
  open.device = *id;
  append(open, {}, alias);
  return *id;
}

std::optional<uint16_t> ImportOutput::space(StringRef name) {
  if (name == "memory")
    return 0;
  auto known = spaces.find(name);
  if (known != spaces.end())
    return known->second;
  if (spaces.size() == maxSpaces)
    return std::nullopt;
  Expected<uint16_t> id = tape.addSpace(name);
  if (!id) {
    keep(id.takeError());
    return std::nullopt;
  }
  return spaces[name] = *id;
}

void ImportOutput::flushRun() {
  if (runLength && !failure)
    keep(tape.append(ArrayRef(run).take_front(runLength)));
  runLength = 0;
}

/// What has to be on the tape in front of it, and room for it.
void ImportOutput::beforePacket(const Packet &packet) {
  if (missingLines)
    flushMissing();
  if (memoryIsMissing && changesDevice(packet)) {
    // From the first write on, the device may act on memory that the capture does not show.
    memoryIsMissing = false;
    lossPacket(LossCause::Source, unknownCount);
  }
  if (runLength == runPackets)
    flushRun();
}

uint64_t ImportOutput::append(Packet packet, const PacketExtra &extra) {
  beforePacket(packet);
  flushRun();
  stamp(packet);
  if (!failure)
    keep(tape.append(packet, extra));
  return ordinal++;
}

uint64_t ImportOutput::append(Packet packet, PacketExtra extra, ArrayRef<uint8_t> content) {
  if (failure)
    return ordinal;
  Expected<BlobId> id = tape.blob(content);
  if (!id) {
    keep(id.takeError());
    return ordinal;
  }
  extra.payload = *id;
  bool memory = packet.kind == PacketKind::MemoryRead || packet.kind == PacketKind::MemoryWrite;
  if (!extra.length && memory) // Elsewhere the content is a name.
    extra.length = content.size();
  return append(packet, extra);
}

void ImportOutput::marker(StringRef text, uint16_t device) {
  endWindow();
  Packet packet;
  packet.kind = PacketKind::Marker;
  packet.device = device;
  append(packet, {}, text);
}

void ImportOutput::endWindow() {
  flushRun();
  // What the device still had to do is not known, so never quiescent.
  if (!failure)
    keep(tape.endWindow(false));
}

void ImportOutput::lossPacket(LossCause cause, uint64_t count) {
  Packet packet;
  packet.kind = PacketKind::Loss;
  packet.address = uint64_t(cause);
  packet.value = count;
  if (runLength == runPackets)
    flushRun();
  stamp(run[runLength++] = packet);
  ++ordinal;
}

void ImportOutput::loss(LossCause cause, uint64_t count) {
  flushMissing();
  ++lossCount;
  lossPacket(cause, count);
}

void ImportOutput::flushMissing() {
  if (!missingLines)
    return;
  uint64_t lines = missingLines;
  missingLines = 0;
  lossPacket(LossCause::Unknown, lines);
}

void ImportOutput::mapMemory(uint16_t device, uint64_t address, uint64_t length) {
  if (!length || address + (length - 1) < address)
    return;
  uint64_t first = address & ~(pageBytes - 1);
  uint64_t last = (address + (length - 1)) | (pageBytes - 1); // Inclusive: no overflow.
  auto map = [&](uint64_t from, uint64_t to) {
    if (mapped.size() >= maxMappings)
      return warn("too-many-ranges", "the capture uses more than 65536 separate ranges of memory");
    mapped[from] = to;
    Packet packet;
    packet.kind = PacketKind::MemoryMap;
    packet.device = device;
    packet.address = from;
    PacketExtra extra;
    extra.length = to - from + 1;
    append(packet, extra);
  };
  auto next = mapped.upper_bound(first);
  uint64_t at = first;
  if (next != mapped.begin()) {
    auto before = std::prev(next);
    if (before->second >= last)
      return;
    if (before->second >= first)
      at = before->second + 1;
  }
  std::vector<std::pair<uint64_t, uint64_t>> holes;
  for (; next != mapped.end() && next->first <= last; ++next) {
    if (next->first > at)
      holes.push_back({at, next->first - 1});
    if (next->second >= last) {
      at = 0;
      for (auto [from, to] : holes)
        map(from, to);
      return;
    }
    at = next->second + 1;
  }
  holes.push_back({at, last});
  for (auto [from, to] : holes)
    map(from, to);
}

std::string ImportOutput::where(unsigned column) const {
  std::string text = fileName;
  if (lineNumber)
    text += ":" + std::to_string(lineNumber);
  if (column)
    text += ":" + std::to_string(column);
  return text;
}

void ImportOutput::warn(StringRef code, std::string message) {
  if (counts.size() == maxCodes && !counts.count(code))
    return;
  if (++counts[code] <= shownPerCode)
    remarks.push_back({code.str(), std::move(message), where()});
}

} // namespace tapeback
