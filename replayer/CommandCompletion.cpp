#include "replayer/CommandCompletion.h"
#include "llvm/ADT/STLExtras.h"

namespace tapeback {

CommandCompletion::CommandCompletion(const Description *description)
    : description(description), queues(description ? description->queues.size() : 0) {}

void CommandCompletion::reset() {
  for (std::deque<Outstanding> &queue : queues)
    queue.clear();
  rings.clear();
  done.clear();
}

void CommandCompletion::submitted(uint64_t queue, uint64_t number, llvm::ArrayRef<uint8_t> entry) {
  if (queue >= queues.size() || description->completionQueues.empty())
    return;
  const LayoutDescription &layout = description->layouts[description->queues[queue].layout];
  if (!layout.tag || entry.size() < layout.size)
    return;
  if (queues[queue].size() >= mostOutstanding)
    queues[queue].pop_front();
  queues[queue].push_back({number, entryValue(*layout.tag, entry)});
  // A ring that is made anew begins anew.
  const EntryForm *form = layout.formOf(entry);
  if (form && form->creates && form->creates->completions)
    rings.erase(entryValue(form->fields[form->creates->base], entry));
}

uint64_t CommandCompletion::next(uint64_t base, uint64_t size) const {
  auto ring = rings.find(base);
  uint64_t head = ring == rings.end() || ring->second.head >= size ? 0 : ring->second.head;
  return base + head * description->completionLayout()->size;
}

uint64_t CommandCompletion::seen(uint64_t base) const {
  auto ring = rings.find(base);
  return ring == rings.end() ? 0 : ring->second.seen;
}

bool CommandCompletion::saw(uint64_t base, uint64_t size, llvm::ArrayRef<uint8_t> entry) {
  const LayoutDescription::Completes &completes = *description->completionLayout()->completes;
  if (rings.size() >= mostRings && !rings.count(base))
    return false;
  Ring &ring = rings[base];
  if (entryValue(completes.phase, entry) != ring.phase)
    return false;
  ++ring.seen;
  if (++ring.head >= size) {
    ring.head = 0;
    ring.phase = !ring.phase;
  }
  uint64_t number = entryValue(completes.queue, entry), tag = entryValue(completes.tag, entry);
  for (size_t q = 0; q < queues.size(); ++q) {
    if (description->queues[q].number != number)
      continue;
    auto found = llvm::find_if(queues[q], [&](const Outstanding &one) { return one.tag == tag; });
    if (found == queues[q].end())
      continue;
    if (done.size() < mostOutstanding)
      done[{q, found->number}] = entry.vec();
    queues[q].erase(found);
    break;
  }
  return true;
}

const std::vector<uint8_t> *CommandCompletion::find(uint64_t queue, uint64_t number) const {
  auto found = done.find({queue, number});
  return found == done.end() ? nullptr : &found->second;
}

void CommandCompletion::forget(uint64_t queue, uint64_t number) {
  done.erase({queue, number});
}

} // namespace tapeback
