// The ring under the thread sanitizer, and a broken one under it.
#include "tests/support/RunProgram.h"
#include <doctest/doctest.h>

using namespace tapeback::test;

TEST_CASE("the thread sanitizer finds nothing in the ring, but a publication without release") {
  RunResult right = runProgram({buildProgram("tests/recorder-race")});
  INFO(right);
  CHECK(right.exited(0));
#ifdef __SANITIZE_THREAD__
  RunResult mutant = runProgram({buildProgram("tests/recorder-race-mutant")});
  INFO(mutant);
  CHECK(mutant.sanitizer);
  CHECK(mutant.err.find("data race") != std::string::npos);
#endif
}
