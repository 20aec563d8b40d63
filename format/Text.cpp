// The guard in front of LLVM's YAML and JSON parsers. Everything that makes them crash, overflow the stack or
// eat memory is found here first: YAML by walking the lazily parsed tree with a bounded depth, JSON by a scan
// of its brackets outside strings (its grammar makes that exact).
#include "format/Text.h"

#include "format/Failure.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/YAMLParser.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <cmath>
#include <optional>

namespace tapeback {
namespace {

constexpr size_t maxDiagnostics = 5;
constexpr size_t maxMessageBytes = 400;
constexpr size_t snippetBytes = 100;
constexpr unsigned nestingCeiling = 256; // Bounds our own recursion, whatever limits a caller asks for.
constexpr size_t jsonObjectCost = 16;    // An object's hash table takes kilobytes even for one key.

struct Diagnostic {
  std::string where, message, snippet;
};

/// The line with a caret below, cut to a window around the caret.
std::string renderSnippet(const llvm::SMDiagnostic &diagnostic) {
  llvm::StringRef line = diagnostic.getLineContents().rtrim("\r\n");
  if (diagnostic.getColumnNo() < 0 || line.empty())
    return {};
  size_t column = std::min<size_t>(size_t(diagnostic.getColumnNo()), line.size());
  auto continues = [&](size_t at) { return at < line.size() && (uint8_t(line[at]) & 0xc0) == 0x80; };
  size_t begin = column > snippetBytes / 2 ? column - snippetBytes / 2 : 0;
  while (begin && continues(begin))
    --begin;
  size_t end = std::min(line.size(), begin + snippetBytes);
  while (continues(end))
    ++end;
  size_t underlined = column + 1;
  if (!diagnostic.getRanges().empty())
    underlined = std::clamp<size_t>(diagnostic.getRanges().front().second, column + 1, end + 1);

  std::string text = "\n  ", marks = "\n  ";
  if (begin) {
    text += "...";
    marks += "   ";
  }
  for (size_t i = begin; i < end; ++i) {
    text += line[i] == '\t' ? ' ' : line[i];
    if (!continues(i))
      marks += i < column ? ' ' : i == column ? '^' : i < underlined ? '~' : ' ';
  }
  if (end < line.size())
    text += "...";
  if (column >= end)
    marks += '^';
  return llvm::json::fixUTF8(text) + llvm::StringRef(marks).rtrim(' ').str();
}

/// Collects the first few diagnostics of one text. SourceMgr finds line and column.
class Diagnostics final : public YamlComplaints {
public:
  Diagnostics(llvm::StringRef text, llvm::StringRef name) : text(text), name(name) {
    sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBuffer(llvm::MemoryBufferRef(text, name), false),
                               {});
    sources.setDiagHandler(collect, this);
  }

  llvm::SourceMgr &sourceMgr() { return sources; }
  bool any() const override { return count != 0; }
  static void collect(const llvm::SMDiagnostic &diagnostic, void *self) {
    static_cast<Diagnostics *>(self)->keep(diagnostic);
  }

  void add(llvm::SMRange where, const llvm::Twine &message) override {
    if (!where.isValid() || where.Start.getPointer() < text.begin() || where.Start.getPointer() > text.end())
      where =
          llvm::SMRange(llvm::SMLoc::getFromPointer(text.begin()), llvm::SMLoc::getFromPointer(text.begin()));
    if (where.End.getPointer() < where.Start.getPointer() || where.End.getPointer() > text.end())
      where.End = where.Start;
    if (count >= maxDiagnostics) // Making a diagnostic copies its line: not for those nobody will see.
      ++count;
    else
      sources.PrintMessage(where.Start, llvm::SourceMgr::DK_Error, message, where);
  }
  void addAt(size_t offset, const llvm::Twine &message) {
    llvm::SMLoc place = llvm::SMLoc::getFromPointer(text.begin() + std::min(offset, text.size()));
    add(llvm::SMRange(place, place), message);
  }

  llvm::Error take(llvm::StringRef code, llvm::StringRef hint = {}) {
    if (kept.empty())
      return failUsage(code.str(), "the text was not accepted", name.str(), hint.str());
    std::string message = kept.front().message + kept.front().snippet;
    for (const Diagnostic &next : llvm::ArrayRef(kept).drop_front())
      message += "\n" + next.where + ": " + next.message + next.snippet;
    if (count > kept.size())
      message += "\nand " + std::to_string(count - kept.size()) + " more";
    return failUsage(code.str(), std::move(message), kept.front().where, hint.str());
  }

private:
  void keep(const llvm::SMDiagnostic &diagnostic) {
    if (diagnostic.getKind() != llvm::SourceMgr::DK_Error || ++count > maxDiagnostics)
      return;
    Diagnostic entry;
    entry.where = name.str();
    if (diagnostic.getLineNo() > 0)
      entry.where +=
          ":" + std::to_string(diagnostic.getLineNo()) + ":" + std::to_string(diagnostic.getColumnNo() + 1);
    llvm::StringRef message = diagnostic.getMessage();
    entry.message = llvm::json::fixUTF8(message.take_front(maxMessageBytes));
    if (message.size() > maxMessageBytes)
      entry.message += "...";
    entry.snippet = renderSnippet(diagnostic);
    kept.push_back(std::move(entry));
  }

  llvm::StringRef text, name;
  llvm::SourceMgr sources;
  std::vector<Diagnostic> kept;
  size_t count = 0;
};

/// What both languages need: bounded, UTF-8, printable.
llvm::Error checkBytes(llvm::StringRef text, llvm::StringRef name, const TextLimits &limits) {
  if (text.size() > limits.maxBytes)
    return failUsage("text-too-large",
                     "the text has " + std::to_string(text.size()) + " bytes; at most " +
                         std::to_string(limits.maxBytes) + " are read",
                     name.str());
  size_t offset = 0;
  Diagnostics diagnostics(text, name);
  if (!llvm::json::isUTF8(text, &offset)) {
    diagnostics.addAt(offset, "this is not UTF-8");
    return diagnostics.take("text-not-utf8", "save the file as UTF-8");
  }
  for (offset = 0; offset < text.size(); ++offset) {
    uint8_t c = uint8_t(text[offset]);
    if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f) {
      diagnostics.addAt(offset, "a control character (" + llvm::Twine(unsigned(c)) + ") has no place here");
      return diagnostics.take("text-control-character", "write it as an escape inside a quoted string");
    }
  }
  return llvm::Error::success();
}

llvm::StringRef withoutByteOrderMark(llvm::StringRef text) {
  text.consume_front("\xef\xbb\xbf");
  return text;
}

/// Visits every node with bounded depth. LLVM parses the children of a node only when they are asked for, so
/// what is refused here has not been recursed into. After success, LLVM's own recursion over the same text is
/// bounded too.
class YamlGuard {
public:
  YamlGuard(const TextLimits &limits, llvm::yaml::Stream &stream, Diagnostics &diagnostics)
      : maxNesting(std::min(limits.maxNesting, nestingCeiling)), maxNodes(limits.maxNodes), stream(stream),
        diagnostics(diagnostics) {}

  /// True if the stream is one document that may be mapped.
  bool check() {
    llvm::yaml::document_iterator document = stream.begin();
    if (document == stream.end() || stream.failed())
      return refuse(nullptr, "there is no document");
    llvm::yaml::Node *root = document->getRoot();
    if (!root || stream.failed())
      return refuse(nullptr, "there is no document");
    if (llvm::isa<llvm::yaml::NullNode>(root))
      return refuse(root, "the document is empty");
    if (!visit(root, 0))
      return false;
    ++document;
    if (stream.failed())
      return false;
    if (document != stream.end())
      return refuse(document->getRoot(), "a second document; exactly one is read");
    return true;
  }

private:
  bool refuse(const llvm::yaml::Node *node, const llvm::Twine &message) {
    if (!diagnostics.any())
      diagnostics.add(node ? node->getSourceRange() : llvm::SMRange(), message);
    return false;
  }

  /// At a part of the text that is not a node of its own.
  bool refuse(llvm::StringRef part, const llvm::Twine &message) {
    if (!diagnostics.any())
      diagnostics.add(
          llvm::SMRange(llvm::SMLoc::getFromPointer(part.begin()), llvm::SMLoc::getFromPointer(part.end())),
          message);
    return false;
  }

  bool visit(llvm::yaml::Node *node, unsigned depth) {
    if (!node || stream.failed())
      return false;
    if (++nodes > maxNodes)
      return refuse(node, "more than " + llvm::Twine(maxNodes) + " values");
    if (auto *alias = llvm::dyn_cast<llvm::yaml::AliasNode>(node))
      return refuse(alias->getName(), "aliases (*name) are not accepted");
    if (!node->getAnchor().empty())
      return refuse(node->getAnchor(), "anchors (&name) are not accepted");
    if (!node->getRawTag().empty())
      return refuse(node->getRawTag(), "tags (!name) are not accepted");
    if (auto *sequence = llvm::dyn_cast<llvm::yaml::SequenceNode>(node))
      return visitSequence(*sequence, depth);
    if (auto *mapping = llvm::dyn_cast<llvm::yaml::MappingNode>(node))
      return visitMapping(*mapping, depth);
    return true;
  }

  bool visitSequence(llvm::yaml::SequenceNode &sequence, unsigned depth) {
    if (depth >= maxNesting)
      return refuse(&sequence, "nested more than " + llvm::Twine(maxNesting) + " deep");
    for (auto it = sequence.begin(), end = sequence.end(); it != end; ++it)
      if (!visit(&*it, depth + 1))
        return false;
    return !stream.failed();
  }

  bool visitMapping(llvm::yaml::MappingNode &mapping, unsigned depth) {
    if (depth >= maxNesting)
      return refuse(&mapping, "nested more than " + llvm::Twine(maxNesting) + " deep");
    for (auto it = mapping.begin(), end = mapping.end(); it != end; ++it) {
      llvm::yaml::Node *key = it->getKey();
      if (!key || stream.failed())
        return false;
      if (!llvm::isa<llvm::yaml::ScalarNode>(key))
        return refuse(key, "a key must be a plain word");
      if (!visit(key, depth + 1) || !visit(it->getValue(), depth + 1))
        return false;
    }
    return !stream.failed();
  }

  unsigned maxNesting;
  size_t maxNodes;
  size_t nodes = 0;
  llvm::yaml::Stream &stream;
  Diagnostics &diagnostics;
};

/// LLVM's YAML parser steps over a comma with nothing before it, and over a document's end marker, by calling
/// itself: a million of them in a row overflow the stack. So runs of them are found in the bytes, before it
/// sees any.
bool checkYamlRuns(llvm::StringRef text, Diagnostics &diagnostics) {
  constexpr size_t maxRun = 16;
  // Backwards: `run` is the number of commas that follow position i with nothing but space and comments in
  // between. Whether i is inside a quoted string does not matter: a run that begins after one is counted from
  // its own start.
  size_t run = 0, runAfterLine = 0, ends = 0;
  for (size_t i = text.size(); i-- > 0;) {
    switch (text[i]) {
    case ',': ++run; break;
    case '\n': runAfterLine = run; break;
    case '#': run = runAfterLine; break;
    case ' ':
    case '\t':
    case '\r': break;
    default: run = 0; break;
    }
    // A comment also ends at a carriage return.
    if (text[i] == '\r')
      runAfterLine = run;
    if (run > maxRun) {
      diagnostics.addAt(i, "commas with nothing between them");
      return false;
    }
    bool lineStart = i == 0 || text[i - 1] == '\n' || text[i - 1] == '\r';
    if (lineStart && text.substr(i).starts_with("...") && ++ends > maxRun) {
      diagnostics.addAt(i, "a document ends once");
      return false;
    }
  }
  return true;
}

/// Brackets and nodes of a JSON text. Strings are skipped as the grammar says; a malformed text may be
/// counted wrongly only after the place at which the parser stops.
bool checkJsonShape(llvm::StringRef text, const TextLimits &limits, Diagnostics &diagnostics) {
  const size_t maxNesting = std::min(limits.maxNesting, nestingCeiling);
  size_t depth = 0, nodes = 1;
  for (size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
    case '"':
      for (++i; i < text.size() && text[i] != '"'; ++i)
        if (text[i] == '\\')
          ++i;
      break;
    case '{':
    case '[':
      nodes += text[i] == '{' ? jsonObjectCost : 1;
      if (++depth > maxNesting) {
        diagnostics.addAt(i, "nested more than " + llvm::Twine(maxNesting) + " deep");
        return false;
      }
      break;
    case '}':
    case ']': depth -= depth ? 1 : 0; break;
    case ',': ++nodes; break;
    default: break;
    }
    if (nodes > limits.maxNodes) {
      diagnostics.addAt(i, "more than " + llvm::Twine(limits.maxNodes) + " values");
      return false;
    }
  }
  return true;
}

/// LLVM's parser makes infinity of 1e999, which is no JSON when it is printed. The depth is bounded by now.
bool allFinite(const llvm::json::Value &value) {
  if (std::optional<double> number = value.getAsNumber())
    return std::isfinite(*number);
  if (const llvm::json::Array *array = value.getAsArray())
    return llvm::all_of(*array, allFinite);
  if (const llvm::json::Object *object = value.getAsObject())
    return llvm::all_of(*object, [](const auto &member) { return allFinite(member.second); });
  return true;
}

} // namespace

llvm::Expected<llvm::json::Value> parseJson(llvm::StringRef text, llvm::StringRef name, TextLimits limits) {
  if (llvm::Error error = checkBytes(text, name, limits))
    return error;
  text = withoutByteOrderMark(text);
  Diagnostics diagnostics(text, name);
  if (!checkJsonShape(text, limits, diagnostics))
    return diagnostics.take("bad-json");
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(text);
  if (value && allFinite(*value))
    return value;
  if (value)
    return failUsage("bad-json", "a number is too large", name.str(), "numbers are at most about 1.8e308");
  // ParseError keeps its place to itself, but prints it: "[line:column, byte=offset]: message".
  std::string printed = llvm::toString(value.takeError());
  auto [place, message] = llvm::StringRef(printed).split("]: ");
  size_t offset = 0;
  if (message.empty() || place.split("byte=").second.getAsInteger(10, offset))
    message = printed;
  diagnostics.addAt(offset, message);
  return diagnostics.take("bad-json");
}

llvm::Error withYaml(llvm::StringRef text, llvm::StringRef name, void *context,
                     llvm::function_ref<void(llvm::yaml::Input &, YamlComplaints &)> map, TextLimits limits) {
  if (llvm::Error error = checkBytes(text, name, limits))
    return error;
  // A copy that ends in a zero byte: LLVM's scanner looks one byte ahead.
  const std::string copy = withoutByteOrderMark(text).str();
  Diagnostics diagnostics(copy, name);
  if (!checkYamlRuns(copy, diagnostics))
    return diagnostics.take("bad-yaml");
  {
    llvm::yaml::Stream stream(llvm::MemoryBufferRef(copy, name), diagnostics.sourceMgr(),
                              /*ShowColors=*/false);
    if (!YamlGuard(limits, stream, diagnostics).check() || diagnostics.any())
      return diagnostics.take("bad-yaml");
  }
  llvm::yaml::Input input(llvm::MemoryBufferRef(copy, name), context, Diagnostics::collect, &diagnostics);
  map(input, diagnostics);
  if (input.error() || diagnostics.any())
    return diagnostics.take("bad-yaml");
  return llvm::Error::success();
}

llvm::Error withYaml(llvm::StringRef text, llvm::StringRef name, void *context,
                     llvm::function_ref<void(llvm::yaml::Input &)> map, TextLimits limits) {
  return withYaml(
      text, name, context, [&](llvm::yaml::Input &input, YamlComplaints &) { map(input); }, limits);
}

llvm::Expected<uint64_t> parseNumber(llvm::StringRef text) {
  auto refuse = [&](const llvm::Twine &why, llvm::StringRef hint) -> llvm::Error {
    std::string shown = llvm::json::fixUTF8(text.take_front(40)) + (text.size() > 40 ? "..." : "");
    return failUsage("bad-number", ("'" + llvm::Twine(shown) + "' " + why).str(), {}, hint.str());
  };
  constexpr llvm::StringLiteral forms = "write decimal, 0x, 0b or 0o, for example 4096 or 0x1000";
  llvm::StringRef digits = text;
  unsigned base = 10;
  if (digits.consume_front("0x") || digits.consume_front("0X"))
    base = 16;
  else if (digits.consume_front("0b") || digits.consume_front("0B"))
    base = 2;
  else if (digits.consume_front("0o") || digits.consume_front("0O"))
    base = 8;
  else if (digits.size() > 1 && digits.front() == '0' && llvm::all_of(digits, llvm::isDigit))
    return refuse("starts with a zero, which half the world reads as octal",
                  "leave the zero out, or write 0o for octal or 0x for hexadecimal");
  if (digits.empty())
    return refuse("is not a number", forms);
  uint64_t value = 0;
  bool digitBefore = false;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (digits[i] == '_' && digitBefore && i + 1 < digits.size()) {
      digitBefore = false;
      continue;
    }
    unsigned digit = llvm::hexDigitValue(digits[i]);
    if (digit >= base)
      return refuse("is not a number", forms);
    if (value > (~uint64_t(0) - digit) / base)
      return refuse("does not fit into 64 bits", "");
    value = value * base + digit;
    digitBefore = true;
  }
  return value;
}

} // namespace tapeback
