#include "recorder/import/LineReader.h"
#include "format/Failure.h"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

using namespace llvm;

namespace tapeback {
namespace {

/// Where bytes come from: a file, or (fd < 0) only what is in the buffer already.
class Reader : public LineReader {
public:
  Reader(int fd, std::string path, size_t maxLine) : LineReader(maxLine), fd(fd), path(std::move(path)) {}
  ~Reader() override {
    if (fd >= 0)
      close(fd);
  }

  Expected<StringRef> head() override {
    constexpr size_t headBytes = 64 << 10;
    while (held() < headBytes && !atEnd)
      if (Error error = fill())
        return error;
    return StringRef(at, std::min(held(), headBytes));
  }

  uint64_t position() const override { return consumed + uint64_t(at - data); }

  void fromText(StringRef text) {
    data = at = text.begin();
    stop = text.end();
    atEnd = true;
  }

protected:
  Expected<bool> slow(CaptureLine &line) override {
    size_t searched = 0;
    const char *newline = nullptr;
    for (;;) {
      if (held() > searched)
        newline = static_cast<const char *>(std::memchr(at + searched, '\n', held() - searched));
      searched = held();
      if (newline || atEnd || searched > maxLine)
        break;
      if (Error error = fill())
        return error;
    }
    if (!newline && searched == 0)
      return false;
    if (newline)
      searched = size_t(newline - at);
    line = {};
    line.number = ++number;
    line.tooLong = searched > maxLine;
    line.text = StringRef(at, std::min(searched, maxLine));
    if (!newline && line.tooLong) {
      std::string kept = line.text.take_front(shownOfTooLong).str();
      beginning.swap(kept);
      line.text = beginning;
      return skipLine();
    }
    at += searched + (newline ? 1 : 0);
    line.unended = !newline;
    if (!line.tooLong && newline && line.text.ends_with("\r")) {
      line.text = line.text.drop_back();
      line.carriage = true;
    }
    if (line.tooLong)
      line.text = line.text.take_front(shownOfTooLong);
    return true;
  }

private:
  static constexpr size_t shownOfTooLong = 256;
  static constexpr size_t readBytes = 1 << 20;

  size_t held() const { return size_t(stop - at); }

  Error fill() {
    size_t kept = held();
    if (at != data) // What was consumed makes room.
      std::memmove(buffer.data(), at, kept);
    consumed += uint64_t(at - data);
    if (buffer.size() < kept + readBytes)
      buffer.resize(kept + readBytes);
    data = at = buffer.data();
    stop = at + kept;
    ssize_t got;
    do
      got = read(fd, buffer.data() + kept, readBytes);
    while (got < 0 && errno == EINTR);
    if (got < 0)
      return failUsage("unreadable", std::string("cannot read: ") + std::strerror(errno), path);
    atEnd = got == 0;
    stop += got;
    return Error::success();
  }

  /// Drops the rest of a line that is too long, whatever its length, in the buffer's memory.
  Expected<bool> skipLine() {
    for (;;) {
      const char *newline = at == stop ? nullptr : static_cast<const char *>(std::memchr(at, '\n', held()));
      if (newline) {
        at = newline + 1;
        return true;
      }
      at = stop;
      if (atEnd)
        return true;
      if (Error error = fill())
        return error;
    }
  }

  int fd;
  std::string path;
  std::vector<char> buffer;
  const char *data = nullptr; ///< Where what was read begins; `at` and `stop` are in it.
  uint64_t consumed = 0;      ///< Bytes before it.
  bool atEnd = false;
  std::string beginning;
};

} // namespace

Expected<std::unique_ptr<LineReader>> LineReader::open(StringRef path) {
  std::string name = path.str();
  auto isDevice = [](const struct stat &status) {
    return S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode);
  };
  auto noDevices = [&] {
    return failUsage("unreadable", "this is a device, not a file", name,
                     "name a file with the text of a capture, or a pipe");
  };
  // Looked at before it is opened: opening a device can already do something.
  struct stat status = {};
  if (stat(name.c_str(), &status) == 0 && isDevice(status))
    return noDevices();
  int fd = ::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (fd < 0 || fstat(fd, &status) < 0) {
    int error = errno;
    if (fd >= 0)
      close(fd);
    return failUsage("unreadable", std::string("cannot open: ") + std::strerror(error), name,
                     "name a file with the text of a capture");
  }
  auto reader = std::make_unique<Reader>(fd, name, maxLineBytes);
  if (isDevice(status)) // It may have been exchanged in between.
    return noDevices();
  if (S_ISDIR(status.st_mode))
    return failUsage("unreadable", "this is a directory", name, "name a file with the text of a capture");
  return reader;
}

std::unique_ptr<LineReader> LineReader::ofText(StringRef text, size_t maxLine) {
  auto reader = std::make_unique<Reader>(-1, "text", maxLine);
  reader->fromText(text);
  return reader;
}

} // namespace tapeback
