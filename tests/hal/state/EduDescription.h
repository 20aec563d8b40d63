// The description of edu, as the tree has it.
#pragma once

#include "hal/description/Description.h"
#include <doctest/doctest.h>
#include <fstream>
#include <iterator>

namespace tapeback {

inline Description descriptionOf(llvm::StringRef yaml) {
  llvm::Expected<Description> description = parseDescription(yaml, "test");
  if (!description)
    FAIL(llvm::toString(description.takeError()));
  return std::move(*description);
}

inline const Description &eduDescription() {
  static const Description description = [] {
    std::ifstream in(TAPEBACK_SOURCE_DIR "/hal/edu/edu.yaml", std::ios::binary);
    REQUIRE(in);
    return descriptionOf(std::string(std::istreambuf_iterator<char>(in), {}));
  }();
  return description;
}

} // namespace tapeback
