// The C library's own functions, behind the ones that this library puts in front of them.
#pragma once

#include <cstddef>
#include <sys/types.h>

namespace tapeback::preload {

struct RealCalls {
  int (*open)(const char *, int, ...);
  int (*openat)(int, const char *, int, ...);
  int (*close)(int);
  int (*ioctl)(int, unsigned long, ...);
  int (*fcntl)(int, int, ...);
  int (*dup)(int);
  int (*dup2)(int, int);
  int (*dup3)(int, int, int);
  ssize_t (*read)(int, void *, size_t);
  ssize_t (*pread)(int, void *, size_t, off_t);
  ssize_t (*pwrite)(int, const void *, size_t, off_t);
  void *(*mmap)(void *, size_t, int, int, int, off_t);
};

/// Looked up once, by the first caller; safe before constructors have run.
const RealCalls &real();

} // namespace tapeback::preload
