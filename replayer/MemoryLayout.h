// Where a replay puts the memory of a tape: at the recorded addresses, or elsewhere because it must or was
// asked to.
#pragma once

#include "replayer/AddressMap.h"
#include "llvm/ADT/StringRef.h"
#include <string>

namespace tapeback {

struct MemoryLayout {
  enum class Kind : uint8_t {
    Automatic, ///< As recorded; where the target cannot do that, wherever it puts it.
    Never,     ///< As recorded, or the mapping fails.
    Shift,     ///< All of it moved by `amount`.
    Fragment,  ///< One behind the other, with holes of different sizes between.
    Reverse,   ///< What was at the highest address is at the lowest.
    Seeded,    ///< Wherever the seed `amount` says.
  } kind = Kind::Automatic;
  uint64_t amount = 0; ///< Shift: modulo 2^64, so that it can be down.
};

/// "auto", "never", "shift=0x100000", "shift=-0x1000", "fragment", "reverse", "seed=7". Usage failure
/// "bad-option" that lists them.
llvm::Expected<MemoryLayout> parseMemoryLayout(llvm::StringRef text);
std::string memoryLayoutText(const MemoryLayout &layout);

/// All that the tape maps of a device, over the whole of it.
struct RecordedExtent {
  uint64_t lowest = ~uint64_t(0), highest = 0; ///< First byte and last.
  void add(uint64_t address, uint64_t size);
};

/// Proposes addresses. Pure and deterministic.
class Placement {
public:
  Placement(const MemoryLayout &layout, uint64_t dmaMask, const RecordedExtent &extent)
      : layout(layout), dmaMask(dmaMask), extent(extent) {}

  /// Attempts that may be made for one range: a target may refuse addresses for reasons of its own.
  unsigned attempts() const;
  /// Where to try to put the range; nothing: leave it to the target. Usage failure "relocation-range" if it
  /// would be out of the device's reach or the address space.
  llvm::Expected<std::optional<uint64_t>> propose(uint64_t recorded, uint64_t size, const AddressMap &live,
                                                  unsigned attempt);
  llvm::Error checkReach(uint64_t recorded, uint64_t placed, uint64_t size) const;

private:
  MemoryLayout layout;
  uint64_t dmaMask;
  RecordedExtent extent;
  uint64_t placedRanges = 0;
};

} // namespace tapeback
