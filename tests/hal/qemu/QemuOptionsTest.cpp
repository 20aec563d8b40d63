#include "hal/qemu/QemuOptions.h"
#include "tests/hal/qemu/EduDriver.h"

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
