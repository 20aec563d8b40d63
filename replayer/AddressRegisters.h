// Registers that hold host addresses, whole or in halves: what is written to them in a replay whose memory is
// elsewhere, and what reading them means in recorded terms.
#pragma once

#include "replayer/AddressMap.h"
#include "replayer/TapeSource.h"
#include "llvm/ADT/SmallVector.h"

namespace tapeback {

/// One device's. Follows all writes to such registers, whether or not anything has moved. One thread;
/// bounded by the description.
class AddressRegisters {
public:
  /// `description` may be null. `spaces`: tape space ids to names.
  AddressRegisters(const Description *description, const std::vector<std::string> &spaces);

  bool touches(uint16_t space, uint64_t address, unsigned width) const;
  bool isPart(unsigned reg) const { return reg < isPartOf.size() && isPartOf[reg]; }

  /// A register, whole, that has to be written before the packet's own write.
  struct Extra {
    unsigned reg;
    uint64_t value;
  };
  /// What to write instead of the packet's value. Looks ahead on the tape for the other half, and for what
  /// the device is told to do with it.
  llvm::Expected<uint64_t> write(TapeSource &source, const AddressMap &map, uint64_t ordinal,
                                 const Packet &packet, llvm::SmallVectorImpl<Extra> &before);
  /// It was written as recorded, if write() has not been called for it.
  void note(const Packet &packet);
  /// What a value that was read from a register means in recorded addresses.
  uint64_t recorded(const AddressMap &map, unsigned reg, uint64_t value) const;
  /// The value that the packet's read of `actual` stands for: the recorded one where the device says the same
  /// of memory that has moved.
  llvm::Expected<uint64_t> read(TapeSource &source, const AddressMap &map, uint64_t ordinal,
                                const Packet &packet, uint64_t actual);
  /// What to write to the register to restore `value`; `valueOf` says what the keyframe has of others.
  llvm::Expected<uint64_t> restore(TapeSource &source, const AddressMap &map, uint64_t firstPacket,
                                   unsigned reg, uint64_t value,
                                   llvm::function_ref<std::optional<uint64_t>(unsigned reg)> valueOf);
  void reset();

  uint64_t rewritten = 0; ///< Writes whose value was changed, and extra ones.

private:
  /// Bits [shift, shift + 8 * width) of an address.
  struct Part {
    uint16_t space;
    uint64_t offset;
    unsigned width, reg, slot, shift;
  };
  struct Slot {
    unsigned low;
    std::optional<unsigned> high;
    bool mayBeHost = true, mayBeDevice = false, readOnly = false;
    bool translated = false; ///< As last written.
    uint64_t recorded = 0, issued = 0;
  };
  /// The bits of a slot that an access covers: mask in the address, and how far the address's bits are above
  /// the access's.
  struct Touched {
    unsigned slot;
    uint64_t mask;
    int shift;
    uint64_t toAddress(uint64_t value) const {
      return (shift >= 0 ? value << shift : value >> -shift) & mask;
    }
    uint64_t toValue(uint64_t address) const {
      return shift >= 0 ? (address & mask) >> shift : (address & mask) << -shift;
    }
  };

  void addSlot(unsigned low, std::optional<unsigned> high);
  llvm::SmallVector<Touched, 2> touched(uint16_t space, uint64_t address, unsigned width) const;
  llvm::Expected<bool> isHost(TapeSource &source, uint64_t ordinal, unsigned slot, uint16_t device);
  llvm::Expected<uint64_t> completed(TapeSource &source, uint64_t ordinal, const Packet &packet,
                                     const Touched &part, uint64_t present, bool *final);
  llvm::Expected<uint64_t> otherHalf(TapeSource &source, uint64_t ordinal, const Packet &packet,
                                     const Touched &part, uint64_t present);
  llvm::Error look(TapeSource &source, uint64_t first, uint64_t count);

  const Description *description;
  std::vector<std::string> spaces;
  std::vector<Slot> slots;
  std::vector<bool> isPartOf; ///< By register.
  std::vector<Part> parts;    ///< By space and offset; they do not overlap.
  PacketBatch ahead;
};

} // namespace tapeback
