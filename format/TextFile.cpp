// Reading a text file that somebody named: bounded, and never something that blocks or acts when it is
// opened.
#include "format/Failure.h"
#include "format/MessageText.h"
#include "format/Text.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tapeback {
namespace {

class Descriptor {
public:
  explicit Descriptor(int fd) : fd(fd) {}
  ~Descriptor() {
    if (fd >= 0)
      ::close(fd); // Opened for reading: close has nothing to report that read has not.
  }
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  const int fd;
};

/// Refuses what is not a regular file, by what it is.
llvm::Error checkKind(const struct stat &status, const std::string &path) {
  if (S_ISREG(status.st_mode))
    return llvm::Error::success();
  const char *kind = S_ISDIR(status.st_mode)    ? "a directory"
                     : S_ISFIFO(status.st_mode) ? "a pipe"
                     : S_ISSOCK(status.st_mode) ? "a socket"
                                                : "a device";
  return failUsage("not-a-file", std::string("this is ") + kind + ", not a file", path);
}

} // namespace

llvm::Expected<std::string> readTextFile(llvm::StringRef path, TextLimits limits) {
  const std::string name = path.str();
  auto cannot = [&](int number) {
    return failUsage("cannot-read", "cannot be read: " + errnoText(number), name,
                     "check path and permissions");
  };
  if (path.contains('\0'))
    return failUsage("cannot-read", "the path has a zero byte in it", llvm::StringRef(name.c_str()).str());
  // Looked at before it is opened: opening a device can already do something.
  struct stat status{};
  if (::stat(name.c_str(), &status) != 0)
    return cannot(errno);
  if (llvm::Error error = checkKind(status, name))
    return error;
  Descriptor file(::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.fd < 0 || ::fstat(file.fd, &status) != 0)
    return cannot(errno);
  if (llvm::Error error = checkKind(status, name)) // It may have been exchanged in between.
    return error;

  std::string text;
  for (;;) {
    char chunk[65536];
    ssize_t got = ::read(file.fd, chunk, sizeof(chunk));
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return cannot(errno);
    if (got == 0)
      return text;
    if (text.size() + size_t(got) > limits.maxBytes)
      return failUsage("text-too-large",
                       "the file has more than " + std::to_string(limits.maxBytes) +
                           " bytes, the most that is read",
                       name);
    text.append(chunk, size_t(got));
  }
}

} // namespace tapeback
