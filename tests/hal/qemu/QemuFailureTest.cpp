// A QEMU that dies, hangs or is killed is a failure of the target in bounded time, with its last words; and
// QEMU never outlives us.
#include "tests/hal/qemu/EduDriver.h"
#include "tests/hal/qemu/Processes.h"
#include "tests/support/RunProgram.h"
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sys/wait.h>
#include <thread>

using namespace tapeback;
using namespace tapeback::test;

namespace {

pid_t onlyQemu(pid_t parent = ::getpid()) {
  std::vector<pid_t> running = childrenNamed(parent, "qemu-system");
  REQUIRE(running.size() == 1);
  return running[0];
}

/// After its death every call of a target fails at once, and alike.
void checkStaysDead(Target &target, const std::string &code) {
  auto start = std::chrono::steady_clock::now();
  uint8_t byte = 0;
  size_t completed = 7;
  TargetOperation operation;
  operation.kind = TargetOperation::Kind::Read;
  operation.width = 4;
  MapRequest request;
  request.size = 4096;
  CHECK(failureOf(target.read(0, 0, 4)).code == code);
  CHECK(failureOf(target.write(0, 4, 4, 0)).code == code);
  CHECK(failureOf(target.flush()).code == code);
  CHECK(failureOf(target.submit(operation, &completed)).code == code);
  CHECK(completed == 0);
  CHECK(failureOf(target.map(request)).code == code);
  CHECK(failureOf(target.unmap(0)).code == code);
  CHECK(failureOf(target.readMemory(0, byte)).code == code);
  CHECK(failureOf(target.writeMemory(0, byte)).code == code);
  CHECK(failureOf(target.waitInterrupt(0, 60 * second)).code == code);
  CHECK(failureOf(target.advance(60 * second)).code == code);
  CHECK(failureOf(target.deviceTime()).code == code);
  CHECK(failureOf(target.reset(ResetKind::Default)).code == code);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(1));
}

/// Forks a child that runs `body`, which must not return. As the tests' process has no other threads here,
/// the child may do what it likes.
template <typename Body>
pid_t forkChild(Body body) {
  pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    body();
    ::_exit(99);
  }
  return child;
}

struct SignalPipe {
  int ends[2];
  SignalPipe() { REQUIRE(::pipe(ends) == 0); }
  ~SignalPipe() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  void tell() { [[maybe_unused]] ssize_t written = ::write(ends[1], "x", 1); }
  /// False if the other side is gone without a word.
  bool wait() {
    ::close(ends[1]);
    ends[1] = -1;
    char c;
    return ::read(ends[0], &c, 1) == 1;
  }
};

/// What the process's main thread has run so far; in QEMU that is the thread that answers us.
uint64_t processorNs(pid_t pid) {
  uint64_t ns = 0;
  std::ifstream("/proc/" + std::to_string(pid) + "/schedstat") >> ns;
  return ns;
}

} // namespace

TEST_CASE("QEMU killed in the middle of a run is target-died, with its fate and the operation") {
  TB_NEED_QEMU();
  Edu edu;
  edu.write(eduLiveness, 1);
  CHECK(edu.read(eduLiveness) == 0xfffffffe);
  REQUIRE(::kill(onlyQemu(), SIGKILL) == 0);
  auto start = std::chrono::steady_clock::now();
  Failure failure = failureOf(edu.target->read(0, eduLiveness, 4));
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(15));
  CHECK(failure.cls == FailureClass::Target);
  CHECK(failure.code == "target-died");
  CHECK(failure.message.find("signal 9 (Killed)") != std::string::npos);
  CHECK(failure.where.find("'readl 0x") != std::string::npos);
  checkStaysDead(*edu.target, "target-died");
}

TEST_CASE("QEMU killed under a batch names the packet") {
  TB_NEED_QEMU();
  Edu edu;
  std::vector<TargetOperation> batch(200000);
  for (size_t i = 0; i < batch.size(); ++i) {
    batch[i].kind = TargetOperation::Kind::Write;
    batch[i].address = eduLiveness;
    batch[i].width = 4;
    batch[i].packet = 5000 + i;
  }
  pid_t pid = onlyQemu();
  const uint64_t before = processorNs(pid);
  std::atomic<bool> ended = false;
  std::thread killer([&] {
    // Not after some time, in which a busy machine may have let it do nothing yet, but after some work.
    (void)eventually([&] { return ended || processorNs(pid) >= before + 20'000'000; },
                     std::chrono::minutes(1)); // If it does not come to that, the checks below fail.
    ::kill(pid, SIGKILL);
  });
  size_t completed = 0;
  llvm::Error error = edu.target->submit(batch, &completed);
  ended = true;
  killer.join();
  Failure failure = failureOf(std::move(error));
  CHECK(failure.code == "target-died");
  CHECK(completed > 0);
  CHECK(completed < batch.size());
  CHECK(failure.where.find("packet " + std::to_string(5000 + completed) + ",") == 0);
}

TEST_CASE("QEMU killed while an interrupt is waited for ends the wait") {
  TB_NEED_QEMU();
  for (const char *uri : {"qemu:edu", "qemu:edu?time=real"}) {
    Edu edu(uri);
    pid_t pid = onlyQemu();
    std::thread killer([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      ::kill(pid, SIGKILL);
    });
    auto start = std::chrono::steady_clock::now();
    llvm::Expected<InterruptResult> result = edu.target->waitInterrupt(0, 3600 * second);
    if (result && !result->fired) // The virtual hour may have passed before the kill.
      result = edu.target->waitInterrupt(0, 3600 * second);
    killer.join();
    CHECK(failureOf(std::move(result)).code == "target-died");
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(15));
  }
}

TEST_CASE("a stopped QEMU is target-hung after the timeout, and is taken down") {
  TB_NEED_QEMU();
  Edu edu("qemu:edu?timeout=2000");
  pid_t pid = onlyQemu();
  REQUIRE(::kill(pid, SIGSTOP) == 0);
  auto start = std::chrono::steady_clock::now();
  Failure failure = failureOf(edu.target->read(0, 0, 4));
  auto elapsed = std::chrono::steady_clock::now() - start;
  CHECK(failure.cls == FailureClass::Target);
  CHECK(failure.code == "target-hung");
  CHECK(failure.message.find("2000 ms") != std::string::npos);
  CHECK(elapsed >= std::chrono::milliseconds(2000));
  CHECK(elapsed < std::chrono::seconds(15));
  checkStaysDead(*edu.target, "target-hung");
  CHECK(eventually([&] { return isGone(pid); }));
}

TEST_CASE("posted writes to a stopped QEMU are bounded, too") {
  TB_NEED_QEMU();
  Edu edu("qemu:edu?timeout=2000");
  REQUIRE(::kill(onlyQemu(), SIGSTOP) == 0);
  auto start = std::chrono::steady_clock::now();
  std::string problem;
  for (int i = 0; i < 100000 && problem.empty(); ++i)
    problem = told(edu.target->write(0, eduLiveness, 4, 1));
  CHECK(!problem.empty());
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(15));
  checkStaysDead(*edu.target, "target-hung");
}

TEST_CASE("a DMA of 4,096 bytes aborts QEMU, and its last words are told") {
  TB_NEED_QEMU();
  Edu edu;
  MapRequest request;
  request.size = 8192;
  MemoryRegion region = must(edu.target->map(request));
  region.host[0] = 0x42;
  edu.startDma(Edu::ToDevice, region.iova, 0, 4096);
  std::string code, message;
  for (int i = 0; i < 1000 && code.empty(); ++i) {
    if (llvm::Error error = edu.target->advance(1'000'000)) {
      Failure failure = toFailure(std::move(error));
      code = failure.code;
      message = failure.message;
    }
  }
  CHECK(code == "target-died");
  CHECK(message.find("signal 6 (Aborted)") != std::string::npos);
  CHECK(message.find("qemu: hardware error: EDU: DMA range") != std::string::npos);
  CHECK(region.host[0] == 0x42); // Memory outlives QEMU, as long as the target lives.
  checkStaysDead(*edu.target, "target-died");
}

TEST_CASE("QEMU does not die with the thread that opened or reset it") {
  TB_NEED_QEMU();
  std::unique_ptr<Target> target;
  std::thread([&] { target = must(openTarget("qemu:edu")); }).join();
  CHECK(must(target->read(0, 0, 4)) == 0x010000ed);
  std::thread([&] { must(target->reset(ResetKind::Default)); }).join();
  CHECK(must(target->read(0, 0, 4)) == 0x010000ed);
}

TEST_CASE("QEMU dies with us, however we end, and leaves no file") {
  TB_NEED_QEMU();
  enum class End { Killed, Exits, Execs };
  for (End end : {End::Killed, End::Exits, End::Execs}) {
    CAPTURE(int(end));
    ScratchDirectory scratch;
    SignalPipe ready, go;
    pid_t child = forkChild([&] {
      ::setenv("TMPDIR", scratch.path().c_str(), 1);
      if (::chdir(scratch.path().c_str()) != 0)
        ::_exit(98);
      llvm::Expected<std::unique_ptr<Target>> target = openTarget("qemu:edu");
      if (!target)
        ::_exit(97);
      ready.tell();
      if (!go.wait())
        ::_exit(96);
      if (end == End::Execs)
        ::execl("/bin/sleep", "sleep", "60", nullptr);
      if (end == End::Killed)
        ::pause();
      ::_exit(0);
    });
    REQUIRE(ready.wait());
    pid_t qemu = onlyQemu(child);
    CHECK(!isGone(qemu));
    if (end == End::Killed)
      REQUIRE(::kill(child, SIGKILL) == 0);
    go.tell();
    CHECK(eventually([&] { return isGone(qemu); }, std::chrono::seconds(15)));
    ::kill(child, SIGKILL);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(std::filesystem::is_empty(scratch.path()));
  }
}

TEST_CASE("an aborting QEMU leaves no core file behind") {
  TB_NEED_QEMU();
  ScratchDirectory scratch;
  pid_t child = forkChild([&] {
    if (::chdir(scratch.path().c_str()) != 0)
      ::_exit(98);
    llvm::Expected<std::unique_ptr<Target>> target = openTarget("qemu:edu");
    if (!target)
      ::_exit(97);
    for (auto [offset, value] :
         {std::pair<uint64_t, uint64_t>{eduDmaTarget, eduBuffer}, {eduDmaCount, 4096}, {eduDmaCommand, 1}})
      if ((*target)->write(0, offset, 8, value))
        ::_exit(96);
    int result = 94;
    for (int i = 0; i < 1000 && result == 94; ++i)
      if (llvm::Error error = (*target)->advance(1'000'000))
        result = toFailure(std::move(error)).code == "target-died" ? 0 : 95;
    target->reset();
    ::_exit(result);
  });
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(std::filesystem::is_empty(scratch.path()));
}

TEST_CASE("a program that ignores its children still learns that QEMU died") {
  TB_NEED_QEMU();
  auto before = ::signal(SIGCHLD, SIG_IGN);
  {
    Edu edu;
    must(edu.target->reset(ResetKind::Default));
    REQUIRE(::kill(onlyQemu(), SIGKILL) == 0);
    Failure failure = failureOf(edu.target->read(0, eduLiveness, 4));
    CHECK(failure.code == "target-died");
    CHECK(failure.message.find("did not let us see") != std::string::npos);
  }
  ::signal(SIGCHLD, before);
}

TEST_CASE("a program that collects its children does not confuse the target") {
  TB_NEED_QEMU();
  Edu edu;
  pid_t qemu = onlyQemu();
  REQUIRE(::kill(qemu, SIGKILL) == 0);
  // Either we or the keeper collects it; neither waits for ever.
  while (::waitpid(-1, nullptr, 0) > 0 || errno == EINTR)
    ;
  CHECK(errno == ECHILD);
  CHECK(failureOf(edu.target->read(0, eduLiveness, 4)).code == "target-died");
}
