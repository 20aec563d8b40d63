// Who wrote it last: from a wrong byte back to the packet that put it there, and on to where that had it
// from.
#pragma once

#include "replayer/Divergence.h"
#include "replayer/History.h"

namespace tapeback {

/// Something that can be written.
struct WrittenThing {
  enum class Kind : uint8_t { Register, Memory, Window } kind = Kind::Register;
  uint16_t device = 0;
  uint16_t space = 0;   ///< Register.
  uint64_t address = 0; ///< Register's offset, IOVA, or device address.
  std::string name;     ///< Register's or window's name.
};

/// A packet that wrote the register or byte in question.
struct WriterRecord {
  PacketPlace
      place; ///< Of the packet that told the device to: for transfers the doorbell, not the descriptor.
  std::string kind; ///< Of that packet.
  std::string space, reg;
  uint64_t address = 0, value = 0;
  std::optional<uint64_t> descriptor; ///< The DmaDescriptor, if a transfer wrote it.
  bool toDevice = false;              ///< Direction of that transfer.
  std::string wrote;                  ///< What was written: "STATUS", "memory at 0x1000", "buffer+0x20".
  std::optional<WrittenThing> thing;  ///< The same; nothing if the tape does not tell that it was written.
  uint64_t ordinal = 0;               ///< Of the packet that stands for the write on the tape.
  /// What each side had there when it was read on, as far as that can be seen.
  std::optional<uint64_t> good, bad;
};

/// The last writer before packet `before`, then who wrote what that one moved, at most `depth` of them. Empty
/// if the tape does not tell.
llvm::Expected<std::vector<WriterRecord>> findWriters(TapeSource &source, WrittenThing thing, uint64_t before,
                                                      unsigned depth = 4);

/// Who wrote it last, of what a history knows.
std::optional<uint64_t> lastWriterOf(const ShadowState &state, const WrittenThing &thing);

/// The register write at or shortly behind a DmaDescriptor that starts its activity; the descriptor itself if
/// there is none.
llvm::Expected<uint64_t> doorbellOf(TapeSource &source, uint64_t descriptor);
/// Whether a register write starts an activity of the description.
bool startsActivity(const TapeSource &source, const Packet &write);

/// One line about a packet for reports: "register-write bar0 DMA_CMD at 0x98 = 0x1".
std::string packetText(const TapeSource &source, const Packet &packet, const PacketExtra &extra);

} // namespace tapeback
