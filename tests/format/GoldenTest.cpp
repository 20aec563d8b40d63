// Golden tapes: files of every version of the format that ever landed, read for ever, to the last field.
//
// tests/golden/NAME.tape was written once and is never written again; NAME.txt is what it says. To make a
// tape for a new version, add a session to `sessions` and run this program with
// TAPEBACK_WRITE_TAPES=DIRECTORY; it also writes the seeds of the fuzzers there.
#include "tests/format/TapeListing.h"
#include "tests/format/TapeSupport.h"

#include <cstdlib>
#include <filesystem>

using namespace tapeback;
using namespace tapeback::test;
namespace fs = std::filesystem;

namespace {

const std::string folder = TAPEBACK_SOURCE_DIR "/tests/golden";

std::string stem(const fs::path &path) {
  return path.parent_path() / path.stem();
}

std::vector<std::string> goldenTapes() {
  std::vector<std::string> tapes;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".tape")
      tapes.push_back(stem(entry.path()));
  std::sort(tapes.begin(), tapes.end());
  return tapes;
}

std::string listingOf(const std::string &path) {
  auto reader = expectValue(TapeReader::open(path));
  return listTape(*reader);
}

std::string textOf(const std::string &path) {
  const Bytes bytes = readFile(path);
  return {bytes.begin(), bytes.end()};
}

/// First line in which two texts differ.
std::string firstDifference(llvm::StringRef a, llvm::StringRef b) {
  while (!a.empty() || !b.empty()) {
    const auto [lineA, restA] = a.split('\n');
    const auto [lineB, restB] = b.split('\n');
    if (lineA != lineB)
      return "tape: " + lineA.str() + "\ntext: " + lineB.str();
    a = restA;
    b = restB;
  }
  return "";
}

void writeSynthetic(const std::string &path) {
  SessionOptions options;
  options.seed = 1;
  options.packets = 220;
  options.foreignBlocks = true;
  writeSession(path, options);
}

void writeWild(const std::string &path) {
  SessionOptions options;
  options.seed = 2;
  options.packets = 150;
  options.wild = true;
  options.writer.compress = false;
  writeSession(path, options);
}

struct GoldenSession {
  const char *name;
  void (*write)(const std::string &);
};
// v1-edu is not among them: it was recorded with `tapeback record --target model:edu -- edu-exercise --seed 1
// --ops 40` (and rewritten without the facts of the machine), and is what replays are tried with; v2-minnow
// likewise, of `minnow-stress --seed 5 --commands 60` on rtl:minnow, with --counters=markers; and v2-nvme, of
// `nvme-exercise --seed 14 --ops 10` on qemu:nvme?pattern=index&medium=64K.
const GoldenSession sessions[] = {{"v1-synthetic", writeSynthetic}, {"v1-wild", writeWild}};

/// Small tapes, uncompressed, with the leading byte that FuzzSeal.h wants.
void writeSeeds(const std::string &directory) {
  for (const char *fuzzer : {"tape-verify", "tape-recover"}) {
    fs::create_directories(directory + "/" + fuzzer);
    for (const uint64_t seed : {1, 2, 3, 4}) {
      SessionOptions options;
      options.seed = seed;
      options.packets = 4 * seed * seed - 3;
      options.maxBlob = 8;
      options.wild = seed == 3;
      options.foreignBlocks = seed == 4;
      options.writer.compress = seed == 2;
      const TemporaryDirectory scratch;
      writeSession(scratch.file("a.tape"), options);
      Bytes bytes = readFile(scratch.file("a.tape"));
      bytes.insert(bytes.begin(), seed == 1 ? 1 : 0);
      writeFile(directory + "/" + fuzzer + "/session-" + std::to_string(seed), bytes);
    }
    writeFile(directory + "/" + fuzzer + "/empty", {1});
  }
}

} // namespace

TEST_CASE("golden tapes say what they said when they were written") {
  const std::vector<std::string> tapes = goldenTapes();
  REQUIRE(tapes.size() >= std::size(sessions));
  for (const std::string &tape : tapes) {
    INFO(tape);
    expectValue(verifyTape(tape + ".tape"));
    const std::string listing = listingOf(tape + ".tape"), wanted = textOf(tape + ".txt");
    CHECK_MESSAGE(listing == wanted, firstDifference(listing, wanted));
  }
}

TEST_CASE("the comparison sees a difference") {
  const TemporaryDirectory directory;
  const Bytes bytes = readFile(folder + "/v1-synthetic.tape");
  ForgedTape tape(bytes);
  tape.header.createdNs += 1;
  writeFile(directory.file("a.tape"), tape.assemble());
  const std::string listing = listingOf(directory.file("a.tape")),
                    wanted = textOf(folder + "/v1-synthetic.txt");
  CHECK(listing != wanted);
  CHECK(firstDifference(listing, wanted).find("created") != std::string::npos);
}

TEST_CASE("golden tapes survive recovery") {
  const TemporaryDirectory directory;
  for (const std::string &tape : goldenTapes()) {
    INFO(tape);
    // Whole: the same bytes. Without its end: the same packets.
    const RecoverReport whole = expectValue(recoverTape(tape + ".tape", directory.file("a.tape")));
    CHECK(whole.wasComplete);
    Bytes bytes = readFile(tape + ".tape");
    CHECK(readFile(directory.file("a.tape")) == bytes);
    bytes.resize(bytes.size() - sizeof(Tail));
    writeFile(directory.file("cut.tape"), bytes);
    const RecoverReport cut = expectValue(recoverTape(directory.file("cut.tape"), directory.file("b.tape")));
    CHECK_FALSE(cut.lostAnything());
    auto from = [](const std::string &listing) { return listing.substr(listing.find("\nspace ")); };
    const std::string a = listingOf(tape + ".tape"), b = listingOf(directory.file("b.tape"));
    CHECK_MESSAGE(from(a).substr(0, from(a).find("\nroot ")) == from(b).substr(0, from(b).find("\nroot ")),
                  firstDifference(from(a), from(b)));
  }
}

TEST_CASE("the sessions of golden tapes can be written again, elsewhere") {
  const TemporaryDirectory scratch;
  const char *wanted = std::getenv("TAPEBACK_WRITE_TAPES");
  const std::string directory = wanted ? wanted : scratch.file(".");
  for (const GoldenSession &session : sessions) {
    const std::string path = directory + "/" + session.name;
    session.write(path + ".tape");
    expectValue(verifyTape(path + ".tape"));
    const std::string listing = listingOf(path + ".tape");
    writeFile(path + ".txt", Bytes(listing.begin(), listing.end()));
  }
  writeSeeds(directory);
  // Listings of tapes that came from elsewhere.
  for (const fs::directory_entry &entry : fs::directory_iterator(directory))
    if (entry.path().extension() == ".tape" && !fs::exists(stem(entry.path()) + ".txt")) {
      const std::string listing = listingOf(entry.path());
      writeFile(stem(entry.path()) + ".txt", Bytes(listing.begin(), listing.end()));
    }
}
