// System calls with their errors spelled out.
#include "format/File.h"

#include "format/Failure.h"
#include "format/MessageText.h"
#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tapeback {

// Which of a failed open or create is the caller's choice of path, and which the machine's failure.
static bool isPathMistake(int error) {
  return error == ENOENT || error == ENOTDIR || error == EISDIR || error == EACCES || error == EPERM ||
         error == ENAMETOOLONG || error == ELOOP || error == EROFS || error == ENXIO;
}

llvm::Expected<InputFile> InputFile::open(llvm::StringRef path) {
  const std::string name = path.str();
  // O_NONBLOCK: opening a FIFO by mistake must not wait for a writer.
  const int fd = ::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const int error = errno;
    const std::string message = "cannot open the file: " + errnoText(error);
    if (isPathMistake(error))
      return failUsage(error == ENOENT ? "no-such-file" : "cannot-open", message, name,
                       "Check the file name.");
    return failSystem("cannot-open", message, name);
  }
  struct stat status;
  if (::fstat(fd, &status) != 0) {
    const int error = errno;
    ::close(fd);
    return failSystem("cannot-open", "cannot look at the file: " + errnoText(error), name);
  }
  if (!S_ISREG(status.st_mode)) {
    ::close(fd);
    return failUsage("not-a-file", "this is not a regular file", name, "Name a tape file.");
  }
  return InputFile(fd, name, static_cast<uint64_t>(status.st_size));
}

InputFile::InputFile(InputFile &&other) noexcept
    : fd(std::exchange(other.fd, -1)), name(std::move(other.name)), bytes(other.bytes) {}

InputFile &InputFile::operator=(InputFile &&other) noexcept {
  std::swap(fd, other.fd);
  std::swap(name, other.name);
  std::swap(bytes, other.bytes);
  return *this;
}

InputFile::~InputFile() {
  if (fd >= 0)
    ::close(fd);
}

llvm::Expected<size_t> InputFile::readSome(uint64_t offset, llvm::MutableArrayRef<uint8_t> out) const {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = ::pread(fd, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return failSystem("cannot-read", "reading failed: " + errnoText(errno),
                        name + ": offset " + std::to_string(offset + done));
    if (got == 0)
      break;
    done += static_cast<size_t>(got);
  }
  return done;
}

llvm::Error InputFile::read(uint64_t offset, llvm::MutableArrayRef<uint8_t> out) const {
  llvm::Expected<size_t> got = readSome(offset, out);
  if (!got)
    return got.takeError();
  if (*got != out.size())
    return failTape("file-shrank", "the file ended earlier than when it was opened",
                    name + ": offset " + std::to_string(offset + *got),
                    "Something cut the file while it was being read; copy it first.");
  return llvm::Error::success();
}

static llvm::Error cannotCreate(int error, const std::string &path) {
  const std::string message = "cannot create the file: " + errnoText(error);
  if (isPathMistake(error))
    return failUsage("cannot-create", message, path, "Check that the folder exists and may be written to.");
  return failSystem("cannot-create", message, path);
}

static bool sameFile(int fd, const std::string &path) {
  struct stat opened, named;
  return ::fstat(fd, &opened) == 0 && ::stat(path.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

llvm::Expected<OutputFile> OutputFile::create(llvm::StringRef path, std::string partialPath) {
  OutputFile file(path.str(), std::move(partialPath));
  const std::string &partial = file.partial;
  struct stat existing;
  if (::stat(file.path.c_str(), &existing) == 0 && !S_ISREG(existing.st_mode))
    return failUsage("cannot-create", "the output exists and is not a regular file", file.path);

  // Another writer may rename or remove the file between our open and our lock: then the name is another
  // file, try again. A few rounds are enough; a fight longer than that is a writer alive.
  for (int attempt = 0; attempt < 8; ++attempt) {
    file.close();
    file.fd = ::open(partial.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (file.fd < 0)
      return cannotCreate(errno, partial);
    struct stat status;
    if (::fstat(file.fd, &status) != 0)
      return failSystem("cannot-create", "cannot look at the file: " + errnoText(errno), partial);
    if (!S_ISREG(status.st_mode))
      return failUsage("cannot-create", "what is written first exists and is not a regular file", partial,
                       "Move it out of the way, or choose another output.");
    if (::flock(file.fd, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK)
        return failSystem("cannot-create", "cannot lock the file: " + errnoText(errno), partial);
      break;
    }
    if (!sameFile(file.fd, partial))
      continue;
    // Again, now that it is ours.
    if (::fstat(file.fd, &status) != 0)
      return failSystem("cannot-create", "cannot look at the file: " + errnoText(errno), partial);
    if (status.st_size == 0)
      return file;
    // A dead writer's tape: somebody may still want to recover it.
    if (::rename(partial.c_str(), (partial + ".stale").c_str()) != 0)
      return cannotCreate(errno, partial + ".stale");
  }
  return failUsage("already-being-written", "another process is writing this tape", partial,
                   "Wait for it to end, or choose another output.");
}

llvm::Error OutputFile::removeAbandoned(const std::string &partial) {
  const int fd = ::open(partial.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0)
    return llvm::Error::success(); // Not there, or nothing of ours: create() says what is wrong with it.
  struct stat status;
  const bool isOurs = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
                      ::flock(fd, LOCK_EX | LOCK_NB) == 0 && sameFile(fd, partial);
  const int failed = isOurs && ::unlink(partial.c_str()) != 0 ? errno : 0;
  ::close(fd);
  if (failed)
    return failSystem("cannot-create", "cannot remove what a dead writer left: " + errnoText(failed),
                      partial);
  return llvm::Error::success();
}

OutputFile::OutputFile(OutputFile &&other) noexcept
    : fd(std::exchange(other.fd, -1)), path(std::move(other.path)), partial(std::move(other.partial)),
      bytes(other.bytes) {}

OutputFile &OutputFile::operator=(OutputFile &&other) noexcept {
  std::swap(fd, other.fd);
  std::swap(path, other.path);
  std::swap(partial, other.partial);
  std::swap(bytes, other.bytes);
  return *this;
}

OutputFile::~OutputFile() {
  close();
}

void OutputFile::close() {
  if (fd >= 0)
    ::close(fd);
  fd = -1;
}

llvm::Error OutputFile::write(llvm::ArrayRef<uint8_t> data) {
  while (!data.empty()) {
    const ssize_t put = ::write(fd, data.data(), data.size());
    if (put < 0 && errno == EINTR)
      continue;
    if (put <= 0) {
      const int error = put < 0 ? errno : EIO;
      return failSystem(error == ENOSPC || error == EDQUOT ? "disk-full" : "cannot-write",
                        "writing failed: " + errnoText(error), partial + ": offset " + std::to_string(bytes),
                        "Make room there, or name an output elsewhere.");
    }
    bytes += static_cast<uint64_t>(put);
    data = data.drop_front(static_cast<size_t>(put));
  }
  return llvm::Error::success();
}

// A rename is durable once the directory is; not all file systems can sync one, and then there is nothing to
// do.
static void syncDirectoryOf(const std::string &path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return;
  ::fsync(fd);
  ::close(fd);
}

llvm::Error OutputFile::publish(bool sync) {
  if (sync && ::fdatasync(fd) != 0)
    return failSystem("cannot-write", "the disk did not take the data: " + errnoText(errno), partial);
  if (::rename(partial.c_str(), path.c_str()) != 0)
    return failSystem("cannot-write", "cannot rename the finished file: " + errnoText(errno), partial);
  if (sync)
    syncDirectoryOf(path);
  close();
  return llvm::Error::success();
}

void OutputFile::discard() {
  if (fd >= 0 && sameFile(fd, partial))
    ::unlink(partial.c_str());
  close();
}

} // namespace tapeback
