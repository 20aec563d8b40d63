// What command of qtest a line begins with. Every line of a script asks, so that it is in sight of who asks.
#pragma once

#include "recorder/import/Scanner.h"

namespace tapeback {

/// A command's first word.
struct QtestVerb {
  enum Kind : uint8_t { None, Port, Address, Block, Base64, Memset, Step, SetClock, Named, Endianness };
  Kind kind = None;
  bool reads = false;
  uint8_t width = 0;
};
/// Takes it from `s`; None (and nothing certain is taken) if it is no command.
inline QtestVerb qtestVerb(Scanner &s) {
  QtestVerb verb;
  auto suffix = [&](QtestVerb::Kind kind, llvm::StringRef letters) {
    const size_t place = letters.find(s.peek());
    if (s.atEnd() || place == llvm::StringRef::npos)
      return;
    s.eat(s.peek());
    verb.kind = kind;
    verb.width = uint8_t(1 << place);
  };
  auto access = [&](bool reads) {
    verb.reads = reads;
    suffix(QtestVerb::Address, "bwlq");
    if (verb.kind == QtestVerb::None)
      verb.kind = QtestVerb::Block;
  };
  auto is = [&](QtestVerb::Kind kind) { verb.kind = kind; };
  switch (s.peek()) {
  case 'w':
    if (s.eat("write"))
      access(false);
    break;
  case 'r':
    if (s.eat("read"))
      access(true);
    break;
  case 'o':
    if (s.eat("out"))
      suffix(QtestVerb::Port, "bwl");
    break;
  case 'i':
    if (s.eat("irq_intercept_in") || s.eat("irq_intercept_out")) {
      is(QtestVerb::Named);
    } else if (s.eat("in")) {
      verb.reads = true;
      suffix(QtestVerb::Port, "bwl");
    }
    break;
  case 'b':
    verb.reads = s.eat("b64read");
    if (verb.reads || s.eat("b64write"))
      is(QtestVerb::Base64);
    break;
  case 'm':
    if (s.eat("memset"))
      is(QtestVerb::Memset);
    break;
  case 'c':
    if (s.eat("clock_step"))
      is(QtestVerb::Step);
    else if (s.eat("clock_set"))
      is(QtestVerb::SetClock);
    break;
  case 's':
    if (s.eat("set_irq_in"))
      is(QtestVerb::Named);
    break;
  case 'e':
    if (s.eat("endianness"))
      is(QtestVerb::Endianness);
    break;
  default: break;
  }
  return s.atEnd() || s.peek() == ' ' ? verb : QtestVerb();
}

} // namespace tapeback
