// Imports as users make them: the command, files, tapes that verify, replays that are honest.
#include "recorder/import/Import.h"
#include "Captures.h"
#include "format/TapeReader.h"
#include "tests/support/RunProgram.h"
#include "tests/support/Skip.h"
#include "llvm/Support/JSON.h"
#include <algorithm>
#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>

using namespace tapeback;
using namespace tapeback::test;
namespace fs = std::filesystem;

namespace {

void store(const std::string &path, const std::string &text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::vector<std::string> filesIn(const std::string &folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

RunResult import(const std::vector<std::string> &arguments) {
  std::vector<std::string> command = {tapebackProgram(), "import"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return runProgram(command);
}

int replay(const std::string &tape) {
  return runProgram({tapebackProgram(), "replay", tape, "--target", "model:edu"}).exit;
}

/// The lines of a JSON report: total, imported, ignored, lost, not understood; empty if it has none.
std::vector<int64_t> linesOf(const std::string &text) {
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(text);
  if (!value) {
    llvm::consumeError(value.takeError()); // The caller's check fails.
    return {};
  }
  const llvm::json::Object *lines = value->getAsObject()->getObject("lines");
  std::vector<int64_t> numbers;
  for (const char *name : {"total", "imported", "ignored", "lost", "not_understood"})
    if (lines)
      numbers.push_back(lines->getInteger(name).value_or(-1));
  return numbers;
}

} // namespace

TEST_CASE("a device is refused, whatever kind of capture it is said to be; a pipe is read") {
  ScratchDirectory scratch;
  std::string tape = scratch.path() + "/out.tape";
  for (const char *kind :
       {"", "qtest", "mmiotrace", "vfio-trace", "nvdla-txn", "nvdla-cfg", "mali-log", "nvme-trace", "vcd"})
    for (const char *device : {"/dev/zero", "/dev/null"}) {
      CAPTURE(kind);
      std::vector<std::string> arguments{device, "-o", tape};
      if (*kind)
        arguments.insert(arguments.begin(), {"--from", kind});
      RunResult result = import(arguments);
      CHECK_MESSAGE(result.exited(2), result);
      // Waveforms are read twice, and refuse pipes, too; without --signals before anything is opened.
      if (std::string(kind) != "vcd")
        CHECK_MESSAGE(result.err.find("this is a device, not a file") != std::string::npos, result);
    }
  CHECK(scratch.names().empty());
  RunOptions piped;
  piped.input = mmiotraceText;
  RunResult result = runProgram(
      {tapebackProgram(), "import", "--json", "--from", "mmiotrace", "/dev/stdin", "-o", tape}, piped);
  REQUIRE_MESSAGE(result.exited(5), result);
  CHECK(linesOf(result.out) == std::vector<int64_t>{10, 6, 2, 2, 0});
}

TEST_CASE("a tape with manifest, clock and description") {
  ScratchDirectory scratch;
  std::string capture = scratch.path() + "/trace.txt", tape = scratch.path() + "/out.tape";
  store(capture, mmiotraceText);
  RunResult result = import({capture, "-o", tape, "--json", "--description", "03:02.0=edu"});
  REQUIRE_MESSAGE(result.exited(5), result);
  CHECK(linesOf(result.out) == std::vector<int64_t>{10, 6, 2, 2, 0});
  CHECK(bool(verifyTape(tape)));
  std::unique_ptr<TapeReader> reader = llvm::cantFail(TapeReader::open(tape));
  CHECK(reader->manifest().facts.at("x-import-kind") == "mmiotrace");
  CHECK(reader->manifest().facts.at("x-import-files") == "trace.txt");
  CHECK(reader->manifest().facts.at("x-import-lacks").find("memory contents") == 0);
  REQUIRE(reader->clocks().size() == 2);
  CHECK(reader->clocks()[1].name == "kernel-trace");
  CHECK(reader->devices()[0].descriptionName == "edu");
  CHECK(reader->devices()[1].descriptionName.empty());
  CHECK(reader->outcome().text.find("of 10 lines 6 imported") != std::string::npos);
  CHECK(runProgram({tapebackProgram(), "info", tape}).exited(0));
  RunResult dump = runProgram({tapebackProgram(), "dump", tape});
  CHECK_MESSAGE(dump.exited(0), dump);
  CHECK(dump.out.find("[imported]") != std::string::npos);
  // Not a second time over it.
  CHECK(import({capture, "-o", tape}).exited(2));
  CHECK(import({capture, "-o", capture, "--force"}).exited(2));
}

TEST_CASE("never half a tape") {
  ScratchDirectory scratch;
  std::string empty = scratch.path() + "/empty", odd = scratch.path() + "/odd",
              tape = scratch.path() + "/out.tape";
  store(empty, "VERSION 20070824\nPCIDEV 0000 80865af0 0 0 0\nwrapped\n");
  store(odd, "nothing that anybody knows\n");
  RunResult none = import({empty, "-o", tape});
  CHECK_MESSAGE(none.exited(2), none);
  CHECK(none.err.find("no-events") == std::string::npos);
  CHECK(none.err.find(empty + ":2:") != std::string::npos);
  CHECK(linesOf(import({empty, "-o", tape, "--json"}).out) == std::vector<int64_t>{3, 0, 1, 0, 2});
  CHECK(import({odd, "-o", tape}).exited(2));
  CHECK(import({odd, "--from", "qtest", "-o", tape}).exited(2));
  CHECK(import({odd, "--from", "nonsense", "-o", tape}).exited(2));
  CHECK(import({scratch.path() + "/gone", "-o", tape}).exited(2));
  CHECK(import({scratch.path(), "-o", tape}).exited(2));
  CHECK(import({empty, odd + "x", "-o", tape}).exited(2));
  CHECK(import({empty, "-o", tape, "--wait-ms", "0"}).exited(2));
  CHECK(import({empty, "--from", "qtest", "--qemu-args", "-kernel x", "-o", tape}).exited(2));
  CHECK(filesIn(scratch.path()) == std::vector<std::string>{"empty", "odd"});
}

TEST_CASE("a replay of an imported tape is honest") {
  ScratchDirectory scratch;
  std::string capture = scratch.path() + "/trace.log", tape = scratch.path() + "/t.tape";
  std::string text = "vfio_region_read  (d:region0+0x0, 4) = 0x10000ed\n"
                     "vfio_region_write  (d:region0+0x4, 0x12345678, 4)\n"
                     "vfio_region_read  (d:region0+0x4, 4) = 0xedcba987\n";
  store(capture, text);
  // All that the capture tells is as it was; but a device may have used memory that it does not tell of.
  CHECK(import({capture, "-o", tape}).exited(0));
  CHECK(replay(tape) == 5);
  // The user knows that it does not.
  CHECK(import({capture, "-o", tape, "--force", "--registers-only"}).exited(0));
  CHECK(replay(tape) == 0);
  // What differs before the first write cannot come from memory.
  store(capture, "vfio_region_read  (d:region0+0x8, 4) = 0x2\n" + text);
  CHECK(import({capture, "-o", tape, "--force"}).exited(0));
  CHECK(replay(tape) == 1);
  // A difference is one, if nothing is missing; behind a gap nobody can say.
  std::string wrong = text;
  wrong.replace(wrong.find("edcba987"), 8, "edcba986");
  store(capture, wrong);
  CHECK(import({capture, "-o", tape, "--force", "--registers-only"}).exited(0));
  CHECK(replay(tape) == 1);
  CHECK(import({capture, "-o", tape, "--force"}).exited(0));
  CHECK(replay(tape) == 5);
  store(capture, text + "--\n" + text);
  CHECK(import({capture, "-o", tape, "--force", "--registers-only"}).exited(5));
  CHECK(replay(tape) == 5);
}

TEST_CASE("NVDLA images and checks beside the trace") {
  ScratchDirectory scratch;
  std::string tape = scratch.path() + "/t.tape";
  store(scratch.path() + "/in.dat", "0x01 0x02 0x03 0x04 0x05 0x06 0x07 0x08\n");
  store(scratch.path() + "/out.dat", "0x01 0x02 0x03 0x04\n");
  store(scratch.path() + "/a.txn", nvdlaTxnText);
  CHECK(import({scratch.path() + "/a.txn", "-o", tape}).exited(0));
  CHECK(bool(verifyTape(tape)));
  store(scratch.path() + "/a.txn", "load_mem 0x80000000 0x8 ../in.dat\n");
  CHECK(import({scratch.path() + "/a.txn", "-o", tape, "--force"}).exited(5));
  // What is no file is not waited for.
  REQUIRE(mkfifo((scratch.path() + "/pipe.dat").c_str(), 0600) == 0);
  store(scratch.path() + "/a.txn", "load_mem 0x80000000 0x8 pipe.dat\n");
  RunResult pipe = import({scratch.path() + "/a.txn", "-o", tape, "--force"});
  CHECK_MESSAGE(pipe.exited(5), pipe);
  // Memory and its check, replayed: the device (edu) leaves memory alone.
  store(scratch.path() + "/b.txn", "load_mem 0x10000 0x8 in.dat\ndump_mem 0x10000 0x4 out.dat\n");
  CHECK(import({scratch.path() + "/b.txn", "-o", tape, "--force"}).exited(0));
  CHECK(replay(tape) == 0);
  store(scratch.path() + "/out.dat", "0x01 0x02 0x03 0x05\n");
  CHECK(import({scratch.path() + "/b.txn", "-o", tape, "--force"}).exited(0));
  CHECK(replay(tape) == 1);
  // Without the golden content nothing can be compared.
  fs::remove(scratch.path() + "/out.dat");
  CHECK(import({scratch.path() + "/b.txn", "-o", tape, "--force"}).exited(5));
  CHECK(replay(tape) == 5);
}

TEST_CASE("real captures by others") {
  const char *corpus = std::getenv("TAPEBACK_CORPUS");
  if (!corpus)
    TB_SKIP("TAPEBACK_CORPUS does not name a folder with captures");
  struct Folder {
    const char *name, *extension, *kind;
  };
  ScratchDirectory scratch;
  unsigned imported = 0, refused = 0;
  for (const Folder &folder : {Folder{"qtest", ".qtest", "qtest"},
                               {"mmiotrace", ".txt", "mmiotrace"},
                               {"vfio-trace", "", "vfio-trace"},
                               {"nvdla", ".txn", "nvdla-txn"},
                               {"nvdla", ".cfg", "nvdla-cfg"},
                               {"mali", "", "mali-log"},
                               {"nvme", "", "nvme-trace"}}) {
    std::error_code error;
    for (fs::recursive_directory_iterator it(fs::path(corpus) / folder.name, error), end; !error && it != end;
         it.increment(error)) {
      std::string path = it->path().string(), tape = scratch.path() + "/t.tape";
      if (!it->is_regular_file() || !llvm::StringRef(path).ends_with(folder.extension))
        continue;
      CAPTURE(path);
      ImportOptions options;
      options.files = {path};
      options.output = tape;
      options.writer.syncOnFinish = false;
      ImportReport report;
      if (llvm::Error failed = importCapture(options, report)) {
        std::string code = toFailure(std::move(failed)).code;
        CHECK_MESSAGE((code == "no-events" || code == "unknown-capture"), code);
        ++refused;
        continue;
      }
      ++imported;
      CHECK(report.lines == report.imported + report.ignoredLines() + report.lost + report.notUnderstood);
      CHECK(report.notUnderstood <= 3);
      if (report.kind != "qtest")
        CHECK(report.kind == folder.kind);
      llvm::Expected<VerifyReport> verified = verifyTape(tape);
      REQUIRE(bool(verified));
      CHECK(verified->packets == report.summary.packets);
    }
  }
  CHECK(imported >= 50);
  CHECK(refused == 3); // A header without events, text that is no trace, and replies alone.
}
