// tapeback verify: exit 0 only if every block, hash, index entry and cross-reference of a tape holds.
#include "format/TapeReader.h"
#include "tools/CommandLine.h"
#include "tools/Progress.h"
#include "tools/Report.h"
#include "tools/Verb.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace tapeback {

int runVerify(ArrayRef<const char *> args) {
  cl::opt<std::string> path(cl::Positional, cl::Required, cl::desc("TAPE"));
  cl::opt<std::string> root("root",
                            cl::desc("Also require that the tape's root hash is this one, kept elsewhere"),
                            cl::value_desc("HEX"));
  CommandLine line(
      {"verify", "Check every block, hash, index entry and cross-reference of a tape",
       "TAPE [--root HEX] [--json]",
       "Reads the whole file. Damage, loss and reordering of blocks show by themselves; a tape that was\n"
       "forged as a whole shows only against a root hash that was kept elsewhere (--root).\n",
       "  tapeback verify run.tape\n"
       "  tapeback verify run.tape --root 4f1d…\n",
       "  0  everything holds\n"
       "  1  the tape is sound, but its root is not the one given with --root\n"
       "  2  bad usage, or the file cannot be read\n"
       "  3  the file is damaged, unfinished, or no tape\n"});
  if (std::optional<int> exit = line.parse(args))
    return *exit;
  Report report("verify", line.json());
  StringRef wanted = root;
  if (root.getNumOccurrences() &&
      (wanted.size() != 64 || wanted.find_if_not([](char c) { return isHexDigit(c); }) != StringRef::npos))
    return report.fail(Failure(FailureClass::Usage, "bad-root", "a root hash has 64 hexadecimal digits",
                               "--root", "`tapeback info` prints a tape's root"));
  std::optional<Progress> progress(std::in_place, "verifying", 0);
  Expected<VerifyReport> verified =
      verifyTape(path, [&](uint64_t done, uint64_t total) { progress->show(done, total); });
  progress.reset();
  if (!verified)
    return report.fail(verified.takeError());
  std::string actual = toHex(verified->root);
  bool asExpected = !root.getNumOccurrences() || wanted.equals_insensitive(actual);
  if (report.json()) {
    json::OStream &os = report.object();
    report.verdict(asExpected ? 0 : 1);
    os.attribute("tape", json::fixUTF8(path));
    os.attribute("valid", true);
    os.attribute("root", actual);
    if (root.getNumOccurrences())
      os.attribute("root_matches", asExpected);
    os.attribute("blocks", verified->blocks);
    os.attribute("unknown_blocks", verified->unknownBlocks);
    os.attribute("packets", verified->packets);
    os.attribute("windows", verified->windows);
    os.attribute("blobs", verified->blobs);
  } else {
    outs() << path << ": " << (asExpected ? "everything holds" : "sound, but not the tape that was asked for")
           << "\n"
           << "  root    " << actual << "\n";
    if (!asExpected)
      outs() << "  wanted  " << wanted.lower() << "\n";
    outs() << "  blocks  " << verified->blocks;
    if (verified->unknownBlocks)
      outs() << " (" << verified->unknownBlocks << " of a kind that this version does not know)";
    outs() << "\n  windows " << verified->windows << "\n  packets " << verified->packets << "\n  blobs   "
           << verified->blobs << "\n";
  }
  return report.finish(asExpected ? 0 : 1);
}

} // namespace tapeback
