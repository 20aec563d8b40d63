// Cap'n Proto at the edge: building a block's raw bytes in one buffer, and reading untrusted ones. The only
// place where KJ's exceptions are caught. Internal to format/; include from .cpp files only, it is heavy.
#pragma once

#include "format/Failure.h"
#include "format/Layout.h"
#include "tape.capnp.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <capnp/message.h>
#include <capnp/serialize.h>
#include <memory>

namespace tapeback {

/// Uninitialised, 8-byte aligned memory that only grows; Cap'n Proto reads in place from it.
class WordBuffer {
public:
  /// At least `bytes`, contents undefined after growth.
  llvm::MutableArrayRef<uint8_t> bytes(size_t bytes) {
    const size_t words = (bytes + 7) / 8;
    if (words > capacity) {
      memory.reset(new uint64_t[words]);
      capacity = words;
    }
    return {reinterpret_cast<uint8_t *>(memory.get()), bytes};
  }
  size_t capacityBytes() const { return capacity * 8; }

private:
  std::unique_ptr<uint64_t[]> memory;
  size_t capacity = 0;
};

/// Builds one message and hands its flat bytes to `use`. `expectedBytes` is an estimate of the message's
/// size: if it is high enough, nothing is copied. An error of `use`, or code "message-too-large".
llvm::Error buildMessage(WordBuffer &buffer, size_t expectedBytes,
                         llvm::function_ref<void(capnp::MessageBuilder &)> fill,
                         llvm::function_ref<llvm::Error(llvm::ArrayRef<uint8_t>)> use);

/// Opens untrusted bytes (8-byte aligned) as a message and hands its root to `read`. Limits follow from the
/// size: each word may be visited twice, and nesting ends at 8 levels. KJ's exceptions become a failure
/// "bad-message" at `where`.
template <typename Root>
llvm::Error readMessage(llvm::ArrayRef<uint8_t> raw, const std::string &where,
                        llvm::function_ref<llvm::Error(typename Root::Reader)> read);

llvm::Error badMessage(llvm::StringRef what, const std::string &where);

inline llvm::StringRef toRef(capnp::Text::Reader text) {
  return {text.begin(), text.size()};
}
inline llvm::ArrayRef<uint8_t> toRef(capnp::Data::Reader data) {
  return {data.begin(), data.size()};
}
inline capnp::Text::Reader toText(llvm::StringRef text, std::string &holder) {
  holder = text.str(); // Cap'n Proto wants the NUL at the end.
  return {holder.c_str(), holder.size()};
}

template <typename Root>
llvm::Error readMessage(llvm::ArrayRef<uint8_t> raw, const std::string &where,
                        llvm::function_ref<llvm::Error(typename Root::Reader)> read) {
  const size_t words = raw.size() / sizeof(capnp::word);
  capnp::ReaderOptions options;
  options.traversalLimitInWords = 2 * words + 64;
  options.nestingLimit = 8;
  try {
    capnp::FlatArrayMessageReader reader(
        kj::arrayPtr(reinterpret_cast<const capnp::word *>(raw.data()), words), options);
    return read(reader.getRoot<Root>());
  } catch (const kj::Exception &exception) {
    return badMessage({exception.getDescription().begin(), exception.getDescription().size()}, where);
  }
}

} // namespace tapeback
