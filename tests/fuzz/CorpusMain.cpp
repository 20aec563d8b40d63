// Runs a fuzzer's function once over every file of its corpus, as an ordinary test in every build.
//
//     corpus-NAME [FILE…]      the files of TAPEBACK_CORPUS_DIR (and below it), then the named ones
//
// Each file is one test. A function that crashes takes the program down before the closing line, which
// tools/run-tests counts as a failure; the name of the file is printed before it is run. An empty corpus is a
// failure.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

namespace fs = std::filesystem;

namespace {

std::vector<std::string> corpusFiles() {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::recursive_directory_iterator it(TAPEBACK_CORPUS_DIR, error), end; !error && it != end;
       it.increment(error))
    if (it->is_regular_file())
      files.push_back(it->path().string());
  if (error)
    std::printf("failed: %s: %s\n", TAPEBACK_CORPUS_DIR, error.message().c_str());
  std::sort(files.begin(), files.end());
  return files;
}

bool runOne(const std::string &path) {
  // Unbuffered on purpose: the name must be out before the input brings us down.
  std::fprintf(stderr, "%s\n", path.c_str());
  std::ifstream in(path, std::ios::binary);
  std::vector<char> content{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in) {
    std::printf("failed: %s cannot be read\n", path.c_str());
    return false;
  }
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t *>(content.data()), content.size());
  return true;
}

} // namespace

int main(int argc, char **argv) {
  std::vector<std::string> files = corpusFiles();
  files.insert(files.end(), argv + 1, argv + argc);

  int passed = 0, failed = 0;
  for (const std::string &file : files)
    ++(runOne(file) ? passed : failed);
  if (files.empty())
    std::printf("failed: no input in %s\n", TAPEBACK_CORPUS_DIR);
  const char *slash = std::strrchr(argv[0], '/');
  std::printf("%s: %d passed, %d failed, 0 skipped\n", slash ? slash + 1 : argv[0], passed, failed);
  return failed != 0 || files.empty() ? 1 : 0;
}
