#include "hal/model/ModelReadings.h"
#include "llvm/ADT/STLExtras.h"

namespace tapeback {

using modelhost::Command;

bool ModelReadings::take(llvm::ArrayRef<uint64_t> values, Command command) {
  switch (command) {
  case Command::Counters:
  case Command::DeviceTime:
  case Command::Peek:
  case Command::Look:
  case Command::Map: return values.empty(); // Nothing happens in these: what is held still holds.
  case Command::Execute:
  case Command::Advance: break;
  default: held.clear(); return values.empty();
  }
  held.assign(values.begin(), values.end());
  return held.empty() || held.size() == (followsTime ? 1 : 0) + followed.size();
}

void ModelReadings::follow(llvm::ArrayRef<uint32_t> ids) {
  if (ids.size() > modelhost::maxReadings)
    ids = {};
  followed.assign(ids.begin(), ids.end());
  held.clear();
}

void ModelReadings::followTime() {
  followsTime = true;
  held.clear();
}

std::optional<uint64_t> ModelReadings::time() const {
  if (!followsTime || held.empty())
    return std::nullopt;
  return held.front();
}

std::optional<llvm::ArrayRef<uint64_t>> ModelReadings::counters(llvm::ArrayRef<uint32_t> ids) const {
  if (held.empty() || ids.empty() || ids != llvm::ArrayRef<uint32_t>(followed))
    return std::nullopt;
  return llvm::ArrayRef<uint64_t>(held).drop_front(followsTime ? 1 : 0);
}

} // namespace tapeback
