// Fuzzes recovery: whatever the input, what comes out verifies.
#include "format/Failure.h"
#include "format/TapeReader.h"
#include "tests/format/FuzzSeal.h"

#include <cstdlib>
#include <string>

using namespace tapeback;

namespace {

/// A directory for the outputs, removed at the end of the program.
struct Output {
  Output() {
    // In memory where possible: a disk takes ten times as long as everything else here.
    for (std::string name : {"/dev/shm/tapeback-fuzz-XXXXXX", "/tmp/tapeback-fuzz-XXXXXX"})
      if (directory.empty() && ::mkdtemp(name.data()))
        directory = name;
    if (directory.empty())
      std::abort();
  }
  ~Output() {
    ::unlink(path().c_str());
    ::rmdir(directory.c_str());
  }
  std::string path() const { return directory + "/out.tape"; }
  std::string directory;
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static fuzz::MemoryFile file;
  static Output output;
  std::vector<uint8_t> tape = fuzz::seal(data, size);
  // Whole tapes would only be copied: without its last byte the tape has to be made again from its blocks.
  if (!tape.empty())
    tape.pop_back();
  if (!file.set(tape))
    return 0;
  llvm::Expected<RecoverReport> report = recoverTape(file.path(), output.path(), {.syncOnFinish = false});
  if (!report) {
    // Ours to refuse: not ours to fail.
    const Failure failure = toFailure(report.takeError());
    if (failure.cls != FailureClass::Tape)
      std::abort();
    return 0;
  }
  if (llvm::Error error = verifyTape(output.path()).takeError()) {
    llvm::consumeError(std::move(error));
    std::abort();
  }
  return 0;
}
