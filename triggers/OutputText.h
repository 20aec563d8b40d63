// What an output of the evaluator says, for people: the same words live and offline.
#pragma once

#include "triggers/Evaluator.h"
#include <string>

namespace tapeback::triggers {

/// "text (host 0x1000, value 0x3)".
std::string firedText(const Program &program, const Output &output);

/// "fire", "capture", "marker" …
const char *actionName(ActionOp op);

} // namespace tapeback::triggers
