// One access, one instruction: read off the machine code.
#include "tests/support/RunProgram.h"
#include "tests/support/Skip.h"
#include <doctest/doctest.h>
#include <filesystem>
#include <regex>
#include <sstream>

using namespace tapeback::test;

extern "C" void tapebackProbeDoorbell(uint32_t *payload, volatile uint32_t *doorbell);

#if defined(__x86_64__) && !defined(TAPEBACK_SANITIZED)
namespace {

constexpr const char *objdump = "/usr/bin/objdump"; // Of binutils, which every compiler here needs.

struct Access {
  bool store = false;
  unsigned width = 0;
  std::string text;
};

unsigned registerWidth(const std::string &name) {
  static const std::regex byte("^%([abcd]l|[sd]il|r[0-9]+b)$"), word("^%([abcd]x|[sd]i|r[0-9]+w)$"),
      dword("^%(e[a-ds][xi]|r[0-9]+d)$"), qword("^%(r[a-ds][xi]|r[0-9]+)$");
  return std::regex_match(name, byte)    ? 1
         : std::regex_match(name, word)  ? 2
         : std::regex_match(name, dword) ? 4
         : std::regex_match(name, qword) ? 8
                                         : 0;
}

/// The accesses to memory through %rdi and %rsi (the functions' arguments) of one function of this program.
std::vector<Access> accessesOf(const std::string &function) {
  std::string self = std::filesystem::read_symlink("/proc/self/exe");
  RunResult result = runProgram({objdump, "-d", "--no-show-raw-insn", "--disassemble=" + function, self});
  REQUIRE_MESSAGE(result.exited(0), result);
  REQUIRE_MESSAGE(result.out.find("<" + function + ">:") != std::string::npos, result.out);
  static const std::regex move(R"(\s(mov[a-z]*)\s+([^,()]+|[^,()]*\([^)]*\)),\s*(\S+.*)$)");
  static const std::regex memory(R"(\(%r(di|si)[^)]*\))");
  std::vector<Access> all;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    bool touches = std::regex_search(line, memory);
    if (!touches)
      continue;
    if (!std::regex_search(line, match, move)) {
      all.push_back(
          {false, 0, line}); // Touches memory in a way this test does not know: shows up as width 0.
      continue;
    }
    std::string mnemonic = match[1], from = match[2], to = match[3];
    while (!to.empty() && std::isspace(static_cast<unsigned char>(to.back())))
      to.pop_back();
    Access access{std::regex_search(to, memory), 0, line};
    access.width = registerWidth(access.store ? from : to);
    // Zero-extending loads and stores of constants have the width in the mnemonic: movzbl, movb $1.
    if (mnemonic.rfind("movz", 0) == 0 && mnemonic.size() > 4)
      access.width = mnemonic[4] == 'b' ? 1 : mnemonic[4] == 'w' ? 2 : 0;
    else if (from.rfind("$", 0) == 0)
      access.width = mnemonic == "movb"   ? 1
                     : mnemonic == "movw" ? 2
                     : mnemonic == "movl" ? 4
                     : mnemonic == "movq" ? 8
                                          : 0;
    all.push_back(access);
  }
  return all;
}

} // namespace
#endif

TEST_CASE("one register access is one instruction of exactly that width") {
#ifndef __x86_64__
  TB_SKIP("the disassembly is read for x86-64 only");
#elif defined(TAPEBACK_SANITIZED)
  TB_SKIP("sanitizers instrument the code; the release build is the one that matters");
#else
  if (!std::filesystem::exists(objdump))
    TB_SKIP("objdump is not installed");
  for (unsigned width : {1u, 2u, 4u, 8u})
    for (bool store : {false, true}) {
      std::string function =
          std::string("tapebackProbe") + (store ? "Store" : "Load") + std::to_string(width);
      CAPTURE(function);
      std::vector<Access> accesses = accessesOf(function);
      REQUIRE(accesses.size() == 1);
      CAPTURE(accesses[0].text);
      CHECK(accesses[0].store == store);
      CHECK(accesses[0].width == width);
    }
#endif
}

TEST_CASE("neighbouring and repeated accesses are neither merged nor dropped, and a payload stays before its "
          "doorbell") {
#ifndef __x86_64__
  TB_SKIP("the disassembly is read for x86-64 only");
#elif defined(TAPEBACK_SANITIZED)
  TB_SKIP("sanitizers instrument the code; the release build is the one that matters");
#else
  if (!std::filesystem::exists(objdump))
    TB_SKIP("objdump is not installed");
  std::vector<Access> four = accessesOf("tapebackProbeFourStores1");
  REQUIRE(four.size() == 4);
  for (const Access &access : four)
    CHECK_MESSAGE((access.store && access.width == 1), access.text);

  std::vector<Access> two = accessesOf("tapebackProbeTwoLoads4");
  REQUIRE(two.size() == 2);
  for (const Access &access : two)
    CHECK_MESSAGE((!access.store && access.width == 4), access.text);

  std::vector<Access> doorbell = accessesOf("tapebackProbeDoorbell");
  REQUIRE(doorbell.size() == 3);
  CHECK(doorbell[0].text.find("(%rdi)") != std::string::npos);
  CHECK(doorbell[1].text.find("(%rsi)") != std::string::npos);
  CHECK(doorbell[2].text.find("(%rdi)") != std::string::npos);
#endif
}

TEST_CASE("the probe itself works") {
  uint32_t payload = 0, doorbell = 0;
  tapebackProbeDoorbell(&payload, &doorbell);
  CHECK(payload == 0x55667788);
  CHECK(doorbell == 1);
}
