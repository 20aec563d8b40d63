// Cap'n Proto at the edge: building a block's raw bytes in one buffer, and reading untrusted ones. The only
// place where KJ's exceptions are caught. Internal to format/; include from .cpp files only, it is heavy.
#pragma once

#include "format/Failure.h"
#include "format/Layout.h"
#include "format/WordBuffer.h"
#include "tape.capnp.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <capnp/message.h>
#include <capnp/serialize.h>

namespace tapeback {

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

inline llvm::StringRef toRef(capnp::Text::Reader text) {
  return {text.begin(), text.size()};
}
inline llvm::ArrayRef<uint8_t> toRef(capnp::Data::Reader data) {
  return {data.begin(), data.size()};
}

template <typename Root>
llvm::Error readMessage(llvm::ArrayRef<uint8_t> raw, const std::string &where,
                        llvm::function_ref<llvm::Error(typename Root::Reader)> read) {
  if (raw.size() % sizeof(capnp::word) != 0)
    return badMessage("its size is not a whole number of words", where);
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
