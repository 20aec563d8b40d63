// The identity of a content. Internal to format/ and to whoever has to name a content as the tape does.
#pragma once

#include "format/Packet.h"
#include "llvm/ADT/ArrayRef.h"

namespace tapeback {

/// XXH3-128 of the bytes, as LLVM's: with the widest arithmetic that the processor has, since every payload
/// that is seen again costs this and nothing else.
BlobId contentId(llvm::ArrayRef<uint8_t> content);

} // namespace tapeback
