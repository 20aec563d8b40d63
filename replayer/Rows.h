// Where the content of a memory packet lies: rows of equal length, a stride apart, one after another in the
// payload.
#pragma once

#include "format/Packet.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <optional>

namespace tapeback {

class DeviceBinding;
class Target;

/// Lengths and strides are the tape's word: made only by of(), which checks that nothing overflows.
struct Rows {
  uint64_t address = 0, rowBytes = 0, count = 0, stride = 0;

  /// The rows of a MemoryWrite, DmaDescriptor or DmaCompletion; of other kinds one piece. Usage failure
  /// "bad-rows" if the length is no multiple of the rows, they leave the address space, or there are more
  /// than a replay follows.
  static llvm::Expected<Rows> of(const Packet &packet, const PacketExtra &extra);

  uint64_t length() const { return rowBytes * count; }
  uint64_t rowAddress(uint64_t row) const { return address + row * stride; }
  /// Of the byte at `offset` of the payload, which must lie in it.
  uint64_t addressOf(uint64_t offset) const { return rowAddress(offset / rowBytes) + offset % rowBytes; }

  /// Where in the payload the byte at `place` is; the last row that covers it. Nothing if none does.
  std::optional<uint64_t> offsetOf(uint64_t place) const;

  /// Gathers and scatters. Short content fills the first rows only. A target's addresses are its own, a
  /// binding's the recorded ones.
  llvm::Error read(const DeviceBinding &memory, llvm::MutableArrayRef<uint8_t> out) const;
  llvm::Error write(DeviceBinding &memory, llvm::ArrayRef<uint8_t> in) const;
  llvm::Error read(Target &memory, llvm::MutableArrayRef<uint8_t> out) const;
};

/// Where the byte at `offset` of the packet's content lies in memory, if the packet's rows make sense.
uint64_t contentAddress(const Packet &packet, const PacketExtra &extra, uint64_t offset);

} // namespace tapeback
