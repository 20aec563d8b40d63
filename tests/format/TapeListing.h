// A tape as text, to the last field: what golden tapes are compared with.
#pragma once

#include "format/TapeReader.h"
#include <string>

namespace tapeback::test {

/// Everything on the tape, one thing a line. Changes of this text change the golden listings: add only what
/// new fields need, and only where they are not at their default.
std::string listTape(TapeReader &reader);

} // namespace tapeback::test
