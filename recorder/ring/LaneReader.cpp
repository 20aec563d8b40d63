#include "recorder/ring/LaneReader.h"
#include "recorder/ring/Futex.h"
#include <algorithm>
#include <cstring>

using namespace llvm;

namespace tapeback::ring {

LaneReader::LaneReader(Lane &lane, const Slot *slots, uint64_t slotCount, unsigned number,
                       uint64_t maxPayload, PartsBudget &budget)
    : lane(lane), slots(slots), slotCount(slotCount), laneNumber(number), maxPayload(maxPayload),
      budget(budget) {}

void LaneReader::publish(uint64_t newHead) {
  published = newHead;
}

void LaneReader::releaseTo(uint64_t to) {
  if (released == to)
    return;
  released = to;
  lane.tail.store(to, std::memory_order_seq_cst);
  if (lane.spaceWanted.load(std::memory_order_seq_cst) && lane.spaceWanted.exchange(0))
    futexWakeAll(lane.spaceWanted);
}

/// An operation that is under way is not on the tape: a recovery needs its Issue. One that stays away for
/// long does not hold up the others: its completion alone is then worth a loss.
void LaneReader::markWritten() {
  uint64_t to = position;
  std::erase_if(open, [&](const auto &entry) { return position - entry.second > slotCount / 8; });
  for (const auto &[thread, from] : open)
    to = std::min(to, from);
  writtenTo = std::max(writtenTo, to);
  lane.written.store(writtenTo, std::memory_order_release);
  release();
}

void LaneReader::issued(uint16_t thread) {
  cameBack(thread);
  if (open.size() < 1024)
    open.emplace_back(thread, position);
}

void LaneReader::cameBack(uint16_t thread) {
  std::erase_if(open, [&](const auto &entry) { return entry.first == thread; });
}

bool LaneReader::completedInPlace() const {
  return slots[position & (slotCount - 1)].state.load(std::memory_order_acquire) == SlotState::Completed;
}

void LaneReader::dropParts() {
  budget.used -= parts.size();
  partsBytes = 0;
  std::vector<uint8_t>().swap(parts);
}

/// Nothing behind this point can be trusted to begin at a frame: go to where the producer is now.
void LaneReader::damaged() {
  position = published;
  given = false;
  dropParts();
  head = Head();
  head.what = Next::Corrupt;
  head.time = latest;
  // Nobody is helped by meeting this once more.
  open.clear();
  writtenTo = position;
  lane.written.store(position, std::memory_order_release);
  releaseTo(position);
}

/// Copies slots from `from` on. The last published one may be about to complete: of that only what does not
/// change is read until it has.
void LaneReader::copyFrom(uint64_t from) {
  if (copies.empty())
    copies.resize(maxCopied);
  uint64_t index = from & (slotCount - 1);
  size_t count = size_t(std::min({published - from, slotCount - index, uint64_t(maxCopied)}));
  bool last = from + count == published;
  size_t whole = last ? count - 1 : count;
  const Slot *source = slots + index;
  std::memcpy(copies.data(), static_cast<const void *>(source), whole * sizeof(Slot));
  if (last) {
    const Slot &slot = source[whole];
    SlotCopy &copy = copies[whole];
    copy.state = slot.state.load(std::memory_order_acquire);
    if (copy.state == SlotState::Issued) {
      copy.issue = slot.issue;
      copy.address = slot.address;
      copy.payloadBytes = slot.payloadBytes;
      copy.slots = slot.slots;
      copy.device = slot.device;
      copy.space = slot.space;
      copy.thread = slot.thread;
      copy.type = slot.type;
      copy.kind = slot.kind;
      copy.width = slot.width;
      copy.flags = slot.flags;
      copy.origin = slot.origin;
      copy.hints = slot.hints;
      copy.value = copy.kind == uint8_t(PacketKind::RegisterWrite) ? slot.value : 0;
      copy.complete = copy.completion = 0;
    } else {
      std::memcpy(&copy, static_cast<const void *>(&slot), sizeof(Slot));
    }
  }
  copiedFrom = from;
  copiedTo = from + count;
}

const SlotCopy &LaneReader::slotAt(uint64_t from) {
  if (from < copiedFrom || from >= copiedTo)
    copyFrom(from);
  return copies[size_t(from - copiedFrom)];
}

void LaneReader::found(Next what, uint64_t time, const SlotCopy &slot) {
  head.what = what;
  head.time = std::max(time, latest); // A lane's order is its own.
  head.issue = slot.issue;
  head.begins = slot.type == RecordType::Issue && !given;
  head.joined = (slot.hints & Joined) && !given;
}

void LaneReader::findNext() {
  if (published - position > slotCount)
    return damaged();
  if (given) {
    if (completedInPlace()) {
      std::memcpy(&completed, bytesAt(position), sizeof(Slot));
      return found(Next::Record, completed.complete, completed);
    }
    if (position + givenSlots >= published)
      return;
    // Frames behind it: its completion will not come any more.
    position += givenSlots;
    given = false;
  }
  while (position != published && head.what == Next::Nothing)
    if (!findFrame())
      return damaged();
}

/// Looks at the frame at `position`. What is no record (padding, a part of a payload) is passed. False if it
/// makes no sense.
bool LaneReader::findFrame() {
  const SlotCopy &slot = slotAt(position);
  uint64_t toEnd = slotCount - (position & (slotCount - 1));
  if (slot.slots == 0 || slot.slots > published - position || slot.slots > toEnd)
    return false;
  if (slot.type == RecordType::Pad) {
    position += slot.slots;
    return true;
  }
  bool extended = slot.hints & HasExtension;
  if (slot.type < RecordType::Chunk || uint8_t(slot.type) > maxRecordType ||
      slot.slots != 1 + extended + slotsFor(slot.payloadBytes))
    return false;
  if (slot.type == RecordType::Chunk)
    return takeChunk(slot);
  if (slot.type != RecordType::Issue || !(slot.hints & CompletesInPlace)) {
    found(Next::Record, slot.type == RecordType::Complete ? slot.complete : slot.issue, slot);
    return true;
  }
  if (slot.state != SlotState::Issued && slot.state != SlotState::Completed)
    return false;
  bool plain = slot.state == SlotState::Completed && slot.slots == 1 && slot.hints == CompletesInPlace;
  found(plain ? Next::Access : Next::Record, plain ? slot.complete : slot.issue, slot);
  return true;
}

/// A chunk without bytes would let a hostile producer keep us here.
bool LaneReader::takeChunk(const SlotCopy &slot) {
  if (slot.address == 0)
    dropParts();
  if (slot.payloadBytes == 0 || slot.address != partsBytes || slot.value > maxPayload ||
      partsBytes + slot.payloadBytes > slot.value)
    return false;
  partsBytes += slot.payloadBytes;
  // One content always has room. Of more than that at once, later ones are not captured.
  if (parts.size() + slot.payloadBytes == partsBytes &&
      (budget.used == parts.size() || budget.used + slot.payloadBytes <= PartsBudget::most)) {
    bool extended = slot.hints & HasExtension;
    const uint8_t *bytes = bytesAt(position + 1 + extended);
    parts.insert(parts.end(), bytes, bytes + slot.payloadBytes);
    budget.used += slot.payloadBytes;
  }
  position += slot.slots;
  // A payload may be larger than the lane: make room while it comes in. A recovery sees by this that what it
  // would begin at is gone.
  if (position - released >= slotCount / 16)
    releaseTo(position);
  return true;
}

ArrayRef<SlotCopy> LaneReader::takeAccesses(uint64_t limit, const Others &others, const StampClock &clock,
                                            bool &concurrent) {
  SlotCopy *first = &copies[size_t(position - copiedFrom)], *end = copies.data() + (copiedTo - copiedFrom);
  concurrent = others.overlap(first->issue, first->complete);
  uint64_t time = latest, complete = latestComplete;
  SlotCopy *access = first;
  for (; access != end; ++access) {
    if (access->type != RecordType::Issue || access->hints != CompletesInPlace || access->slots != 1 ||
        access->state != SlotState::Completed || access->payloadBytes != 0)
      break;
    uint64_t own = std::max(access->complete, time);
    if (access != first && (own > limit || others.overlap(access->issue, access->complete) != concurrent))
      break;
    time = own;
    complete = std::max(complete, access->complete);
    access->issue = clock.toNs(access->issue);
    access->complete = clock.toNs(access->complete);
  }
  position += uint64_t(access - first);
  latest = time;
  latestComplete = complete;
  head = Head();
  return ArrayRef<SlotCopy>(first, access);
}

static void unpack(Record &record, const SlotCopy &slot) {
  record = {};
  record.type = slot.type;
  record.kind = slot.kind;
  record.width = slot.width;
  record.flags = slot.flags;
  record.address = slot.address;
  record.value = slot.value;
  record.device = slot.device;
  record.thread = slot.thread;
  record.space = slot.space;
  record.completion = slot.completion;
  record.origin = slot.origin;
  record.hints = slot.hints;
  record.payloadBytes = slot.payloadBytes;
}

bool LaneReader::takeRecord(Record &record, std::vector<uint8_t> &payload, const StampClock &clock) {
  const SlotCopy slot = given ? completed : slotAt(position);
  unpack(record, slot);
  record.sequence = nameOf(laneNumber, position);
  latest = head.time;
  head = Head();
  payload.clear();
  bool extended = (slot.hints & HasExtension) && slot.slots > 1;
  uint64_t total = slot.payloadBytes;
  if (extended) {
    Extension extension;
    std::memcpy(&extension, bytesAt(position + 1), sizeof(extension));
    record.mask = extension.mask;
    record.expected = extension.expected;
    record.deadline = extension.deadline;
    record.length = extension.length;
    record.link = extension.link;
    record.count = extension.count;
    total = extension.payloadTotal;
  }
  if (given) { // It was issued before; now it has completed.
    given = false;
    record.type = RecordType::Complete;
    record.payloadBytes = 0;
    record.time = clock.toNs(slot.complete);
    latestComplete = std::max(latestComplete, slot.complete);
    position += givenSlots;
    return true;
  }
  if (slot.type == RecordType::Complete) {
    record.sequence = record.link;
    cameBack(slot.thread);
    record.time = clock.toNs(slot.complete);
    latestComplete = std::max(latestComplete, slot.complete);
  } else {
    record.time = clock.toNs(slot.issue);
  }
  if (total != slot.payloadBytes) {
    if (total != partsBytes + slot.payloadBytes) {
      damaged();
      head = Head();
      return false;
    }
    payload.swap(parts);
    budget.used -= payload.size();
  } // Otherwise parts are those of a producer that died before its record.
  if (payload.size() + slot.payloadBytes != total) {
    payload.clear(); // There was no room for all of it.
  } else if (slot.payloadBytes) {
    const uint8_t *bytes = bytesAt(position + 1 + extended);
    payload.insert(payload.end(), bytes, bytes + slot.payloadBytes);
  }
  dropParts();
  record.payloadBytes = payload.size();
  given = slot.type == RecordType::Issue && (slot.hints & CompletesInPlace);
  if (slot.type == RecordType::Issue && !given)
    issued(slot.thread);
  givenSlots = slot.slots;
  if (!given)
    position += slot.slots;
  return true;
}

} // namespace tapeback::ring
