// A file descriptor that closes itself.
#pragma once

#include <unistd.h>
#include <utility>

namespace tapeback {

/// Owns one descriptor, or none (-1). Move-only.
class FileDescriptor {
public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd(fd) {}
  FileDescriptor(FileDescriptor &&other) noexcept : fd(std::exchange(other.fd, -1)) {}
  FileDescriptor &operator=(FileDescriptor &&other) noexcept {
    if (this != &other)
      reset(std::exchange(other.fd, -1));
    return *this;
  }
  ~FileDescriptor() { reset(); }

  int get() const { return fd; }
  explicit operator bool() const { return fd >= 0; }
  /// Gives the descriptor away.
  int release() { return std::exchange(fd, -1); }
  void close() { reset(); }
  void reset(int other = -1) {
    if (fd >= 0)
      ::close(fd);
    fd = other;
  }

private:
  int fd = -1;
};

} // namespace tapeback
