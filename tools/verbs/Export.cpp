// tapeback export: a tape in a form that others can use.
#include "tools/CommandLine.h"
#include "tools/OutputFile.h"
#include "tools/Report.h"
#include "tools/Verb.h"
#include "tools/export/CProgram.h"
#include "llvm/Support/FileUtilities.h"

using namespace llvm;

namespace tapeback {
namespace {

constexpr VerbHelp exportHelp = {
    "export",
    "Write a tape as a program or script that runs without Tapeback's tools",
    "TAPE --to c -o OUT [--force] [--json]",
    "c: a C program against the C API (tapeback.h). It makes the tape's accesses, stores its memory, waits "
    "for\n"
    "what was waited for, and makes its checks: it exits 0 if all hold, 1 if one does not, 3 if the target "
    "fails\n"
    "or places memory elsewhere than the tape has it. Meant for what `tapeback reduce` leaves.\n",
    "  tapeback export small.tape --to c -o small.c\n"
    "  cc small.c libtapeback.so && TAPEBACK_TARGET=rtl:minnow ./a.out\n",
    "  0  OUT was written\n"
    "  2  bad usage, or this tape cannot be written so\n"
    "  3  TAPE is damaged, unfinished, or no tape\n"
    "  5  OUT could not be written (disk full)\n"};

} // namespace

int runExport(ArrayRef<const char *> args) {
  cl::opt<std::string> tape(cl::Positional, cl::Required, cl::desc("TAPE"));
  cl::opt<std::string> to("to", cl::Required, cl::desc("What to write: c"), cl::value_desc("KIND"));
  cl::opt<std::string> out("output", cl::Required, cl::desc("Where to write it"), cl::value_desc("OUT"));
  cl::alias outShort("o", cl::desc("Short for --output"), cl::aliasopt(out), cl::NotHidden);
  cl::opt<bool> force("force", cl::desc("Overwrite OUT if it exists"));
  CommandLine line(exportHelp);
  if (std::optional<int> exit = line.parse(args))
    return *exit;
  Report report("export", line.json());
  if (to != "c")
    return report.fail(Failure(FailureClass::Usage, "bad-option-value", "there is no export to '" + to + "'",
                               "--to", "use c"));
  if (Error error = checkOutputFile(out, tape, force))
    return report.fail(std::move(error));
  Expected<std::unique_ptr<TapeSource>> source = TapeSource::open(tape);
  if (!source)
    return report.fail(source.takeError());
  std::string text;
  raw_string_ostream os(text);
  Expected<CProgramReport> program = exportCProgram(**source, os);
  if (!program)
    return report.fail(program.takeError());
  // Published by rename: whoever looks sees all of it or nothing.
  if (Error error = writeToOutput(out, [&](raw_ostream &file) {
        file << text;
        return Error::success();
      }))
    return report.fail(failSystem("write-failed", toFailure(std::move(error)).message, out));
  if (report.json()) {
    report.verdict(0);
    json::OStream &object = report.object();
    object.attribute("input", json::fixUTF8(tape));
    object.attribute("output", json::fixUTF8(out));
    object.attribute("calls", program->calls);
    object.attribute("checks", program->checks);
    object.attribute("trigger_points", program->triggerPoints);
    object.attributeObject("left_out", [&] {
      for (const auto &[kind, count] : program->leftOut)
        object.attribute(kind, count);
    });
  } else {
    outs() << tape << " -> " << out << ": " << program->calls << " calls, " << program->checks << " checks";
    if (program->triggerPoints)
      outs() << ", " << program->triggerPoints << " trigger points";
    outs() << "\n";
    for (const auto &[kind, count] : program->leftOut)
      outs() << "  left out " << count << " " << kind << "\n";
  }
  return report.finish(0);
}

} // namespace tapeback
