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
  Reader(int fd, std::string path, size_t maxLine) : fd(fd), path(std::move(path)), maxLine(maxLine) {}
  ~Reader() override {
    if (fd >= 0)
      close(fd);
  }

  Expected<StringRef> head() override {
    constexpr size_t headBytes = 64 << 10;
    while (end - begin < headBytes && !atEnd)
      if (Error error = fill())
        return error;
    return StringRef(data + begin, std::min(end - begin, headBytes));
  }

  Expected<bool> next(CaptureLine &line) override {
    size_t searched = 0;
    const char *newline = nullptr;
    for (;;) {
      if (end - begin > searched)
        newline =
            static_cast<const char *>(std::memchr(data + begin + searched, '\n', end - begin - searched));
      searched = end - begin;
      if (newline || atEnd || searched > maxLine)
        break;
      if (Error error = fill())
        return error;
    }
    if (!newline && searched == 0)
      return false;
    if (newline)
      searched = size_t(newline - (data + begin));
    line = {};
    line.number = ++number;
    line.tooLong = searched > maxLine;
    line.text = StringRef(data + begin, std::min(searched, maxLine));
    if (!newline && line.tooLong) {
      std::string kept = line.text.take_front(shownOfTooLong).str();
      beginning.swap(kept);
      line.text = beginning;
      return skipLine();
    }
    begin += searched + (newline ? 1 : 0);
    line.unended = !newline;
    if (!line.tooLong && newline && line.text.ends_with("\r")) {
      line.text = line.text.drop_back();
      line.carriage = true;
    }
    if (line.tooLong)
      line.text = line.text.take_front(shownOfTooLong);
    return true;
  }

  uint64_t position() const override { return consumed + begin; }

  void fromText(StringRef text) {
    data = text.data();
    end = text.size();
    atEnd = true;
  }

private:
  static constexpr size_t shownOfTooLong = 256;
  static constexpr size_t readBytes = 1 << 20;

  Error fill() {
    if (begin > 0) { // What was consumed makes room.
      std::memmove(buffer.data(), buffer.data() + begin, end - begin);
      consumed += begin;
      end -= begin;
      begin = 0;
    }
    if (buffer.size() < end + readBytes)
      buffer.resize(end + readBytes);
    data = buffer.data();
    ssize_t got;
    do
      got = read(fd, buffer.data() + end, readBytes);
    while (got < 0 && errno == EINTR);
    if (got < 0)
      return failUsage("unreadable", std::string("cannot read: ") + std::strerror(errno), path);
    atEnd = got == 0;
    end += size_t(got);
    return Error::success();
  }

  /// Drops the rest of a line that is too long, whatever its length, in the buffer's memory.
  Expected<bool> skipLine() {
    for (;;) {
      const char *newline =
          end == begin ? nullptr : static_cast<const char *>(std::memchr(data + begin, '\n', end - begin));
      if (newline) {
        begin = size_t(newline - data) + 1;
        return true;
      }
      begin = end;
      if (atEnd)
        return true;
      if (Error error = fill())
        return error;
    }
  }

  int fd;
  std::string path;
  size_t maxLine;
  std::vector<char> buffer;
  const char *data = nullptr;
  size_t begin = 0, end = 0; ///< Of what is read and not consumed, in data.
  uint64_t consumed = 0, number = 0;
  bool atEnd = false;
  std::string beginning;
};

} // namespace

Expected<std::unique_ptr<LineReader>> LineReader::open(StringRef path) {
  std::string name = path.str();
  int fd = ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status = {};
  if (fd < 0 || fstat(fd, &status) < 0) {
    int error = errno;
    if (fd >= 0)
      close(fd);
    return failUsage("unreadable", std::string("cannot open: ") + std::strerror(error), name,
                     "name a file with the text of a capture");
  }
  auto reader = std::make_unique<Reader>(fd, name, maxLineBytes);
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
