// tapeback export: a tape in a form that others can use.
#include "tools/CommandLine.h"
#include "tools/OutputFile.h"
#include "tools/Report.h"
#include "tools/Verb.h"
#include "tools/export/CProgram.h"
#include "tools/export/Captures.h"
#include "llvm/Support/FileUtilities.h"

using namespace llvm;

namespace tapeback {
namespace {

constexpr VerbHelp exportHelp = {
    "export",
    "Write a tape as a program or script that runs without Tapeback's tools",
    "TAPE --to c|qtest|mmiotrace|vfio-trace -o OUT [--force] [--json]",
    "c: a C program against the C API (tapeback.h). It makes the tape's accesses, stores its memory, waits "
    "for\n"
    "what was waited for, and makes its checks: it exits 0 if all hold, 1 if one does not, 3 if the target "
    "fails\n"
    "or places memory elsewhere than the tape has it. Meant for what `tapeback reduce` leaves.\n"
    "\n"
    "qtest, mmiotrace, vfio-trace: the capture that `tapeback import` would make this tape of, as far as "
    "such a\n"
    "capture can carry it. What it cannot is counted and named. A qtest script whose machine is known begins "
    "with\n"
    "QEMU's command line, and runs in a shell; one of a tape of edu or NVMe has the set-up of the PCI bus, "
    "too,\n"
    "and its first lines say how to run it: it exits 0 if all is as on the tape, 1 if not, 128 + the signal "
    "if\n"
    "QEMU died. BARs of a mmiotrace lie where no machine has any: the tape "
    "does "
    "not\n"
    "know where they were.\n",
    "  tapeback export small.tape --to c -o small.c\n"
    "  tapeback export bug.tape --to qtest -o bug.qtest\n"
    "  cc small.c libtapeback.so && TAPEBACK_TARGET=rtl:minnow ./a.out\n",
    "  0  OUT was written\n"
    "  2  bad usage, or this tape cannot be written so\n"
    "  3  TAPE is damaged, unfinished, or no tape\n"
    "  5  OUT could not be written (disk full)\n"};

int exportCapture(Report &report, TapeSource &source, const CaptureFormat &format, StringRef tape,
                  StringRef out) {
  CaptureReport written;
  std::optional<Failure> failed; // Of the tape; what else goes wrong is the file's.
  // Published by rename: whoever looks sees all of it or nothing.
  if (Error error = writeToOutput(out, [&](raw_ostream &file) -> Error {
        Expected<CaptureReport> result = format.write(source, file);
        if (result) {
          written = std::move(*result);
          return Error::success();
        }
        failed = toFailure(result.takeError());
        return make_error<Failure>(*failed);
      })) {
    Failure failure = toFailure(std::move(error));
    return report.fail(failed ? *failed
                              : Failure(FailureClass::System, "write-failed", failure.message, out.str()));
  }
  if (!report.json()) {
    outs() << tape << " -> " << out << ": " << written.events << " events";
    if (written.triggerPoints)
      outs() << ", " << written.triggerPoints << " trigger points";
    outs() << "\n";
    for (const auto &[what, count] : written.changed)
      outs() << "  changed  " << count << " " << what << "\n";
    for (const auto &[what, count] : written.leftOut)
      outs() << "  left out " << count << " " << what << "\n";
    return report.finish(0);
  }
  report.verdict(0);
  json::OStream &object = report.object();
  object.attribute("input", json::fixUTF8(tape));
  object.attribute("output", json::fixUTF8(out));
  object.attribute("events", written.events);
  object.attribute("trigger_points", written.triggerPoints);
  for (const auto &[key, counts] : {std::pair("changed", &written.changed), {"left_out", &written.leftOut}})
    object.attributeObject(key, [&] {
      for (const auto &[what, count] : *counts)
        object.attribute(what, count);
    });
  return report.finish(0);
}

} // namespace

int runExport(ArrayRef<const char *> args) {
  cl::opt<std::string> tape(cl::Positional, cl::Required, cl::desc("TAPE"));
  cl::opt<std::string> to("to", cl::Required, cl::desc("What to write: c, qtest, mmiotrace or vfio-trace"),
                          cl::value_desc("KIND"));
  cl::opt<std::string> out("output", cl::Required, cl::desc("Where to write it"), cl::value_desc("OUT"));
  cl::alias outShort("o", cl::desc("Short for --output"), cl::aliasopt(out), cl::NotHidden);
  cl::opt<bool> force("force", cl::desc("Overwrite OUT if it exists"));
  CommandLine line(exportHelp);
  if (std::optional<int> exit = line.parse(args))
    return *exit;
  Report report("export", line.json());
  const CaptureFormat *capture = findCaptureFormat(to);
  if (to != "c" && !capture)
    return report.fail(Failure(FailureClass::Usage, "bad-option-value", "there is no export to '" + to + "'",
                               "--to", "use c, qtest, mmiotrace or vfio-trace"));
  if (Error error = checkOutputFile(out, tape, force))
    return report.fail(std::move(error));
  Expected<std::unique_ptr<TapeSource>> source = TapeSource::open(tape);
  if (!source)
    return report.fail(source.takeError());
  if (capture)
    return exportCapture(report, **source, *capture, tape, out);
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
