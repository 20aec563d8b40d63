// Looking things up in a description: registers by place or name, fields by bit. Hot in replay.
#include "hal/description/Description.h"

#include "llvm/ADT/STLExtras.h"
#include <algorithm>

namespace tapeback {

static uint64_t bitMask(unsigned low, unsigned high) {
  if (low > high || high > 63)
    return 0;
  uint64_t ones = high - low == 63 ? ~uint64_t(0) : (uint64_t(1) << (high - low + 1)) - 1;
  return ones << low;
}

uint64_t RegisterDescription::Flow::mask() const {
  return bitMask(low, high);
}

uint64_t RingDescription::entriesOf(uint64_t value) const {
  unsigned bits = sizeHigh >= sizeLow ? sizeHigh - sizeLow + 1 : 0;
  uint64_t mask = bits >= 64 ? ~uint64_t(0) : (uint64_t(1) << bits) - 1;
  return ((value >> (sizeLow & 63)) & mask) + sizePlus;
}

uint64_t FieldDescription::mask() const {
  return bitMask(low, high);
}

const ForbiddenRange *findForbidden(llvm::ArrayRef<ForbiddenRange> ranges, llvm::StringRef space,
                                    uint64_t address, uint64_t length) {
  uint64_t last = length && length - 1 <= ~uint64_t(0) - address ? address + length - 1 : ~uint64_t(0);
  if (!length)
    last = address;
  for (const ForbiddenRange &range : ranges)
    if (range.space == space && address <= range.last && last >= range.first)
      return &range;
  return nullptr;
}

void Description::index() {
  placesBySpace.clear();
  for (const std::string &space : spaces)
    placesBySpace.push_back({space, {}});
  byName.resize(registers.size());
  for (unsigned i = 0; i < registers.size(); ++i) {
    byName[i] = i;
    if (!registers[i].aliasOf.empty())
      continue;
    auto found =
        llvm::find_if(placesBySpace, [&](const SpaceIndex &s) { return s.space == registers[i].space; });
    if (found == placesBySpace.end())
      found = placesBySpace.insert(placesBySpace.end(), {registers[i].space, {}});
    found->places.push_back({registers[i].offset, i});
  }
  for (SpaceIndex &space : placesBySpace)
    llvm::sort(space.places, [](const Place &a, const Place &b) { return a.offset < b.offset; });
  llvm::sort(byName, [&](unsigned a, unsigned b) { return registers[a].name < registers[b].name; });
}

/// Whether [offset, offset + width) touches the register; no sum, so nothing overflows.
static bool touches(const RegisterDescription &reg, uint64_t offset, unsigned width) {
  return offset >= reg.offset ? offset - reg.offset < reg.width : reg.offset - offset < width;
}

const RegisterDescription *Description::find(llvm::StringRef space, uint64_t offset, unsigned width) const {
  if (byName.size() != registers.size()) { // Not indexed: built by hand.
    const RegisterDescription *lowest = nullptr;
    for (const RegisterDescription &reg : registers)
      if (reg.space == space && reg.aliasOf.empty() && touches(reg, offset, width) &&
          (!lowest || reg.offset < lowest->offset))
        lowest = &reg;
    return lowest;
  }
  for (const SpaceIndex &candidate : placesBySpace) {
    if (candidate.space != space)
      continue;
    const std::vector<Place> &places = candidate.places;
    auto next = std::upper_bound(places.begin(), places.end(), offset,
                                 [](uint64_t at, const Place &place) { return at < place.offset; });
    if (next != places.begin() && touches(registers[std::prev(next)->reg], offset, width))
      return &registers[std::prev(next)->reg];
    if (next != places.end() && touches(registers[next->reg], offset, width))
      return &registers[next->reg];
    return nullptr;
  }
  return nullptr;
}

const RegisterDescription *Description::findByName(llvm::StringRef name) const {
  if (byName.size() != registers.size()) {
    auto found = llvm::find_if(registers, [&](const RegisterDescription &reg) { return reg.name == name; });
    return found == registers.end() ? nullptr : &*found;
  }
  auto found =
      std::lower_bound(byName.begin(), byName.end(), name,
                       [&](unsigned reg, llvm::StringRef wanted) { return registers[reg].name < wanted; });
  return found != byName.end() && registers[*found].name == name ? &registers[*found] : nullptr;
}

const InternalWindow *Description::findWindow(llvm::StringRef name) const {
  auto found = llvm::find_if(windows, [&](const InternalWindow &window) { return window.name == name; });
  return found == windows.end() ? nullptr : &*found;
}

std::string Description::fieldOf(const RegisterDescription &reg, uint64_t bits) const {
  const FieldDescription *lowest = nullptr;
  for (const FieldDescription &field : reg.fields)
    if ((field.mask() & bits) && (!lowest || field.low < lowest->low))
      lowest = &field;
  return lowest ? lowest->name : std::string();
}

} // namespace tapeback
