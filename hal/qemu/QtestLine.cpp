#include "hal/qemu/QtestLine.h"
#include "llvm/ADT/StringExtras.h"
#include <cstring>

namespace tapeback {
namespace {

uint64_t lowBytes(uint64_t value, unsigned bytes) {
  return bytes >= 8 ? value : value & ((uint64_t(1) << (8 * bytes)) - 1);
}

llvm::StringRef accessLetter(unsigned width) {
  switch (width) {
  case 1: return "b";
  case 2: return "w";
  case 4: return "l";
  default: return "q";
  }
}

} // namespace

void QtestCommand::append(llvm::StringRef word) {
  std::memcpy(buffer.data() + length, word.data(), word.size());
  length = uint8_t(length + word.size());
}

void QtestCommand::appendHex(uint64_t value) {
  char digits[16];
  size_t count = 0;
  do {
    digits[count++] = llvm::hexdigit(value & 15, /*LowerCase=*/true);
    value >>= 4;
  } while (value);
  append(" 0x");
  while (count)
    buffer[length++] = digits[--count];
}

QtestCommand QtestCommand::read(unsigned width, uint64_t address) {
  QtestCommand command;
  command.answer = Answer::Number;
  command.answerBytes = uint8_t(width);
  command.append("read");
  command.append(accessLetter(width));
  command.appendHex(address);
  command.append("\n");
  return command;
}

QtestCommand QtestCommand::write(unsigned width, uint64_t address, uint64_t value) {
  QtestCommand command;
  command.append("write");
  command.append(accessLetter(width));
  command.appendHex(address);
  command.appendHex(lowBytes(value, width));
  command.append("\n");
  return command;
}

QtestCommand QtestCommand::portIn(uint16_t port) {
  QtestCommand command;
  command.answer = Answer::Number;
  command.answerBytes = 4;
  command.append("inl");
  command.appendHex(port);
  command.append("\n");
  return command;
}

QtestCommand QtestCommand::portOut(uint16_t port, uint32_t value) {
  QtestCommand command;
  command.append("outl");
  command.appendHex(port);
  command.appendHex(value);
  command.append("\n");
  return command;
}

QtestCommand QtestCommand::endianness() {
  QtestCommand command;
  command.answer = Answer::LittleEndian;
  command.append("endianness\n");
  return command;
}

std::optional<uint64_t> QtestCommand::parseReply(llvm::StringRef reply) const {
  switch (answer) {
  case Answer::Ok: return reply == "OK" ? std::optional<uint64_t>(0) : std::nullopt;
  case Answer::LittleEndian: return reply == "OK little" ? std::optional<uint64_t>(0) : std::nullopt;
  case Answer::Number: break;
  }
  if (!reply.consume_front("OK 0x") || reply.empty() || reply.size() > 16)
    return std::nullopt;
  uint64_t value = 0;
  for (char c : reply) {
    if (!llvm::isHexDigit(c))
      return std::nullopt;
    value = value << 4 | llvm::hexDigitValue(c);
  }
  if (value != lowBytes(value, answerBytes))
    return std::nullopt;
  return value;
}

} // namespace tapeback
