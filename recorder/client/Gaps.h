// Counts the time from one operation of a thread to its next, where `tapeback record --ab` asks for it.
#pragma once

#include "recorder/ring/GapTable.h"

namespace tapeback::client {

/// Null unless the environment names a table. Set once, before the first operation. It is constinit: nothing
/// runs before main.
// NOLINTNEXTLINE(bugprone-dynamic-static-initializers)
[[gnu::visibility("hidden")]] extern constinit ring::GapTable *gapTable;

/// Looks at the environment. A table that cannot be had is as good as none: the parent sees no counts.
void attachGaps();
/// The calling thread begins an operation.
void countGap();

inline void operationBegins() {
  if (gapTable)
    countGap();
}

} // namespace tapeback::client
