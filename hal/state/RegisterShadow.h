// The register part of ShadowState: values and last writers. Inside this folder only.
#pragma once

#include "format/Records.h"
#include "hal/description/Description.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <map>
#include <optional>

namespace tapeback {

class RegisterShadow {
public:
  RegisterShadow(const Description *description, std::vector<std::string> spaces, size_t maxUndescribed);

  void addSpace(uint16_t id, llvm::StringRef name);

  void write(uint64_t ordinal, uint16_t space, uint64_t address, unsigned width, uint64_t value);
  void read(uint16_t space, uint64_t address, unsigned width, uint64_t value);
  /// A write that may or may not have arrived.
  void writeUncertain(uint64_t ordinal, uint16_t space, uint64_t address, unsigned width);
  /// After a reset: what the description says of it, or nothing (`known` false: another kind of reset).
  void reset(uint64_t ordinal, bool known);
  void forgetAll();
  void seed(const std::vector<KeyframeRegister> &registers);

  std::optional<uint64_t> value(uint16_t space, uint64_t address) const;
  std::optional<uint64_t> writer(uint16_t space, uint64_t address) const;
  std::optional<uint64_t> described(unsigned reg) const;
  /// The device changed it by itself; nothing: in ways that are not known.
  void set(unsigned reg, std::optional<uint64_t> value);
  std::vector<KeyframeRegister> known() const;

  /// Accesses of one shape, looked up once: either nothing described is there, or exactly one register.
  struct Place {
    static constexpr uint32_t undescribed = ~uint32_t(0);
    enum Effect : uint8_t { None, Writer, Clear, Store }; ///< What a write does to the cell.

    uint64_t address = 0;
    uint16_t space = 0;
    uint8_t width = 0;
    Effect onWrite = Store;
    bool seenByRead = true; ///< Otherwise a read tells nothing.
    uint32_t reg = undescribed;
    // Where its undescribed cell was found, as long as none was taken away since.
    void *cell = nullptr;
    uint64_t epoch = ~uint64_t(0);
  };
  /// Nothing if the access touches several registers, or a part of one. Valid until a space gets a name.
  std::optional<Place> placeOf(uint16_t space, uint64_t address, unsigned width) const;
  /// As write() and read() there.
  void writeAt(Place &place, uint64_t ordinal, uint64_t value);
  void readAt(Place &place, uint64_t value);

  /// The described registers that an access touches, with the bits of each that it covers (`mask`) and those
  /// bits' part of `value`, in place.
  void visitTouched(uint16_t space, uint64_t address, unsigned width, uint64_t value,
                    llvm::function_ref<void(unsigned reg, uint64_t mask, uint64_t part)> visit) const;

private:
  struct Cell {
    uint64_t value = 0, known = 0, written = 0; ///< Bits; `written` ones are not changed by reads.
    uint64_t writer = noLink;
  };
  struct Loose {
    uint8_t width = 0;
    bool written = false;
    uint64_t value = 0, writer = noLink;
  };
  using LooseKey = std::pair<uint16_t, uint64_t>; ///< Space, address.

  const RegisterDescription *find(uint16_t space, uint64_t address, unsigned width) const;
  Loose *loose(uint16_t space, uint64_t address, unsigned width);
  const Loose *findLoose(uint16_t space, uint64_t address) const;
  Loose *looseAt(Place &place);

  const Description *description;
  std::vector<std::string> spaces;
  std::vector<std::optional<uint16_t>> spaceIds; ///< Of each described register; filled as spaces get names.
  size_t maxUndescribed;
  std::vector<Cell> cells; ///< One a described register.
  std::map<LooseKey, Loose> undescribed;
  uint64_t epoch = 0; ///< Counts up when cells of `undescribed` go away.
  std::optional<uint64_t> resetBy;
};

inline RegisterShadow::Loose *RegisterShadow::looseAt(Place &place) {
  if (place.epoch == epoch)
    return static_cast<Loose *>(place.cell);
  Loose *cell = loose(place.space, place.address, place.width);
  place.cell = cell;
  place.epoch = cell ? epoch : ~uint64_t(0); // There may be room later.
  return cell;
}

inline void RegisterShadow::writeAt(Place &place, uint64_t ordinal, uint64_t value) {
  uint64_t ones = ~uint64_t(0) >> (64 - 8 * place.width);
  value &= ones;
  if (place.reg == Place::undescribed) {
    if (Loose *cell = looseAt(place)) {
      cell->value = value;
      cell->written = true;
      cell->writer = ordinal;
    }
    return;
  }
  if (place.onWrite == Place::None)
    return;
  Cell &cell = cells[place.reg];
  cell.writer = ordinal;
  if (place.onWrite == Place::Clear) {
    cell.value &= ~value;
  } else if (place.onWrite == Place::Store) {
    cell.value = value;
    cell.known = cell.written = ones;
  }
}

inline void RegisterShadow::readAt(Place &place, uint64_t value) {
  uint64_t ones = ~uint64_t(0) >> (64 - 8 * place.width);
  if (place.reg == Place::undescribed) {
    Loose *cell = looseAt(place);
    if (cell && !cell->written)
      cell->value = value & ones;
    return;
  }
  if (!place.seenByRead)
    return;
  Cell &cell = cells[place.reg];
  uint64_t mask = ones & ~cell.written;
  cell.value = (cell.value & ~mask) | (value & mask);
  cell.known |= mask;
}

} // namespace tapeback
