// A tape made of bytes that somebody else chose: for the fuzzer and for tests of hostile tapes.
#pragma once

#include "tests/replayer/MemoryTape.h"

namespace tapeback::test {

/// Any bytes give a tape of at most 512 packets whose fields are mostly nonsense and sometimes nearly right.
std::unique_ptr<MemoryTape> tapeFromBytes(llvm::ArrayRef<uint8_t> bytes);

} // namespace tapeback::test
