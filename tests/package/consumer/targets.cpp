// A tool that drives a target with the installed library: prints the 32-bit word at offset 0 of its first
// space.
#include "hal/Target.h"
#include "llvm/Support/raw_ostream.h"

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  auto target = tapeback::openTarget(argv[1]);
  if (!target) {
    llvm::errs() << llvm::toString(target.takeError()) << "\n";
    return 1;
  }
  auto word = (*target)->read(0, 0, 4);
  if (!word) {
    llvm::errs() << llvm::toString(word.takeError()) << "\n";
    return 1;
  }
  llvm::outs().write_hex(*word) << "\n";
  return 0;
}
