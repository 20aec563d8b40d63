// What the tests of targets have in common: opening, failing, and counting what a process holds.
#pragma once

#include "format/Failure.h"
#include "hal/Target.h"
#include "hal/TargetUri.h"
#include <dirent.h>
#include <doctest/doctest.h>
#include <fstream>
#include <string>
#include <sys/types.h>
#include <unistd.h>
#include <vector>

namespace tapeback::test {

inline std::unique_ptr<Target> open(const std::string &uri) {
  llvm::Expected<std::unique_ptr<Target>> target = openTarget(uri);
  if (!target) {
    Failure failure = toFailure(target.takeError());
    FAIL("cannot open " << uri << ": " << failure.code << ": " << failure.message << " (" << failure.where
                        << ")");
    return nullptr;
  }
  return std::move(*target);
}

/// A value that must be there.
template <typename T>
T must(llvm::Expected<T> value) {
  if (value)
    return std::move(*value);
  Failure failure = toFailure(value.takeError());
  FAIL(failure.code << ": " << failure.message << " (" << failure.where << ")");
  return T();
}

inline void must(llvm::Error error) {
  if (!error)
    return;
  Failure failure = toFailure(std::move(error));
  FAIL(failure.code << ": " << failure.message << " (" << failure.where << ")");
}

/// A failure that must be there.
inline Failure failure(llvm::Error error) {
  if (error)
    return toFailure(std::move(error));
  FAIL("this should have failed");
  return Failure(FailureClass::System, "none", "none");
}

template <typename T>
Failure failure(llvm::Expected<T> value) {
  return failure(value.takeError());
}

inline bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

/// Descriptors this process has open.
inline size_t openDescriptors() {
  size_t count = 0;
  DIR *directory = ::opendir("/proc/self/fd");
  while (directory && ::readdir(directory))
    ++count;
  if (directory)
    ::closedir(directory);
  return count;
}

/// Children of this process, zombies included.
inline std::vector<pid_t> children() {
  std::vector<pid_t> found;
  DIR *directory = ::opendir("/proc");
  while (dirent *entry = directory ? ::readdir(directory) : nullptr) {
    pid_t process = pid_t(std::atoi(entry->d_name));
    if (process <= 0)
      continue;
    std::ifstream stat("/proc/" + std::string(entry->d_name) + "/stat");
    std::string text((std::istreambuf_iterator<char>(stat)), {});
    size_t close = text.rfind(')');
    if (close != std::string::npos && close + 4 < text.size() &&
        std::atoi(text.c_str() + close + 4) == ::getpid())
      found.push_back(process);
  }
  if (directory)
    ::closedir(directory);
  return found;
}

inline std::string plugin(const std::string &name) {
  return std::string(TAPEBACK_BINARY_DIR) + "/bin/tests/plugins/test-plugin-" + name + ".so";
}
inline std::string hostile(const std::string &act, const std::string &more = "") {
  return "model:" + plugin("hostile") + "?act=" + act + more;
}

/// Milliseconds that `work` took.
template <typename Work>
double milliseconds(Work work) {
  timespec before, after;
  ::clock_gettime(CLOCK_MONOTONIC, &before);
  work();
  ::clock_gettime(CLOCK_MONOTONIC, &after);
  return double(after.tv_sec - before.tv_sec) * 1e3 + double(after.tv_nsec - before.tv_nsec) / 1e6;
}

} // namespace tapeback::test
