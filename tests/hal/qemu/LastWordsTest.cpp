#include "hal/qemu/LastWords.h"
#include <doctest/doctest.h>

using namespace tapeback;

TEST_CASE("last words keep the tail, however much was said") {
  LastWords words;
  words.append("beginning\n");
  for (int i = 0; i < 100000; ++i)
    words.append("line " + std::to_string(i) + "\n");
  CHECK(words.tail().size() == LastWords::capacity);
  CHECK(llvm::StringRef(words.tail()).ends_with("line 99999\n"));
  words.append(std::string(3 * LastWords::capacity, 'x'));
  CHECK(words.tail() == std::string(LastWords::capacity, 'x'));
}

TEST_CASE("the reason is found before the registers that follow it") {
  CHECK(summariseLastWords(
            "qemu: hardware error: EDU: DMA range out of bounds!\nCPU #0:\nEAX=00000000 EBX=00000000\n") ==
        "qemu: hardware error: EDU: DMA range out of bounds!");
  CHECK(summariseLastWords("**\nERROR:../x.c:12:f: assertion failed\nBail out! ERROR:../x.c:12\n\n") ==
        "ERROR:../x.c:12");
  CHECK(summariseLastWords("something\nelse\n\n") == "else");
  CHECK(summariseLastWords("qemu-system-x86_64: warning: icount sleep disabled and no active timers\n") ==
        "");
  CHECK(summariseLastWords("") == "");
}

TEST_CASE("a stranger's text is made printable and short") {
  CHECK(printable("a\x1b[31mb\n\xff", 80) == "a?[31mb??");
  CHECK(printable("abcdef", 3) == "abc…");
  CHECK(summariseLastWords(std::string(100000, 'a')).size() < 500);
}
