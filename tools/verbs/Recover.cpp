// tapeback recover: a tape that verifies, made of what a damaged or unfinished one still holds.
#include "format/TapeReader.h"
#include "recorder/durable/LeftBehind.h"
#include "tools/CommandLine.h"
#include "tools/OutputFile.h"
#include "tools/Progress.h"
#include "tools/Report.h"
#include "tools/Verb.h"

using namespace llvm;

namespace tapeback {
namespace {

constexpr VerbHelp recoverHelp = {
    "recover",
    "Make a valid tape of what a damaged or unfinished one still holds",
    "IN -o OUT [--ring DIR] [--force] [--json]",
    "IN may be the PATH.partial that a killed recorder left, or a damaged tape. Bad blocks are left out and\n"
    "named with their place in the file; packets that are known to be missing are put on the new tape as\n"
    "losses, so that a replay does not cross them unseen. OUT always verifies. It carries IN's root as its\n"
    "parent. IN is only read.\n"
    "\n"
    "What a killed recording left beside its PATH.partial is taken, too: the ring in shared memory, with "
    "what\n"
    "the recorder had not written yet, and the log of a durable recording, with accesses that never came "
    "back.\n"
    "A recording in flight mode has no PATH.partial: its packets were in the recorder's memory, and are\n"
    "lost with it.\n",
    "  tapeback recover run.tape.partial -o run.tape\n"
    "  tapeback recover broken.tape -o saved.tape && echo nothing was lost\n",
    "  0  nothing was lost (at most the index had to be rebuilt)\n"
    "  2  bad usage: IN cannot be read, OUT exists or is IN\n"
    "  3  IN holds nothing that could be read as a tape; OUT was not written\n"
    "  5  OUT was written, but something of IN was lost\n"};

void writeText(raw_ostream &os, StringRef in, StringRef out, const RecoverReport &recovered) {
  os << in << " -> " << out << ": ";
  if (recovered.wasComplete)
    os << "the tape was whole; this is a copy\n";
  else
    os << (recovered.lostAnything() ? "something was lost" : "nothing was lost") << "\n";
  auto line = [&](const char *what, uint64_t kept, const char *other, uint64_t lost) {
    os << "  " << what << kept << " kept, " << lost << " " << other << "\n";
  };
  line("blocks  ", recovered.blocksGood, "lost", recovered.blocksLost);
  line("windows ", recovered.windowsKept, "lost", recovered.windowsLost);
  line("packets ", recovered.packetsKept, "lost", recovered.packetsLost);
  if (recovered.packetsAdded)
    os << "  " << recovered.packetsAdded << " packets came from what the recording left beside the tape\n";
  if (recovered.payloadsLost)
    os << "  " << recovered.payloadsLost << " packets were kept without the memory contents they refer to\n";
  if (recovered.unknownLoss)
    os << "  and something that cannot be counted (the end of the tape is missing, or its head)\n";
  if (recovered.indexRebuilt)
    os << "  the index was rebuilt\n";
  for (const std::string &note : recovered.notes)
    os << "  - " << note << "\n";
}

} // namespace

int runRecover(ArrayRef<const char *> args) {
  cl::opt<std::string> in(cl::Positional, cl::Required, cl::desc("IN"));
  cl::opt<std::string> out("output", cl::Required, cl::desc("Where to write the new tape"),
                           cl::value_desc("OUT"));
  cl::alias outShort("o", cl::desc("Short for --output"), cl::aliasopt(out), cl::NotHidden);
  cl::opt<std::string> ring("ring", cl::desc("The ring of the recording (default: looked for by IN)"),
                            cl::value_desc("DIR"));
  cl::opt<bool> force("force", cl::desc("Overwrite OUT if it exists"));
  CommandLine line(recoverHelp);
  if (std::optional<int> exit = line.parse(args))
    return *exit;
  Report report("recover", line.json());
  if (Error error = checkOutputFile(out, in, force))
    return report.fail(std::move(error));
  if (Error error = refuseRing(in))
    return report.fail(std::move(error));
  std::optional<Progress> progress(std::in_place, "recovering", 0);
  RecoverOptions options;
  options.progress = [&](uint64_t done, uint64_t total) { progress->show(done, total); };
  LeftBehind leftBehind(in, ring);
  options.tail = &leftBehind;
  Expected<RecoverReport> recovered = recoverTape(in, out, options);
  progress.reset();
  if (!recovered) {
    Failure failure = toFailure(recovered.takeError());
    if (failure.code == "no-such-file" && StringRef(in).ends_with(".partial"))
      failure.hint +=
          " A recording with --flight leaves none: what it keeps in memory is lost if its recorder is "
          "killed.";
    return report.fail(std::move(failure));
  }
  if (report.json()) {
    json::OStream &os = report.object();
    report.verdict(recovered->lostAnything() ? 5 : 0);
    os.attribute("input", json::fixUTF8(in));
    os.attribute("output", json::fixUTF8(out));
    os.attribute("lost_anything", recovered->lostAnything());
    os.attribute("was_complete", recovered->wasComplete);
    os.attribute("index_rebuilt", recovered->indexRebuilt);
    os.attribute("blocks_kept", recovered->blocksGood);
    os.attribute("blocks_lost", recovered->blocksLost);
    os.attribute("windows_kept", recovered->windowsKept);
    os.attribute("windows_lost", recovered->windowsLost);
    os.attribute("packets_kept", recovered->packetsKept);
    os.attribute("packets_lost", recovered->packetsLost);
    os.attribute("packets_added", recovered->packetsAdded);
    os.attribute("payloads_lost", recovered->payloadsLost);
    os.attribute("unknown_loss", recovered->unknownLoss);
    os.attributeArray("notes", [&] {
      for (const std::string &note : recovered->notes)
        os.value(json::fixUTF8(note));
    });
  } else {
    writeText(outs(), in, out, *recovered);
  }
  return report.finish(recovered->lostAnything() ? 5 : 0);
}

} // namespace tapeback
