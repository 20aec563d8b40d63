// Files that are not what was asked for: the contract's exit code, one clear message, nothing half-written.
#include "format/Layout.h"
#include "tests/tools/RunJson.h"
#include "tests/tools/SampleTape.h"
#include "llvm/ADT/StringRef.h"
#include <cstring>
#include <filesystem>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

using namespace llvm;
using namespace tapeback;
using namespace tapeback::test;

namespace {

/// A verb that reads a tape, as far as it exists; OUT is replaced.
struct TapeVerb {
  std::string name;
  std::vector<std::string> rest;
  bool writes;
};

std::vector<TapeVerb> tapeVerbs() {
  std::vector<TapeVerb> all = {{"info", {}, false},
                               {"info", {"--quick"}, false},
                               {"dump", {}, false},
                               {"dump", {"--range", "@op"}, false},
                               {"verify", {}, false},
                               {"recover", {"-o", "OUT"}, true},
                               {"trim", {"-o", "OUT", "--range", "w0"}, true},
                               {"replay", {"--target", "null:"}, false},
                               {"bisect", {"--good", "null:", "--bad", "null:"}, false},
                               {"diff", {TAPEBACK_SOURCE_DIR "/tests/golden/v1-edu.tape"}, false}};
  std::string help = runTapeback({"--help"}).out;
  std::erase_if(all,
                [&](const TapeVerb &verb) { return !StringRef(help).contains("\n  " + verb.name + " "); });
  return all;
}

/// Runs the verb on a file, as text and as JSON; both must exit with `code` (or one of two), say one thing,
/// and leave nothing in the output's place. Returns the JSON one.
JsonResult expectRefused(const TapeVerb &verb, const std::string &file, std::vector<int> codes) {
  ScratchDirectory outputs;
  std::vector<std::string> args{verb.name, file};
  for (const std::string &word : verb.rest)
    args.push_back(word == "OUT" ? outputs.file("out.tape") : word);
  auto expected = [&](const RunResult &run) {
    for (int code : codes)
      if (run.exited(code))
        return true;
    return false;
  };
  RunOptions options;
  options.timeout = std::chrono::seconds(30); // A FIFO that is opened for reading blocks for ever.
  RunResult text = runTapeback(args, options);
  CHECK_MESSAGE(expected(text), text);
  CHECK_MESSAGE(StringRef(text.err).starts_with("tapeback " + verb.name + ": error: "), text);
  CHECK_MESSAGE(StringRef(text.err).count(": error: ") == 1, text);
  CHECK_MESSAGE(text.out.empty(), text);
  JsonResult json = runJson(args, options);
  CHECK_MESSAGE(expected(json.run), json.run);
  CHECK_MESSAGE(json.text("verdict") == "error", json.run);
  CHECK_MESSAGE(json.errorCode() != "(no error)", json.run);
  CHECK_MESSAGE(outputs.names().empty(), json.run); // Not even a partial file.
  return json;
}

std::string sampleBytes(const SampleOptions &options = {}) {
  ScratchDirectory scratch;
  writeSampleTape(scratch.file("a.tape"), options);
  return readWholeFile(scratch.file("a.tape"));
}

} // namespace

TEST_CASE("a file that is not there, not readable or not a file exits 2 and says why") {
  ScratchDirectory scratch;
  std::filesystem::create_directory(scratch.file("directory.tape"));
  REQUIRE(mkfifo(scratch.file("fifo.tape").c_str(), 0600) == 0);
  int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::string path = scratch.file("socket.tape");
  REQUIRE(path.size() < sizeof address.sun_path);
  path.copy(address.sun_path, path.size());
  REQUIRE(bind(listener, reinterpret_cast<sockaddr *>(&address), sizeof address) == 0);
  writeWholeFile(scratch.file("loop"), "");
  std::filesystem::create_symlink("circle.tape", scratch.file("circle.tape"));
  for (const TapeVerb &verb : tapeVerbs()) {
    CAPTURE(verb.name);
    for (std::string file :
         {std::string("/nonexistent/x.tape"), scratch.file("directory.tape"), scratch.file("fifo.tape"),
          scratch.file("socket.tape"), scratch.file("circle.tape"), std::string("/dev/null"),
          std::string("/dev/zero"), std::string()}) {
      CAPTURE(file);
      expectRefused(verb, file, {2});
    }
    JsonResult missing = expectRefused(verb, "/nonexistent/x.tape", {2});
    const json::Object *error = missing.at("error");
    REQUIRE(error);
    std::string all =
        error->getString("message").value_or("").str() + error->getString("where").value_or("").str();
    CHECK_MESSAGE(StringRef(all).contains("/nonexistent/x.tape"), missing.run);
    CHECK_MESSAGE(StringRef(all).contains_insensitive("no such file"), missing.run);
  }
  close(listener);
}

TEST_CASE("a foreign file exits 3") {
  ScratchDirectory scratch;
  writeWholeFile(scratch.file("text.tape"), "This is a letter, not a tape.\n" + std::string(4096, 'x'));
  writeWholeFile(scratch.file("zero.tape"), std::string(65536, '\0'));
  std::filesystem::copy_file("/bin/true", scratch.file("elf.tape"));
  for (const TapeVerb &verb : tapeVerbs())
    for (const char *name : {"text.tape", "zero.tape", "elf.tape"}) {
      CAPTURE(name);
      JsonResult result = expectRefused(verb, scratch.file(name), {3});
      if (verb.name != "recover")
        CHECK_MESSAGE(result.errorCode() == "not-a-tape", result.run);
    }
}

TEST_CASE("an empty or short file is no tape") {
  ScratchDirectory scratch;
  writeWholeFile(scratch.file("empty.tape"), "");
  writeWholeFile(scratch.file("short.tape"), sampleBytes().substr(0, 5));
  for (const TapeVerb &verb : tapeVerbs())
    for (const char *name : {"empty.tape", "short.tape"}) {
      CAPTURE(name);
      expectRefused(verb, scratch.file(name), {3});
    }
}

TEST_CASE("a truncated tape exits 3, and recover is named") {
  ScratchDirectory scratch;
  std::string whole = sampleBytes();
  for (size_t size : {whole.size() - 1, whole.size() / 2, whole.size() * 9 / 10}) {
    CAPTURE(size);
    writeWholeFile(scratch.file("cut.tape"), whole.substr(0, size));
    for (const TapeVerb &verb : tapeVerbs()) {
      if (verb.name == "recover")
        continue;
      JsonResult result = expectRefused(verb, scratch.file("cut.tape"), {3});
      CHECK_MESSAGE(StringRef(result.run.err).contains("recover"), result.run);
    }
  }
}

TEST_CASE("a damaged tape exits 3 wherever the damage is") {
  ScratchDirectory scratch;
  std::string whole = sampleBytes();
  unsigned refused = 0, read = 0;
#ifdef TAPEBACK_SANITIZED
  constexpr unsigned places = 15; // A sanitizer's start and end take a tenth of a second each.
#else
  constexpr unsigned places = 60;
#endif
  for (size_t at = 0; at < whole.size(); at += std::max<size_t>(1, whole.size() / places)) {
    CAPTURE(at);
    std::string bad = whole;
    bad[at] = char(bad[at] ^ 0x55);
    writeWholeFile(scratch.file("bad.tape"), bad);
    RunResult verify = runTapeback({"verify", scratch.file("bad.tape")});
    CHECK_MESSAGE(verify.exited(3), verify);
    // Others may not look at the damaged place; if they do, they refuse it.
    RunResult dump = runTapeback({"dump", scratch.file("bad.tape"), "--format", "jsonl"});
    CHECK_MESSAGE((dump.exited(0) || dump.exited(3)), dump);
    dump.exit == 0 ? ++read : ++refused;
  }
  CHECK(refused > places / 6);
  MESSAGE("dump refused " << refused << ", read past " << read);
}

TEST_CASE("of a damaged tape everything else is listed, and what is left out is counted") {
  ScratchDirectory scratch;
  SampleOptions options;
  options.operations = 2500; // Several blocks of packets.
  const uint64_t packets = writeSampleTape(scratch.file("good.tape"), options).packets;
  std::string whole = readWholeFile(scratch.file("good.tape"));
  unsigned passedOver = 0;
  bool asObject = false;
  // Not in the last fifth, where the index is: without it nothing is listed.
  for (size_t place = 1; place < 9; ++place) {
    CAPTURE(place);
    std::string bad = whole;
    bad[whole.size() * place / 10] ^= 0x55;
    writeWholeFile(scratch.file("bad.tape"), bad);
    RunResult dump =
        runTapeback({"dump", scratch.file("bad.tape"), "--format", "jsonl", "--payload", "none"});
    uint64_t expected = 0, gaps = 0;
    SmallVector<StringRef, 0> lines;
    StringRef(dump.out).split(lines, '\n', -1, false);
    for (StringRef line : ArrayRef(lines).drop_front()) {
      uint64_t ordinal = 0;
      StringRef rest = line.split("\"packet\":").second;
      REQUIRE(!rest.consumeInteger(10, ordinal));
      REQUIRE(ordinal >= expected);
      gaps += ordinal - expected;
      expected = ordinal + 1;
    }
    REQUIRE(expected <= packets);
    passedOver += gaps != 0;
    gaps += packets - expected;
    CHECK_MESSAGE(dump.exited(gaps ? 3 : 0), dump.err);
    CHECK(StringRef(dump.err).contains("left out p") == (gaps != 0));
    CHECK(StringRef(dump.err).contains(std::to_string(gaps) + " packets were left out") == (gaps != 0));
    if (!gaps || asObject)
      continue;
    asObject = true; // Once will do.
    JsonResult object =
        runJson({"dump", scratch.file("bad.tape"), "--limit", "1000000", "--payload", "none"});
    CHECK(object.run.exited(3));
    CHECK(object.number("left_out") == int64_t(gaps));
    CHECK(object.number("count") == int64_t(packets - gaps));
    CHECK(!object.object.getArray("left_out_at")->empty());
  }
  CHECK(passedOver > 0); // Something behind a damaged place was listed.
}

TEST_CASE("a newer tape is not a damaged one: the message says so") {
  ScratchDirectory scratch;
  std::string whole = sampleBytes();
  FileHeader header;
  std::memcpy(&header, whole.data(), sizeof header);
  header.formatVersion = header.minimumReader = 999;
  header.check = checkOf(header);
  std::memcpy(whole.data(), &header, sizeof header);
  writeWholeFile(scratch.file("newer.tape"), whole);
  for (const TapeVerb &verb : tapeVerbs()) {
    JsonResult result = expectRefused(verb, scratch.file("newer.tape"), {3});
    CHECK_MESSAGE(result.errorCode() == "newer-version", result.run);
    CHECK_MESSAGE(StringRef(result.run.err).contains("version 999"), result.run);
  }
}

TEST_CASE("an output that may not be written is refused before any work") {
  ScratchDirectory scratch;
  writeSampleTape(scratch.file("in.tape"));
  const std::string before = readWholeFile(scratch.file("in.tape"));
  std::filesystem::create_symlink("in.tape", scratch.file("alias.tape"));
  std::filesystem::create_hard_link(scratch.file("in.tape"), scratch.file("hard.tape"));
  std::filesystem::create_directory(scratch.file("directory"));
  writeWholeFile(scratch.file("old.tape"), "precious");
  const std::vector<std::string> names = scratch.names();
  for (const TapeVerb &verb : tapeVerbs()) {
    if (!verb.writes)
      continue;
    CAPTURE(verb.name);
    struct Case {
      std::string out, code;
    };
    for (const Case &c :
         {Case{scratch.file("in.tape"), "output-is-input"},
          Case{scratch.file("alias.tape"), "output-is-input"},
          Case{scratch.file("hard.tape"), "output-is-input"},
          Case{scratch.path() + "/./in.tape", "output-is-input"},
          Case{scratch.file("old.tape"), "output-exists"}, Case{scratch.file("directory"), "bad-output"},
          Case{scratch.file("missing/x.tape"), "bad-output"}, Case{"/dev/null", "bad-output"},
          Case{"", "bad-output"}}) {
      std::vector<std::string> args{verb.name, scratch.file("in.tape")};
      for (const std::string &word : verb.rest)
        args.push_back(word == "OUT" ? c.out : word);
      JsonResult result = runJson(args);
      CHECK_MESSAGE(result.run.exited(2), result.run);
      CHECK_MESSAGE(result.errorCode() == c.code, result.run);
      args.push_back("--force");
      if (c.code != "output-exists") {
        JsonResult forced = runJson(args);
        CHECK_MESSAGE(forced.run.exited(2), forced.run);
      }
    }
  }
  CHECK(readWholeFile(scratch.file("in.tape")) == before);
  CHECK(readWholeFile(scratch.file("old.tape")) == "precious");
  CHECK(scratch.names() == names);
}

TEST_CASE("a description that is wrong exits 2 with line and column") {
  ScratchDirectory scratch;
  struct Case {
    const char *yaml;
  };
  writeWholeFile(scratch.file("good.yaml"), readWholeFile(TAPEBACK_SOURCE_DIR "/hal/edu/edu.yaml"));
  RunResult good = runTapeback({"device", "check", scratch.file("good.yaml")});
  CHECK_MESSAGE(good.exited(0), good);
  JsonResult show = runJson({"device", "show", scratch.file("good.yaml")});
  CHECK(show.run.exited(0));
  CHECK(show.text("name") == "edu");
  REQUIRE(show.object.getArray("registers"));
  CHECK(show.object.getArray("registers")->size() > 5);
  REQUIRE(show.object.getArray("activities"));
  CHECK(int64_t(show.object.getArray("activities")->size()) == show.number("activity_count"));
  REQUIRE(show.object.getArray("windows"));
  CHECK(int64_t(show.object.getArray("windows")->size()) == show.number("window_count"));
  JsonResult one = runJson({"device", "show", "edu", "--register", "STATUS"});
  CHECK_MESSAGE(one.run.exited(0), one.run);
  REQUIRE(one.object.getArray("registers"));
  CHECK(one.object.getArray("registers")->size() == 1);
  JsonResult none = runJson({"device", "show", "edu", "--register", "STATSU"});
  CHECK(none.run.exited(2));
  CHECK(StringRef(none.run.err).contains("did you mean 'STATUS'?"));

  writeWholeFile(scratch.file("bad.yaml"),
                 "tapeback-description: 1\nname: x\nspaces: [bar0]\nregisters:\n  - {nmae: A}\n");
  for (const char *action : {"check", "show"}) {
    RunResult bad = runTapeback({"device", action, scratch.file("bad.yaml")});
    CHECK_MESSAGE(bad.exited(2), bad);
    CHECK(bad.out.empty());
    CHECK_MESSAGE(StringRef(bad.err).contains("bad.yaml:5:"), bad);
  }
  writeWholeFile(scratch.file("deep.yaml"), std::string(100000, '['));
  writeWholeFile(scratch.file("binary.yaml"), std::string("\0\x01\xff", 3));
  std::filesystem::create_directory(scratch.file("directory.yaml"));
  REQUIRE(mkfifo(scratch.file("fifo.yaml").c_str(), 0600) == 0);
  for (const char *name : {"deep.yaml", "binary.yaml", "directory.yaml", "fifo.yaml", "missing.yaml"}) {
    CAPTURE(name);
    RunOptions options;
    options.timeout = std::chrono::seconds(30);
    RunResult bad = runTapeback({"device", "check", scratch.file(name)}, options);
    CHECK_MESSAGE(bad.exited(2), bad);
    CHECK(StringRef(bad.err).count(": error: ") == 1);
    CHECK(runJson({"device", "check", scratch.file(name)}, options).run.exited(2));
  }
  CHECK(runTapeback({"device", "paint", "edu"}).exited(2));
  CHECK(runTapeback({"device", "check", "no-such-device"}).exited(2));
}
