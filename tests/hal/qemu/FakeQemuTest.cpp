// Programs that are not QEMU, or a QEMU gone mad: whatever comes out of the socket, the answer is one clear
// failure in bounded time, and no process stays behind.
#include "tests/hal/qemu/EduDriver.h"
#include "tests/hal/qemu/Processes.h"
#include "tests/support/RunProgram.h"
#include <fstream>
#include <sys/stat.h>

using namespace tapeback;
using namespace tapeback::test;

namespace {

/// A shell script in the place of QEMU. Descriptor 3 is its qtest socket.
class FakeQemu {
public:
  explicit FakeQemu(const std::string &body,
                    const std::string &version = "echo 'QEMU emulator version 0.0 (fake)'") {
    std::ofstream(path()) << "#!/bin/sh\nPATH=/usr/bin:/bin\nif [ \"$1\" = --version ]; then\n"
                          << version << "\nexit 0\nfi\n"
                          << body << "\n";
    REQUIRE(::chmod(path().c_str(), 0700) == 0);
  }

  std::string path() const { return scratch.path() + "/fake-qemu"; }

  /// Silence is only worth a short wait; a script that answers gets the time that a busy machine takes to
  /// start it.
  Failure open(int timeoutMs = 8000) const {
    auto start = std::chrono::steady_clock::now();
    Failure failure =
        failureOf(openTarget("qemu:edu?qemu=" + path() + "&timeout=" + std::to_string(timeoutMs)));
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(15));
    CHECK(failure.cls == FailureClass::Target);
    CHECK(!failure.where.empty());
    CHECK(childrenNamed(::getpid(), "").empty());
    return failure;
  }

private:
  ScratchDirectory scratch;
};

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("a program that is not QEMU is told apart by its version") {
  CHECK(failureOf(openTarget("qemu:edu?qemu=/bin/true&timeout=2000")).code == "not-qemu");
  Failure failure = FakeQemu("exec sleep 60", "echo 'I am a teapot'").open();
  CHECK(failure.code == "not-qemu");
  CHECK(contains(failure.message, "I am a teapot"));
  CHECK(FakeQemu("exec sleep 60", "exit 3").open().code == "not-qemu");
  CHECK(FakeQemu("exec sleep 60", "exec cat /dev/zero").open(300).code == "target-hung");
  CHECK(FakeQemu("exec sleep 60", "exec sleep 60").open(300).code == "target-hung");
}

TEST_CASE("a file that cannot be executed says why") {
  ScratchDirectory scratch;
  std::string path = scratch.path() + "/not-a-program";
  std::ofstream(path) << "\x7f"
                         "ELF and nothing behind it";
  REQUIRE(::chmod(path.c_str(), 0700) == 0);
  Failure failure = failureOf(openTarget("qemu:edu?qemu=" + path));
  CHECK(failure.code == "target-died");
  CHECK(contains(failure.message, "Exec format error"));
  CHECK(childrenNamed(::getpid(), "").empty());
}

TEST_CASE("nonsense in the place of an answer is shown") {
  Failure failure = FakeQemu("echo 'what is this' >&3; exec sleep 60").open();
  CHECK(failure.code == "target-nonsense");
  CHECK(contains(failure.message, "'what is this' to 'endianness'"));
  failure = FakeQemu("read line <&3; echo \"FAIL Unknown command '$line'\" >&3; exec sleep 60").open();
  CHECK(failure.code == "target-nonsense");
  CHECK(contains(failure.message, "FAIL Unknown command"));
  CHECK(FakeQemu("echo >&3; exec sleep 60").open().code == "target-nonsense");
  CHECK(FakeQemu("printf 'OK little\\nOK little\\n' >&3; exec sleep 60").open().code == "target-nonsense");
  CHECK(FakeQemu("printf 'IRQ raise 1\\n' >&3; exec sleep 60").open().code == "target-nonsense");
  failure = FakeQemu("printf '\\001\\033[2J\\377\\n' >&3; exec sleep 60").open();
  CHECK(contains(failure.message, "'??[2J?'"));
}

TEST_CASE("a line without end is cut off, a flood of answers stopped") {
  Failure failure = FakeQemu("exec tr '\\000' x </dev/zero >&3").open();
  CHECK(failure.code == "target-nonsense");
  CHECK(failure.message.size() < 300);
  CHECK(FakeQemu("exec yes 'OK little' >&3").open().code == "target-nonsense");
  // Half a line, and then nothing.
  CHECK(FakeQemu("printf 'OK lit' >&3; exec sleep 60").open(300).code == "target-hung");
}

TEST_CASE("silence is target-hung") {
  Failure failure = FakeQemu("echo 'qemu: thinking' >&2; exec sleep 60").open(1000);
  CHECK(failure.code == "target-hung");
  CHECK(contains(failure.message, "1000 ms"));
  CHECK(contains(failure.message, "qemu: thinking"));
  failure = FakeQemu("exec yes 'qemu: much ado' >&2").open(1000);
  CHECK(failure.code == "target-hung");
  CHECK(contains(failure.message, "qemu"));
}

TEST_CASE("a program that ends at once is target-died, with its exit code and words") {
  Failure failure = FakeQemu("echo 'qemu-system-x86_64: no such device' >&2; exit 3").open();
  CHECK(failure.code == "target-died");
  CHECK(contains(failure.message, "exited with code 3"));
  CHECK(contains(failure.message, "qemu-system-x86_64: no such device"));
  CHECK(contains(FakeQemu("exit 0").open().message, "exited with code 0 without a word"));
  CHECK(contains(FakeQemu("kill -SEGV $$").open().message, "signal 11 (Segmentation fault)"));
}

TEST_CASE("a program that closes its socket and lives on is not waited for") {
  Failure failure = FakeQemu("exec 3>&-; exec sleep 60").open(1500);
  CHECK(failure.code == "target-died");
  CHECK(contains(failure.message, "went on running"));
}

namespace {

/// A fake that answers as QEMU would, where `in` answers `value` to port reads.
std::string polite(const std::string &in, const std::string &read = "OK 0x0000000000000000") {
  return "while read word rest <&3; do\n"
         "case $word in endianness) echo OK little;; in*) " +
         in + ";; read*) echo '" + read + "';; *) echo OK;; esac >&3\ndone";
}

} // namespace

TEST_CASE("a QEMU without the device, or with an impossible one, is refused") {
  CHECK(FakeQemu(polite("echo OK 0xffffffff")).open().code == "no-such-device");
  // Every word of its configuration space is its id: not an ordinary function, or nonsense further on.
  CHECK(FakeQemu(polite("echo OK 0x11e81234")).open().code == "bad-pci-device");
  CHECK(FakeQemu(polite("echo OK 0x1ffffffff")).open().code == "target-nonsense");
}

TEST_CASE("the program is started with closed doors") {
  // What it is given: only 0, 1, 2, its socket, the memory, the firmware. (The shell opens the script as
  // well.)
  ScratchDirectory scratch;
  std::string report = scratch.path() + "/report";
  int leaked = ::dup(1); // Without close-on-exec, as a careless program would have it.
  REQUIRE(leaked >= 0);
  FakeQemu("for f in 0 1 2 3 4 5; do [ -e /proc/$$/fd/$f ] || echo missing $f; done > " + report + "\n" +
           "for f in 6 7 8 9; do [ -e /proc/$$/fd/$f ] && echo extra $f; done >> " + report + "\n" +
           "echo \"$@\" >> " + report + "; ulimit -c >> " + report)
      .open();
  ::close(leaked);
  std::ifstream file(report);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  CHECK(!contains(text, "missing"));
  CHECK(!contains(text, "extra"));
  CHECK(contains(text, "-sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"));
  CHECK(contains(text, "-nodefaults"));
  CHECK(contains(text, "-no-user-config"));
  CHECK(!contains(text, "-monitor"));
  CHECK(llvm::StringRef(text).ends_with("\n0\n"));
}
