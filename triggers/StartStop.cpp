#include "triggers/StartStop.h"
#include "format/Failure.h"
#include "format/Text.h"
#include "llvm/ADT/Twine.h"

using namespace llvm;

namespace tapeback {

static const char *const grammar = "one of: begin, marker:NAME, marker:NAME#N, write:REGISTER, "
                                   "write:REGISTER=VALUE[/MASK], write:SPACE+OFFSET[=VALUE[/MASK]]";

static uint64_t onesOf(unsigned bytes) {
  return bytes >= 8 ? ~uint64_t(0) : (uint64_t(1) << (8 * bytes)) - 1;
}

static Error bad(StringRef what, StringRef text, const Twine &why) {
  return failUsage("bad-condition", (what + " " + text + ": " + why).str(), what.str(), grammar);
}

Expected<StartStopCondition> StartStopCondition::parse(StringRef text, StringRef what,
                                                       ArrayRef<const Description *> descriptions) {
  StartStopCondition condition;
  condition.source = text.str();
  StringRef rest = text;
  if (text == "begin")
    return condition;
  if (rest.consume_front("marker:")) {
    condition.kind = Kind::Marker;
    if (Error error = condition.parseMarker(rest, what))
      return error;
    return condition;
  }
  if (rest.consume_front("write:")) {
    condition.kind = Kind::Write;
    if (Error error = condition.parseWrite(rest, what, descriptions))
      return error;
    return condition;
  }
  return bad(what, text, "not a condition");
}

Error StartStopCondition::parseMarker(StringRef rest, StringRef what) {
  // A name may contain '#': only digits after the last one are an occurrence.
  size_t hash = rest.rfind('#');
  if (hash != StringRef::npos && hash + 1 < rest.size() &&
      rest.substr(hash + 1).find_first_not_of("0123456789") == StringRef::npos) {
    Expected<uint64_t> number = parseNumber(rest.substr(hash + 1));
    if (!number)
      return number.takeError();
    if (*number == 0)
      return bad(what, source, "occurrences count from 1");
    occurrence = *number;
    rest = rest.take_front(hash);
  }
  if (rest.empty())
    return bad(what, source, "the marker has no name");
  marker = rest.str();
  return Error::success();
}

/// Names the registers that differ from `name` in few letters, or the first ones.
static std::string nearRegisters(StringRef name, ArrayRef<const Description *> descriptions) {
  std::string near, first;
  unsigned shown = 0;
  for (const Description *description : descriptions) {
    if (!description)
      continue;
    for (const RegisterDescription &reg : description->registers) {
      if (StringRef(reg.name).edit_distance_insensitive(name, true, 2) <= 2)
        near += (near.empty() ? "" : ", ") + reg.name;
      if (shown++ < 12)
        first += (first.empty() ? "" : ", ") + reg.name;
    }
  }
  if (!near.empty())
    return "did you mean " + near + "?";
  return first.empty() ? "there is no description; write SPACE+OFFSET" : "registers: " + first;
}

Error StartStopCondition::parseWrite(StringRef rest, StringRef what,
                                     ArrayRef<const Description *> descriptions) {
  auto [target, match] = rest.split('=');
  bool hasValue = rest.contains('=');
  size_t plus = target.find('+');
  if (plus != StringRef::npos) {
    Expected<uint64_t> offset = parseNumber(target.substr(plus + 1));
    if (!offset)
      return bad(what, source, "OFFSET: " + toString(offset.takeError()));
    if (plus == 0)
      return bad(what, source, "the space has no name");
    places.push_back({std::nullopt, target.take_front(plus).str(), *offset, 0});
  } else {
    for (size_t device = 0; device < descriptions.size(); ++device) {
      const Description *description = descriptions[device];
      const RegisterDescription *reg = description ? description->findByName(target) : nullptr;
      if (reg)
        places.push_back({uint16_t(device), reg->space, reg->offset, reg->width});
    }
    if (places.empty())
      return failUsage("unknown-register", (what + ": no register '" + target + "'").str(), what.str(),
                       nearRegisters(target, descriptions));
  }
  if (!hasValue)
    return Error::success();
  anyValue = false;
  auto [valueText, maskText] = match.split('/');
  Expected<uint64_t> number = parseNumber(valueText);
  if (!number)
    return bad(what, source, "VALUE: " + toString(number.takeError()));
  value = *number;
  if (match.contains('/')) {
    Expected<uint64_t> maskNumber = parseNumber(maskText);
    if (!maskNumber)
      return bad(what, source, "MASK: " + toString(maskNumber.takeError()));
    mask = *maskNumber;
    if (value & ~*mask)
      return bad(what, source, "VALUE has bits outside MASK: it can never match");
  }
  for (const Place &place : places)
    if (place.width && ((value | mask.value_or(0)) & ~onesOf(place.width)))
      return bad(what, source, "VALUE or MASK is wider than the register");
  return Error::success();
}

bool StartStopCondition::matchesPlace(const Packet &packet, StringRef space, const Place &place) const {
  if (place.device && *place.device != packet.device)
    return false;
  if (space != place.space || packet.width == 0 || packet.width > 8)
    return false;
  unsigned width = place.width ? place.width : packet.width;
  // The bytes of the register that this access wrote, in place. Part accesses match only if they cover the
  // mask.
  uint64_t written, writtenMask;
  if (packet.address >= place.offset && packet.address - place.offset < width) {
    unsigned shift = unsigned(packet.address - place.offset) * 8;
    written = packet.value << shift;
    writtenMask = (onesOf(packet.width) << shift) & onesOf(width);
  } else if (place.offset > packet.address && place.offset - packet.address < packet.width) {
    unsigned shift = unsigned(place.offset - packet.address) * 8;
    written = packet.value >> shift;
    writtenMask = (onesOf(packet.width) >> shift) & onesOf(width);
  } else {
    return false;
  }
  if (anyValue)
    return true;
  uint64_t wanted = mask.value_or(onesOf(width)) & onesOf(width);
  return (wanted & ~writtenMask) == 0 && (written & wanted) == value;
}

bool StartStopCondition::matches(const Packet &packet, StringRef space, StringRef name) {
  switch (kind) {
  case Kind::Begin: return true;
  case Kind::Marker: return packet.kind == PacketKind::Marker && name == marker && ++seen == occurrence;
  case Kind::Write:
    if (packet.kind != PacketKind::RegisterWrite)
      return false;
    for (const Place &place : places)
      if (matchesPlace(packet, space, place))
        return true;
    return false;
  }
  return false;
}

} // namespace tapeback
