// tapeback import: a tape of what another tool recorded.
#include "recorder/import/Import.h"
#include "format/Text.h"
#include "hal/description/Description.h"
#include "tools/CommandLine.h"
#include "tools/OutputFile.h"
#include "tools/Progress.h"
#include "tools/Report.h"
#include "tools/Verb.h"

using namespace llvm;

namespace tapeback {
namespace {

constexpr VerbHelp importHelp = {
    "import",
    "Make a tape of what another tool recorded",
    "[--from KIND] FILE… -o TAPE [options]",
    "KIND is found out from the first file if it is not named; several files are one capture, in that "
    "order:\n"
    "  qtest       QEMU qtest: scripts, logs of commands and replies, bug reports\n"
    "  mmiotrace   Linux mmiotrace of a kernel driver\n"
    "  vfio-trace  QEMU trace events of a device passed through with VFIO\n"
    "  nvdla-txn   NVDLA trace, older form (input.txn); images beside it are read\n"
    "  nvdla-cfg   NVDLA trace, newer form (NAME.cfg); images beside it are read\n"
    "  mali-log    register log of a Mali GPU (GPUReplay)\n"
    "  nvme-trace  Linux NVMe trace events\n"
    "  vcd         waveform with an AXI or AXI-Lite port (--signals)\n"
    "\n"
    "Every line is imported, ignored by a rule, lost at the source, or not understood; the report counts "
    "them.\n"
    "What the source lost, and lines that were not understood, are losses on the tape, so that a replay "
    "does\n"
    "not cross them unseen. What the format never tells (memory, interrupts) is in the tape's manifest, and "
    "a\n"
    "replay grades what depends on it as not captured. The tape is written whole or not at all.\n",
    "  tapeback import trace.log -o trace.tape\n"
    "  tapeback import --from mmiotrace --description nvme.yaml mmio.txt -o nvme.tape\n"
    "  tapeback import --from vcd --signals ports.map dump.vcd -o bus.tape\n"
    "  tapeback import --from qtest --qemu-args \"$(cat machine.args)\" bug.qtest -o bug.tape\n"
    "  tapeback replay bug.tape\n",
    "  0  all of the capture is on the tape\n"
    "  2  bad usage; the capture cannot be read, is of no known kind, or has no events\n"
    "  5  the tape was written, but lines were not understood, the source lost some, or files are missing\n"};

Error addDescription(StringRef given, ImportOptions &options) {
  auto [alias, name] = given.split('=');
  if (name.empty())
    std::swap(alias, name);
  Expected<DescriptionText> text = loadDescriptionText(name);
  if (!text)
    return text.takeError();
  Expected<Description> description = parseDescription(text->text, text->name);
  if (!description)
    return description.takeError();
  DeviceRecord record;
  record.description = text->text;
  record.descriptionName = text->title;
  if (alias.empty()) {
    options.settings.description = text->text;
    options.settings.descriptionName = text->name;
  }
  if (!options.descriptions.try_emplace(alias.str(), std::move(record)).second)
    return failUsage("bad-option", "--description is given twice for the same devices", "--description",
                     "with several devices: --description ALIAS=FILE");
  return Error::success();
}

void writeRemark(json::OStream &os, const ImportRemark &remark) {
  os.object([&] {
    os.attribute("code", remark.code);
    os.attribute("message", json::fixUTF8(remark.message));
    os.attribute("where", json::fixUTF8(remark.where));
  });
}

void writeJson(json::OStream &os, const ImportOptions &options, const ImportReport &report) {
  os.attribute("kind", report.kind);
  os.attribute("output", json::fixUTF8(options.output));
  os.attribute("lacks", report.lacks);
  os.attributeObject("lines", [&] {
    os.attribute("total", report.lines);
    os.attribute("imported", report.imported);
    os.attribute("ignored", report.ignoredLines());
    os.attribute("lost", report.lost);
    os.attribute("not_understood", report.notUnderstood);
  });
  os.attributeObject("ignored", [&] {
    for (const auto &[rule, count] : report.ignored)
      os.attribute(rule, count);
  });
  os.attributeArray("not_understood", [&] {
    for (const ImportRemark &remark : report.shown)
      writeRemark(os, remark);
  });
  os.attributeObject("normalised", [&] {
    os.attribute("carriage_returns", report.carriage);
    os.attribute("joined_lines", report.joined);
  });
  os.attribute("times_backward", report.timesBackward);
  os.attribute("source_losses", report.sourceLosses);
  os.attributeObject("warning_counts", [&] {
    for (const auto &[code, count] : report.warningCounts)
      os.attribute(code, count);
  });
  os.attributeArray("warnings", [&] {
    for (const ImportRemark &remark : report.warnings)
      writeRemark(os, remark);
  });
}

void writeText(raw_ostream &os, const ImportOptions &options, const ImportReport &report) {
  os << options.output << ": " << report.summary.packets << " packets in " << report.summary.windows
     << " windows from " << report.kind << "\n";
  os << "  lines     " << report.lines << ": " << report.imported << " imported, " << report.ignoredLines()
     << " ignored by rule, " << report.lost << " lost at the source, " << report.notUnderstood
     << " not understood\n";
  for (const auto &[rule, count] : report.ignored)
    os << "  ignored   " << count << " " << rule << "\n";
  if (report.carriage)
    os << "  normal    " << report.carriage << " lines ended in CR LF\n";
  if (report.joined)
    os << "  normal    " << report.joined << " events spanned two lines and were joined\n";
  if (report.timesBackward)
    os << "  times     ran backward " << report.timesBackward << " times; kept as they are\n";
  if (!report.lacks.empty())
    os << "  lacks     " << report.lacks << "\n";
  if (report.lossForMemory)
    os << "            (a loss before the first write says so, and a replay is incomplete; --registers-only "
          "if the "
          "device uses no memory)\n";
}

/// What needs a person's eye, on standard error; also when the import failed.
void writeRemarks(Report &report, const ImportReport &result) {
  for (const ImportRemark &remark : result.shown)
    report.warn(remark.where + ": " + remark.message);
  if (result.notUnderstood > result.shown.size())
    report.warn(std::to_string(result.notUnderstood - result.shown.size()) +
                " more lines were not understood");
  std::map<std::string, uint64_t> shown;
  for (const ImportRemark &remark : result.warnings) {
    ++shown[remark.code];
    report.warn(remark.where + ": " + remark.message);
  }
  for (const auto &[code, count] : result.warningCounts)
    if (count > shown[code])
      report.warn(std::to_string(count - shown[code]) + " more of the kind '" + code + "'");
}

} // namespace

int runImport(ArrayRef<const char *> args) {
  cl::list<std::string> files(cl::Positional, cl::OneOrMore, cl::desc("FILE…"));
  cl::opt<std::string> out("output", cl::Required, cl::desc("Where to write the tape"),
                           cl::value_desc("TAPE"));
  cl::alias outShort("o", cl::desc("Short for --output"), cl::aliasopt(out), cl::NotHidden);
  cl::opt<bool> force("force", cl::desc("Overwrite TAPE if it exists"));
  cl::opt<std::string> from("from", cl::desc("What recorded it; default: found out"), cl::value_desc("KIND"));
  cl::list<std::string> descriptions("description",
                                     cl::desc("Device description, a file or a name; repeat with ALIAS="),
                                     cl::value_desc("[ALIAS=]FILE"));
  cl::opt<std::string> space("space", cl::desc("Register space, where the format names none (default bar0)"),
                             cl::value_desc("NAME"));
  cl::opt<std::string> signals("signals", cl::desc("vcd: which signals make a port"), cl::value_desc("MAP"));
  cl::opt<std::string> qemuArgs("qemu-args", cl::desc("qtest: QEMU's command line, if the report has none"),
                                cl::value_desc("ARGS"));
  cl::opt<std::string> died("died", cl::desc("qtest: QEMU ended so (SIGABRT, exit-1): the tape's signature"),
                            cl::value_desc("NAME"));
  cl::opt<std::string> lastWords("last-words", cl::desc("qtest: what QEMU said last, with --died"),
                                 cl::value_desc("TEXT"));
  cl::opt<bool> registersOnly(
      "registers-only", cl::desc("The device uses no memory: nothing is missing where the format has none"));
  NumberOption wait("wait-ms", cl::desc("Bound of waits that the format gives none for (default: 1000)"),
                    cl::value_desc("MS"), cl::init(1000));
  CommandLine line(importHelp);
  if (std::optional<int> exit = line.parse(args))
    return *exit;
  Report report("import", line.json());
  ImportOptions options;
  options.kind = from;
  options.files.assign(files.begin(), files.end());
  options.output = out;
  options.registersOnly = registersOnly;
  options.settings.space = space;
  options.settings.qemuArgs = qemuArgs;
  options.settings.diedName = died;
  options.settings.lastWords = lastWords;
  if (!lastWords.empty() && died.empty())
    return report.fail(
        failUsage("bad-option", "last words of what?", "--last-words", "say --died NAME, too"));
  if (wait == 0 || wait > 3'600'000)
    return report.fail(failUsage("bad-option", "a wait is 1 ms to an hour", "--wait-ms"));
  options.settings.waitNs = wait * 1'000'000;
  for (const std::string &file : options.files)
    if (Error error = checkOutputFile(out, file, force))
      return report.fail(std::move(error));
  for (const std::string &given : descriptions)
    if (Error error = addDescription(given, options))
      return report.fail(std::move(error));
  if (!signals.empty()) {
    Expected<std::string> text = readTextFile(signals);
    if (!text)
      return report.fail(text.takeError());
    options.settings.signals = std::move(*text);
    options.settings.signalsName = signals;
  }
  ImportReport result;
  {
    Progress progress("import", 0);
    options.progress = [&](uint64_t bytes) { progress.show(bytes); };
    if (Error error = importCapture(options, result)) {
      Failure failure = toFailure(std::move(error));
      writeRemarks(report, result);
      if (!result.lines)
        return report.fail(failure);
      report.verdict(exitCodeOf(failure));
      writeJson(report.object(), options, result);
      report.error(failure);
      return report.finish(exitCodeOf(failure));
    }
  }
  int code = result.lostAnything() ? 5 : 0;
  writeRemarks(report, result);
  if (report.json()) {
    report.verdict(code);
    writeJson(report.object(), options, result);
    report.object().attribute("packets", result.summary.packets);
    report.object().attribute("windows", result.summary.windows);
    report.object().attribute("root", toHex(result.summary.root));
  } else {
    writeText(outs(), options, result);
  }
  return report.finish(code);
}

} // namespace tapeback
