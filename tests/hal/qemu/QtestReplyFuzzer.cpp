// Whatever QEMU may answer: parsing never misbehaves, and what is accepted is within the width asked for.
#include "hal/qemu/LastWords.h"
#include "hal/qemu/QtestLine.h"
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  using namespace tapeback;
  llvm::StringRef reply(reinterpret_cast<const char *>(bytes), size);
  for (unsigned width : {1u, 2u, 4u, 8u}) {
    std::optional<uint64_t> value = QtestCommand::read(width, 0).parseReply(reply);
    if (value && width < 8 && *value >> (8 * width))
      std::abort();
    if (value && (size < 6 || size > 21))
      std::abort();
  }
  if (QtestCommand::write(4, 0, 0).parseReply(reply) && reply != "OK")
    std::abort();
  if (QtestCommand::endianness().parseReply(reply) && reply != "OK little")
    std::abort();
  LastWords words;
  words.append(reply);
  if (summariseLastWords(words.tail()).size() > 1000)
    std::abort();
  return 0;
}
