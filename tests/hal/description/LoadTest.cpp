// Finding descriptions by path, by name in TAPEBACK_DESCRIPTIONS, and in the build tree.
#include "format/Failure.h"
#include "hal/description/Description.h"
#include "llvm/Support/FileSystem.h"
#include <cstdlib>
#include <doctest/doctest.h>
#include <fstream>

using namespace tapeback;

namespace {

/// A folder of descriptions that the environment names, and the environment as it was afterwards.
struct Folder {
  Folder() {
    REQUIRE(!llvm::sys::fs::createUniqueDirectory("tapeback-descriptions", path));
    if (const char *value = std::getenv("TAPEBACK_DESCRIPTIONS"))
      saved = value;
    setFolders("/nonexistent:" + path.str().str());
  }
  ~Folder() {
    if (saved)
      ::setenv("TAPEBACK_DESCRIPTIONS", saved->c_str(), 1);
    else
      ::unsetenv("TAPEBACK_DESCRIPTIONS");
    llvm::sys::fs::remove_directories(path);
  }
  void setFolders(const std::string &value) { ::setenv("TAPEBACK_DESCRIPTIONS", value.c_str(), 1); }
  std::string write(const char *file, const char *text) {
    std::string where = (path + "/" + file).str();
    std::ofstream(where) << text;
    return where;
  }
  llvm::SmallString<128> path;
  std::optional<std::string> saved;
};

Failure notFound(llvm::StringRef nameOrPath) {
  llvm::Expected<DescriptionText> text = loadDescriptionText(nameOrPath);
  REQUIRE(!text);
  Failure failure = toFailure(text.takeError());
  CHECK(failure.cls == FailureClass::Usage);
  return failure;
}

} // namespace

TEST_CASE("a description is found by its path") {
  Folder folder;
  std::string path = folder.write("mine.yaml", "hello");
  llvm::Expected<DescriptionText> text = loadDescriptionText(path);
  REQUIRE(bool(text));
  CHECK(text->text == "hello");
  CHECK(text->name == path);
  CHECK(text->title == "mine");
  CHECK(notFound("none.yaml").message == "cannot be read: No such file or directory");
  CHECK(notFound("none.yaml").where == "none.yaml");
  CHECK(notFound(folder.path.str().str() + "/").message == "this is a directory, not a file");
}

TEST_CASE("a description is found by its name in the folders of the environment") {
  Folder folder;
  std::string path = folder.write("mine.yaml", "hello");
  folder.write("minor.yaml", "");
  folder.write("remarks.txt", "");
  llvm::Expected<DescriptionText> text = loadDescriptionText("mine");
  REQUIRE(bool(text));
  CHECK(text->text == "hello");
  CHECK(text->name == path);
  CHECK(text->title == "mine");
  CHECK(notFound("remarks").code == "unknown-description");

  Failure failure = notFound("mime");
  CHECK(failure.code == "unknown-description");
  CHECK(failure.message == "no device description is named 'mime'; did you mean 'mine'?");
  CHECK(llvm::StringRef(failure.where).contains(folder.path));
  CHECK(llvm::StringRef(failure.hint).contains("mine, minnow, minor"));
  CHECK(!llvm::StringRef(failure.hint).contains("remarks"));
}

TEST_CASE("a description that is installed beside the program is found by its name") {
  llvm::Expected<DescriptionText> text = loadDescriptionText("edu");
  REQUIRE(bool(text));
  CHECK(text->title == "edu");
  CHECK(bool(parseDescription(text->text, text->name)));
}

TEST_CASE("hostile names") {
  Folder folder;
  CHECK(notFound("").code == "unknown-description");
  CHECK(notFound("..").code == "unknown-description");
  CHECK(notFound(llvm::StringRef("mi\0ne", 5)).code == "unknown-description");
  CHECK(notFound(std::string(100000, 'x')).message.size() < 200);
  CHECK(notFound("\xff").code == "unknown-description");
  folder.setFolders("::" + std::string(100000, ':'));
  CHECK(notFound("mine").code == "unknown-description");
}
