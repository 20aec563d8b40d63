// Host addresses in memory that the device reads: which places hold one, what it was in the recording, and
// what stands there now. Makes content that moves to and from such memory speak in recorded addresses.
#pragma once

#include "hal/description/Description.h"
#include "replayer/AddressMap.h"
#include "llvm/ADT/ArrayRef.h"

namespace tapeback {

/// One device's. Addresses are recorded ones throughout. Pure; bounded.
class PointerPatches {
public:
  /// Learns the address fields of an entry or element at `address`. Usage failures: "relocation-width" if a
  /// field is too narrow for its new address, "relocation-clash", "relocation-limit".
  llvm::Error learn(const AddressMap &map, uint64_t address, const EntryForm &form,
                    llvm::ArrayRef<uint8_t> entry);

  /// Puts placed addresses where content that is going to `address` has recorded ones. A pointer that is
  /// overwritten with anything else is forgotten; if only part of it is, `rest` says what must be written to
  /// the other part first.
  struct Rest {
    uint64_t address;
    unsigned width;
    uint64_t value;
  };
  void apply(uint64_t address, llvm::MutableArrayRef<uint8_t> content, std::vector<Rest> &rest);
  /// The opposite, for content that came from there: what the device has overwritten stays as it is.
  void revert(uint64_t address, llvm::MutableArrayRef<uint8_t> content) const;
  /// Some pointer is known in the range.
  bool any(uint64_t address, uint64_t size) const;
  /// The memory is gone.
  void forget(uint64_t address, uint64_t size);

  uint64_t patched = 0; ///< Pointers that were changed.

private:
  struct Pointer {
    unsigned width;
    uint64_t recorded, placed;
  };
  static constexpr size_t mostPointers = 1 << 20;
  std::map<uint64_t, Pointer>::const_iterator firstAt(uint64_t address) const;

  std::map<uint64_t, Pointer> pointers;
};

} // namespace tapeback
