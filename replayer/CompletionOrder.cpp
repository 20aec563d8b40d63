#include "replayer/CompletionOrder.h"
#include <algorithm>

namespace tapeback {
namespace {

// Per queue. What is forgotten is not required: an order violation may be missed, none is invented.
constexpr size_t mostFences = 4096, mostSyncs = 4096, mostSemaphores = 256;

using Sync = EntryForm::Sync;

} // namespace

CompletionOrder::CompletionOrder(const Description *description)
    : description(description), queues(description ? description->queues.size() : 0) {}

void CompletionOrder::reset() {
  for (Queue &queue : queues)
    queue = {};
}

void CompletionOrder::submitted(uint64_t number, llvm::ArrayRef<uint8_t> entry) {
  if (number >= queues.size())
    return;
  Queue &queue = queues[number];
  uint64_t index = queue.entries++;
  const LayoutDescription &layout = description->layouts[description->queues[number].layout];
  const EntryForm *form = layout.formOf(entry);
  if (!form)
    return;
  if (form->fence) {
    const EntryField &value = form->fields[form->fence->value];
    if (queue.fences.size() >= mostFences)
      queue.fences.pop_front();
    queue.fences.push_back({index, entryValue(form->fields[form->fence->address], entry),
                            entryValue(value, entry) & value.mask(), value.width});
  }
  if (!form->sync)
    return;
  if (form->sync->kind == Sync::Kind::Barrier) {
    if (queue.barriers.size() >= mostSyncs) {
      queue.barriers.pop_front();
      ++queue.firstBarrier;
    }
    queue.barriers.push_back(index);
    return;
  }
  uint64_t semaphore = entryValue(form->fields[form->sync->on], entry);
  if (form->sync->kind == Sync::Kind::Signal) {
    if (queue.signals.size() >= mostSemaphores && !queue.signals.count(semaphore))
      return;
    std::deque<uint64_t> &signals = queue.signals[semaphore];
    if (signals.size() >= mostSyncs) {
      signals.pop_front();
      ++queue.forgotten[semaphore];
    }
    signals.push_back(index);
    return;
  }
  if (queue.waited.size() >= mostSemaphores && !queue.waited.count(semaphore))
    return;
  if (queue.waits.size() >= mostSyncs)
    queue.waits.pop_front();
  queue.waits.push_back({index, semaphore, ++queue.waited[semaphore]});
}

void CompletionOrder::overwritten(uint64_t address, uint64_t length) {
  for (Queue &queue : queues)
    for (Fence &fence : queue.fences)
      if (fence.address < address ? address - fence.address < fence.width : fence.address - address < length)
        fence.gone = true;
}

/// Entries before `done` of the queue are done; true if that was not known.
bool CompletionOrder::require(size_t queue, uint64_t done) {
  done = std::min(done, queues[queue].entries);
  if (done <= queues[queue].done)
    return false;
  queues[queue].done = done;
  return true;
}

/// From queue to queue, until nothing new follows. Each round moves at least one of at most 64 queues.
void CompletionOrder::follow() {
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t q = 0; q < queues.size(); ++q) {
      Queue &queue = queues[q];
      // The last barrier among what is done: those of the same number are done in every queue, and with them
      // all that is before them.
      auto end = std::lower_bound(queue.barriers.begin(), queue.barriers.end(), queue.done);
      if (end != queue.barriers.begin()) {
        uint64_t number = queue.firstBarrier + uint64_t(end - queue.barriers.begin()) - 1;
        for (size_t other = 0; other < queues.size(); ++other) {
          const Queue &there = queues[other];
          if (other != q && number >= there.firstBarrier &&
              number - there.firstBarrier < there.barriers.size())
            moved |= require(other, there.barriers[number - there.firstBarrier]);
        }
      }
      while (!queue.waits.empty() && queue.waits.front().entry < queue.done) {
        Wait wait = queue.waits.front();
        queue.waits.pop_front();
        // Whose signal it was can be told only where one queue alone gives them and one alone takes them.
        size_t giver = queues.size();
        bool only = true;
        for (size_t other = 0; other < queues.size(); ++other) {
          only &= other == q || !queues[other].waited.count(wait.semaphore);
          if (queues[other].signals.count(wait.semaphore)) {
            only &= giver == queues.size();
            giver = other;
          }
        }
        if (!only || giver == queues.size())
          continue;
        const std::deque<uint64_t> &signals = queues[giver].signals[wait.semaphore];
        auto forgotten = queues[giver].forgotten.find(wait.semaphore);
        uint64_t first = forgotten == queues[giver].forgotten.end() ? 0 : forgotten->second;
        if (wait.number > first && wait.number - 1 - first < signals.size())
          moved |= require(giver, signals[wait.number - 1 - first] + 1);
      }
    }
  }
}

std::vector<CompletionOrder::Due> CompletionOrder::collect() {
  follow();
  std::vector<Due> due;
  for (size_t q = 0; q < queues.size(); ++q) {
    Queue &queue = queues[q];
    while (!queue.fences.empty() && queue.fences.front().entry < queue.done) {
      Fence fence = queue.fences.front();
      queue.fences.pop_front();
      if (fence.gone)
        continue;
      Due one{unsigned(q), fence.entry, fence.address, fence.width, {fence.value}};
      for (const Queue &any : queues)
        for (const Fence &later : any.fences)
          if (later.address == fence.address)
            one.values.push_back(later.value);
      due.push_back(std::move(one));
    }
  }
  return due;
}

std::vector<CompletionOrder::Due> CompletionOrder::fenceSeen(uint64_t address, uint64_t value) {
  for (size_t q = 0; q < queues.size(); ++q)
    for (Fence &fence : queues[q].fences) {
      uint64_t mask = fence.width >= 8 ? ~uint64_t(0) : (uint64_t(1) << (8 * fence.width)) - 1;
      if (fence.address != address || fence.value != (value & mask))
        continue;
      // The earliest with this value: what is behind it may not be done yet.
      fence.gone = true;
      require(q, fence.entry + 1);
      return collect();
    }
  return {};
}

std::vector<CompletionOrder::Due> CompletionOrder::doneSeen(unsigned queue, uint64_t count) {
  if (queue >= queues.size() || !description->queues[queue].done)
    return {};
  uint64_t mask = description->registers[*description->queues[queue].done].widthMask();
  uint64_t outstanding = (queues[queue].entries - count) & mask;
  if (outstanding > queues[queue].entries)
    return {}; // Not a count of these entries: something was submitted that the tape does not have.
  require(queue, queues[queue].entries - outstanding);
  return collect();
}

} // namespace tapeback
