// Any bytes as a trigger file: refused with places that are in it, or compiled within its bounds.
#include "triggers/Evaluator.h"
#include <cstdlib>

using namespace tapeback;
using namespace tapeback::triggers;

static void require(bool holds) {
  if (!holds)
    std::abort();
}

static const Description &described() {
  static const Description description = [] {
    llvm::Expected<Description> parsed = parseDescription(R"(
tapeback-description: 1
name: fuzz
spaces: [bar0]
registers:
  - {name: STATUS, offset: 0, fields: [{name: BUSY, bits: 0}]}
  - {name: HEAD, offset: 4, access: ro, class: progress}
  - {name: WIDE, offset: 8, width: 8}
counters:
  - {name: MACS, register: HEAD, width-bits: 16, class: compute, unit: macs}
)",
                                                          "fuzz");
    if (!parsed)
      std::abort();
    return std::move(*parsed);
  }();
  return description;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  CompileOptions options;
  options.devices.push_back({"", &described()});
  Compilation compilation = compileTriggers(text, options);
  bool error = false;
  for (const Diagnostic &diagnostic : compilation.diagnostics) {
    error |= diagnostic.severity == Diagnostic::Severity::Error;
    require(!diagnostic.message.empty() && diagnostic.line >= 1 && diagnostic.column >= 1);
    require(diagnostic.line <= text.count('\n') + 1 && diagnostic.column <= size + 1);
    require(diagnostic.sourceLine.size() <= 200);
    formatDiagnostic(diagnostic, "f");
  }
  require(error != compilation.program.has_value());
  require(compilation.diagnostics.size() <= 2 * Diagnostics::most);
  if (compilation.program) {
    const Program &program = *compilation.program;
    require(!program.triggers.empty() && program.memoryBytes <= maxProgramMemory);
    for (const Trigger &trigger : program.triggers)
      require(trigger.cost <= maxTriggerCost && trigger.states.count);
  }
  return 0;
}
