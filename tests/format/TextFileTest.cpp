// Reading a named file: regular files of bounded size, and plain words for everything else.
#include "format/Failure.h"
#include "format/Text.h"
#include "llvm/Support/FileSystem.h"
#include <cstdlib>
#include <doctest/doctest.h>
#include <fstream>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

using namespace tapeback;

namespace {

struct Folder {
  Folder() { REQUIRE(!llvm::sys::fs::createUniqueDirectory("tapeback-text", path)); }
  ~Folder() { llvm::sys::fs::remove_directories(path); }
  std::string file(const char *name) const { return (path + "/" + name).str(); }
  llvm::SmallString<128> path;
};

Failure refused(const std::string &path, TextLimits limits = {}) {
  llvm::Expected<std::string> text = readTextFile(path, limits);
  REQUIRE(!text);
  Failure failure = toFailure(text.takeError());
  CHECK(failure.cls == FailureClass::Usage);
  CHECK(failure.where == path);
  return failure;
}

} // namespace

TEST_CASE("a file is read whole, up to the limit") {
  Folder folder;
  std::string path = folder.file("x");
  std::ofstream(path, std::ios::binary) << std::string(100000, 'x');
  llvm::Expected<std::string> text = readTextFile(path, {100000});
  REQUIRE(bool(text));
  CHECK(*text == std::string(100000, 'x'));
  Failure failure = refused(path, {99999});
  CHECK(failure.code == "text-too-large");
  CHECK(failure.message == "the file has more than 99999 bytes, the most that is read");
}

TEST_CASE("a file that says it is empty is read to its end") {
  llvm::Expected<std::string> text = readTextFile("/proc/self/status");
  REQUIRE(bool(text));
  CHECK(text->size() > 10);
}

TEST_CASE("what is no file is refused by what it is, without opening it") {
  Folder folder;
  std::string pipe = folder.file("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(refused(pipe).message == "this is a pipe, not a file"); // And does not wait for a writer.
  CHECK(refused(folder.path.str().str()).message == "this is a directory, not a file");
  CHECK(refused("/dev/zero").message == "this is a device, not a file");

  std::string path = folder.file("socket");
  int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  REQUIRE(fd >= 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  REQUIRE(path.size() < sizeof(address.sun_path));
  path.copy(address.sun_path, path.size());
  REQUIRE(::bind(fd, reinterpret_cast<sockaddr *>(&address), sizeof(address)) == 0);
  CHECK(refused(path).message == "this is a socket, not a file");
  CHECK(refused(path).code == "not-a-file");
  ::close(fd);
}

TEST_CASE("what cannot be opened is refused with the system's reason") {
  Folder folder;
  CHECK(refused(folder.file("none")).message == "cannot be read: No such file or directory");
  CHECK(refused(folder.file("none")).code == "cannot-read");
  std::ofstream(folder.file("x")) << "x";
  CHECK(refused(folder.file("x") + "/y").message == "cannot be read: Not a directory");
  REQUIRE(::symlink("loop", folder.file("loop").c_str()) == 0);
  CHECK(refused(folder.file("loop")).message == "cannot be read: Too many levels of symbolic links");
  CHECK(refused(folder.file(std::string(5000, 'n').c_str())).message == "cannot be read: File name too long");
  llvm::Expected<std::string> text = readTextFile(llvm::StringRef("a\0b", 3));
  REQUIRE(!text);
  CHECK(toFailure(text.takeError()).message == "the path has a zero byte in it");
  if (::geteuid() != 0) { // Root may read anything.
    REQUIRE(::chmod(folder.file("x").c_str(), 0) == 0);
    CHECK(refused(folder.file("x")).message == "cannot be read: Permission denied");
  }
}
