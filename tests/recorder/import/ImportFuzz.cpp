// Fuzzes every importer: byte 0 selects the kind (low bits) and what lies beside the capture (high bit), the
// rest is the capture. With TAPEBACK_FUZZ_KIND=KIND in the environment it is a fuzzer of that kind alone.
// Each line must have one fate, and the tape must be one that the writer accepts.
#include "Importing.h"
#include <cstdlib>

using namespace tapeback;
using namespace tapeback::test;

namespace {

void check(bool condition) {
  if (!condition)
    __builtin_trap();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1 || size > 1 << 16)
    return 0;
  llvm::ArrayRef<ImporterKind> kinds = importerKinds();
  static const ImporterKind *const only = [] {
    const char *name = std::getenv("TAPEBACK_FUZZ_KIND");
    const ImporterKind *found = name ? findImporter(name) : nullptr;
    check(!name || found); // A mistyped name would fuzz something else in silence.
    return found;
  }();
  const ImporterKind &kind = only ? *only : kinds[data[0] % kinds.size()];
  std::string text(reinterpret_cast<const char *>(data + 1), size - 1);
  std::map<std::string, std::string> companions;
  ImporterSettings settings;
  if (data[0] & 0x80) { // What lies beside it is as bad as it is itself.
    companions["in.dat"] = companions["out.dat"] = text;
    settings.signals = "clock = *\n[p]\nprefix = top.s_\n";
    settings.signalsName = "map";
  }
  Imported done;
  done.maxLine = 8192;
  done.run(kind.name, {text}, settings, companions);
  check(done.addsUp());
  check(done.tape.violation.empty());
  (void)kind.recognise(llvm::StringRef(text).take_front(65536));
  return 0;
}
