// Birth and death of host processes: nothing is left behind, whoever goes first.
#include "hal/model/ModelTarget.h"
#include "tests/hal/Targets.h"
#include <atomic>
#include <csignal>
#include <fcntl.h>
#include <sys/wait.h>
#include <thread>

using namespace tapeback;
using namespace tapeback::test;

namespace {

/// Gone, or a zombie that somebody else has to collect.
bool gone(pid_t process) {
  std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
  std::string text((std::istreambuf_iterator<char>(stat)), {});
  size_t close = text.rfind(')');
  return close == std::string::npos || text[close + 2] == 'Z' || text[close + 2] == 'X';
}

bool goneWithin(pid_t process, int ms) {
  for (int waited = 0; waited < ms && !gone(process); waited += 10)
    ::usleep(10000);
  return gone(process);
}

/// Runs `body` in a forked child that reports one process id and then waits to be killed. Returns child and
/// report.
template <typename Body>
std::pair<pid_t, pid_t> inChild(Body body) {
  int pipes[2];
  REQUIRE(::pipe2(pipes, O_CLOEXEC) == 0);
  // Out of the way of a body that closes low descriptors.
  int out = ::fcntl(pipes[1], F_DUPFD_CLOEXEC, 100);
  ::close(pipes[1]);
  pid_t child = ::fork();
  if (child == 0) {
    pid_t report = body();
    if (::write(out, &report, sizeof report) != sizeof report)
      ::_exit(1);
    while (true)
      ::pause();
  }
  ::close(out);
  pid_t report = -1;
  REQUIRE(::read(pipes[0], &report, sizeof report) == sizeof report);
  ::close(pipes[0]);
  return {child, report};
}

} // namespace

TEST_CASE("a hundred opened and closed models leave no descriptor and no process") {
  open("model:edu"); // What the first one allocates for good is not a leak.
  size_t before = openDescriptors();
  for (int i = 0; i < 100; ++i)
    must(open("model:edu")->read(0, 0, 4));
  CHECK(openDescriptors() == before);
  CHECK(children().empty());
}

TEST_CASE("failed openings leave nothing either") {
  size_t before = openDescriptors();
  for (int i = 0; i < 10; ++i) {
    failure(openTarget("model:edu?fault=none-such"));
    failure(openTarget("model:" + plugin("null-read")));
    failure(openTarget(hostile("exit-in-create")));
    failure(openTarget("model:/dev/null"));
  }
  CHECK(openDescriptors() == before);
  CHECK(children().empty());
}

TEST_CASE("dead models leave nothing either") {
  size_t before = openDescriptors();
  for (int i = 0; i < 10; ++i) {
    auto target = open("model:edu");
    ::kill(modelHostProcess(*target), SIGKILL);
    CHECK(failure(target->read(0, 0, 4)).code == "target-died");
  }
  CHECK(openDescriptors() == before);
  CHECK(children().empty());
}

TEST_CASE("the host dies with a parent that is killed, even while its plugin loops") {
  for (const char *uri : {"model:edu", "loop"}) {
    CAPTURE(uri);
    bool loops = std::string(uri) == "loop";
    auto [child, host] = inChild([&]() -> pid_t {
      auto target = openTarget(loops ? hostile("loop-in-read") : uri);
      if (!target)
        return -1;
      Target *kept = target->release(); // Never destroyed: the process is killed.
      if (loops)
        std::thread([kept] { llvm::consumeError(kept->read(0, 0, 4).takeError()); }).detach();
      return modelHostProcess(*kept);
    });
    REQUIRE(host > 0);
    if (loops)
      ::usleep(200000); // The call is on its way; whether it has arrived changes nothing that is tested.
    CHECK(!gone(host));
    ::kill(child, SIGKILL);
    int status = 0;
    CHECK(::waitpid(child, &status, 0) == child);
    CHECK(goneWithin(host, 5000));
  }
}

TEST_CASE("a model outlives the thread that opened it") {
  std::unique_ptr<Target> target;
  std::thread([&] { target = open("model:edu"); }).join();
  ::usleep(100000); // Time for the parent-death signal, which is sent when that thread ends.
  CHECK(must(target->read(0, 0, 4)) == 0x010000ed);
}

TEST_CASE("closing a copy in a forked child does no harm to the original") {
  auto target = open("model:edu");
  must(target->write(0, 4, 4, 5));
  pid_t child = ::fork();
  if (child == 0) {
    target.reset();
    ::_exit(0);
  }
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(must(target->read(0, 4, 4)) == uint32_t(~5));
}

TEST_CASE("a program that ignores its children still learns of a death") {
  struct sigaction ignore = {}, before = {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGCHLD, &ignore, &before);
  {
    auto target = open("model:edu");
    ::kill(modelHostProcess(*target), SIGKILL);
    Failure f = failure(target->read(0, 0, 4));
    CHECK(f.code == "target-died");
  }
  ::sigaction(SIGCHLD, &before, nullptr);
  CHECK(children().empty());
}

TEST_CASE("the surrounding program's descriptors do not reach the plugin") {
  int leaked = ::open("/dev/null", O_RDONLY); // Not close-on-exec, on purpose.
  auto target = open("model:edu");
  std::string directory = "/proc/" + std::to_string(modelHostProcess(*target)) + "/fd";
  size_t count = 0;
  DIR *list = ::opendir(directory.c_str());
  REQUIRE(list != nullptr);
  while (dirent *entry = ::readdir(list))
    count += entry->d_name[0] != '.';
  ::closedir(list);
  CHECK(count == 5); // Three standard ones, channel, memory.
  ::close(leaked);
}

TEST_CASE("models opened with few low descriptors free, or none") {
  // Standard descriptors closed: what is opened next gets their numbers.
  auto [child, host] = inChild([]() -> pid_t {
    ::close(0);
    ::close(3);
    ::close(4);
    auto target = openTarget("model:edu");
    if (!target)
      return -1;
    llvm::Expected<uint64_t> value = (*target)->read(0, 0, 4);
    bool good = value && *value == 0x010000ed;
    Target *kept = target->release();
    return good ? modelHostProcess(*kept) : -2;
  });
  CHECK(host > 0);
  ::kill(child, SIGKILL);
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child);
}

TEST_CASE("many threads open models at once") {
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      for (int turn = 0; turn < 5; ++turn) {
        auto target = openTarget("model:edu");
        if (!target)
          return llvm::consumeError(target.takeError());
        uint32_t mine = uint32_t(i * 100 + turn);
        if (llvm::Error error = (*target)->write(0, 4, 4, mine))
          return llvm::consumeError(std::move(error));
        llvm::Expected<uint64_t> value = (*target)->read(0, 4, 4);
        if (!value)
          return llvm::consumeError(value.takeError());
        good += *value == uint32_t(~mine);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  CHECK(good == 40);
  CHECK(children().empty());
}

TEST_CASE("plugins are found in TAPEBACK_PLUGINS first") {
  char directory[] = "/tmp/tapeback-plugins-XXXXXX";
  REQUIRE(::mkdtemp(directory) != nullptr);
  std::string link = std::string(directory) + "/tapeback-model-mine.so";
  REQUIRE(::symlink(plugin("abi-v1").c_str(), link.c_str()) == 0);
  ::setenv("TAPEBACK_PLUGINS", ("/nowhere:" + std::string(directory)).c_str(), 1);
  CHECK(open("model:mine")->identity().name == "abi-v1");
  CHECK(open("model:edu")->identity().name == "edu");
  CHECK(contains(failure(openTarget("model:other")).hint, "edu, mine"));
  ::unsetenv("TAPEBACK_PLUGINS");
  ::unlink(link.c_str());
  ::rmdir(directory);
}
