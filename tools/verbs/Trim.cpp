// tapeback trim: a window range as a tape of its own that still replays, or the reason why there can be none.
#include "replayer/Trim.h"
#include "tools/CommandLine.h"
#include "tools/OutputFile.h"
#include "tools/PacketPrinter.h"
#include "tools/Progress.h"
#include "tools/Range.h"
#include "tools/Report.h"
#include "tools/Verb.h"

using namespace llvm;

namespace tapeback {
namespace {

constexpr VerbHelp trimHelp = {
    "trim",
    "Make a window range a tape of its own",
    "TAPE --range RANGE -o OUT [--start auto|keyframe|prefix] [--force] [--json]",
    "OUT replays like that part of TAPE, from a state that is established first: by a keyframe that can be\n"
    "restored at the cut, or by a pinned prefix, packets from before the range that are replayed, too, but\n"
    "are marked as not of it. Where neither can be, trim refuses and says why. A range that names packets "
    "or\n"
    "markers (`tapeback dump --help` has the grammar) is widened to whole windows. OUT carries TAPE's root\n"
    "as its parent, and the failure's signature if the failure lies in the range.\n",
    "  tapeback trim run.tape --range w100..w140 -o part.tape\n"
    "  tapeback trim run.tape --range '@dma#7..end' -o tail.tape --start prefix\n",
    "  0  OUT was written\n"
    "  2  bad usage, or the range cannot be a tape that replays; nothing was written\n"
    "  3  TAPE is damaged, unfinished, or no tape\n"
    "  5  OUT could not be written (disk full)\n"};

void writeJson(json::OStream &os, StringRef tape, StringRef out, const TapeRange &range,
               const TrimReport &trimmed) {
  os.attribute("input", json::fixUTF8(tape));
  os.attribute("output", json::fixUTF8(out));
  os.attribute("first_window", range.firstWindow);
  os.attribute("last_window", range.firstWindow + range.windowCount - 1);
  os.attribute("root", toHex(trimmed.summary.root));
  os.attribute("packets", trimmed.summary.packets);
  os.attribute("windows", trimmed.summary.windows);
  os.attribute("first_packet", trimmed.firstPacket);
  os.attribute("prefix_packets", trimmed.prefixPackets);
  os.attribute("prefix_windows", trimmed.prefixWindows);
  os.attribute("keyframe", trimmed.keyframe);
  os.attribute("start", json::fixUTF8(trimmed.how));
  os.attribute("links_cut", trimmed.linksCut);
  os.attribute("failure_inside", trimmed.failureInside);
  os.attributeArray("notes", [&] {
    for (const std::string &note : trimmed.notes)
      os.value(json::fixUTF8(note));
  });
}

void writeText(raw_ostream &os, StringRef tape, StringRef out, const TapeRange &range,
               const TrimReport &trimmed) {
  os << tape << " w" << range.firstWindow << "..w" << range.firstWindow + range.windowCount - 1 << " -> "
     << out << ": " << trimmed.summary.windows << " windows, " << trimmed.summary.packets << " packets\n";
  os << "  root     " << toHex(trimmed.summary.root) << "\n";
  os << "  start    " << trimmed.how << "\n";
  if (trimmed.prefixPackets)
    os << "  prefix   " << trimmed.prefixWindows << " windows, " << trimmed.prefixPackets
       << " packets, replayed to establish the state\n";
  if (trimmed.linksCut)
    os << "  links    " << trimmed.linksCut
       << " packets referred to something before the start and no longer do\n";
  os << "  failure  " << (trimmed.failureInside ? "in the range" : "not in the range, or there is none")
     << "\n";
  for (const std::string &note : trimmed.notes)
    os << "  - " << note << "\n";
}

} // namespace

int runTrim(ArrayRef<const char *> args) {
  cl::opt<std::string> tape(cl::Positional, cl::Required, cl::desc("TAPE"));
  cl::opt<std::string> range("range", cl::Required, cl::desc("The windows to keep"), cl::value_desc("RANGE"));
  cl::opt<std::string> out("output", cl::Required, cl::desc("Where to write the new tape"),
                           cl::value_desc("OUT"));
  cl::alias outShort("o", cl::desc("Short for --output"), cl::aliasopt(out), cl::NotHidden);
  cl::opt<std::string> start(
      "start",
      cl::desc("How the state at the cut may be established: auto (the default: keyframe, else the shortest "
               "prefix), keyframe or prefix (all from the tape's start)"),
      cl::value_desc("HOW"), cl::init("auto"));
  cl::opt<bool> force("force", cl::desc("Overwrite OUT if it exists"));
  CommandLine line(trimHelp);
  if (std::optional<int> exit = line.parse(args))
    return *exit;
  Report report("trim", line.json());
  TrimOptions options;
  if (start == "keyframe")
    options.start = TrimOptions::Start::Keyframe;
  else if (start == "prefix")
    options.start = TrimOptions::Start::Prefix;
  else if (start != "auto")
    return report.fail(Failure(FailureClass::Usage, "bad-option-value", "there is no start '" + start + "'",
                               "--start", "use auto, keyframe or prefix"));
  // The grammar first: it costs nothing.
  Expected<RangeExpression> parsed = parseRange(range);
  if (!parsed)
    return report.fail(parsed.takeError());
  if (Error error = checkOutputFile(out, tape, force))
    return report.fail(std::move(error));
  Expected<std::unique_ptr<TapeSource>> source = TapeSource::open(tape);
  if (!source)
    return report.fail(source.takeError());
  Expected<TapeRange> resolved = resolveRange(*parsed, (*source)->reader());
  if (!resolved)
    return report.fail(resolved.takeError());
  options.firstWindow = resolved->firstWindow;
  options.lastWindow = resolved->firstWindow + resolved->windowCount - 1;
  std::optional<Progress> progress(std::in_place, "writing", 0);
  options.progress = [&](uint64_t done, uint64_t total) { progress->show(done, total); };
  Expected<TrimReport> trimmed = trimTape(**source, out, options);
  progress.reset();
  if (!trimmed)
    return report.fail(trimmed.takeError());
  if (report.json()) {
    report.verdict(0);
    writeJson(report.object(), tape, out, *resolved, *trimmed);
  } else {
    writeText(outs(), tape, out, *resolved, *trimmed);
  }
  return report.finish(0);
}

} // namespace tapeback
