#include "hal/qemu/QemuOptions.h"
#include "tests/hal/qemu/EduDriver.h"
#include <unistd.h>

using namespace tapeback;
using namespace tapeback::test;

namespace {

llvm::Expected<QemuOptions> parse(const std::string &text) {
  return parseQemuOptions(must(parseTargetUri(text)));
}

} // namespace

TEST_CASE("options of qemu: have their defaults and are taken as given") {
  QemuOptions plain = must(parse("qemu:edu?qemu=/bin/true"));
  CHECK(plain.device->name == llvm::StringRef("edu"));
  CHECK(plain.program == "/bin/true");
  CHECK(plain.ramBytes == 256u << 20);
  CHECK(plain.machine == QemuOptions::Machine::Q35);
  CHECK(plain.time == QemuOptions::Time::Virtual);
  CHECK(plain.timeoutMs == 10000);
  QemuOptions all = must(parse("qemu:edu?qemu=true&ram=1G&machine=pc&time=real&timeout=5"));
  CHECK(llvm::StringRef(all.program).ends_with("/true"));
  CHECK(all.ramBytes == 1u << 30);
  CHECK(all.machine == QemuOptions::Machine::Pc);
  CHECK(all.time == QemuOptions::Time::Real);
  CHECK(all.timeoutMs == 5);
}

TEST_CASE("bad options of qemu: are refused and named") {
  for (const char *text :
       {"qemu:edu?ram=1", "qemu:edu?ram=4G", "qemu:edu?ram=256", "qemu:edu?ram=-1", "qemu:edu?ram=256MB",
        "qemu:edu?ram=33554433", "qemu:edu?ram=99999999999999999999G", "qemu:edu?machine=microvm",
        "qemu:edu?time=sometimes", "qemu:edu?timeout=0", "qemu:edu?qemu=bin/qemu", "qemu:edu?qemu=./qemu",
        "qemu:edu?qemu=/nowhere/qemu", "qemu:edu?qemu=/etc", "qemu:edu?qemu=/etc/passwd",
        "qemu:edu?qemu=tapeback-no-such-program"}) {
    Failure failure = failureOf(parse(text));
    CHECK_MESSAGE(failure.cls == FailureClass::Usage, text);
    CHECK_MESSAGE(failure.code == "bad-target-option", text);
    CHECK_MESSAGE(!failure.message.empty(), text);
    CHECK_MESSAGE(!failure.hint.empty(), text);
  }
  CHECK(failureOf(parse("qemu:edu?colour=red")).code == "unknown-target-option");
}

TEST_CASE("a medium belongs to a device that has one, and is of the size and content that was asked for") {
  QemuOptions plain = must(parse("qemu:nvme?qemu=/bin/true"));
  CHECK(plain.medium.bytes == 4u << 20);
  CHECK(plain.medium.pattern == MediumOptions::Pattern::Zero);
  CHECK(plain.medium.readIops == 0);
  QemuOptions all = must(parse(
      "qemu:nvme?qemu=/bin/true&medium=64K&pattern=random&pattern-seed=7&read-iops=5&write-iops=1000000"));
  CHECK(all.medium.bytes == 65536);
  CHECK(all.medium.seed == 7);
  CHECK(all.medium.readIops == 5);
  CHECK(all.medium.writeIops == 1'000'000);
  for (const char *text :
       {"qemu:edu?medium=4M", "qemu:edu?pattern=zero", "qemu:edu?read-iops=5", "qemu:nvme?medium=63K",
        "qemu:nvme?medium=2G", "qemu:nvme?medium=65537", "qemu:nvme?pattern=ones", "qemu:nvme?pattern-seed=2",
        "qemu:nvme?read-iops=0", "qemu:nvme?write-iops=1000001"})
    CHECK_MESSAGE(failureOf(parse(text)).code == "bad-target-option", text);
  auto wordsOf = [](MediumOptions::Pattern pattern, uint64_t seed) {
    MediumOptions options;
    options.bytes = 65536 + 1024;
    options.pattern = pattern;
    options.seed = seed;
    FileDescriptor file = must(makeMedium(options));
    std::vector<uint64_t> words(options.bytes / 8 + 1);
    CHECK(::pread(file.get(), words.data(), options.bytes + 8, 0) == ssize_t(options.bytes));
    CHECK(::ftruncate(file.get(), 0) != 0); // Sealed.
    words.pop_back();
    return words;
  };
  using Pattern = MediumOptions::Pattern;
  std::vector<uint64_t> index = wordsOf(Pattern::Index, 1);
  CHECK(index[8191] == 8191);
  CHECK(index.back() == index.size() - 1);
  CHECK(wordsOf(Pattern::Zero, 1) == std::vector<uint64_t>(index.size()));
  CHECK(wordsOf(Pattern::Random, 1) == wordsOf(Pattern::Random, 1));
  CHECK(wordsOf(Pattern::Random, 1) != wordsOf(Pattern::Random, 2));
}

TEST_CASE("an unknown device is answered with the list of those there are") {
  for (const char *text : {"qemu:", "qemu:sphinx", "qemu:edu,addr=5", "qemu:EDU"}) {
    Failure failure = failureOf(parse(text));
    CHECK(failure.cls == FailureClass::Usage);
    CHECK(failure.code == "unknown-qemu-device");
    CHECK(failure.hint.find("edu") != std::string::npos);
  }
}

TEST_CASE("programs are found in absolute folders of the path only") {
  CHECK(findInPath("sh", "/nowhere:/bin") == "/bin/sh");
  CHECK(!findInPath("sh", ".:bin::"));
  CHECK(!findInPath("no-such-program", "/bin"));
  CHECK(!findInPath("sh", ""));
}

TEST_CASE("sizes are whole and do not overflow") {
  CHECK(parseByteSize("0") == 0u);
  CHECK(parseByteSize("4096") == 4096u);
  CHECK(parseByteSize("3K") == 3072u);
  CHECK(parseByteSize("16M") == 16u << 20);
  CHECK(parseByteSize("17179869183G") == 17179869183ull << 30);
  for (const char *text : {"", "M", "1.5G", "17179869184G", "0x10", "1 M", "1k", "1MM", "+1"})
    CHECK_MESSAGE(!parseByteSize(text), text);
}
