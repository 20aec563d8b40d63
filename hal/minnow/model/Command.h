// A command as it lies in a ring: sixteen 32-bit words (SPEC.md, section 4).
#pragma once

#include <cstdint>

namespace minnow {

enum Opcode : uint8_t {
  Nop = 0x00,
  DmaLoad = 0x01,
  DmaStore = 0x02,
  DmaChain = 0x03,
  Gemm = 0x10,
  Vadd32 = 0x20,
  Vadd8 = 0x21,
  Relu8 = 0x22,
  Requant = 0x23,
  Maxpool8 = 0x24,
  Fence = 0x30,
  Signal = 0x31,
  Wait = 0x32,
  Barrier = 0x33,
};

constexpr uint32_t commandBytes = 64;

struct Command {
  uint32_t word[16];

  uint8_t opcode() const { return uint8_t(word[0]); }
  /// Bit 0 of the flags: ACCUMULATE, BROADCAST, RELU or INTERRUPT.
  bool flag() const { return word[0] & 0x100; }
  /// The 64-bit number whose low half is word `low`.
  uint64_t wide(unsigned low) const { return word[low] | uint64_t(word[low + 1]) << 32; }
  bool isDma() const { return opcode() >= DmaLoad && opcode() <= DmaChain; }
  bool usesScratchpad() const { return opcode() >= DmaLoad && opcode() <= Maxpool8; }
};

/// Rows to move: what DMA_LOAD, DMA_STORE and a chain's descriptor have in common.
struct DmaJob {
  uint64_t host;
  uint32_t scratchpad, rowBytes, rows, hostStride, scratchpadStride;
  uint32_t store; ///< 1: scratchpad → host.
};

constexpr uint32_t descriptorBytes = 64, mostDescriptors = 256;

/// A chain's descriptor, as it lies in host memory.
struct Descriptor {
  uint64_t host;
  uint32_t scratchpad, rowBytes, rows, hostStride, scratchpadStride, flags;
  uint64_t next;
  uint8_t ignored[24];

  bool isLast() const { return flags & 2; }
  DmaJob job() const { return {host, scratchpad, rowBytes, rows, hostStride, scratchpadStride, flags & 1}; }
};
static_assert(sizeof(Command) == commandBytes && sizeof(Descriptor) == descriptorBytes);

/// Of a DMA_LOAD or DMA_STORE.
inline DmaJob jobOf(const Command &command) {
  const uint32_t *w = command.word;
  return {command.wide(2), w[4], w[5], w[6], w[7], w[8], uint32_t(command.opcode() == DmaStore)};
}

} // namespace minnow
