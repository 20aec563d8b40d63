#include "recorder/client/Queues.h"
#include "recorder/client/Device.h"
#include <cstdlib>
#include <cstring>
#include <new>

namespace tapeback::client {

bool Queues::attach(const capture::Table *newTable, const capture::Device *device) {
  uint32_t wanted = newTable && device ? device->queues.count : 0;
  capture.clear();
  remembered = 0;
  // One device keeps its place in the table: what was allocated for it before is still right.
  if (!queues && wanted) {
    void *memory = malloc(sizeof(Queue) * wanted);
    if (!memory)
      return false;
    queues = static_cast<Queue *>(memory);
    for (uint32_t i = 0; i < wanted; ++i)
      new (&queues[i]) Queue();
  }
  uint32_t wantedRings = wanted ? device->rings.count : 0;
  if (!rings && wantedRings) {
    void *memory = malloc(sizeof(Ring) * wantedRings);
    if (!memory)
      return false;
    rings = static_cast<Ring *>(memory);
    for (uint32_t i = 0; i < wantedRings; ++i)
      new (&rings[i]) Ring();
  }
  table = newTable;
  firstRing = wantedRings ? device->rings.first : 0;
  ringCount = wantedRings;
  contentCounters = wanted ? device->contentCounters : capture::Range{};
  for (uint32_t i = 0; i < ringCount; ++i)
    rings[i].description = capture::elements<capture::Completions>(table, table->rings) + firstRing + i;
  first = wanted ? device->queues.first : 0;
  count = wanted;
  for (uint32_t i = 0; i < count; ++i) {
    queues[i].description = capture::elements<capture::Queue>(table, table->queues) + first + i;
    queues[i].works.clear();
    queues[i].fences.clear();
    queues[i].rechecks.clear();
    queues[i].tags.clear();
  }
  reset();
  return true;
}

void Queues::reset() {
  for (uint32_t i = 0; i < count; ++i) {
    Queue &queue = queues[i];
    for (const Work &work : queue.works)
      if (!work.transfer.done && !work.transfer.toDevice && work.transfer.owned.count)
        capture.shadow.abandon(work.transfer.owned);
    for (const Fence &fence : queue.fences)
      capture.shadow.abandon({fence.address, fence.width, 1, 0});
    queue.works.clear();
    queue.fences.clear();
    queue.rechecks.clear();
    queue.tags.clear();
    queue.base = queue.size = 0;
    queue.tail = queue.submitted = queue.completed = 0;
    queue.indicesHold = true;
  }
  remembered = 0;
  for (uint32_t i = 0; i < ringCount; ++i)
    rings[i].base = rings[i].size = 0;
  changes.clear();
  if (count)
    capture.shadow.disown();
}

void Queues::mapped(uint64_t iova, uint64_t size, uint64_t known) {
  // Without room for a shadow the range is like memory that is not mapped: flagged, not guessed.
  if (count && size)
    (void)capture.shadow.add(iova, size, known);
}

void Queues::unmapped(uint64_t iova) {
  if (count)
    capture.shadow.remove(iova);
}

/// What a look at half of a fence sees of it.
static uint64_t lowBytes(uint64_t value, uint32_t width) {
  return width >= 4 ? value & 0xffffffff : value & ((uint64_t(1) << (8 * width)) - 1);
}

void Queues::stored(uint64_t iova, const uint8_t *content, uint64_t bytes, bool captured) {
  Rows rows;
  if (!count || !Rows::make(iova, bytes, 1, 0, rows))
    return;
  if (captured)
    capture.shadow.learn(iova, content, bytes);
  else
    capture.shadow.forget(rows);
  had(rows);
  for (uint32_t i = 0; i < count; ++i)
    for (Fence &fence : queues[i].fences) {
      if (!rows.overlaps(fence.address, fence.width))
        continue;
      uint64_t word = 0;
      bool whole = content && fence.address >= iova && fence.address - iova <= bytes - fence.width &&
                   bytes >= fence.width;
      if (whole)
        memcpy(&word, content + (fence.address - iova), fence.width);
      fence.doubtful = !whole || lowBytes(word, fence.width) == lowBytes(fence.value, fence.width);
    }
}

/// Somebody else has that range from now on: it is not looked at again for what an earlier transfer did.
void Queues::had(const Rows &rows) {
  for (uint32_t i = 0; i < count; ++i)
    for (Transfer &transfer : queues[i].rechecks)
      transfer.done = transfer.done || transfer.rows.mayOverlap(rows);
}

Queues::Queue *Queues::find(uint32_t index) {
  return index >= first && index - first < count ? &queues[index - first] : nullptr;
}

void Queues::rewound(uint32_t index) {
  if (Queue *queue = find(index)) {
    queue->tail = 0;
    queue->indicesHold = queue->outstanding() == 0;
  }
}

void Queues::rung(tb_device &owner, uint32_t index, uint64_t base, uint64_t size, uint64_t value) {
  Queue *queue = find(index);
  if (!queue || size == 0 || size > maxEntries)
    return;
  uint64_t tail = queue->tail % size, newTail = value % size;
  uint64_t entries = newTail >= tail ? newTail - tail : newTail + size - tail;
  Following following{owner, *queue, 0};
  for (uint64_t i = 0; i < entries; ++i)
    submit(following, base, (tail + i) % size);
  queue->tail = newTail;
}

uint64_t valueOf(const capture::Field &field, const uint8_t *entry) {
  uint64_t word = 0;
  for (uint32_t i = 0; i < field.width; ++i)
    word |= uint64_t(entry[field.offset + i]) << (8 * i);
  word >>= field.low;
  return field.bits >= 64 ? word : word & ((uint64_t(1) << field.bits) - 1);
}

bool holds(const capture::FieldCondition &condition, const uint8_t *entry) {
  return !condition.field.present() || (valueOf(condition.field, entry) & condition.mask) == condition.value;
}

void Queues::submit(Following &following, uint64_t base, uint64_t index) {
  Queue &queue = following.queue;
  const capture::Layout &layout =
      capture::elements<capture::Layout>(table, table->layouts)[queue.description->layout];
  following.entry = queue.submitted++;
  if (queue.outstanding() == 1) {
    queue.oldest = index;
    queue.indicesHold = true;
  }
  ring::Record record = blankRecord(&following.owner, PacketKind::Submit);
  record.address = base + index * layout.size;
  record.length = layout.size;
  record.value = queue.description->index;
  record.count = following.entry;
  Rows rows;
  const uint8_t *there = Rows::make(record.address, layout.size, 1, 0, rows)
                             ? capture.look(following.owner, record.address, layout.size)
                             : nullptr;
  if (!there) {
    record.flags = NotCaptured;
    event(record);
    return;
  }
  uint8_t entry[capture::maxEntryBytes];
  memcpy(entry, there, layout.size);
  event(record, entry, layout.size);
  capture.shadow.learn(record.address, entry, layout.size);
  had(rows);
  // Without memory to remember it, its completion tells of no command.
  if (layout.tag.present())
    (void)queue.tags.push({following.entry, valueOf(layout.tag, entry), false});
  const capture::Form *form = formOf(layout, entry);
  if (!form)
    return;
  act(following, *form, entry);
  noteChange(following, *form, entry);
  if (form->chain.present() && !(form->last.field.present() && holds(form->last, entry)))
    followList(following, *form, valueOf(form->chain, entry));
}

const capture::Form *Queues::formOf(const capture::Layout &layout, const uint8_t *entry) const {
  const auto *forms = capture::elements<capture::Form>(table, table->forms) + layout.forms.first;
  if (!layout.opcode.present())
    return layout.forms.count ? forms : nullptr;
  uint64_t opcode = valueOf(layout.opcode, entry);
  for (uint32_t i = 0; i < layout.forms.count; ++i)
    if (forms[i].opcode == opcode)
      return &forms[i];
  return nullptr;
}

/// What an entry or element by itself tells the device to do.
void Queues::act(Following &following, const capture::Form &form, const uint8_t *entry) {
  const auto *transfers =
      capture::elements<capture::EntryTransfer>(table, table->entryTransfers) + form.transfers.first;
  for (uint32_t i = 0; i < form.transfers.count; ++i)
    if (holds(transfers[i].when, entry))
      transfer(following, transfers[i], entry);
  if (form.fenceAddress.present())
    fence(following, form, entry);
}

/// Records the element at `address` and copies it out. False: the list cannot be followed further.
bool Queues::nextElement(Following &following, const capture::Layout &layout, uint64_t address,
                         uint8_t *entry) {
  Rows rows;
  if (!Rows::make(address, layout.size, 1, 0, rows))
    return false;
  bool mapped = capture.shadow.covers(rows);
  if (mapped && capture.shadow.owned(rows))
    return false; // The device is yet to write it: nobody knows what follows.
  const uint8_t *there = nullptr;
  if (mapped && ++following.elements <= maxElements && !following.budget.over()) {
    capture.publish(following.owner, rows, following.budget);
    there = capture.look(following.owner, address, layout.size);
  }
  if (there) {
    memcpy(entry, there, layout.size);
    return true;
  }
  ring::Record record = blankRecord(&following.owner, PacketKind::MemoryWrite);
  record.address = address;
  record.length = layout.size;
  record.flags = NotCaptured;
  event(record);
  return false;
}

/// The elements of a list, each of which says where the next one is.
void Queues::followList(Following &following, const capture::Form &start, uint64_t address) {
  uint8_t entry[capture::maxEntryBytes];
  const capture::Form *form = &start;
  for (uint32_t element = 0; element < form->chainLimit; ++element) {
    const capture::Layout &layout =
        capture::elements<capture::Layout>(table, table->layouts)[form->chainLayout];
    if (!nextElement(following, layout, address, entry))
      return;
    form = formOf(layout, entry);
    if (!form)
      return;
    act(following, *form, entry);
    if (!form->chain.present() || (form->last.field.present() && holds(form->last, entry)))
      return;
    address = valueOf(form->chain, entry);
  }
}

void Queues::transfer(Following &following, const capture::EntryTransfer &description, const uint8_t *entry) {
  uint64_t bytes = (valueOf(description.rowBytes, entry) + description.plus) * description.times;
  uint64_t rows = description.rows.present() ? valueOf(description.rows, entry) : 1;
  uint64_t stride = description.hostStride.present() ? valueOf(description.hostStride, entry) : bytes;
  uint64_t deviceStride =
      description.deviceStride.present() ? valueOf(description.deviceStride, entry) : bytes;
  if (bytes == 0 || rows == 0)
    return;
  if (description.second.present())
    return inPages(following, description, entry, bytes);
  Transfer transfer = {};
  transfer.toDevice = description.toDevice;
  transfer.deviceAddress =
      description.deviceAddress.present() ? valueOf(description.deviceAddress, entry) : 0;
  if (rows > 1 && (stride != bytes || deviceStride != bytes)) {
    transfer.count = rows;
    transfer.hostStride = stride;
    transfer.deviceStride = deviceStride;
  }
  uint64_t address = valueOf(description.host, entry);
  if (__builtin_mul_overflow(bytes, rows, &transfer.length))
    transfer.length = ~uint64_t(0);
  bool sensible = Rows::make(address, bytes, rows, stride, transfer.rows);
  if (!sensible || transfer.rows.count > Capture::maxRows || following.budget.over() ||
      remembered >= maxTransfers) {
    if (!sensible)
      transfer.rows = {address, 1, 1, 0};
    capture.startBlind(following.owner, transfer, following.budget);
    return;
  }
  if (capture.start(following.owner, transfer, following.budget) || !transfer.toDevice)
    had(transfer.rows);
  // Without memory to remember it the transfer has no completion on the tape; its descriptor is there.
  if (following.queue.works.push({following.entry, transfer, description.content, 0}))
    ++remembered;
}

void Queues::fence(Following &following, const capture::Form &form, const uint8_t *entry) {
  Fence fence = {following.entry, valueOf(form.fenceAddress, entry), valueOf(form.fenceValue, entry),
                 form.fenceValue.width, false};
  Rows rows;
  if (!Rows::make(fence.address, fence.width, 1, 0, rows))
    return;
  capture.publish(following.owner, rows, following.budget);
  uint64_t now = 0;
  const uint8_t *there = capture.look(following.owner, fence.address, fence.width);
  if (!there)
    return; // Not mapped: it cannot be seen either.
  memcpy(&now, there, fence.width);
  fence.doubtful = lowBytes(now, fence.width) == lowBytes(fence.value, fence.width);
  for (uint32_t i = 0; i < count && !fence.doubtful; ++i)
    for (const Fence &other : queues[i].fences)
      if (other.address == fence.address &&
          lowBytes(other.value, other.width) == lowBytes(fence.value, fence.width))
        fence.doubtful = true;
  had(rows);
  if (following.queue.fences.size() < maxFences && following.queue.fences.push(fence))
    capture.shadow.take(rows);
  else
    capture.shadow.forget(rows);
}

/// A fence is past: another that writes the same has yet to be told from it.
void Queues::seenOnce(const Fence &past) {
  for (uint32_t i = 0; i < count; ++i)
    for (Fence &fence : queues[i].fences)
      if (fence.address == past.address &&
          lowBytes(fence.value, fence.width) == lowBytes(past.value, past.width))
        fence.doubtful = true;
}

void Queues::finish(tb_device &owner, Queue &queue, const Transfer &transfer) {
  if (!capture.complete(owner, transfer))
    return;
  if (queue.rechecks.size() == maxRechecks)
    queue.rechecks.pop();
  // Without memory it is not looked at again.
  (void)queue.rechecks.push(transfer);
}

void Queues::completeUpTo(tb_device &owner, Queue &queue, uint64_t entries) {
  if (entries <= queue.completed && queue.rechecks.size() == 0)
    return;
  for (size_t left = queue.rechecks.size(); left; --left) {
    Transfer again = queue.rechecks.front();
    queue.rechecks.pop();
    if (!again.done)
      capture.recheck(owner, again);
  }
  while (queue.works.size() && queue.works.front().entry < entries) {
    Work work = queue.works.front();
    queue.works.pop();
    --remembered;
    if (work.transfer.done)
      continue;
    finish(owner, queue, work.transfer);
    if (work.transfer.toDevice)
      (void)doneWith.push(work.transfer); // Without memory it is not looked at again.
  }
  while (queue.fences.size() && queue.fences.front().entry < entries) {
    Fence fence = queue.fences.front();
    queue.fences.pop();
    capture.shadow.release({fence.address, fence.width, 1, 0});
    capture.shadow.learn(fence.address, reinterpret_cast<const uint8_t *>(&fence.value), fence.width);
    seenOnce(fence);
  }
  if (entries > queue.completed) {
    queue.oldest += entries - queue.completed;
    queue.completed = entries;
  }
  // Behind the completions, which a window ends with.
  for (const Transfer &transfer : doneWith)
    capture.recheckSource(owner, transfer);
  doneWith.clear();
}

void Queues::sawHead(tb_device &owner, uint32_t index, uint64_t size, uint64_t value) {
  Queue *queue = find(index);
  if (!queue || size == 0 || size > maxEntries || value >= size || !queue->indicesHold ||
      !queue->outstanding())
    return;
  uint64_t oldest = queue->oldest % size;
  uint64_t done = value >= oldest ? value - oldest : value + size - oldest;
  if (done && done <= queue->outstanding())
    completeUpTo(owner, *queue, queue->completed + done);
}

void Queues::sawDone(tb_device &owner, uint32_t index, uint32_t width, uint64_t value) {
  Queue *queue = find(index);
  if (!queue || !queue->outstanding())
    return;
  uint64_t ones = width >= 8 ? ~uint64_t(0) : (uint64_t(1) << (8 * width)) - 1;
  uint64_t done = (value - queue->completed) & ones;
  if (done && done <= queue->outstanding())
    completeUpTo(owner, *queue, queue->completed + done);
}

void Queues::sawIdle(tb_device &owner) {
  for (uint32_t i = 0; i < count; ++i)
    completeUpTo(owner, queues[i], queues[i].submitted);
}

/// Another queue is to write the same there: whose it is nobody can tell.
bool Queues::elsewhere(const Fence &fence, const Queue &own) const {
  for (uint32_t i = 0; i < count; ++i)
    if (&queues[i] != &own)
      for (const Fence &other : queues[i].fences)
        if (other.address == fence.address && other.value == fence.value)
          return true;
  return false;
}

bool Queues::sawMemory(tb_device &owner, uint64_t iova, const void *content, uint64_t bytes) {
  bool seen = false;
  for (uint32_t i = 0; i < count; ++i) {
    Queue &queue = queues[i];
    uint64_t entries = 0;
    for (Fence &fence : queue.fences) {
      // A look at the low half of a fence that has nothing in its high half will do.
      uint32_t width = fence.width == 8 && fence.value <= 0xffffffff && bytes == 4 ? 4 : fence.width;
      if (fence.address < iova || bytes < width || fence.address - iova > bytes - width)
        continue;
      uint64_t word = 0;
      memcpy(&word, static_cast<const uint8_t *>(content) + (fence.address - iova), width);
      if (word != fence.value) {
        fence.doubtful = fence.doubtful && elsewhere(fence, queue);
      } else if (!fence.doubtful) {
        entries = fence.entry + 1;
        break;
      }
    }
    if (!entries)
      continue;
    completeUpTo(owner, queue, entries);
    seen = true;
  }
  return completionsIn(owner, iova, static_cast<const uint8_t *>(content), bytes) || seen;
}

void Queues::acquired(tb_device &owner, uint64_t iova, uint64_t bytes) {
  for (uint32_t i = 0; i < count; ++i)
    for (Work &work : queues[i].works) {
      Transfer &transfer = work.transfer;
      if (transfer.done || transfer.toDevice || transfer.rows.address < iova ||
          transfer.rows.last() - iova >= bytes)
        continue;
      transfer.done = true;
      finish(owner, queues[i], transfer);
    }
}

} // namespace tapeback::client
