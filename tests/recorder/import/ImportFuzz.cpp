// Fuzzes every importer: byte 0 selects the kind (low bits) and what lies beside the capture (high bit), the
// rest is the capture. Each line must have one fate, and the tape must be one that the writer accepts.
#include "Importing.h"

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
  const ImporterKind &kind = kinds[data[0] % kinds.size()];
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
