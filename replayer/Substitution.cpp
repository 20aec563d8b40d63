#include "replayer/Substitution.h"
#include "llvm/ADT/STLExtras.h"

namespace tapeback {

Substitution::Substitution(const Description *description) : description(description) {
  if (!description)
    return;
  for (const QueueDescription &queue : description->queues)
    intoQueue.push_back(llvm::any_of(description->registers, [&](const RegisterDescription &reg) {
      return llvm::any_of(reg.flowsIntoEntries, [&](const RegisterDescription::EntryFlow &flow) {
        return flow.layout == queue.layout;
      });
    }));
}

void Substitution::wasRead(unsigned reg, uint64_t recorded, uint64_t live) {
  constexpr size_t most = 1024;
  if (!description || reg >= description->registers.size() ||
      (description->registers[reg].flowsInto.empty() && description->registers[reg].flowsIntoEntries.empty()))
    return;
  std::deque<Pair> &here = values[reg];
  if (here.size() >= most)
    here.pop_back();
  here.push_front({recorded, live});
}

uint64_t Substitution::live(unsigned reg, uint64_t value) const {
  uint64_t result = value;
  for (const auto &[from, pairs] : values)
    for (const RegisterDescription::Flow &flow : description->registers[from].flowsInto) {
      if (flow.reg != reg)
        continue;
      uint64_t field = flow.mask();
      for (const Pair &pair : pairs)
        if (((pair.recorded << flow.low) & field) == (value & field)) {
          result = (result & ~field) | ((pair.live << flow.low) & field);
          break;
        }
    }
  return result;
}

uint64_t Substitution::recorded(unsigned reg, uint64_t value, uint64_t recorded) const {
  uint64_t expected = live(reg, recorded), result = value;
  for (const auto &[from, pairs] : values)
    for (const RegisterDescription::Flow &flow : description->registers[from].flowsInto) {
      uint64_t field = flow.reg == reg ? flow.mask() : 0;
      if ((value & field) == (expected & field))
        result = (result & ~field) | (recorded & field);
    }
  return result;
}

void Substitution::liveEntry(
    uint64_t queue, llvm::MutableArrayRef<uint8_t> entry,
    llvm::function_ref<void(const EntryField &, uint64_t recorded, uint64_t live)> each) const {
  if (!flowsIntoEntries(queue))
    return;
  const LayoutDescription &layout = description->layouts[description->queues[queue].layout];
  const EntryForm *form = layout.formOf(entry);
  if (!form)
    return;
  for (const auto &[from, pairs] : values)
    for (const RegisterDescription::EntryFlow &flow : description->registers[from].flowsIntoEntries) {
      if (flow.layout != description->queues[queue].layout || &layout.forms[flow.form] != form)
        continue;
      const EntryField &field = form->fields[flow.field];
      uint64_t recorded = entryValue(field, entry) & field.mask();
      for (const Pair &pair : pairs)
        if ((pair.recorded & field.mask()) == recorded) {
          if (uint64_t live = pair.live & field.mask(); live != recorded) {
            setEntryValue(field, entry, live);
            each(field, recorded, live);
          }
          break;
        }
    }
}

} // namespace tapeback
