// What comes in: records of the ring, checked and paired. What goes out is in CollectorOutput.cpp.
#include "recorder/Collector.h"
#include "recorder/CollectorParts.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include <algorithm>

using namespace llvm;

namespace tapeback {

/// Bounds on what a program can make us keep.
static constexpr uint64_t maxUnderwayBytes = 256 << 20, maxHeldBytes = 64 << 20;
static constexpr size_t maxHeld = 65536, maxNotes = 16, maxNameBytes = 255, maxSpacesPerOpen = 256,
                        maxSpaces = 4096, maxFacts = 256;

Collector::Collector(TapeWriter &writer, std::vector<CollectorDevice> list, CollectorOptions newOptions)
    : writer(writer), options(std::move(newOptions)), run(runLength), runKeys(runLength) {
  for (CollectorDevice &facts : list) {
    auto device = std::make_unique<Device>();
    device->facts = std::move(facts);
    device->index = uint16_t(devices.size());
    devices.push_back(std::move(device));
  }
  if (options.start.isBegin())
    beginRecording();
}

Collector::~Collector() = default;

Collector::Device *Collector::opened(uint16_t index) const {
  return index < devices.size() && devices[index]->shadow ? devices[index].get() : nullptr;
}

StringRef Collector::spaceName(uint16_t space) const {
  return space < spaces.size() ? StringRef(spaces[space]) : StringRef();
}

void Collector::malformed(bool uncounted) {
  ++facts.notUnderstood;
  if (uncounted)
    lossUncounted = true;
  else
    ++lossCounted;
  lastWasMemoryWrite = false;
}

void Collector::damaged() {
  malformed(/*uncounted=*/true);
}

void Collector::givenUp(uint64_t count) {
  if (!count)
    return;
  facts.givenUp = count;
  releaseHeld();
  // The count lies in the program's memory; one that cannot be true is at least a sign that something is
  // missing.
  constexpr uint64_t plausible = uint64_t(1) << 40;
  putLoss(LossCause::CollectorGone, count < plausible ? count : unknownCount);
}

void Collector::note(ArrayRef<uint8_t> payload) {
  StringRef text(reinterpret_cast<const char *>(payload.data()), payload.size());
  if (facts.notes.size() < maxNotes)
    facts.notes.push_back(json::fixUTF8(text.take_front(2000)));
}

void Collector::accept(const ring::Record &record, ArrayRef<uint8_t> payload, const ring::Others &others) {
  using Type = ring::RecordType;
  if (record.type == Type::Note)
    return note(payload);
  // Threads are stamped before they queue for the ring, and a hostile program stamps as it likes.
  present = std::max(present, record.time);
  if (record.type == Type::Dropped) {
    facts.ringFull += record.value;
    releaseHeld();
    return putLoss(LossCause::RingFull, record.value);
  }
  if (record.type == Type::DeviceOpen)
    return open(record, payload);
  if (record.type == Type::Complete)
    return complete(record, payload, others);
  bool issues = record.type == Type::Issue;
  Device *device = opened(record.device);
  if (!device || !record.sequence || (issues ? !isOperationKind(record.kind) : !isEventKind(record.kind)))
    return malformed();
  if (!useSpace(*device, record.space))
    return malformed();
  const Description *description = device->description();
  RingDevice known{device->number, device->spaces, description ? uint32_t(description->activities.size()) : 0,
                   description ? uint32_t(description->queues.size()) : 0};
  std::optional<RingPacket> packet = readRecord(record, payload.size(), known);
  if (!packet)
    return malformed();
  if (packet->packet.kind == PacketKind::ClockSample) {
    if (!useClock(*device))
      return malformed();
    packet->packet.clock = *device->clock;
  }
  Item item{*packet, record.sequence, {}, false};
  if (hasName(packet->packet.kind)) {
    // Names go into reports: whatever the bytes were, they are UTF-8 from here on.
    StringRef name(reinterpret_cast<const char *>(payload.data()), std::min(payload.size(), maxNameBytes));
    std::string fixed = json::fixUTF8(name);
    item.payload.assign(fixed.begin(), fixed.end());
  } else if (packet->extra.length) {
    item.payload.assign(payload.begin(), payload.end());
  }
  if (issues)
    issue(std::move(item));
  else
    event(std::move(item), record.hints & ring::SamePayload);
}

/// Takes one NUL-terminated string off the front.
static bool takeText(ArrayRef<uint8_t> &payload, std::string &out) {
  auto end = std::find(payload.begin(), payload.end(), 0);
  if (end == payload.end())
    return false;
  StringRef text(reinterpret_cast<const char *>(payload.data()), size_t(end - payload.begin()));
  out = json::fixUTF8(text.take_front(1024));
  payload = payload.drop_front(text.size() + 1);
  return true;
}

/// Puts a space into the tape's table when a record first names it: a target may have many that the program
/// never touches, and a replay's target need not have those.
bool Collector::useSpace(Device &device, uint16_t number) {
  if (number == 0 || number > device.spaces.size())
    return number == 0;
  uint16_t &id = device.spaces[number - 1];
  if (id != Device::notUsed)
    return true;
  const std::string &name = device.spaceNames[number - 1];
  auto found = std::find(spaces.begin() + 1, spaces.end(), name);
  if (found == spaces.end()) {
    if (spaces.size() == maxSpaces)
      return false;
    spaces.push_back(name);
    found = spaces.end() - 1;
    if (Expected<uint16_t> added = writer.addSpace(name); !added)
      wrote(added.takeError());
    if (options.observer)
      options.observer->spaceAdded(uint16_t(found - spaces.begin()), name);
    for (Device *other : byNumber)
      other->shadow->addSpace(uint16_t(found - spaces.begin()), name);
    forgetAccessKeys();
  }
  id = uint16_t(found - spaces.begin());
  return true;
}

/// Puts the device's clock into the tape's table when it is first read.
bool Collector::useClock(Device &device) {
  if (device.clock)
    return true;
  std::string name = devices.size() == 1 ? "device" : "device " + device.facts.alias;
  Expected<uint8_t> added = writer.addClock({name, 1'000'000'000});
  if (!added)
    return wrote(added.takeError());
  device.clock = *added;
  if (options.observer)
    options.observer->clockAdded(*added, 1'000'000'000);
  return true;
}

void Collector::open(const ring::Record &record, ArrayRef<uint8_t> payload) {
  std::string text;
  unsigned count = 0;
  if (record.device >= devices.size() || payload.size() > ring::maxDeviceOpenBytes ||
      !takeText(payload, text) || StringRef(text).getAsInteger(10, count) || count > maxSpacesPerOpen)
    return malformed();
  Device &device = *devices[record.device];
  std::vector<std::string> names;
  for (unsigned i = 0; i < count; ++i) {
    if (!takeText(payload, text))
      return malformed();
    names.push_back(text);
  }
  std::map<std::string, std::string> identity;
  std::string value;
  while (!payload.empty() && identity.size() < maxFacts && takeText(payload, text) &&
         takeText(payload, value))
    if (!text.empty())
      identity[text] = value;
  device.spaceNames = std::move(names);
  device.spaces.assign(device.spaceNames.size(), Device::notUsed);
  forgetAccessKeys();
  releaseHeld();
  if (!device.shadow) {
    const CollectorDevice &known = device.facts;
    DeviceRecord row{known.alias, known.uri, identity, known.descriptionText, known.descriptionName};
    if (Expected<uint16_t> added = writer.addDevice(row); !added)
      wrote(added.takeError());
    device.number = uint16_t(byNumber.size());
    byNumber.push_back(&device);
    if (options.observer)
      options.observer->deviceOpened(device.number, device.index);
    device.shadow = std::make_unique<ShadowState>(device.description(), spaces, device.number);
  }
  device.keyframeDue = true;
  Item item;
  item.ring.packet.kind = PacketKind::Open;
  item.ring.packet.device = device.number;
  item.ring.packet.thread = record.thread;
  item.ring.packet.issueTime = item.ring.packet.completeTime = record.time;
  item.sequence = record.sequence;
  item.payload.assign(device.facts.alias.begin(), device.facts.alias.end());
  put(item);
}

void Collector::issue(Item item) {
  uint16_t thread = item.ring.packet.thread;
  if (underway.find(thread)) {
    // Its completion is missing: lost, or the process was replaced by another.
    Item lost = underway.take(thread);
    underwayBytes -= lost.payload.size();
    putPending(lost);
  }
  if (phase == Phase::Before && item.ring.packet.kind == PacketKind::RegisterWrite &&
      meets(options.start, item)) {
    beginRecording();
    item.starts = true;
  }
  releaseHeld();
  if (!underway.empty()) {
    item.ring.packet.flags |= Concurrent;
    underway.any().ring.packet.flags |= Concurrent; // If there are more, they all are already.
  }
  if (underwayBytes + item.payload.size() > maxUnderwayBytes) {
    item.payload.clear();
    item.payload.shrink_to_fit();
    item.ring.packet.flags = uint8_t((item.ring.packet.flags & ~Truncated) | NotCaptured);
  }
  underwayBytes += item.payload.size();
  underway.add(thread, std::move(item));
  lastWasMemoryWrite = false;
}

void Collector::complete(const ring::Record &record, ArrayRef<uint8_t> payload, const ring::Others &others) {
  const Item *found = underway.find(record.thread);
  if (!found || found->sequence != record.sequence)
    return malformed();
  RingPacket packet = found->ring;
  Device *device = opened(record.device);
  if (!device || device->number != packet.packet.device || !completePacket(packet, record, payload.size()))
    return malformed();
  Item item = underway.take(record.thread);
  underwayBytes -= item.payload.size();
  item.ring = packet;
  if (others.overlap(packet.packet.issueTime, packet.packet.completeTime))
    item.ring.packet.flags |= Concurrent;
  if (packet.packet.kind == PacketKind::MemoryRead || packet.packet.kind == PacketKind::Acquire)
    item.payload.assign(payload.begin(), payload.end());
  releaseHeld();
  put(item);
  lastWasMemoryWrite = false;
}

void Collector::event(Item item, bool samePayload) {
  PacketKind kind = item.ring.packet.kind;
  if (samePayload) {
    // Only the descriptor right behind the host's content of the same range.
    if (kind != PacketKind::DmaDescriptor || !lastWasMemoryWrite ||
        lastPayload.size() > item.ring.extra.length)
      return malformed();
    item.payload = std::move(lastPayload);
    item.ring.packet.flags |= lastPayloadFlags;
  }
  lastWasMemoryWrite = kind == PacketKind::MemoryWrite;
  if (lastWasMemoryWrite) {
    lastPayload = item.payload;
    lastPayloadFlags = item.ring.packet.flags & (Truncated | NotCaptured);
  }
  if (mayBelongToStart(item)) {
    heldBytes += item.payload.size();
    held.push_back(std::move(item));
    while (held.size() > maxHeld || heldBytes > maxHeldBytes) {
      heldBytes -= held.front().payload.size();
      put(held.front());
      held.pop_front();
    }
    return;
  }
  if (phase == Phase::Before && kind == PacketKind::Marker) {
    releaseHeld();
    if (meets(options.start, item)) {
      beginRecording();
      item.starts = true;
    }
  }
  releaseHeld();
  put(item);
}

/// Before the start: what a doorbell hands over comes in front of the doorbell, and is part of the recording
/// if the doorbell starts it.
bool Collector::mayBelongToStart(const Item &item) const {
  return phase == Phase::Before &&
         (item.ring.packet.kind == PacketKind::MemoryWrite || item.ring.packet.kind == PacketKind::Submit ||
          item.ring.packet.kind == PacketKind::DmaDescriptor);
}

void Collector::releaseHeld() {
  if (held.empty())
    return;
  std::deque<Item> items;
  items.swap(held);
  heldBytes = 0;
  for (Item &item : items)
    put(item);
}

} // namespace tapeback
