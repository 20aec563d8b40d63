// The machine of an imported qtest capture: started as the tape says, driven, brought to rest, and what
// became of it told.
#include "format/TapeReader.h"
#include "hal/qemu/QemuOptions.h"
#include "hal/qemu/QtestMachine.h"
#include "hal/qemu/QtestTarget.h"
#include "tests/support/RunProgram.h"
#include "tests/support/Skip.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>

using namespace tapeback;
using namespace tapeback::test;
namespace fs = std::filesystem;

namespace {

/// Where a script finds its device: edu at 00:04.0, its registers at 0xe0000000.
constexpr const char *eduMachine = "qemu-system-i386 -M q35 -m 64M -nodefaults -device edu,addr=4";
constexpr const char *eduSetUp = "outl 0xcf8 0x80002010\noutl 0xcfc 0xe0000000\n"
                                 "outl 0xcf8 0x80002004\noutw 0xcfc 0x6\n";
/// QEMU 7.2 aborts on a transfer of 4,096 bytes, and only when its timer has run: behind the last command.
constexpr const char *eduTransfer = "writeq 0xe0000080 0x100000\nwriteq 0xe0000088 0x40000\n"
                                    "writeq 0xe0000090 0x1000\nwriteq 0xe0000098 0x1\n";
constexpr const char *exitMachine = "qemu-system-i386 -M pc -nodefaults -device isa-debug-exit,iobase=0xf4";

bool hasQemu(const std::string &architecture = "i386") {
  const char *path = std::getenv("PATH");
  return findInPath("qemu-system-" + architecture, path ? path : "").has_value();
}

struct Machine {
  int exit = -1;
  std::string verdict, lastWords, command, signatureName, signatureObject;
  bool known = false, survived = false;
  int64_t answered = -1, refused = -1, signal = 0, exitCode = 0;
  std::optional<bool> reproduced;
  std::string text; ///< All of it, for messages.
};

struct Scripts {
  ScratchDirectory scratch;
  std::string tape = scratch.path() + "/s.tape";

  RunResult import(const std::string &script, const std::vector<std::string> &more) {
    std::string path = scratch.path() + "/s.qtest";
    std::ofstream(path, std::ios::binary) << script;
    return importFile(path, more);
  }
  RunResult importFile(const std::string &path, const std::vector<std::string> &more) {
    std::vector<std::string> command = {tapebackProgram(), "import", "--from", "qtest", path, "-o", tape,
                                        "--force"};
    command.insert(command.end(), more.begin(), more.end());
    return runProgram(command);
  }
  Machine replay(const std::vector<std::string> &more = {}) {
    std::vector<std::string> command = {tapebackProgram(), "replay", tape, "--json"};
    command.insert(command.end(), more.begin(), more.end());
    RunResult run = runProgram(command);
    Machine result;
    result.exit = run.exit;
    result.text = run.out + run.err;
    llvm::Expected<llvm::json::Value> value = llvm::json::parse(run.out);
    if (!value) {
      llvm::consumeError(value.takeError()); // The caller's checks fail.
      return result;
    }
    const llvm::json::Object &object = *value->getAsObject();
    result.verdict = object.getString("verdict").value_or("").str();
    if (std::optional<bool> reproduced = object.getBoolean("reproduced"))
      result.reproduced = reproduced;
    if (const llvm::json::Object *signature = object.getObject("signature")) {
      result.signatureName = signature->getString("name").value_or("").str();
      result.signatureObject = signature->getString("object").value_or("").str();
    }
    const llvm::json::Array *machines = object.getArray("machines");
    if (!machines || machines->size() != 1)
      return result;
    const llvm::json::Object &machine = *(*machines)[0].getAsObject();
    result.known = true;
    result.survived = machine.getBoolean("survived").value_or(false);
    result.answered = machine.getInteger("answered").value_or(-1);
    result.refused = machine.getInteger("refused").value_or(-1);
    result.signal = machine.getInteger("signal").value_or(0);
    result.exitCode = machine.getInteger("exit").value_or(0);
    result.lastWords = machine.getString("last_words").value_or("").str();
    result.command = machine.getString("command").value_or("").str();
    return result;
  }
};

} // namespace

TEST_CASE("qtest machine: survival, refusal") {
  if (!hasQemu())
    TB_SKIP("no qemu-system-i386");
  Scripts scripts;
  CHECK(scripts
            .import(std::string(eduSetUp) + "write 0x2000 0x8 0x0102\nmemset 0x3000 0x10 0x5a\n",
                    {"--qemu-args", eduMachine})
            .exited(0));
  Machine fine = scripts.replay();
  CHECK_MESSAGE(fine.exit == 0, fine.text);
  CHECK(fine.verdict == "match");
  CHECK(fine.survived);
  CHECK(fine.answered == 6);
  CHECK(fine.refused == 0);
  // What the machine answers is compared with what it answered: a log, right and wrong.
  std::string log = std::string(eduSetUp) + "OK\n";
  log = "outl 0xcf8 0x80002000\nOK\ninl 0xcfc\nOK 0x11e81234\nwrite 0x2000 0x4 0x0102\nOK\n"
        "read 0x2000 0x4\nOK 0x01020000\nreadq 0x2000\nOK 0x0000000000000201\n";
  CHECK(scripts.import(log, {"--qemu-args", eduMachine}).exited(0));
  CHECK(scripts.replay().exit == 0);
  for (auto [right, wrong] : {std::pair("0x11e81234", "0x11e81235"), {"0x01020000", "0x01020001"}}) {
    std::string other = log;
    other.replace(other.find(right), 10, wrong);
    CHECK(scripts.import(other, {"--qemu-args", eduMachine}).exited(0));
    Machine differs = scripts.replay();
    CHECK_MESSAGE(differs.exit == 1, differs.text);
    CHECK(differs.survived);
  }
  // Refused is not passed; nor is what no packet can say.
  CHECK(scripts
            .import(std::string(eduSetUp) + "clock_step\nclock_step 100\nclock_set 5\n",
                    {"--qemu-args", eduMachine, "--died", "SIGABRT"})
            .exited(0));
  Machine refused = scripts.replay();
  CHECK_MESSAGE(refused.exit == 5, refused.text);
  CHECK(refused.verdict == "incomplete");
  CHECK(refused.refused == 3);
  CHECK(refused.answered == 7);
  CHECK(refused.survived);
  CHECK(!refused.reproduced);
  CHECK(scripts.replay({"--expect", "signature"}).exit == 5);
  CHECK(scripts.import("outb 0x80 0x1\nset_irq_in /nobody a 1 1\n", {"--qemu-args", eduMachine}).exited(0));
  Machine nobody = scripts.replay();
  CHECK_MESSAGE(nobody.exit == 5, nobody.text);
  CHECK(nobody.answered == 2);
  CHECK(nobody.refused == 1);
}

TEST_CASE("qtest machine: interrupts, raised as in the capture") {
  if (!hasQemu())
    TB_SKIP("no qemu-system-i386");
  Scripts scripts;
  // The lines of a PC's interrupt controller, one of which is raised from outside.
  const std::string raise = "set_irq_in ioapic unnamed-gpio-in 5 1\nIRQ raise 5\nOK\n"
                            "set_irq_in ioapic unnamed-gpio-in 5 0\nIRQ lower 5\nOK\n";
  const std::string log = "irq_intercept_in ioapic\nOK\n" + raise + "outb 0x80 0x1\nOK\n" + raise;
  CHECK(scripts.import(log, {"--qemu-args", eduMachine}).exited(0));
  Machine fine = scripts.replay();
  CHECK_MESSAGE(fine.exit == 0, fine.text);
  CHECK(fine.verdict == "match");
  CHECK(fine.answered == 6);
  CHECK(fine.refused == 0);
  // An interrupt that does not come is missed.
  std::string other = log;
  other.replace(other.find("IRQ raise 5"), 11, "IRQ raise 6");
  CHECK(scripts.import(other, {"--qemu-args", eduMachine}).exited(0));
  Machine missing = scripts.replay();
  CHECK_MESSAGE(missing.exit == 1, missing.text);
  CHECK(missing.verdict == "divergence");
  // Nobody asked the machine for them: not captured, and no match.
  CHECK(scripts.import("outb 0x80 0x1\nOK\nIRQ raise 5\noutb 0x80 0x2\nOK\n", {"--qemu-args", eduMachine})
            .exited(0));
  Machine unasked = scripts.replay();
  CHECK_MESSAGE(unasked.exit == 5, unasked.text);
}

TEST_CASE("qtest machine: a malformed script does not bring the machine down by our doing") {
  if (!hasQemu())
    TB_SKIP("no qemu-system-i386");
  Scripts scripts;
  const std::string script = std::string(eduSetUp) +
                             "write 0x2000 0x8 0x0102\nreadq 0x2000\nb64write 0x3000 0x3 AQID\n"
                             "memset 0x4000 0x10 0x5a\ninl 0xcfc\n";
  std::string wrapped, doubled, shuffled, carriage, binary = script;
  std::vector<std::string> lines;
  for (size_t at = 0, end; at < script.size(); at = end + 1) {
    end = script.find('\n', at);
    lines.push_back(script.substr(at, end - at));
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    for (size_t at = 0; at < lines[i].size(); at += 9)
      wrapped += lines[i].substr(at, 9) + "\n";
    doubled += lines[i] + "\n" + lines[i] + "\nOK\nOK\n";
    shuffled += lines[i * 7 % lines.size()] + "\n";
    carriage += lines[i] + "\r\n";
  }
  for (size_t i = 3; i < binary.size(); i += 11)
    binary[i] = char(i * 37);
  for (const std::string &variant :
       {script.substr(0, script.size() - 13), wrapped, doubled, shuffled, carriage, binary,
        script + "write 0x2000 0x80000 0x" + std::string(1 << 20, 'a') + "\n"}) {
    CAPTURE(variant.substr(0, 200));
    RunResult imported = scripts.import(variant, {"--qemu-args", eduMachine});
    CHECK_MESSAGE((imported.exited(0) || imported.exited(5)), imported);
    Machine machine = scripts.replay({"--target", "qtest:?quiet=20"});
    CHECK_MESSAGE(machine.survived, machine.text);
  }
}

TEST_CASE("qtest machine: death is the signature") {
  if (!hasQemu())
    TB_SKIP("no qemu-system-i386");
  Scripts scripts;
  // At a command.
  const std::string exits = "outb 0x80 0x1\noutb 0xf4 0x1\noutb 0x80 0x2\n";
  CHECK(scripts.import(exits, {"--qemu-args", exitMachine}).exited(0));
  Machine gone = scripts.replay();
  CHECK_MESSAGE(gone.exit == 4, gone.text);
  CHECK(gone.verdict == "error");
  CHECK(!gone.survived);
  CHECK(gone.answered == 1);
  CHECK(gone.exitCode == 3);
  CHECK(gone.command == "outb 0xf4 0x1");
  CHECK(gone.signatureName == "exit-3");
  // A tape that says so expects it; one that says something else does not take it for that.
  CHECK(scripts.import(exits, {"--qemu-args", exitMachine, "--died", "exit-3"}).exited(0));
  Machine expected = scripts.replay({"--expect", "signature"});
  CHECK_MESSAGE(expected.exit == 0, expected.text);
  CHECK(expected.reproduced == true);
  CHECK(scripts.import(exits, {"--qemu-args", exitMachine, "--died", "SIGABRT"}).exited(0));
  CHECK(scripts.replay({"--expect", "signature"}).exit == 4);
  CHECK(scripts.import(exits, {"--qemu-args", exitMachine, "--died", "exit-3", "--last-words", "something"})
            .exited(0));
  CHECK(scripts.replay({"--expect", "signature"}).exit == 4);
  CHECK(scripts.replay({"--expect", "signature", "--match-level", "kind"}).exit == 0);
  CHECK(scripts.import("outb 0x80 0x1\n", {"--qemu-args", exitMachine, "--died", "exit-3"}).exited(0));
  CHECK(scripts.replay({"--expect", "signature"}).exit == 1);
  CHECK(scripts.import(exits, {"--qemu-args", exitMachine, "--last-words", "x"}).exited(2));
}

TEST_CASE("qtest machine: death at rest, behind the last command") {
  if (!hasQemu())
    TB_SKIP("no qemu-system-i386");
  Scripts scripts;
  // As in a report: the command line around it, and what QEMU said.
  CHECK(scripts
            .import(std::string("cat << EOF | ") + eduMachine + " -qtest stdio\n" + eduSetUp + eduTransfer +
                        "EOF\nAborted (core dumped)\n",
                    {})
            .exited(0));
  // Long enough for the transfer's 100 ms, whatever else the machine does: QEMU is asked, too, and then its
  // timers have their turn.
  Machine dead = scripts.replay({"--target", "qtest:?quiet=300"});
  CHECK_MESSAGE(dead.exit == 4, dead.text);
  CHECK(!dead.survived);
  CHECK(dead.answered == 8);
  CHECK(dead.signal == 6);
  CHECK(dead.command.empty());
  CHECK(dead.lastWords.find("EDU: DMA range") != std::string::npos);
  CHECK(dead.signatureName == "SIGABRT");
  CHECK(scripts.replay({"--target", "qtest:?quiet=300", "--expect", "signature", "--match-level", "kind"})
            .exit == 0);
  CHECK(scripts
            .import(std::string(eduSetUp) + eduTransfer,
                    {"--qemu-args", eduMachine, "--died", "SIGABRT", "--last-words", dead.signatureObject})
            .exited(0));
  CHECK(scripts.replay({"--target", "qtest:?quiet=300", "--expect", "signature"}).exit == 0);
  // A CPU that never starts: there the device's time stands still.
  Machine stopped = scripts.replay({"--target", "qtest:?cpu=stopped"});
  CHECK_MESSAGE(stopped.survived, stopped.text);
}

TEST_CASE("qtest machine: a dying script is reduced, and what is left runs") {
  if (!hasQemu())
    TB_SKIP("no qemu-system-i386");
  Scripts scripts;
  const std::string small = scripts.scratch.path() + "/small.tape",
                    script = scripts.scratch.path() + "/small.qtest";
  CHECK(scripts
            .import(
                "outb 0x80 0x1\ninb 0x80\nwrite 0x1000 0x2 0x0102\nclock_step\nreadl 0x1000\noutb 0x80 0x2\n"
                "outb 0xf4 0x1\noutb 0x80 0x3\n",
                {"--qemu-args", exitMachine})
            .exited(0));
  RunResult reduced = runProgram(
      {tapebackProgram(), "reduce", scripts.tape, "--target", "qtest:", "-o", small, "--match", "kind"});
  CHECK_MESSAGE(reduced.exited(0), reduced);
  RunResult exported = runProgram({tapebackProgram(), "export", small, "--to", "qtest", "-o", script});
  CHECK_MESSAGE(exported.exited(0), exported);
  auto text = llvm::MemoryBuffer::getFile(script);
  REQUIRE(bool(text));
  CHECK((*text)->getBuffer() ==
        "cat << EOF | qemu-system-i386 -M pc -nodefaults -device isa-debug-exit,iobase=0xf4 "
        "-display none -qtest stdio\noutb 0xf4 0x1\nEOF\n");
  // Its signature is the replay's own.
  scripts.tape = small;
  Machine again = scripts.replay({"--expect", "signature"});
  CHECK_MESSAGE(again.exit == 0, again.text);
  CHECK(again.exitCode == 3);
}

TEST_CASE("qtest machine: what is not started") {
  if (!hasQemu())
    TB_SKIP("no qemu-system-i386");
  Scripts scripts;
  CHECK(scripts.import("outb 0x80 0x1\n", {}).exited(0));
  Machine unknown = scripts.replay({"--target", "qtest:"});
  CHECK_MESSAGE(unknown.exit == 2, unknown.text);
  CHECK(unknown.text.find("--qemu-args") != std::string::npos);
  CHECK(scripts.replay().exit == 2); // No target at all.
  for (const char *bad : {"qtest:i386?args=-kernel x", "qtest:i386?args=-drive file=/etc/passwd",
                          "qtest:../x?args=-M pc", "qtest:i386?args=-M pc&cpu=other",
                          "qtest:sparc?args=-M SS-5&cpu=park", "qtest:i386?args=-M pc&quiet=0"}) {
    CAPTURE(bad);
    CHECK(scripts.replay({"--target", bad}).exit == 2);
  }
  Machine none = scripts.replay({"--target", "qtest:i386?args=-M pc -device nonesuch"});
  CHECK_MESSAGE(none.exit == 4, none.text);
  CHECK(none.text.find("nonesuch") != std::string::npos);
  // What a tape says of its machine is checked like anybody's word.
  CHECK(!qtestUriOf({{"qemu-args", "-device a&b%c"}}, "timeout=5").empty());
  llvm::Expected<TargetUri> uri = parseTargetUri(qtestUriOf({{"qemu-args", "-device a&b%c"}}, "timeout=5"));
  REQUIRE(bool(uri));
  CHECK(*uri->find("args") == "-device a&b%c");
  CHECK(*uri->find("timeout") == "5");
}

TEST_CASE("qtest machine: nothing of this machine behind it") {
  QtestOptions options;
  options.architecture = "i386";
  options.command =
      llvm::cantFail(parseQemuCommand("-M pc,accel=kvm,usb=on -serial stdio -parallel none -m 64M"));
  std::string line = llvm::join(qtestArguments(options), " ");
  CHECK(
      line.find("-M pc,usb=on -serial null -parallel none -m 64M -no-user-config -display none -monitor none "
                "-accel tcg ") == 0);
  CHECK(line.find("-sandbox on,") != std::string::npos);
  CHECK(line.find("-bios /proc/self/fd/4") != std::string::npos);
  options.parking = QtestOptions::Parking::PoweredOff;
  line = llvm::join(qtestArguments(options), " ");
  CHECK(llvm::StringRef(line).ends_with(" -global arm-cpu.start-powered-off=on"));
  CHECK(line.find("-bios") == std::string::npos);
  options.cpu = QtestOptions::Cpu::Stopped;
  options.command.arguments = {"-nodefaults"};
  line = llvm::join(qtestArguments(options), " ");
  CHECK(line.find("-nodefaults -no-user-config") == 0);
  CHECK(llvm::StringRef(line).ends_with(" -S"));
}

TEST_CASE("qtest machine: an ARM machine whose CPU is never switched on") {
  if (!hasQemu("arm"))
    TB_SKIP("no qemu-system-arm");
  Scripts scripts;
  // The identity of its serial port; and something in its memory, which no CPU runs.
  CHECK(scripts
            .import("writel 0x40000000 0xe7f000f0\nOK\nreadl 0x40000000\nOK 0xe7f000f0\n"
                    "readl 0x09000fe0\nOK 0x11\nreadl 0x09000fe4\nOK 0x10\n",
                    {"--qemu-args", "qemu-system-arm -M virt -m 64M -nodefaults"})
            .exited(0));
  Machine machine = scripts.replay();
  CHECK_MESSAGE(machine.exit == 0, machine.text);
  CHECK(machine.verdict == "match");
  CHECK(machine.survived);
  CHECK(machine.answered == 4);
}

TEST_CASE("qtest machine: real reproducers reach the outcome that was seen") {
  const char *corpus = std::getenv("TAPEBACK_CORPUS");
  if (!corpus)
    TB_SKIP("TAPEBACK_CORPUS does not name a folder with captures");
  Scripts scripts;
  unsigned tried = 0;
  std::map<std::string, unsigned> without; // Architectures that are not installed.
  std::error_code error;
  for (fs::directory_iterator it(fs::path(corpus) / "qtest", error), end; !error && it != end;
       it.increment(error)) {
    std::string path = it->path().string();
    if (!llvm::StringRef(path).ends_with(".json"))
      continue;
    CAPTURE(path);
    auto file = llvm::MemoryBuffer::getFile(path);
    REQUIRE(bool(file));
    llvm::Expected<llvm::json::Value> value = llvm::json::parse((*file)->getBuffer());
    REQUIRE(bool(value));
    const llvm::json::Object &object = *value->getAsObject();
    std::string architecture = object.getString("arch")->str();
    if (!hasQemu(architecture)) {
      ++without[architecture];
      continue;
    }
    const llvm::json::Object *outcome = object.getObject("outcome")->getObject("park");
    if (!outcome) // Seen with a stopped CPU only; the same is asked of a parked one.
      outcome = object.getObject("outcome")->getObject("S");
    std::string arguments = "qemu-system-" + architecture;
    for (const llvm::json::Value &argument : *object.getArray("device_args"))
      arguments += " '" + argument.getAsString()->str() + "'";
    RunResult imported =
        scripts.importFile(path.substr(0, path.size() - 5) + ".qtest", {"--qemu-args", arguments});
    REQUIRE_MESSAGE(imported.exited(0), imported);
    for (size_t run = 0; run < 3; ++run) {
      Machine machine = scripts.replay({"--target", "qtest:"});
      CAPTURE(machine.text);
      REQUIRE(machine.known);
      CHECK(machine.answered == (*outcome->getArray("replies"))[run].getAsInteger());
      CHECK(machine.refused == outcome->getInteger("refused"));
      const llvm::json::Array *exit = outcome->getArray("exit");
      CHECK(machine.survived == !exit);
      if (!exit) {
        CHECK(machine.exit == (machine.refused ? 5 : 0));
        continue;
      }
      CHECK(machine.exit == 4);
      CHECK(-machine.signal == (*exit)[0].getAsInteger());
      for (const llvm::json::Value &words : *outcome->getArray("last_words"))
        CHECK(machine.lastWords == *words.getAsString());
    }
    ++tried;
  }
  for (const auto &[architecture, count] : without)
    MESSAGE(count << " reproducers not tried: there is no qemu-system-" << architecture);
  CHECK(tried >= 29);
}
