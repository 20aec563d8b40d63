#include "hal/qemu/QtestLine.h"
#include <doctest/doctest.h>
#include <random>

using namespace tapeback;

TEST_CASE("qtest commands are spelled as the server wants them") {
  CHECK(QtestCommand::read(1, 0).line() == "readb 0x0\n");
  CHECK(QtestCommand::read(2, 0xa).line() == "readw 0xa\n");
  CHECK(QtestCommand::read(4, 0xfe000098).line() == "readl 0xfe000098\n");
  CHECK(QtestCommand::read(8, ~0ull).line() == "readq 0xffffffffffffffff\n");
  CHECK(QtestCommand::write(8, ~0ull, ~0ull).line() == "writeq 0xffffffffffffffff 0xffffffffffffffff\n");
  CHECK(QtestCommand::write(4, 0x10, 0).line() == "writel 0x10 0x0\n");
  CHECK(QtestCommand::portIn(0xcfc).line() == "inl 0xcfc\n");
  CHECK(QtestCommand::portOut(0xffff, 0xffffffff).line() == "outl 0xffff 0xffffffff\n");
  CHECK(QtestCommand::endianness().text() == "endianness");
}

TEST_CASE("bits beyond the width of a write are not sent") {
  CHECK(QtestCommand::write(1, 4, 0x1234).text() == "writeb 0x4 0x34");
  CHECK(QtestCommand::write(2, 4, 0x12345).text() == "writew 0x4 0x2345");
  CHECK(QtestCommand::write(4, 4, 0x123456789).text() == "writel 0x4 0x23456789");
}

TEST_CASE("no command that can be made is one that aborts the server") {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    unsigned width = 1u << (random() % 4);
    uint64_t address = random() >> (random() % 64), value = random() >> (random() % 64);
    QtestCommand command =
        random() % 2 ? QtestCommand::read(width, address) : QtestCommand::write(width, address, value);
    llvm::StringRef line = command.line();
    REQUIRE(line.ends_with("\n"));
    REQUIRE(line.count('\n') == 1);
    REQUIRE(!line.contains("  "));
    REQUIRE(!line.contains(" \n"));
    REQUIRE(line.count(' ') == (line.starts_with("read") ? 1 : 2));
  }
}

TEST_CASE("replies are taken only if they are exactly an answer") {
  QtestCommand read4 = QtestCommand::read(4, 0), read8 = QtestCommand::read(8, 0),
               write = QtestCommand::write(4, 0, 0);
  CHECK(read4.parseReply("OK 0x00000000010000ed") == 0x010000edu);
  CHECK(read4.parseReply("OK 0xFFFFFFFF") == 0xffffffffu);
  CHECK(read8.parseReply("OK 0xffffffffffffffff") == ~0ull);
  CHECK(QtestCommand::portIn(0xcfc).parseReply("OK 0x0000") == 0u);
  CHECK(write.parseReply("OK") == 0u);
  CHECK(QtestCommand::endianness().parseReply("OK little") == 0u);

  for (llvm::StringRef bad :
       {"", "OK", "OK ", "OK 0x", "OK 0", "OK 123", "ok 0x1", "OK  0x1", "OK 0x1 ", "OK 0x1g", "OK 0x-1",
        "OK 0x00000000000000001", "OK 0x0000000100000000", "FAIL Unknown command 'readl'", "ERR invalid",
        "IRQ raise 0", "OK 0x1\r", "x", "OK little"})
    CHECK_MESSAGE(!read4.parseReply(bad), bad.str());
  CHECK(!read8.parseReply("OK 0x10000000000000000"));
  for (llvm::StringRef bad : {"", "OK ", "OK 0x0", "FAIL", "OKAY"})
    CHECK_MESSAGE(!write.parseReply(bad), bad.str());
  for (llvm::StringRef bad : {"OK", "OK big", "OK littles", "little"})
    CHECK_MESSAGE(!QtestCommand::endianness().parseReply(bad), bad.str());
}
