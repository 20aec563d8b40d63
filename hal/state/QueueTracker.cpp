#include "hal/state/QueueTracker.h"

#include "llvm/ADT/STLExtras.h"
#include <algorithm>

namespace tapeback {

/// A look at half of a fence sees no more of it.
static uint64_t lowBytes(uint64_t value, unsigned width) {
  return width >= 4 ? value & 0xffffffff : value & ((uint64_t(1) << (8 * width)) - 1);
}
static uint64_t wordOf(llvm::ArrayRef<uint8_t> bytes) {
  uint64_t word = 0;
  for (size_t i = 0; i < bytes.size() && i < 8; ++i)
    word |= uint64_t(bytes[i]) << (8 * i);
  return word;
}

QueueTracker::QueueTracker(const Description *description, size_t maxOutstanding)
    : description(description), maxOutstanding(maxOutstanding) {
  if (description)
    queues.resize(description->queues.size());
}

bool QueueTracker::changesWindows(uint64_t queue, llvm::ArrayRef<uint8_t> entry) const {
  if (!has(queue))
    return true;
  const EntryForm *form = description->layouts[description->queues[queue].layout].formOf(entry);
  // A command that says neither what it moves nor where it signals computes, for all that is known.
  return !form || (form->transfers.empty() && !form->fence && !form->chain);
}

const QueueTracker::Fence *
QueueTracker::submitted(uint64_t ordinal, uint64_t index, uint64_t count, uint64_t address,
                        llvm::ArrayRef<uint8_t> bytes, RegisterLookup registers,
                        llvm::function_ref<std::optional<uint64_t>(uint64_t address, unsigned width)> now) {
  Queue &queue = queues[index];
  const QueueDescription &described = description->queues[index];
  const LayoutDescription &layout = description->layouts[described.layout];
  queue.used = true;
  if (queue.entries.empty() && count >= queue.submitted)
    queue.completed = count;
  if (outstanding >= maxOutstanding) {
    overflowed = true;
    return nullptr;
  }
  queue.submitted = count + 1;
  Entry entry;
  entry.number = count;
  entry.changesWindows = changesWindows(index, bytes);
  std::optional<uint64_t> base = described.base ? registers(*described.base) : std::nullopt;
  if (base && described.baseHigh) {
    std::optional<uint64_t> high = registers(*described.baseHigh);
    unsigned bits = 8 * description->registers[*described.base].width;
    if (high && bits < 64)
      *base |= *high << bits;
    else
      base.reset();
  }
  if (base && address >= *base && (address - *base) % layout.size == 0)
    entry.index = (address - *base) / layout.size;
  queue.entries.push_back(entry);
  queue.changing += entry.changesWindows;
  ++outstanding;
  const EntryForm *form = layout.formOf(bytes);
  if (!form || !form->fence)
    return nullptr;
  Fence fence;
  fence.entry = count;
  fence.ordinal = ordinal;
  fence.address = entryValue(form->fields[form->fence->address], bytes);
  fence.value = entryValue(form->fields[form->fence->value], bytes);
  fence.width = std::min(form->fields[form->fence->value].width, 8u);
  if (fence.width == 0 || fence.address > ~uint64_t(0) - fence.width)
    return nullptr;
  std::optional<uint64_t> present = now(fence.address, fence.width);
  fence.doubtful = !present || lowBytes(*present, fence.width) == lowBytes(fence.value, fence.width);
  for (const Queue &other : queues)
    fence.doubtful |= llvm::any_of(other.fences, [&](const Fence &f) {
      return f.address == fence.address && lowBytes(f.value, f.width) == lowBytes(fence.value, fence.width);
    });
  constexpr size_t maxFences = 4096; // As the recorder.
  if (queue.fences.size() >= maxFences)
    return nullptr;
  queue.fences.push_back(fence);
  return &queue.fences.back();
}

/// A fence is past: others that write the same have yet to be told from it.
void QueueTracker::doubt(const Fence &past) {
  for (Queue &queue : queues)
    for (Fence &fence : queue.fences)
      if (fence.address == past.address &&
          lowBytes(fence.value, fence.width) == lowBytes(past.value, past.width))
        fence.doubtful = true;
}

void QueueTracker::popFences(Queue &queue, uint64_t number, Passed passed) {
  while (!queue.fences.empty() && queue.fences.front().entry < number) {
    Fence fence = queue.fences.front();
    queue.fences.pop_front();
    doubt(fence);
    passed(fence);
  }
}

/// Entries before `number` are done. True if there was one that was not known to be.
bool QueueTracker::completeUpTo(Queue &queue, uint64_t number, Passed passed) {
  bool any = false;
  while (!queue.entries.empty() && queue.entries.front().number < number) {
    queue.changing -= queue.entries.front().changesWindows;
    queue.entries.pop_front();
    --outstanding;
    any = true;
  }
  popFences(queue, number, passed);
  if (any) {
    queue.completed = std::max(queue.completed, number);
    queue.uncertain = false; // What may have been there before is done as well: a queue works in order.
  }
  return any;
}

bool QueueTracker::sawRegister(unsigned reg, uint64_t value, RegisterLookup registers, Passed passed) {
  bool drained = false;
  for (size_t i = 0; i < queues.size(); ++i) {
    Queue &queue = queues[i];
    const QueueDescription &described = description->queues[i];
    if (queue.entries.empty())
      continue;
    const Entry &oldest = queue.entries.front();
    std::optional<uint64_t> number;
    if (described.head == reg && oldest.index) {
      std::optional<uint64_t> size = described.size ? registers(*described.size) : std::nullopt;
      if (size)
        size = described.entriesOf(*size);
      if (size && *size && value < *size && *oldest.index < *size)
        number =
            oldest.number + (value >= *oldest.index ? value - *oldest.index : value + *size - *oldest.index);
    } else if (described.done == reg) {
      uint64_t ones = description->registers[reg].widthMask();
      number = oldest.number + ((value - oldest.number) & ones);
    }
    if (number && *number <= queue.entries.back().number + 1 && completeUpTo(queue, *number, passed))
      drained |= queue.entries.empty();
  }
  for (const RegisterCondition &condition :
       description ? llvm::ArrayRef(description->idle) : llvm::ArrayRef<RegisterCondition>()) {
    if (condition.reg != reg || !condition.holds(value))
      continue;
    for (Queue &queue : queues) {
      drained |= completeUpTo(queue, ~uint64_t(0), passed) || queue.uncertain;
      queue.completed = queue.submitted;
      queue.uncertain = false;
    }
    overflowed = false;
  }
  return drained;
}

bool QueueTracker::done(uint64_t index, uint64_t number) {
  if (!has(index))
    return false;
  Queue &queue = queues[index];
  auto found = llvm::find_if(queue.entries, [&](const Entry &entry) { return entry.number == number; });
  if (found == queue.entries.end())
    return false;
  queue.changing -= found->changesWindows;
  queue.entries.erase(found);
  --outstanding;
  queue.completed = queue.entries.empty() ? queue.submitted : queue.entries.front().number;
  return true;
}

bool QueueTracker::listensTo(unsigned reg) const {
  return description &&
         (llvm::any_of(
              description->queues,
              [&](const QueueDescription &queue) { return queue.head == reg || queue.done == reg; }) ||
          llvm::any_of(description->idle, [&](const RegisterCondition &idle) { return idle.reg == reg; }));
}

bool QueueTracker::maySee(unsigned reg, uint64_t value) const {
  for (size_t i = 0; i < queues.size(); ++i)
    if (!queues[i].entries.empty() &&
        (description->queues[i].head == reg || description->queues[i].done == reg))
      return true;
  return llvm::any_of(description->idle,
                      [&](const RegisterCondition &idle) { return idle.reg == reg && idle.holds(value); });
}

bool QueueTracker::heeds(unsigned reg) const {
  return description && (llvm::any_of(description->queues,
                                      [&](const QueueDescription &queue) {
                                        return llvm::is_contained(queue.rewind, reg);
                                      }) ||
                         llvm::any_of(description->resets,
                                      [&](const RegisterCondition &reset) { return reset.reg == reg; }));
}

/// Another queue is to write the same there: whose it is nobody can tell.
bool QueueTracker::elsewhere(const Fence &fence, const Queue &own) const {
  return llvm::any_of(queues, [&](const Queue &queue) {
    return &queue != &own && llvm::any_of(queue.fences, [&](const Fence &other) {
      return other.address == fence.address && other.value == fence.value;
    });
  });
}

bool QueueTracker::sawMemory(uint64_t address, llvm::ArrayRef<uint8_t> content, Passed passed) {
  bool seen = false;
  for (Queue &queue : queues) {
    std::optional<uint64_t> number;
    for (Fence &fence : queue.fences) {
      // A look at the low half of a fence that has nothing in its high half will do.
      unsigned width = fence.width == 8 && fence.value <= 0xffffffff && content.size() == 4 ? 4 : fence.width;
      if (fence.address < address || content.size() < width ||
          fence.address - address > content.size() - width)
        continue;
      uint64_t word = wordOf(content.slice(size_t(fence.address - address), width));
      if (word != fence.value) {
        fence.doubtful = fence.doubtful && elsewhere(fence, queue);
      } else if (!fence.doubtful) {
        number = fence.entry + 1;
        break;
      }
    }
    if (!number)
      continue;
    completeUpTo(queue, *number, passed);
    seen = true;
  }
  return seen;
}

void QueueTracker::stored(uint64_t address, uint64_t length, llvm::ArrayRef<uint8_t> content,
                          llvm::function_ref<void(const Fence &fence)> visit) {
  if (length == 0)
    return;
  uint64_t last = length - 1 > ~uint64_t(0) - address ? ~uint64_t(0) : address + (length - 1);
  for (Queue &queue : queues)
    for (Fence &fence : queue.fences) {
      if (!fence.overlaps(address, last))
        continue;
      bool whole = fence.address >= address && content.size() >= fence.width &&
                   fence.address - address <= content.size() - fence.width;
      uint64_t word = whole ? wordOf(content.slice(size_t(fence.address - address), fence.width)) : 0;
      fence.doubtful = !whole || lowBytes(word, fence.width) == lowBytes(fence.value, fence.width);
      visit(fence);
    }
}

bool QueueTracker::resets(unsigned reg, uint64_t mask, uint64_t value) const {
  return description && !queues.empty() && llvm::any_of(description->resets, [&](const RegisterCondition &c) {
           return c.reg == reg && (c.any || (c.mask & mask)) && c.holds(value);
         });
}

void QueueTracker::rewind(unsigned reg) {
  for (size_t i = 0; i < queues.size(); ++i)
    if (llvm::is_contained(description->queues[i].rewind, reg))
      for (Entry &entry : queues[i].entries)
        entry.index.reset();
}

void QueueTracker::reset() {
  for (Queue &queue : queues)
    queue = Queue();
  outstanding = 0;
  overflowed = false;
}

void QueueTracker::lost() {
  reset();
  for (Queue &queue : queues)
    queue.uncertain = queue.used = true;
}

bool QueueTracker::idle() const {
  return !overflowed &&
         llvm::all_of(queues, [](const Queue &queue) { return queue.entries.empty() && !queue.uncertain; });
}
bool QueueTracker::untouched() const {
  return llvm::none_of(queues, [](const Queue &queue) { return queue.used; });
}

bool QueueTracker::othersChangeWindows(uint64_t own) const {
  for (size_t i = 0; i < queues.size(); ++i)
    if (i != own && (queues[i].changing || queues[i].uncertain))
      return true;
  return false;
}

bool QueueTracker::isOutstanding(uint64_t queue, uint64_t entry) const {
  return has(queue) && !queues[queue].entries.empty() && queues[queue].entries.front().number <= entry;
}

std::vector<std::string> QueueTracker::names() const {
  std::vector<std::string> result;
  for (size_t i = 0; i < queues.size(); ++i) {
    const std::string &name = description->queues[i].name;
    if (size_t count = queues[i].entries.size())
      result.push_back(std::to_string(count) + (count == 1 ? " entry" : " entries") + " of " + name);
    if (queues[i].uncertain)
      result.push_back("entries of " + name + " (perhaps: packets were lost)");
  }
  if (overflowed)
    result.push_back("more entries than can be remembered");
  return result;
}

} // namespace tapeback
