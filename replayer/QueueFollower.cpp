#include "replayer/QueueFollower.h"
#include "llvm/ADT/STLExtras.h"

namespace tapeback {

QueueFollower::QueueFollower(const Description *description)
    : description(description), queues(description ? description->queues.size() : 0) {}

void QueueFollower::reset() {
  for (Queue &queue : queues)
    queue = {};
  fences.clear();
  inEntry = false;
}

void QueueFollower::written(unsigned reg, uint64_t value) {
  if (!description)
    return;
  for (const RegisterCondition &condition : description->resets)
    if (condition.reg == reg && condition.holds(value))
      reset();
  for (size_t i = 0; i < queues.size(); ++i) {
    const QueueDescription &queue = description->queues[i];
    if (queue.size == reg)
      queues[i].size = queue.entriesOf(value);
    if (llvm::is_contained(queue.rewind, reg))
      queues[i].tail = queues[i].submitted = 0;
    if (queue.doorbell == reg) {
      uint64_t size = queues[i].size, tail = size ? value % size : value;
      queues[i].submitted += size ? (tail + size - queues[i].tail) % size : 0;
      queues[i].tail = tail;
      inEntry = false;
    }
  }
}

void QueueFollower::submitted(uint64_t queue, llvm::ArrayRef<uint8_t> entry) {
  constexpr size_t mostAddresses = 4096, mostOfOne = 1024;
  inEntry = true;
  if (!description || queue >= queues.size())
    return;
  const LayoutDescription &layout = description->layouts[description->queues[queue].layout];
  const EntryForm *form = layout.formOf(entry);
  if (!form || !form->fence)
    return;
  uint64_t address = entryValue(form->fields[form->fence->address], entry);
  uint64_t value = entryValue(form->fields[form->fence->value], entry);
  if (fences.size() >= mostAddresses && !fences.count(address))
    fences.clear(); // Forgotten fences must be met exactly again: no harm to a program that waits for each.
  std::deque<Fence> &here = fences[address];
  if (here.size() >= mostOfOne)
    here.pop_front();
  here.push_back({queue, value});
}

std::optional<ProgressRegister> QueueFollower::find(unsigned reg) const {
  for (size_t i = 0; i < queues.size(); ++i) {
    const QueueDescription &queue = description->queues[i];
    if (queue.head == reg)
      return ProgressRegister{unsigned(i), false};
    if (queue.done == reg)
      return ProgressRegister{unsigned(i), true};
  }
  return std::nullopt;
}

bool QueueFollower::isAsFar(ProgressRegister reg, uint64_t recorded, uint64_t now) const {
  if (recorded == now)
    return true;
  const QueueDescription &queue = description->queues[reg.queue];
  if (reg.done) { // A number that wraps: less than half a turn ahead.
    const RegisterDescription &counter = description->registers[*queue.done];
    return ((now - recorded) & counter.widthMask()) <= counter.widthMask() / 2;
  }
  const Queue &state = queues[reg.queue];
  if (now >= state.size || recorded >= state.size || state.tail >= state.size)
    return false;
  auto left = [&](uint64_t head) { return (state.tail + state.size - head) % state.size; };
  // More left than was ever submitted: no head of a sound queue, and nothing can be said of it.
  return left(recorded) <= state.submitted && left(now) <= left(recorded);
}

bool QueueFollower::isBehindFence(uint64_t address, unsigned width, uint64_t mask, uint64_t expected,
                                  uint64_t value) const {
  auto found = fences.find(address);
  if (found == fences.end())
    return false;
  uint64_t widthMask = width >= 8 ? ~uint64_t(0) : (uint64_t(1) << (8 * width)) - 1;
  const std::deque<Fence> &here = found->second;
  // The latest fence that meets it: what an earlier one of the same value was waited for has been seen.
  for (size_t i = here.size(); i-- > 0;)
    if ((here[i].value & widthMask & mask) == expected)
      return std::any_of(here.begin() + i + 1, here.end(), [&](const Fence &later) {
        return later.queue == here[i].queue && (later.value & widthMask) == value;
      });
  return false;
}

} // namespace tapeback
