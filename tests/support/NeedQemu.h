// How a test case says that it needs QEMU.
#pragma once

#include "tests/support/Skip.h"
#include "llvm/Support/Program.h"

namespace tapeback::test {

inline bool haveQemu() {
  return bool(llvm::sys::findProgramByName("qemu-system-x86_64"));
}

} // namespace tapeback::test

/// At the start of a test case that needs the real thing.
#define TB_NEED_QEMU()                                                                                       \
  do {                                                                                                       \
    if (!::tapeback::test::haveQemu())                                                                       \
      TB_SKIP("qemu-system-x86_64 is not installed");                                                        \
  } while (false)
