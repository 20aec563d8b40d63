// One message, one buffer, no copies where the size was guessed well.
#include "format/Message.h"

#include <cstring>

namespace tapeback {

llvm::Error buildMessage(WordBuffer &buffer, size_t expectedBytes,
                         llvm::function_ref<void(capnp::MessageBuilder &)> fill,
                         llvm::function_ref<llvm::Error(llvm::ArrayRef<uint8_t>)> use) {
  // One word is kept free before the segment for the frame (segment count and size), so that frame and
  // segment are contiguous without a copy. Cap'n Proto wants the segment zeroed.
  const size_t words = expectedBytes / 8 + 16;
  llvm::MutableArrayRef<uint8_t> memory = buffer.bytes(8 * (words + 1));
  std::memset(memory.data(), 0, memory.size());
  auto *frame = reinterpret_cast<capnp::word *>(memory.data());
  try {
    capnp::MallocMessageBuilder builder(kj::arrayPtr(frame + 1, words));
    fill(builder);
    const auto segments = builder.getSegmentsForOutput();
    size_t total = 1;
    for (const auto &segment : segments)
      total += segment.size() + 1;
    if (total * 8 > maxRawBytes)
      return failUsage("message-too-large", "a record is larger than a block may be (64 MiB)");
    if (segments.size() == 1 && segments[0].begin() == frame + 1) {
      const uint32_t prefix[2] = {0, static_cast<uint32_t>(segments[0].size())};
      std::memcpy(frame, prefix, sizeof(prefix));
      return use({memory.data(), 8 * (1 + segments[0].size())});
    }
    const kj::Array<capnp::word> flat = capnp::messageToFlatArray(segments);
    return use({reinterpret_cast<const uint8_t *>(flat.begin()), flat.size() * sizeof(capnp::word)});
  } catch (const kj::Exception &exception) {
    return failUsage("message-too-large",
                     std::string("a record cannot be stored: ") + exception.getDescription().cStr());
  }
}

} // namespace tapeback
