// The part of Queues that knows rings of completions, rings that commands create, and memory in pages.
#include "recorder/client/Device.h"
#include "recorder/client/Queues.h"
#include <cstring>

namespace tapeback::client {

/// From here on the device may write completions there. What the host has there (the phases!) is its doing.
void Queues::start(tb_device &owner, Ring &ring, uint64_t base, uint64_t size) {
  Rows rows;
  ring.size = 0;
  if (!size || size > maxEntries || !Rows::make(base, size * ring.description->bytes, 1, 0, rows))
    return;
  ring.base = base;
  ring.size = size;
  ring.head = 0;
  ring.phase = 1;
  if (!capture.shadow.covers(rows))
    return;
  Budget budget{maxBytes};
  capture.publish(owner, rows, budget);
  // The device writes it, entry by entry: what the host finds there later has to be recorded anew.
  capture.shadow.forget(rows);
  had(rows);
}

void Queues::ringIsAt(tb_device &owner, uint32_t index, uint64_t base, uint64_t size) {
  if (index < firstRing || index - firstRing >= ringCount)
    return;
  Ring &ring = rings[index - firstRing];
  if (!ring.size)
    start(owner, ring, base, size);
}

void Queues::rungCreated(tb_device &owner, uint32_t index, uint64_t value) {
  Queue *queue = find(index);
  if (queue && queue->size)
    rung(owner, index, queue->base, queue->size, value);
}

/// What entries create and delete counts once they are known to have succeeded.
void Queues::noteChange(Following &following, const capture::Form &form, const uint8_t *entry) {
  Change change = {};
  change.queue = uint32_t(&following.queue - queues);
  change.entry = following.entry;
  bool known = true;
  if (form.createsNumber.present()) {
    change.creates = true;
    change.completions = form.createsCompletions != 0;
    change.number = valueOf(form.createsNumber, entry);
    change.base = valueOf(form.createsBase, entry);
    change.size = valueOf(form.createsSize, entry) + form.createsPlus;
    known = changes.push(change);
  }
  if (form.deletesNumber.present()) {
    change.creates = false;
    change.completions = form.deletesCompletions != 0;
    change.number = valueOf(form.deletesNumber, entry);
    known = changes.push(change) && known;
  }
  // Without memory the queue's entries are not followed, and its doorbell is a register like others.
  (void)known;
}

void Queues::carryOutChanges(tb_device &owner, uint32_t from, uint64_t entry, bool succeeded) {
  for (size_t i = 0; i < changes.size();) {
    Change change = changes[i];
    if (change.queue != from || change.entry != entry) {
      ++i;
      continue;
    }
    changes.erase(i);
    if (!succeeded)
      continue;
    uint64_t size = change.creates ? change.size : 0;
    for (uint32_t r = 0; change.completions && r < ringCount; ++r)
      if (rings[r].description->place.number == change.number &&
          rings[r].description->place.base == capture::none)
        start(owner, rings[r], change.base, size);
    for (uint32_t q = 0; !change.completions && q < count; ++q) {
      Queue &queue = queues[q];
      if (queue.description->place.number != change.number || queue.description->place.base != capture::none)
        continue;
      queue.base = change.base;
      queue.size = size > maxEntries ? 0 : size;
      queue.tail = 0;
      // What a deleted queue had not done is never done.
      for (Work &work : queue.works)
        if (!work.transfer.done && !work.transfer.toDevice && work.transfer.owned.count)
          capture.shadow.abandon(work.transfer.owned);
      remembered -= queue.works.size();
      queue.works.clear();
      queue.tags.clear();
      queue.completed = queue.submitted;
    }
  }
}

/// The completion at the ring's head, whose phase was seen: what it tells, and on to the next. False if it is
/// not there.
bool Queues::complete(tb_device &owner, Ring &ring) {
  const capture::Completions &description = *ring.description;
  uint64_t address = ring.base + ring.head * description.bytes;
  const uint8_t *there = capture.look(owner, address, description.bytes);
  if (!there)
    return false;
  uint8_t entry[capture::maxEntryBytes];
  memcpy(entry, there, description.bytes);
  if (valueOf(description.phase, entry) != ring.phase)
    return false;
  if (++ring.head == ring.size) {
    ring.head = 0;
    ring.phase ^= 1;
  }
  uint64_t number = valueOf(description.queue, entry), tag = valueOf(description.tag, entry);
  for (uint32_t q = 0; q < count; ++q) {
    Queue &queue = queues[q];
    if (queue.description->place.number != number)
      continue;
    for (Tagged &tagged : queue.tags) {
      if (tagged.done || tagged.tag != tag)
        continue;
      ring::Record record = blankRecord(&owner, PacketKind::CommandDone);
      record.address = address;
      record.length = description.bytes;
      record.value = queue.description->index;
      record.count = tagged.entry;
      record.expected = ring.base;
      record.mask = ring.size;
      event(record, entry, description.bytes);
      uint64_t done = tagged.entry;
      commandDone(owner, queue, tagged);
      carryOutChanges(owner, q, done, holds(description.success, entry));
      return true;
    }
  }
  return true; // Of nothing that was seen to be submitted: a device that completes twice, or a late start.
}

/// Entries are done in any order; `completed` is up to where all are.
void Queues::commandDone(tb_device &owner, Queue &queue, Tagged &tagged) {
  tagged.done = true;
  for (Work &work : queue.works)
    if (work.entry == tagged.entry && !work.transfer.done) {
      work.transfer.done = true;
      if (capture.complete(owner, work.transfer))
        takeCounters(owner, work);
    }
  while (queue.works.size() && queue.works.front().transfer.done) {
    queue.works.pop();
    --remembered;
  }
  while (queue.tags.size() && queue.tags.front().done)
    queue.tags.pop();
  queue.completed = queue.tags.size() ? queue.tags.front().entry : queue.submitted;
}

/// Counters that stand in what a transfer brought.
void Queues::takeCounters(tb_device &owner, const Work &work) {
  const auto *counters = capture::elements<capture::ContentCounter>(table, table->contentCounters);
  for (uint32_t i = contentCounters.first; i < contentCounters.first + contentCounters.count; ++i) {
    const capture::ContentCounter &counter = counters[i];
    if (counter.layout != work.content || counter.field.offset < work.offset)
      continue;
    uint64_t at = counter.field.offset - work.offset;
    if (at > work.transfer.length || work.transfer.length - at < counter.field.width)
      continue;
    const uint8_t *there = capture.look(owner, work.transfer.rows.address + at, counter.field.width);
    if (!there)
      continue;
    capture::Field inPlace = counter.field;
    inPlace.offset = 0;
    uint64_t value = valueOf(inPlace, there);
    Operation operation(&owner, PacketKind::CounterSnapshot);
    operation.record.origin = uint8_t(Origin::Recorder);
    operation.record.address = counter.id;
    operation.issue();
    operation.complete(Completion::Done, value);
  }
}

bool Queues::completionsIn(tb_device &owner, uint64_t iova, const uint8_t *content, uint64_t bytes) {
  bool seen = false;
  for (uint32_t r = 0; r < ringCount; ++r) {
    Ring &ring = rings[r];
    const capture::Field &phase = ring.description->phase;
    // Whoever saw the phase knows that the whole entry is there.
    for (uint64_t round = 0; round < ring.size; ++round) {
      uint64_t at = ring.base + ring.head * ring.description->bytes + phase.offset;
      uint32_t byte = phase.low / 8; // A look may be narrower than the word that the description names.
      if (at + byte < iova || at + byte - iova >= bytes)
        break;
      uint8_t seenByte = content[at + byte - iova];
      if ((uint64_t(seenByte >> (phase.low % 8)) & 1) != ring.phase || !complete(owner, ring))
        break;
      seen = true;
    }
  }
  return seen;
}

void Queues::handedBack(tb_device &owner, uint32_t index, uint64_t value) {
  if (index < firstRing || index - firstRing >= ringCount)
    return;
  Ring &ring = rings[index - firstRing];
  for (uint64_t round = 0; round < ring.size && value < ring.size && ring.head != value; ++round)
    if (!complete(owner, ring))
      return;
}

/// One contiguous piece of a transfer, with a descriptor of its own.
void Queues::piece(Following &following, const capture::EntryTransfer &description, uint64_t address,
                   uint64_t bytes, uint64_t offset) {
  Transfer transfer = {};
  transfer.toDevice = description.toDevice != 0;
  transfer.length = bytes;
  transfer.deviceAddress = offset;
  if (!Rows::make(address, bytes, 1, bytes, transfer.rows) || following.budget.over() ||
      remembered >= maxTransfers) {
    transfer.rows = {address, 1, 1, 0};
    capture.startBlind(following.owner, transfer, following.budget);
    return;
  }
  if (capture.start(following.owner, transfer, following.budget) || !transfer.toDevice)
    had(transfer.rows);
  // Without memory to remember it the transfer has no completion on the tape; its descriptor is there.
  if (following.queue.works.push({following.entry, transfer, description.content, offset}))
    ++remembered;
}

/// Pieces that are neighbours are told as one. `offset` of each is that in the whole.
void Queues::inPages(Following &following, const capture::EntryTransfer &description, const uint8_t *entry,
                     uint64_t bytes) {
  const uint64_t page = description.pageBytes, inPage = page - 1;
  uint64_t address = valueOf(description.host, entry), second = valueOf(description.second, entry);
  uint64_t length = page - (address & inPage); // Of the piece that is being put together.
  if (length > bytes)
    length = bytes;
  uint64_t told = 0, left = bytes - length;
  bool listed = left > page;
  uint64_t list = second;
  while (left) {
    uint64_t next = second;
    if (listed) {
      Rows rows;
      // The last place in a page of the list says where the list goes on, if more than one page is left.
      for (unsigned hop = 0; hop < 2; ++hop) {
        bool mapped = Rows::make(list, 8, 1, 0, rows) && capture.shadow.covers(rows);
        if (mapped && !capture.shadow.owned(rows) && ++following.elements <= maxElements &&
            !following.budget.over())
          capture.publish(following.owner, rows, following.budget);
        else
          mapped = false;
        const uint8_t *there = mapped ? capture.look(following.owner, list, 8) : nullptr;
        if (!there) { // Nobody knows where the rest is.
          piece(following, description, address, length, told);
          return;
        }
        memcpy(&next, there, 8);
        bool goesOn = (list & inPage) + 8 >= page && left > page;
        list = goesOn ? next : list + 8;
        if (!goesOn)
          break;
      }
    }
    uint64_t bytesThere = page - (next & inPage);
    if (bytesThere > left)
      bytesThere = left;
    if (next == address + length) {
      length += bytesThere;
    } else {
      piece(following, description, address, length, told);
      told += length;
      address = next;
      length = bytesThere;
    }
    left -= bytesThere;
  }
  piece(following, description, address, length, told);
}

} // namespace tapeback::client
