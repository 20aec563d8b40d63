// The functions that stand in front of the C library's in a program recorded with `tapeback record
// --preload`: each looks whether the descriptor is VFIO's, and passes everything else on untouched.
//
// Not seen, and so not recorded: raw system calls, io_uring, preadv and its like, statically linked programs,
// descriptors passed from another process.
#include "recorder/preload/RealCalls.h"
#include "recorder/preload/VfioCalls.h"
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>

using namespace tapeback::preload;

#define INTERPOSED extern "C" __attribute__((visibility("default")))

namespace {

/// A file of VFIO's was opened: from now on it is followed.
int opened(const char *path, int fd) {
  constexpr const char folder[] = "/dev/vfio/";
  if (fd < 0 || !path || strncmp(path, folder, sizeof(folder) - 1) != 0)
    return fd;
  int saved = errno;
  bool container = strcmp(path, "/dev/vfio/vfio") == 0;
  setFile(fd, File{container ? FileKind::Container : FileKind::Group, container ? fd : -1, -1, nullptr, 0});
  errno = saved;
  return fd;
}

mode_t modeOf(int flags, va_list arguments) {
  return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(arguments, mode_t) : 0;
}

} // namespace

#define OPEN_WITH_MODE(CALL)                                                                                 \
  va_list arguments;                                                                                         \
  va_start(arguments, flags);                                                                                \
  mode_t mode = modeOf(flags, arguments);                                                                    \
  va_end(arguments);                                                                                         \
  return opened(path, CALL)

INTERPOSED int open(const char *path, int flags, ...) {
  OPEN_WITH_MODE(real().open(path, flags, mode));
}
INTERPOSED int open64(const char *path, int flags, ...) {
  OPEN_WITH_MODE(real().open(path, flags | O_LARGEFILE, mode));
}
INTERPOSED int openat(int folder, const char *path, int flags, ...) {
  OPEN_WITH_MODE(real().openat(folder, path, flags, mode));
}
INTERPOSED int openat64(int folder, const char *path, int flags, ...) {
  OPEN_WITH_MODE(real().openat(folder, path, flags | O_LARGEFILE, mode));
}
// What a fortified program calls when it gives no mode. The names are the C library's.
// NOLINTBEGIN(readability-identifier-naming,bugprone-reserved-identifier)
INTERPOSED int __open_2(const char *path, int flags) {
  return opened(path, real().open(path, flags));
}
INTERPOSED int __open64_2(const char *path, int flags) {
  return opened(path, real().open(path, flags | O_LARGEFILE));
}
INTERPOSED int __openat_2(int folder, const char *path, int flags) {
  return opened(path, real().openat(folder, path, flags));
}
INTERPOSED int __openat64_2(int folder, const char *path, int flags) {
  return opened(path, real().openat(folder, path, flags | O_LARGEFILE));
}

// NOLINTEND(readability-identifier-naming,bugprone-reserved-identifier)

INTERPOSED int close(int fd) {
  FileKind kind = kindOf(fd);
  if (kind == FileKind::Foreign)
    return real().close(fd);
  DeviceState *state = kind == FileKind::Device ? fileOf(fd).device : nullptr;
  forgetFile(fd); // Before the close: the number may be another thread's right after it.
  int result = real().close(fd);
  deviceClosed(state);
  return result;
}

INTERPOSED int dup(int fd) {
  int copy = real().dup(fd);
  if (copy >= 0)
    copyFile(fd, copy);
  return copy;
}
INTERPOSED int dup2(int fd, int to) {
  int copy = real().dup2(fd, to);
  if (copy >= 0 && fd != to)
    copyFile(fd, copy);
  return copy;
}
INTERPOSED int dup3(int fd, int to, int flags) {
  int copy = real().dup3(fd, to, flags);
  if (copy >= 0)
    copyFile(fd, copy);
  return copy;
}

static int duplicating(int fd, int command, void *argument) {
  int result = real().fcntl(fd, command, argument);
  if (result >= 0 && (command == F_DUPFD || command == F_DUPFD_CLOEXEC))
    copyFile(fd, result);
  return result;
}
// The argument may be an int or a pointer; either is passed in one register, as the C library's own fcntl
// takes it.
INTERPOSED int fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void *argument = va_arg(arguments, void *);
  va_end(arguments);
  return duplicating(fd, command, argument);
}
INTERPOSED int fcntl64(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void *argument = va_arg(arguments, void *);
  va_end(arguments);
  return duplicating(fd, command, argument);
}

INTERPOSED int ioctl(int fd, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void *argument = va_arg(arguments, void *);
  va_end(arguments);
  switch (kindOf(fd)) {
  case FileKind::Container: return containerIoctl(fd, request, argument);
  case FileKind::Group: return groupIoctl(fd, request, argument);
  case FileKind::Device: return deviceIoctl(fd, request, argument);
  default: return real().ioctl(fd, request, argument);
  }
}

INTERPOSED ssize_t read(int fd, void *out, size_t size) {
  return kindOf(fd) == FileKind::Interrupt ? interruptRead(fd, out, size) : real().read(fd, out, size);
}
INTERPOSED ssize_t pread(int fd, void *out, size_t size, off_t offset) {
  return kindOf(fd) == FileKind::Device ? deviceRead(fd, out, size, offset)
                                        : real().pread(fd, out, size, offset);
}
INTERPOSED ssize_t pread64(int fd, void *out, size_t size, off_t offset) {
  return kindOf(fd) == FileKind::Device ? deviceRead(fd, out, size, offset)
                                        : real().pread(fd, out, size, offset);
}
INTERPOSED ssize_t pwrite(int fd, const void *in, size_t size, off_t offset) {
  return kindOf(fd) == FileKind::Device ? deviceWrite(fd, in, size, offset)
                                        : real().pwrite(fd, in, size, offset);
}
INTERPOSED ssize_t pwrite64(int fd, const void *in, size_t size, off_t offset) {
  return kindOf(fd) == FileKind::Device ? deviceWrite(fd, in, size, offset)
                                        : real().pwrite(fd, in, size, offset);
}
// NOLINTBEGIN(readability-identifier-naming,bugprone-reserved-identifier)
// Fortified forms: the compiler knows the buffer's size and asks for a check.
INTERPOSED ssize_t __read_chk(int fd, void *out, size_t size, size_t room) {
  if (size > room)
    __builtin_trap();
  return read(fd, out, size);
}
INTERPOSED ssize_t __pread_chk(int fd, void *out, size_t size, off_t offset, size_t room) {
  if (size > room)
    __builtin_trap();
  return pread(fd, out, size, offset);
}
INTERPOSED ssize_t __pread64_chk(int fd, void *out, size_t size, off_t offset, size_t room) {
  if (size > room)
    __builtin_trap();
  return pread(fd, out, size, offset);
}

// NOLINTEND(readability-identifier-naming,bugprone-reserved-identifier)

INTERPOSED void *mmap(void *where, size_t size, int protection, int flags, int fd, off_t offset) {
  if (!(flags & MAP_ANONYMOUS) && kindOf(fd) == FileKind::Device)
    return refuseMap(fd);
  return real().mmap(where, size, protection, flags, fd, offset);
}
INTERPOSED void *mmap64(void *where, size_t size, int protection, int flags, int fd, off_t offset) {
  return mmap(where, size, protection, flags, fd, offset);
}
