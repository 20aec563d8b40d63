#include "recorder/RingPacket.h"
#include <algorithm>
#include <array>

using namespace llvm;

namespace tapeback {

namespace {

/// How a kind appears in the ring, and what of a record it uses.
struct KindRow {
  PacketKind kind;
  bool operation; ///< Otherwise an event.
  bool hasSpace;  ///< In a register space.
  bool hasWidth;
  bool memory; ///< Its payload is the content of [address, address + length).
};
constexpr KindRow rows[] = {
    {PacketKind::RegisterRead, true, true, true, false},
    {PacketKind::RegisterWrite, true, true, true, false},
    {PacketKind::Poll, true, true, true, false},
    {PacketKind::MemoryWrite, true, false, false, true}, // Also an event: what the doorbell hands over.
    {PacketKind::MemoryRead, true, false, false, true},
    {PacketKind::MemoryWait, true, false, true, false},
    {PacketKind::Acquire, true, false, false, true},
    {PacketKind::Submit, false, false, false, true},
    {PacketKind::DmaDescriptor, false, false, false, true},
    {PacketKind::DmaCompletion, false, false, false, true},
    {PacketKind::Interrupt, true, false, false, false},
    {PacketKind::CounterSnapshot, true, false, false, false},
    {PacketKind::ClockSample, true, false, false, false}, // The collector gives the clock its number.
    {PacketKind::Marker, false, false, false, false},
    {PacketKind::SpanBegin, false, false, false, false},
    {PacketKind::SpanEnd, false, false, false, false},
    {PacketKind::Oracle, false, false, false, false},
    {PacketKind::Reset, true, false, false, false},
    {PacketKind::MemoryMap, true, false, false, false},
    {PacketKind::MemoryUnmap, true, false, false, false},
    {PacketKind::Close, false, false, false, false},
    {PacketKind::Expectation, false, false, false, true},
    {PacketKind::CommandDone, false, false, false, true},
};

/// By kind: 1 + its place in `rows`.
constexpr std::array<uint8_t, 256> placesOfKinds() {
  std::array<uint8_t, 256> places{};
  for (uint8_t place = 0; const KindRow &row : rows)
    places[size_t(row.kind)] = ++place;
  return places;
}
constexpr std::array<uint8_t, 256> kindPlaces = placesOfKinds();

const KindRow *rowOf(uint8_t kind) {
  return kindPlaces[kind] ? &rows[kindPlaces[kind] - 1] : nullptr;
}

bool legalWidth(unsigned width) {
  return width == 1 || width == 2 || width == 4 || width == 8;
}

constexpr uint8_t programFlags =
    TransferToDevice | TransferFromDevice | Failed | Truncated | NotCaptured | DeviceOwned;

/// Flags that say what became of a memory payload, made true.
void fixPayloadFlags(Packet &packet, const PacketExtra &extra, uint64_t payloadBytes) {
  packet.flags &= uint8_t(~(Truncated | NotCaptured));
  if (extra.length && !payloadBytes)
    packet.flags |= NotCaptured;
  else if (payloadBytes < extra.length)
    packet.flags |= Truncated;
}

bool legalOrigin(uint8_t origin) {
  return origin == uint8_t(Origin::Program) || origin == uint8_t(Origin::Recorder);
}

} // namespace

bool isOperationKind(uint8_t kind) {
  const KindRow *row = rowOf(kind);
  return row && row->operation;
}

bool isEventKind(uint8_t kind) {
  const KindRow *row = rowOf(kind);
  return row && (!row->operation || row->kind == PacketKind::MemoryWrite);
}

bool hasName(PacketKind kind) {
  return kind == PacketKind::Marker || kind == PacketKind::SpanBegin || kind == PacketKind::Oracle;
}

std::optional<RingPacket> readRecord(const ring::Record &record, uint64_t payloadBytes,
                                     const RingDevice &device) {
  const KindRow *row = rowOf(record.kind);
  if (!row || !legalOrigin(record.origin))
    return std::nullopt;
  if (row->hasSpace ? record.space == 0 || record.space > device.spaces.size() : record.space != 0)
    return std::nullopt;
  if (row->hasWidth ? !legalWidth(record.width) : record.width != 0)
    return std::nullopt;
  if (row->memory && payloadBytes > record.length)
    return std::nullopt;
  if (row->kind == PacketKind::DmaDescriptor && record.link >= device.activities &&
      (record.link != noLink || device.queues == 0))
    return std::nullopt;
  if ((row->kind == PacketKind::Submit || row->kind == PacketKind::CommandDone) &&
      record.value >= device.queues)
    return std::nullopt;
  bool transfer = row->kind == PacketKind::DmaDescriptor || row->kind == PacketKind::DmaCompletion;
  bool toDevice = record.flags & TransferToDevice, fromDevice = record.flags & TransferFromDevice;
  if (transfer ? toDevice == fromDevice : toDevice || fromDevice)
    return std::nullopt;
  RingPacket result;
  Packet &packet = result.packet;
  packet.kind = row->kind;
  packet.origin = Origin(record.origin);
  packet.device = device.number;
  packet.thread = record.thread;
  packet.space = row->hasSpace ? device.spaces[record.space - 1] : 0;
  packet.width = record.width;
  packet.address = record.address;
  packet.value = record.value;
  packet.flags = record.flags & programFlags;
  packet.issueTime = record.time;
  packet.completeTime = record.time;
  PacketExtra &extra = result.extra;
  extra.mask = record.mask;
  extra.expected = record.expected;
  extra.deadline = record.deadline;
  extra.length = record.length;
  extra.link = record.link;
  extra.count = record.count;
  if (row->kind != PacketKind::Oracle)
    packet.flags &= uint8_t(~Failed);
  // Those whose content comes with the completion get their flags then; those that carry none have none.
  bool contentNow = row->kind == PacketKind::MemoryWrite || row->kind == PacketKind::Submit ||
                    row->kind == PacketKind::Expectation || row->kind == PacketKind::DmaDescriptor ||
                    row->kind == PacketKind::DmaCompletion || row->kind == PacketKind::CommandDone;
  bool carries = !(row->kind == PacketKind::DmaDescriptor && fromDevice) &&
                 !(row->kind == PacketKind::DmaCompletion && toDevice);
  // Content that the device has yet to make, or to make anew, is not missing.
  bool owned = (packet.flags & DeviceOwned) && !payloadBytes && carries && transfer;
  if (!owned)
    packet.flags &= uint8_t(~DeviceOwned);
  if (owned)
    packet.flags &= uint8_t(~(Truncated | NotCaptured));
  else if (contentNow && carries && !(record.hints & ring::SamePayload))
    fixPayloadFlags(packet, extra, payloadBytes);
  else if (!contentNow || !carries)
    packet.flags &= uint8_t(~(Truncated | NotCaptured));
  return result;
}

bool completePacket(RingPacket &operation, const ring::Record &record, uint64_t payloadBytes) {
  Packet &packet = operation.packet;
  PacketExtra &extra = operation.extra;
  if (record.kind != uint8_t(packet.kind))
    return false;
  bool known = record.completion == uint8_t(Completion::Done) ||
               record.completion == uint8_t(Completion::Failed) ||
               record.completion == uint8_t(Completion::TimedOut);
  if (!known)
    return false;
  packet.completion = Completion(record.completion);
  packet.completeTime = std::max(record.time, packet.issueTime);
  extra.count = record.count;
  switch (packet.kind) {
  case PacketKind::RegisterWrite:
  case PacketKind::Reset: break; // The value is what was issued.
  case PacketKind::MemoryMap:
    packet.address = record.address;
    extra.length = record.length;
    break;
  case PacketKind::MemoryRead:
  case PacketKind::Acquire:
    if (payloadBytes > extra.length)
      return false;
    if (packet.completion == Completion::Done)
      fixPayloadFlags(packet, extra, payloadBytes);
    break;
  default: packet.value = record.value; break;
  }
  return true;
}

} // namespace tapeback
