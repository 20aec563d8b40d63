#include "hal/state/RegisterShadow.h"

#include <algorithm>

namespace tapeback {

static uint64_t lowBits(unsigned bytes) {
  return bytes >= 8 ? ~uint64_t(0) : (uint64_t(1) << (8 * bytes)) - 1;
}
static uint64_t shiftLeft(uint64_t value, uint64_t bytes) {
  return bytes >= 8 ? 0 : value << (8 * bytes);
}
static uint64_t shiftRight(uint64_t value, uint64_t bytes) {
  return bytes >= 8 ? 0 : value >> (8 * bytes);
}

/// Neither has a value that anyone could know without reading it, and reading changes it.
static bool neverShadowed(RegisterClass c) {
  return c == RegisterClass::ReadToClear || c == RegisterClass::Fifo;
}

RegisterShadow::RegisterShadow(const Description *description, std::vector<std::string> spaces,
                               size_t maxUndescribed)
    : description(description), spaces(std::move(spaces)), maxUndescribed(maxUndescribed) {
  if (!description)
    return;
  cells.resize(description->registers.size());
  spaceIds.resize(description->registers.size());
  for (size_t id = this->spaces.size(); id; --id)
    addSpace(uint16_t(id - 1), std::string(this->spaces[id - 1]));
}

void RegisterShadow::addSpace(uint16_t id, llvm::StringRef name) {
  if (spaces.size() <= id)
    spaces.resize(size_t(id) + 1);
  spaces[id] = name.str();
  for (size_t reg = 0; reg < spaceIds.size(); ++reg)
    if (description->registers[reg].space == name)
      spaceIds[reg] = id;
}

const RegisterDescription *RegisterShadow::find(uint16_t space, uint64_t address, unsigned width) const {
  return description && space < spaces.size() ? description->find(spaces[space], address, width) : nullptr;
}

void RegisterShadow::visitTouched(uint16_t space, uint64_t address, unsigned width, uint64_t value,
                                  llvm::function_ref<void(unsigned, uint64_t, uint64_t)> visit) const {
  unsigned done = 0; // Bytes of the access that have been dealt with.
  while (done < width) {
    uint64_t at = address + done;
    if (at < address)
      return; // Past the end of the address space.
    const RegisterDescription *reg = find(space, at, width - done);
    if (!reg)
      return;
    uint64_t skippedInAccess = reg->offset > at ? reg->offset - at : 0;
    uint64_t skippedInRegister = at > reg->offset ? at - reg->offset : 0;
    done += unsigned(skippedInAccess);
    unsigned bytes = unsigned(std::min<uint64_t>(width - done, reg->width - skippedInRegister));
    uint64_t part = shiftRight(value, done) & lowBits(bytes);
    visit(description->indexOf(*reg), shiftLeft(lowBits(bytes), skippedInRegister),
          shiftLeft(part, skippedInRegister));
    done += bytes;
  }
}

RegisterShadow::Loose *RegisterShadow::loose(uint16_t space, uint64_t address, unsigned width) {
  // An access of another shape at the same place replaces what it overlaps: there is one truth about each
  // byte.
  auto same = undescribed.find({space, address});
  if (same != undescribed.end() && same->second.width == width)
    return &same->second; // No two overlap, so nothing else does here.
  uint64_t from = address < 7 ? 0 : address - 7;
  for (auto it = undescribed.lower_bound({space, from});
       it != undescribed.end() && it->first.first == space;) {
    uint64_t at = it->first.second;
    if (at >= address && at - address >= width)
      break;
    bool overlaps = at >= address || address - at < it->second.width;
    epoch += overlaps;
    it = overlaps ? undescribed.erase(it) : std::next(it);
  }
  if (undescribed.size() >= maxUndescribed)
    return nullptr;
  Loose &made = undescribed[LooseKey{space, address}];
  made.width = uint8_t(width);
  return &made;
}

const RegisterShadow::Loose *RegisterShadow::findLoose(uint16_t space, uint64_t address) const {
  auto it = undescribed.upper_bound({space, address});
  if (it == undescribed.begin())
    return nullptr;
  --it;
  bool covers = it->first.first == space && address - it->first.second < it->second.width;
  return covers ? &it->second : nullptr;
}

std::optional<RegisterShadow::Place> RegisterShadow::placeOf(uint16_t space, uint64_t address,
                                                             unsigned width) const {
  Place place;
  place.address = address;
  place.space = space;
  place.width = uint8_t(width);
  const RegisterDescription *described = find(space, address, width);
  if (!described)
    return place;
  if (described->offset != address || described->width != width)
    return std::nullopt;
  place.reg = description->indexOf(*described);
  place.seenByRead = !neverShadowed(described->cls) && described->access != RegisterAccess::WriteOnly;
  if (described->access == RegisterAccess::ReadOnly)
    place.onWrite = Place::None;
  else if (neverShadowed(described->cls))
    place.onWrite = Place::Writer;
  else if (described->cls == RegisterClass::W1C)
    place.onWrite = Place::Clear;
  return place;
}

void RegisterShadow::write(uint64_t ordinal, uint16_t space, uint64_t address, unsigned width,
                           uint64_t value) {
  if (!find(space, address, width)) {
    if (Loose *cell = loose(space, address, width)) {
      cell->value = value & lowBits(width);
      cell->written = true;
      cell->writer = ordinal;
    }
    return;
  }
  visitTouched(space, address, width, value, [&](unsigned reg, uint64_t mask, uint64_t part) {
    const RegisterDescription &described = description->registers[reg];
    Cell &cell = cells[reg];
    if (described.access == RegisterAccess::ReadOnly)
      return;
    cell.writer = ordinal;
    if (neverShadowed(described.cls))
      return;
    if (described.cls == RegisterClass::W1C) {
      cell.value &= ~part;
      return;
    }
    cell.value = (cell.value & ~mask) | part;
    cell.known |= mask;
    cell.written |= mask;
  });
}

void RegisterShadow::read(uint16_t space, uint64_t address, unsigned width, uint64_t value) {
  if (!find(space, address, width)) {
    Loose *cell = loose(space, address, width);
    if (cell && !cell->written)
      cell->value = value & lowBits(width);
    return;
  }
  visitTouched(space, address, width, value, [&](unsigned reg, uint64_t mask, uint64_t part) {
    const RegisterDescription &described = description->registers[reg];
    if (neverShadowed(described.cls) || described.access == RegisterAccess::WriteOnly)
      return;
    Cell &cell = cells[reg];
    mask &= ~cell.written;
    cell.value = (cell.value & ~mask) | (part & mask);
    cell.known |= mask;
  });
}

void RegisterShadow::writeUncertain(uint64_t ordinal, uint16_t space, uint64_t address, unsigned width) {
  if (!find(space, address, width)) {
    loose(space, address, width); // Takes away what the access overlaps.
    undescribed.erase({space, address});
    ++epoch;
    return;
  }
  visitTouched(space, address, width, 0, [&](unsigned reg, uint64_t mask, uint64_t) {
    Cell &cell = cells[reg];
    cell.known &= ~mask;
    cell.written &= ~mask;
    cell.writer = ordinal;
  });
}

void RegisterShadow::reset(uint64_t ordinal, bool known) {
  undescribed.clear();
  ++epoch;
  resetBy = ordinal;
  for (size_t i = 0; i < cells.size(); ++i) {
    const RegisterDescription &described = description->registers[i];
    cells[i] = Cell();
    cells[i].writer = ordinal;
    if (known && described.reset && !neverShadowed(described.cls)) {
      cells[i].value = *described.reset;
      cells[i].known = described.widthMask();
    }
  }
}

void RegisterShadow::forgetAll() {
  undescribed.clear();
  ++epoch;
  resetBy.reset();
  std::fill(cells.begin(), cells.end(), Cell());
}

void RegisterShadow::seed(const std::vector<KeyframeRegister> &registers) {
  forgetAll();
  for (const KeyframeRegister &reg : registers) {
    if (reg.width == 0 || reg.width > 8)
      continue;
    const RegisterDescription *described = find(reg.space, reg.address, reg.width);
    // A keyframe does not say whether a value was written or read. What can be written counts as written.
    if (described && (described->access == RegisterAccess::ReadOnly || described->cls == RegisterClass::W1C))
      read(reg.space, reg.address, reg.width, reg.value);
    else
      write(noLink, reg.space, reg.address, reg.width, reg.value);
  }
}

std::optional<uint64_t> RegisterShadow::described(unsigned reg) const {
  if (reg >= cells.size() || cells[reg].known != description->registers[reg].widthMask())
    return std::nullopt;
  return cells[reg].value;
}

void RegisterShadow::set(unsigned reg, std::optional<uint64_t> value) {
  if (reg >= cells.size())
    return;
  uint64_t ones = description->registers[reg].widthMask();
  cells[reg].value = value.value_or(0) & ones;
  cells[reg].known = value ? ones : 0;
  // Otherwise what is read next would not count.
  cells[reg].written = value ? cells[reg].written : 0;
}

std::optional<uint64_t> RegisterShadow::value(uint16_t space, uint64_t address) const {
  if (const RegisterDescription *reg = find(space, address, 1))
    return described(description->indexOf(*reg));
  const Loose *cell = findLoose(space, address);
  return cell ? std::optional(cell->value) : std::nullopt;
}

std::optional<uint64_t> RegisterShadow::writer(uint16_t space, uint64_t address) const {
  if (const RegisterDescription *reg = find(space, address, 1)) {
    uint64_t by = cells[description->indexOf(*reg)].writer;
    return by == noLink ? std::nullopt : std::optional(by);
  }
  const Loose *cell = findLoose(space, address);
  return cell && cell->writer != noLink ? std::optional(cell->writer) : resetBy;
}

std::vector<KeyframeRegister> RegisterShadow::known() const {
  std::vector<KeyframeRegister> result;
  for (unsigned reg = 0; reg < cells.size(); ++reg) {
    const RegisterDescription &where = description->registers[reg];
    if (std::optional<uint64_t> value = described(reg); value && spaceIds[reg])
      result.push_back({*spaceIds[reg], where.offset, uint8_t(where.width), *value});
  }
  for (const auto &[place, cell] : undescribed)
    result.push_back({place.first, place.second, cell.width, cell.value});
  return result;
}

} // namespace tapeback
