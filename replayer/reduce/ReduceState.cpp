#include "replayer/reduce/ReduceState.h"
#include "format/Failure.h"
#include "format/MessageText.h"
#include "format/Text.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"

using namespace llvm;

namespace tapeback {
namespace {

constexpr StringLiteral schema = "tapeback.reduce-state/1";

/// "0-4,9": numbers and ranges of them, in order.
std::string rangesOf(const std::vector<bool> &kept) {
  std::string text;
  for (size_t i = 0; i < kept.size();) {
    if (!kept[i]) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end + 1 < kept.size() && kept[end + 1])
      ++end;
    text += (text.empty() ? "" : ",") + std::to_string(i) + (end > i ? "-" + std::to_string(end) : "");
    i = end + 1;
  }
  return text;
}

class Parsing {
public:
  Parsing(StringRef name, uint64_t packets) : name(name), packets(packets) {}

  Expected<ReduceState> run(const json::Value &value) {
    const json::Object *object = value.getAsObject();
    if (!object || object->getString("schema") != schema)
      return bad("it is no state of a reduction");
    ReduceState state;
    std::string root = object->getString("parent").value_or("").str(), bytes;
    if (root.size() != 2 * state.parent.size() || !tryGetFromHex(root, bytes))
      return bad("its root is none");
    std::copy(bytes.begin(), bytes.end(), state.parent.begin());
    state.stage = object->getString("stage").value_or("").str();
    state.runs = numberOf(object->get("runs"));
    state.differently = numberOf(object->get("failed_differently"));
    for (auto [key, list] : {std::pair{"good", &state.good}, std::pair{"bad", &state.bad}})
      if (const json::Array *uris = object->getArray(key))
        for (const json::Value &uri : *uris)
          list->push_back(uri.getAsString().value_or("").str());
    if (const json::Object *rate = object->getObject("rate")) {
      state.rate = {numberOf(rate->get("runs")), numberOf(rate->get("failures"))};
      if (!state.rate->failures || state.rate->failures > state.rate->runs)
        return bad("its rate is none");
    }
    if (const json::Object *failure = object->getObject("failure"))
      state.failure = failureOf(*failure);
    if (state.failure.what.empty())
      return bad("it says nothing of the failure");
    if (Error error = kept(object->getString("kept").value_or(""), state.selection))
      return error;
    if (const json::Array *changes = object->getArray("changes"))
      for (const json::Value &change : *changes)
        if (Error error = addChange(change, state.selection))
          return error;
    return state;
  }

private:
  Error bad(const Twine &why) const {
    return failUsage("bad-state", "the state cannot be used: " + why.str(), name.str(),
                     "remove it, and begin anew");
  }

  static FailureKind failureOf(const json::Object &failure) {
    FailureKind kind;
    kind.what = failure.getString("kind").value_or("").str();
    kind.object = failure.getString("object").value_or("").str();
    kind.field = failure.getString("field").value_or("").str();
    kind.offset = optionalOf(failure.get("offset"));
    kind.xorClass = optionalOf(failure.get("xor"));
    return kind;
  }

  static std::optional<uint64_t> optionalOf(const json::Value *value) {
    uint64_t number = 0;
    std::optional<StringRef> text = value ? value->getAsString() : std::nullopt;
    if (!text || text->getAsInteger(0, number))
      return std::nullopt;
    return number;
  }
  static uint64_t numberOf(const json::Value *value) { return optionalOf(value).value_or(0); }

  Error kept(StringRef text, Selection &selection) const {
    selection.kept.assign(size_t(packets), false);
    while (!text.empty()) {
      auto [item, rest] = text.split(',');
      text = rest;
      auto [first, last] = item.split('-');
      uint64_t from = 0, to = 0;
      if (first.getAsInteger(10, from) || (last.empty() ? first : last).getAsInteger(10, to) || from > to ||
          to >= packets)
        return bad("'" + item.take_front(40) + "' are no packets of the tape");
      for (uint64_t i = from; i <= to; ++i)
        selection.kept[size_t(i)] = true;
      selection.end = to + 1;
    }
    return Error::success();
  }

  Error addChange(const json::Value &value, Selection &selection) const {
    const json::Object *object = value.getAsObject();
    std::optional<uint64_t> packet = object ? optionalOf(object->get("packet")) : std::nullopt;
    if (!packet || *packet >= packets)
      return bad("a change is of no packet of the tape");
    Change &change = selection.changes[uint32_t(*packet)];
    change.value = optionalOf(object->get("value"));
    change.rows = optionalOf(object->get("rows"));
    change.rowBytes = optionalOf(object->get("row_bytes"));
    if (const json::Object *fields = object->getObject("fields"))
      for (const auto &[field, number] : *fields) {
        unsigned index = 0;
        if (StringRef(field).getAsInteger(10, index))
          return bad("a field is no number");
        change.fields[index] = numberOf(&number);
      }
    if (const json::Array *zero = object->getArray("zero")) {
      std::vector<std::pair<uint64_t, uint64_t>> ranges;
      for (const json::Value &range : *zero) {
        const json::Array *ends = range.getAsArray();
        uint64_t from = ends && ends->size() == 2 ? numberOf(&(*ends)[0]) : 0;
        uint64_t to = ends && ends->size() == 2 ? numberOf(&(*ends)[1]) : 0;
        if (from >= to)
          return bad("a range of zeroes is none");
        ranges.emplace_back(from, to);
      }
      change.addZeroes(ranges);
    }
    return Error::success();
  }

  StringRef name;
  uint64_t packets;
};

void writeChange(json::OStream &os, uint32_t packet, const Change &change) {
  os.object([&] {
    // Numbers are hexadecimal texts: JSON's are not 64 bits wide.
    os.attribute("packet", hexText(packet));
    if (change.value)
      os.attribute("value", hexText(*change.value));
    if (change.rows)
      os.attribute("rows", hexText(*change.rows));
    if (change.rowBytes)
      os.attribute("row_bytes", hexText(*change.rowBytes));
    if (!change.fields.empty())
      os.attributeObject("fields", [&] {
        for (auto [field, value] : change.fields)
          os.attribute(std::to_string(field), hexText(value));
      });
    if (!change.zero.empty())
      os.attributeArray("zero", [&] {
        for (auto [from, to] : change.zero)
          os.array([&, from = from, to = to] {
            os.value(hexText(from));
            os.value(hexText(to));
          });
      });
  });
}

} // namespace

std::string writeState(const ReduceState &state) {
  std::string text;
  raw_string_ostream stream(text);
  json::OStream os(stream, 1);
  os.object([&] {
    os.attribute("schema", schema);
    os.attribute("parent", llvm::toHex(ArrayRef<uint8_t>(state.parent), true));
    os.attribute("stage", state.stage);
    os.attribute("runs", hexText(state.runs));
    os.attribute("failed_differently", hexText(state.differently));
    if (state.rate)
      os.attributeObject("rate", [&] {
        os.attribute("runs", hexText(state.rate->runs));
        os.attribute("failures", hexText(state.rate->failures));
      });
    for (auto [key, list] : {std::pair{"good", &state.good}, std::pair{"bad", &state.bad}})
      os.attributeArray(key, [&, list = list] {
        for (const std::string &uri : *list)
          os.value(json::fixUTF8(uri));
      });
    os.attributeObject("failure", [&] {
      os.attribute("kind", json::fixUTF8(state.failure.what));
      os.attribute("object", json::fixUTF8(state.failure.object));
      os.attribute("field", json::fixUTF8(state.failure.field));
      if (state.failure.offset)
        os.attribute("offset", hexText(*state.failure.offset));
      if (state.failure.xorClass)
        os.attribute("xor", hexText(*state.failure.xorClass));
    });
    os.attribute("kept", rangesOf(state.selection.kept));
    os.attributeArray("changes", [&] {
      for (const auto &[packet, change] : state.selection.changes)
        if (state.selection.kept[packet] && change != Change())
          writeChange(os, packet, change);
    });
  });
  stream << "\n";
  return text;
}

Expected<ReduceState> readState(StringRef text, StringRef name, uint64_t packets) {
  TextLimits limits;
  limits.maxBytes = 64u << 20;
  Expected<json::Value> value = parseJson(text, name, limits);
  if (!value)
    return value.takeError();
  return Parsing(name, packets).run(*value);
}

} // namespace tapeback
