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
    if (this != &other) {
      close();
      fd = std::exchange(other.fd, -1);
    }
    return *this;
  }
  ~FileDescriptor() { close(); }

  int get() const { return fd; }
  explicit operator bool() const { return fd >= 0; }
  void close() {
    if (fd >= 0)
      ::close(fd);
    fd = -1;
  }

private:
  int fd = -1;
};

} // namespace tapeback
