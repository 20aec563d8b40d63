// Not a test of its own: ScriptsTest.py runs it, to see that every way not to pass is counted.
#include "tests/support/Skip.h"
#include <csignal>
#include <doctest/doctest.h>

TEST_CASE("holds") {
  CHECK(true);
}

TEST_CASE("does not hold") {
  CHECK(false);
}

TEST_CASE("skips itself") {
  TB_SKIP("there is no such device");
  CHECK(false);
}

TEST_CASE("fails before it skips") {
  CHECK(false);
  TB_SKIP("too late");
}

TEST_CASE("checks nothing") {}

TEST_CASE("is marked" * doctest::skip()) {
  CHECK(true);
}

TEST_CASE("crashes") {
  CHECK(true);
  raise(SIGSEGV);
}
