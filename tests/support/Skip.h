// How a test case says, at run time, that this machine cannot run it.
//
// A skipped case is counted and printed as skipped, with its reason: never as passed. A case that fails a
// check before it skips has failed.
#pragma once

#include <string>

namespace tapeback::test {

/// Marks the running test case as skipped. Use TB_SKIP, which also leaves the test case.
void skipRunningTestCase(std::string reason);

} // namespace tapeback::test

/// Leaves the running test case (use it in the case's own body, not in a lambda) and counts it as skipped.
#define TB_SKIP(reason)                                                                                      \
  do {                                                                                                       \
    ::tapeback::test::skipRunningTestCase(reason);                                                           \
    return;                                                                                                  \
  } while (false)
