// Descriptions that have to be refused, with the message and its place.
#pragma once

#include "format/Failure.h"
#include "hal/description/Description.h"
#include <doctest/doctest.h>
#include <initializer_list>

namespace tapeback::test {

inline Failure refused(llvm::StringRef yaml) {
  llvm::Expected<Description> description = parseDescription(yaml, "d.yaml");
  REQUIRE_MESSAGE(!description, yaml.take_front(400).str());
  Failure failure = toFailure(description.takeError());
  CHECK(failure.cls == FailureClass::Usage);
  return failure;
}

struct Case {
  const char *added;
  const char *where; ///< Line and column.
  const char *message;
};

/// Adds each case to `before`, which is sound.
inline void check(const std::string &before, std::initializer_list<Case> cases) {
  for (const Case &c : cases) {
    CAPTURE(c.added);
    Failure failure = refused(before + c.added);
    CHECK(failure.code == "bad-description");
    CHECK(failure.hint == "hal/description/README.md has the grammar");
    CHECK(failure.where == std::string("d.yaml:") + c.where);
    CHECK_MESSAGE(llvm::StringRef(failure.message).split('\n').first == c.message, failure.message);
    CHECK(llvm::StringRef(failure.message).contains("^"));
  }
}

} // namespace tapeback::test
