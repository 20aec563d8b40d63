// Included before anything else where Cap'n Proto's headers are used and the compiler is clang.
//
// capnp/blob.h 0.9 compares a `const char *` with a kj::StringPtr. g++ 12 finds the member operator with its
// operands exchanged, as C++20 first had it; since P2468 that candidate is off where a class has an
// operator!= of its own, as StringPtr has, and clang follows. These make the comparison that the header
// means.
#pragma once

#include <kj/string.h>

namespace kj {

inline bool operator==(const char *a, StringPtr b) {
  return StringPtr(a) == b;
}
inline bool operator!=(const char *a, StringPtr b) {
  return !(StringPtr(a) == b);
}

} // namespace kj
