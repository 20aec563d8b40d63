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

  const Description *description;
  std::vector<std::string> spaces;
  std::vector<std::optional<uint16_t>> spaceIds; ///< Of each described register; filled as spaces get names.
  size_t maxUndescribed;
  std::vector<Cell> cells; ///< One a described register.
  std::map<LooseKey, Loose> undescribed;
  std::optional<uint64_t> resetBy;
};

} // namespace tapeback
