#include "tools/Report.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"

using namespace llvm;

namespace tapeback {

int exitCodeOf(const Failure &failure) {
  switch (failure.cls) {
  case FailureClass::Usage: return 2;
  case FailureClass::Tape: return 3;
  case FailureClass::Target: return 4;
  case FailureClass::Loss: return 5;
  case FailureClass::System: return 5;
  }
  return 5;
}

int worseExit(int a, int b) {
  auto rank = [](int code) {
    constexpr int order[] = {2, 3, 4, 1, 5, 0};
    for (int i = 0; i < 6; ++i)
      if (order[i] == code)
        return i;
    return -1; // Codes we do not give (a program's own, --propagate-exit) are not ours to outrank.
  };
  return rank(a) <= rank(b) ? a : b;
}

std::string hex(uint64_t value) {
  return "0x" + utohexstr(value, /*LowerCase=*/true);
}

//===-- Standard output ---------------------------------------------------------------------------===//

bool standardOutputGone() {
  return outs().has_error();
}

bool flushStandardOutput(std::string &why) {
  outs().flush();
  std::error_code error = outs().error();
  // LLVM's stream ends the process in its destructor if an error was not looked at.
  outs().clear_error();
  if (!error || error == std::errc::broken_pipe)
    return true;
  why = error.message();
  return false;
}

//===-- Report ------------------------------------------------------------------------------------===//

Report::Report(StringRef verb, bool json) : verb(verb), wantsJson(json) {
  begin();
}

void Report::close() {
  if (!open)
    return;
  stream->objectEnd();
  stream->flush();
  open = false;
}

void Report::begin() {
  close();
  stream.reset();
  bufferStream.reset();
  buffer.clear();
  bufferStream.emplace(buffer);
  stream.emplace(*bufferStream, /*IndentSize=*/2);
  stream->objectBegin();
  stream->attribute("schema", "tapeback." + verb + "/1");
  open = true;
}

void Report::printFailure(const Failure &failure) const {
  raw_ostream &os = errs();
  os << "tapeback " << verb << ": error: " << failure.message << "\n";
  if (!failure.where.empty())
    os << "  at " << failure.where << "\n";
  if (!failure.hint.empty())
    os << "  hint: " << failure.hint << "\n";
}

void Report::warn(StringRef message) {
  errs() << "tapeback " << verb << ": warning: " << message << "\n";
}

void Report::verdict(int exitCode, const std::optional<Signature> &signature) {
  const char *name = exitCode == 0   ? "match"
                     : exitCode == 1 ? "divergence"
                     : exitCode == 5 ? "incomplete"
                                     : "error";
  stream->attribute("verdict", name);
  stream->attribute("reproduced", nullptr);
  writeSignature(*stream, "signature", signature);
}

void Report::error(const Failure &failure) {
  printFailure(failure);
  stream->attributeObject("error", [&] {
    stream->attribute("code", json::fixUTF8(failure.code));
    stream->attribute("message", json::fixUTF8(failure.message));
    stream->attribute("where", json::fixUTF8(failure.where));
    stream->attribute("hint", json::fixUTF8(failure.hint));
  });
}

int Report::finish(int exitCode) {
  close();
  if (wantsJson)
    outs() << buffer << "\n";
  std::string why;
  if (flushStandardOutput(why))
    return exitCode;
  printFailure(Failure(FailureClass::System, "output", "the report could not be written: " + why,
                       "standard output", "see that standard output is open and that there is room"));
  return worseExit(exitCode, 5);
}

int Report::fail(const Failure &failure) {
  begin();
  // Whatever the exit code is: a failure is no verdict about a comparison.
  verdict(/*exitCode=*/2);
  error(failure);
  return finish(exitCodeOf(failure));
}

int Report::fail(Error error) {
  return fail(toFailure(std::move(error)));
}

//===-- The contract's objects --------------------------------------------------------------------===//

void writePlace(json::OStream &os, const Place &place) {
  os.attribute("device", int64_t(place.device));
  os.attribute("thread", int64_t(place.thread));
  os.attribute("window", place.window);
  os.attribute("packet", place.packet);
  os.attribute("marker", place.marker ? json::Value(json::fixUTF8(*place.marker)) : json::Value(nullptr));
  os.attribute("command", place.command ? json::Value(*place.command) : json::Value(nullptr));
}

void writeDivergence(json::OStream &os, StringRef key, const std::optional<DivergenceReport> &divergence,
                     StringRef firstName, StringRef secondName, function_ref<void(json::OStream &)> more) {
  if (!divergence) {
    os.attribute(key, nullptr);
    return;
  }
  auto text = [&](StringRef name, const std::optional<std::string> &value) {
    os.attribute(name, value ? json::Value(json::fixUTF8(*value)) : json::Value(nullptr));
  };
  auto number = [&](StringRef name, const std::optional<uint64_t> &value) {
    os.attribute(name, value ? json::Value(hex(*value)) : json::Value(nullptr));
  };
  os.attributeObject(key, [&] {
    writePlace(os, divergence->place);
    os.attribute("kind", json::fixUTF8(divergence->kind));
    os.attribute("space", json::fixUTF8(divergence->space));
    os.attribute("address", hex(divergence->address));
    text("register", divergence->reg);
    text("field", divergence->field);
    os.attribute("offset", divergence->offset ? json::Value(*divergence->offset) : json::Value(nullptr));
    number(firstName, divergence->first);
    number(secondName, divergence->second);
    more(os);
  });
}

void writeSignature(json::OStream &os, StringRef key, const std::optional<Signature> &signature) {
  if (!signature) {
    os.attribute(key, nullptr);
    return;
  }
  os.attributeObject(key, [&] {
    os.attribute("oracle", json::fixUTF8(signature->oracle));
    os.attribute("name", json::fixUTF8(signature->name));
    os.attribute("object", json::fixUTF8(signature->object));
    os.attribute("field", json::fixUTF8(signature->field));
    os.attribute("offset", signature->offset ? json::Value(*signature->offset) : json::Value(nullptr));
    os.attribute("xor", signature->xorClass ? json::Value(hex(*signature->xorClass)) : json::Value(nullptr));
    os.attribute("marker", json::fixUTF8(signature->marker));
    os.attribute("occurrence", signature->markerOccurrence);
    os.attribute("command", signature->command);
  });
}

} // namespace tapeback
