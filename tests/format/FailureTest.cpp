// How errors become what a user reads.
#include "format/Failure.h"
#include <doctest/doctest.h>

using namespace tapeback;

TEST_CASE("a failure prints where, what and what to do") {
  CHECK(llvm::toString(failTape("bad-magic", "this is no tape", "x.tape", "see `tapeback info`")) ==
        "x.tape: this is no tape (see `tapeback info`)");
  CHECK(llvm::toString(failUsage("code", "wrong")) == "wrong");
}

TEST_CASE("toFailure keeps every part of a failure") {
  Failure failure = toFailure(failTarget("died", "QEMU died", "packet 7", "look at its last words"));
  CHECK(failure.cls == FailureClass::Target);
  CHECK(failure.code == "died");
  CHECK(failure.message == "QEMU died");
  CHECK(failure.where == "packet 7");
  CHECK(failure.hint == "look at its last words");
}

TEST_CASE("each shorthand has its class") {
  CHECK(toFailure(failUsage("c", "m")).cls == FailureClass::Usage);
  CHECK(toFailure(failTape("c", "m")).cls == FailureClass::Tape);
  CHECK(toFailure(failTarget("c", "m")).cls == FailureClass::Target);
  CHECK(toFailure(failSystem("c", "m")).cls == FailureClass::System);
}

TEST_CASE("of joined errors the first failure leads and no text is lost") {
  llvm::Error joined = llvm::joinErrors(
      llvm::createStringError("disk on fire"),
      llvm::joinErrors(failTape("torn", "block 3 is torn", "at 4096"), failUsage("other", "and another")));
  Failure failure = toFailure(std::move(joined));
  CHECK(failure.cls == FailureClass::Tape);
  CHECK(failure.code == "torn");
  CHECK(failure.where == "at 4096");
  CHECK(failure.message == "block 3 is torn; also: disk on fire; and another");
}

TEST_CASE("a foreign error becomes a system failure with its text") {
  Failure failure = toFailure(llvm::createStringError("no space left"));
  CHECK(failure.cls == FailureClass::System);
  CHECK(failure.code == "internal");
  CHECK(failure.message == "no space left");
  CHECK(toFailure(llvm::createStringError("")).message == "an operation failed without saying why");
}
