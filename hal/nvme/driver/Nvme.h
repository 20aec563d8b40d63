// What of the NVM Express specification the driver uses: registers, opcodes, the shape of entries.
#pragma once

#include <cstdint>
#include <cstring>

namespace tapeback::nvme {

constexpr uint64_t pageBytes = 4096, blockBytes = 512;

enum Register : uint64_t {
  CapLow = 0x00,
  CapHigh = 0x04,
  Version = 0x08,
  Configuration = 0x14,
  Status = 0x1c,
  AdminAttributes = 0x24,
  AdminSubmission = 0x28,
  AdminCompletion = 0x30,
  Doorbells = 0x1000
};
constexpr uint32_t enable = 1, ready = 1, fatal = 2;
/// I/O entries of 64 and 16 bytes, pages of 4096 bytes.
constexpr uint32_t configuration = 6u << 16 | 4u << 20;

enum AdminOpcode : uint8_t {
  DeleteSubmission = 0x00,
  CreateSubmission = 0x01,
  GetLogPage = 0x02,
  DeleteCompletion = 0x04,
  CreateCompletion = 0x05,
  Identify = 0x06,
  Abort = 0x08,
  SetFeatures = 0x09,
  GetFeatures = 0x0a
};
enum Opcode : uint8_t {
  Flush = 0x00,
  Write = 0x01,
  Read = 0x02,
  Compare = 0x05,
  WriteZeroes = 0x08,
  Manage = 0x09
};

struct Command {
  uint32_t words[16] = {};
  Command() = default;
  Command(uint8_t opcode, uint32_t nsid) {
    words[0] = opcode;
    words[1] = nsid;
  }
  void setTag(uint16_t tag) { words[0] = (words[0] & 0xffff) | uint32_t(tag) << 16; }
  void setData(uint64_t first, uint64_t second) {
    words[6] = uint32_t(first);
    words[7] = uint32_t(first >> 32);
    words[8] = uint32_t(second);
    words[9] = uint32_t(second >> 32);
  }
  void setBlocks(uint64_t first, uint32_t count) {
    words[10] = uint32_t(first);
    words[11] = uint32_t(first >> 32);
    words[12] = (words[12] & 0xffff0000) | ((count - 1) & 0xffff);
  }
};
static_assert(sizeof(Command) == 64);

struct Completion {
  uint32_t result = 0, reserved = 0;
  uint16_t head = 0, queue = 0, tag = 0, phaseAndStatus = 0;
  /// Code and type; 0 is success.
  unsigned status() const { return (phaseAndStatus >> 1) & 0x7ff; }
};
static_assert(sizeof(Completion) == 16);

} // namespace tapeback::nvme
