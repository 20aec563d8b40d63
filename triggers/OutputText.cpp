#include "triggers/OutputText.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace tapeback::triggers {

static std::string quoted(StringRef text) {
  std::string result = "'";
  raw_string_ostream os(result);
  printEscapedString(text, os);
  return os.str() + "'";
}

std::string firedText(const Program &program, const Output &output) {
  const Action &action = program.actions[output.action];
  std::string text;
  switch (output.op) {
  case ActionOp::Fire: text = program.texts[action.a]; break;
  case ActionOp::Marker: text = "marker " + quoted(program.texts[action.a]); break;
  case ActionOp::Exec: text = "exec " + quoted(program.texts[action.a]); break;
  case ActionOp::Raise: text = "raise " + program.events[action.a]; break;
  default: text = actionName(output.op); break;
  }
  std::string values;
  for (uint32_t v = 0; v < action.valueCount; ++v) {
    const Output::Value &value = output.values[v];
    uint32_t node = program.fireValues[action.firstValue + v];
    values += (v ? ", " : " (") + program.sourceOf(program.nodes[node].where).str() + " ";
    if (!value.known)
      values += "unknown";
    else if (value.isBool)
      values += value.value ? "true" : "false";
    else if (value.isSigned)
      values += std::to_string(int64_t(value.value));
    else
      values += "0x" + utohexstr(value.value, /*LowerCase=*/true);
  }
  return values.empty() ? text : text + values + ")";
}

const char *actionName(ActionOp op) {
  switch (op) {
  case ActionOp::Fire: return "fire";
  case ActionOp::Capture: return "capture";
  case ActionOp::Marker: return "marker";
  case ActionOp::Stop: return "stop";
  case ActionOp::Snapshot: return "snapshot";
  case ActionOp::Exec: return "exec";
  default: return "raise";
  }
}

} // namespace tapeback::triggers
