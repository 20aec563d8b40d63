// A tape of a device that QEMU has, as a script for a QEMU of somebody who does not have Tapeback: it is run
// as its own first lines say, with a shell, and fails where a replay fails and only there.
#include "tests/hal/qemu/EduDriver.h"
#include "tests/support/RunProgram.h"
#include <doctest/doctest.h>
#include <fstream>
#include <unistd.h>

using namespace tapeback;
using namespace tapeback::test;

namespace {

/// Opens edu, asks it something forty times, and has it fetch as many bytes as are asked for.
constexpr char transfer[] = R"(#include <stdint.h>
#include <stdlib.h>
#include <tapeback.h>
int main(int argc, char **argv) {
  tb_device *device = NULL;
  uint64_t iova = 0, last = 0;
  uint32_t value = 0, i, count = argc > 1 ? (uint32_t)atoi(argv[1]) : 0;
  if (tb_open(NULL, &device) < 0 || tb_alloc(device, 8192, 0, &iova, NULL) < 0)
    return 3;
  for (i = 0; i < 40; ++i)
    if (tb_write32(device, "bar0", 4, i * 77) < 0 || tb_read32(device, "bar0", 4, &value) < 0 ||
        tb_check_equal(device, "liveness", (uint32_t)~(i * 77), value) < 0)
      return 3;
  if (tb_write64(device, "bar0", 0x80, iova) < 0 || tb_write64(device, "bar0", 0x88, 0x40000) < 0 ||
      tb_write64(device, "bar0", 0x90, count) < 0 || tb_write64(device, "bar0", 0x98, 1) < 0 ||
      tb_poll(device, "bar0", 0x98, 8, 1, 0, 1000000000u, &last) < 0)
    return 3;
  return tb_close(device) < 0 ? 3 : 0;
}
)";

struct Script {
  ScratchDirectory scratch;
  std::string tape = scratch.file("run.tape"), script = scratch.file("run.qtest");

  void record(const std::string &target, const std::vector<std::string> &program) {
    std::vector<std::string> command{
        tapebackProgram(), "record", "--force", "--target", target, "-o", tape, "--"};
    command.insert(command.end(), program.begin(), program.end());
    RunResult run = runProgram(command);
    REQUIRE_MESSAGE(run.exited(0), run);
  }
  void recordTransfer(unsigned bytes) {
    const std::string source = scratch.file("transfer.c"), program = scratch.file("transfer");
    std::ofstream(source) << transfer;
    RunResult compiled =
        runProgram({"/usr/bin/env", "cc", "-I" TAPEBACK_SOURCE_DIR "/recorder", source, "-o", program,
                    "-L" TAPEBACK_BINARY_DIR "/lib", "-Wl,-rpath," TAPEBACK_BINARY_DIR "/lib", "-ltapeback"});
    REQUIRE_MESSAGE(compiled.exited(0), compiled);
    record("model:edu", {program, std::to_string(bytes)});
  }
  void write(const std::string &from) {
    RunResult run = runProgram({tapebackProgram(), "export", from, "--to", "qtest", "--force", "-o", script});
    REQUIRE_MESSAGE(run.exited(0), run);
  }
  /// As the script's comment says.
  RunResult run(const std::string &more = {}) const {
    return runProgram({"/bin/sh", "-c", "sed -n 's/^#sh //p' \"$1\" | sh -s \"$1\" $2", "sh", script, more});
  }
};

} // namespace

TEST_CASE("export to qtest: a transfer that QEMU dies of, reduced, kills a QEMU of anybody's") {
#ifdef TAPEBACK_SANITIZED
  TB_SKIP("a plain C program cannot be linked to a library that is made for sanitizers");
#endif
  TB_NEED_QEMU();
  Script made;
  made.recordTransfer(4096);
  const std::string small = made.scratch.file("small.tape");
  RunResult reduced = runProgram({tapebackProgram(), "reduce", made.tape, "--target", "qemu:edu", "--against",
                                  "model:edu", "-o", small, "--max-runs", "12"});
  REQUIRE_MESSAGE((reduced.exited(0) || reduced.exited(5)), reduced);
  made.write(small);
  RunResult run = made.run();
  CHECK_MESSAGE(run.exited(128 + 6), run);
  CHECK_MESSAGE(run.out.find("QEMU died of signal 6") != std::string::npos, run);
  CHECK_MESSAGE(run.err.find("EDU: DMA range") != std::string::npos, run);

  // Our own importer takes it back, and a replay of that dies in the same way.
  const std::string back = made.scratch.file("back.tape");
  RunResult imported = runProgram({tapebackProgram(), "import", made.script, "-o", back});
  CHECK_MESSAGE(imported.exited(0), imported);
  RunResult replayed = runProgram({tapebackProgram(), "replay", back, "--target", "qtest:"});
  CHECK_MESSAGE(replayed.exited(4), replayed);
  CHECK_MESSAGE(replayed.err.find("EDU: DMA range") != std::string::npos, replayed);
}

TEST_CASE("export to qtest: a byte less, and QEMU lives and answers as was recorded") {
#ifdef TAPEBACK_SANITIZED
  TB_SKIP("a plain C program cannot be linked to a library that is made for sanitizers");
#endif
  TB_NEED_QEMU();
  Script made;
  made.recordTransfer(4095);
  made.write(made.tape);
  RunResult run = made.run();
  CHECK_MESSAGE(run.exited(0), run);
  CHECK_MESSAGE(run.out.find("99 answers to 99 commands") != std::string::npos, run);

  // Whoever changes what is expected is told which answer is another.
  RunResult edited =
      runProgram({"/bin/sed", "-i", "s/^# expect OK 0x00000000ffffffb2$/# expect OK 0x1/", made.script});
  REQUIRE_MESSAGE(edited.exited(0), edited);
  RunResult differs = made.run();
  CHECK_MESSAGE(differs.exited(1), differs);
  CHECK_MESSAGE(differs.out.find("readl 0xe0000004: expected OK 0x1, answered OK 0x00000000ffffffb2") !=
                    std::string::npos,
                differs);
}
