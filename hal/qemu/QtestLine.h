// The lines of QEMU's qtest protocol: commands made from numbers, replies taken apart strictly.
//
// The server aborts the whole of QEMU on an empty line, a double space or a missing word, so a command can
// only be made by the functions below. Replies are untrusted.
#pragma once

#include "llvm/ADT/StringRef.h"
#include <array>
#include <cstdint>
#include <optional>

namespace tapeback {

/// One command and what its answer must look like. Value type, no allocation.
class QtestCommand {
public:
  enum class Answer : uint8_t { Ok, Number, LittleEndian };

  /// Memory access of 1, 2, 4 or 8 bytes. Bits of `value` beyond the width are not sent.
  static QtestCommand read(unsigned width, uint64_t address);
  static QtestCommand write(unsigned width, uint64_t address, uint64_t value);
  /// Port access of 4 bytes.
  static QtestCommand portIn(uint16_t port);
  static QtestCommand portOut(uint16_t port, uint32_t value);
  /// Asks for nothing but a sign of life ("OK little").
  static QtestCommand endianness();

  llvm::StringRef line() const { return {buffer.data(), length}; } ///< With the newline.
  llvm::StringRef text() const { return line().drop_back(); }      ///< Without.

  /// The number in a reply (0 if none is due); nothing if `reply` (without newline) is not this command's
  /// answer.
  std::optional<uint64_t> parseReply(llvm::StringRef reply) const;

private:
  QtestCommand() = default;
  void append(llvm::StringRef word);
  void appendHex(uint64_t value);

  std::array<char, 56> buffer{}; // The longest: "writeq 0x" + 16 digits + " 0x" + 16 digits + newline = 45.
  uint8_t length = 0;
  Answer answer = Answer::Ok;
  uint8_t answerBytes = 0;
};

/// No reply that QEMU sends is longer.
constexpr size_t longestQtestReply = 256;

} // namespace tapeback
