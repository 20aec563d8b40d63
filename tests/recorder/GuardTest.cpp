// A mapping whose file is cut short: zeros for who guards it, and what always came for who does not.
#include "recorder/ring/MappingGuard.h"
#include <atomic>
#include <csignal>
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using tapeback::ring::MappingGuard;

namespace {

constexpr size_t page = 4096;

/// Four pages of ones, in a file of their own.
struct Mapped {
  Mapped() : fd(memfd_create("guard-test", MFD_CLOEXEC)) {
    REQUIRE(ftruncate(fd, 4 * page) == 0);
    void *at = mmap(nullptr, 4 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    REQUIRE(at != MAP_FAILED);
    bytes = static_cast<char *>(at);
    for (size_t i = 0; i < 4 * page; ++i)
      bytes[i] = 1;
  }
  ~Mapped() {
    munmap(bytes, 4 * page);
    close(fd);
  }
  char at(size_t offset) const { return static_cast<volatile char *>(bytes)[offset]; }
  int fd;
  char *bytes;
};

/// The signal that ends a child which does `work`, or its exit code, negative.
template <typename Work>
int fateOf(Work work) {
  pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    signal(SIGBUS, SIG_DFL); // A sanitizer's own would only report it.
    work();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

} // namespace

TEST_CASE("what the file has lost reads as zeros and can be written, the rest is as it was") {
  Mapped memory;
  MappingGuard guard(memory.bytes, 4 * page, memory.fd);
  CHECK(memory.at(3 * page) == 1);
  CHECK(!guard.torn());
  REQUIRE(ftruncate(memory.fd, page + 100) == 0);
  CHECK(memory.at(0) == 1);
  CHECK(memory.at(page + 99) == 1);
  CHECK(!guard.torn());
  CHECK(memory.at(3 * page + 5) == 0);
  CHECK(guard.torn());
  memory.bytes[2 * page] = 7;
  CHECK(memory.at(2 * page) == 7);
  CHECK(memory.at(page) == 1); // Still the file's.
}

TEST_CASE("a bus error elsewhere, or a signal that is sent, ends the process as it would without a guard") {
  Mapped guarded, other;
  REQUIRE(ftruncate(other.fd, 0) == 0);
  CHECK(fateOf([&] {
          MappingGuard guard(guarded.bytes, 4 * page, guarded.fd);
          (void)other.at(0);
        }) == SIGBUS);
  CHECK(fateOf([&] {
          MappingGuard guard(guarded.bytes, 4 * page, guarded.fd);
          raise(SIGBUS);
        }) == SIGBUS);
  REQUIRE(ftruncate(guarded.fd, 0) == 0);
  CHECK(fateOf([&] { // Two at once, either of them; and nothing when both are gone.
          MappingGuard second(other.bytes, 4 * page, other.fd);
          {
            MappingGuard first(guarded.bytes, 4 * page, guarded.fd);
            if (guarded.at(0) || other.at(0) || !first.torn() || !second.torn())
              _exit(1);
          }
        }) == 0);
  CHECK(fateOf([&] {
          {
            MappingGuard guard(guarded.bytes, 4 * page, guarded.fd);
          }
          (void)guarded.at(0);
        }) == SIGBUS);
}
