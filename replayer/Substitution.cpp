#include "replayer/Substitution.h"

namespace tapeback {

void Substitution::wasRead(unsigned reg, uint64_t recorded, uint64_t live) {
  constexpr size_t most = 1024;
  if (!description || reg >= description->registers.size() || description->registers[reg].flowsInto.empty())
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

} // namespace tapeback
