// The prompt's commands that look at the targets, or change them.
#include "format/Failure.h"
#include "format/MessageText.h"
#include "format/Text.h"
#include "replayer/prompt/Prompt.h"
#include "llvm/ADT/StringExtras.h"

namespace tapeback {

llvm::Expected<Prompt::Access> Prompt::access(llvm::StringRef word, llvm::StringRef width) {
  Access result;
  const Description *description = source.description(chosen);
  auto [space, offset] = word.split('+');
  if (offset.empty()) {
    result.reg = description ? description->findByName(word) : nullptr;
    if (!result.reg)
      return failUsage("unknown-register", "there is no register '" + word.str() + "'", {},
                       description ? "`tapeback device show` lists them; SPACE+OFFSET names others"
                                   : "the tape has no description: use SPACE+OFFSET");
    result.space = result.reg->space;
    result.offset = result.reg->offset;
    result.width = result.reg->width;
    return result;
  }
  llvm::Expected<uint64_t> number = parseNumber(offset);
  if (!number)
    return number.takeError();
  result.space = space.str();
  result.offset = *number;
  if (description)
    result.reg = description->find(space, *number, 1);
  if (result.reg && result.reg->offset == *number)
    result.width = result.reg->width;
  if (!width.empty()) {
    llvm::Expected<uint64_t> bytes = parseNumber(width);
    if (!bytes)
      return bytes.takeError();
    if (*bytes != 1 && *bytes != 2 && *bytes != 4 && *bytes != 8)
      return failUsage("bad-width", "an access has 1, 2, 4 or 8 bytes");
    result.width = unsigned(*bytes);
  }
  return result;
}

std::string Prompt::valueText(const Access &place, uint64_t value) const {
  std::string text = hexText(value);
  if (!place.reg || place.reg->offset != place.offset)
    return text;
  for (const FieldDescription &field : place.reg->fields)
    if (uint64_t bits = (value & field.mask()) >> field.low)
      text += " " + field.name + "=" + std::to_string(bits);
  return text;
}

llvm::Expected<uint64_t> Prompt::readFrom(Player &from, const Access &place) {
  Target &target = from.binding(chosen).target();
  std::optional<TargetSpaceId> space = target.findSpace(place.space);
  if (!space)
    return failUsage("missing-space", "the target has no register space '" + place.space + "'");
  if (place.reg && place.reg->access == RegisterAccess::WriteOnly)
    return failUsage("write-only", place.reg->name + " can only be written");
  return target.read(*space, place.offset, place.width);
}

llvm::Expected<Prompt::Then> Prompt::read(Words words) {
  if (words.empty() || words.size() > 2)
    return failUsage("bad-command", "read REGISTER | read SPACE+OFFSET [WIDTH]");
  llvm::Expected<Access> place = access(words[0], words.size() > 1 ? words[1] : "");
  if (!place)
    return place.takeError();
  llvm::Expected<uint64_t> value = readFrom(*player, *place);
  if (!value)
    return value.takeError();
  std::string text = words[0].str() + " = " + valueText(*place, *value);
  llvm::Expected<const ShadowState *> state = history();
  if (!state)
    return state.takeError();
  std::optional<uint16_t> space = player->binding(chosen).tapeSpace(place->space);
  if (std::optional<uint64_t> recorded =
          space ? (*state)->registerValue(*space, place->offset) : std::nullopt;
      recorded && place->reg && place->reg->offset == place->offset)
    text += ", recorded last " + valueText(*place, *recorded);
  say(text);
  return Then::Ask;
}

llvm::Expected<Prompt::Then> Prompt::write(Words words) {
  if (words.size() < 2 || words.size() > 3)
    return failUsage("bad-command", "write REGISTER VALUE | write SPACE+OFFSET VALUE [WIDTH]");
  llvm::Expected<Access> place = access(words[0], words.size() > 2 ? words[2] : "");
  if (!place)
    return place.takeError();
  llvm::Expected<uint64_t> value = parseNumber(words[1]);
  if (!value)
    return value.takeError();
  if (place->width < 8 && *value >> (8 * place->width))
    return failUsage("bad-value", "the value has more than " + std::to_string(place->width) + " bytes");
  DeviceBinding &binding = player->binding(chosen);
  if (std::optional<uint16_t> space = binding.tapeSpace(place->space))
    if (const AccessRule &rule = binding.rule(*space, place->offset, place->width); rule.forbidden)
      return failUsage("forbidden-write", *rule.forbidden + " is forbidden by the description", {},
                       "start again with --allow-register " + *rule.forbidden +
                           " if you know that it does no harm");
  if (const ForbiddenRange *range =
          findForbidden(options.forbidden, place->space, place->offset, place->width))
    return failUsage("forbidden-write", "the lab forbids to write '" + range->name + "'", {},
                     "start again with --allow-register " + range->name +
                         " if you know that it does no harm");
  std::optional<TargetSpaceId> id = binding.target().findSpace(place->space);
  if (!id)
    return failUsage("missing-space", "the target has no register space '" + place->space + "'");
  binding.touched();
  if (llvm::Error error = binding.target().write(*id, place->offset, place->width, *value))
    return error;
  if (llvm::Error error = binding.target().flush())
    return error;
  say("written; from here on this is another run than the recorded one");
  return Then::Ask;
}

llvm::Expected<std::string> Prompt::memoryText(Player &from, uint64_t address, uint64_t length) {
  constexpr uint64_t most = 4096, row = 16;
  if (!length || length > most)
    return failUsage("bad-length", "1 to " + std::to_string(most) + " bytes");
  if (!from.binding(chosen).isMapped(address, length))
    return failUsage("not-mapped", "no memory is mapped at " + hexText(address) + ", or not so much");
  std::vector<uint8_t> bytes(length);
  if (llvm::Error error = from.binding(chosen).readMemory(address, bytes))
    return error;
  std::string text;
  for (uint64_t at = 0; at < length; at += row) {
    llvm::ArrayRef<uint8_t> piece = llvm::ArrayRef(bytes).slice(at, std::min(row, length - at));
    text += hexText(address + at) + ":";
    for (uint8_t byte : piece)
      text += " " + llvm::toHex(byte, /*LowerCase=*/true);
    text += "\n";
  }
  text.pop_back();
  return text;
}

llvm::Expected<Prompt::Then> Prompt::memory(Words words) {
  if (words.empty() || words.size() > 2)
    return failUsage("bad-command", "memory ADDRESS [LENGTH]");
  llvm::Expected<uint64_t> address = parseNumber(words[0]);
  if (!address)
    return address.takeError();
  llvm::Expected<uint64_t> length = words.size() > 1 ? parseNumber(words[1]) : llvm::Expected<uint64_t>(64);
  if (!length)
    return length.takeError();
  llvm::Expected<std::string> text = memoryText(*player, *address, *length);
  if (!text)
    return text.takeError();
  say(*text);
  return Then::Ask;
}

llvm::Expected<Prompt::Then> Prompt::store(Words words) {
  if (words.size() != 2)
    return failUsage("bad-command", "store ADDRESS BYTES", {}, "bytes as hexadecimal digits: 00ff12");
  llvm::Expected<uint64_t> address = parseNumber(words[0]);
  if (!address)
    return address.takeError();
  std::string bytes;
  if (words[1].size() % 2 || !llvm::tryGetFromHex(words[1], bytes))
    return failUsage("bad-bytes", "bytes are pairs of hexadecimal digits: 00ff12");
  DeviceBinding &binding = player->binding(chosen);
  if (!binding.isMapped(*address, bytes.size()))
    return failUsage("not-mapped", "no memory is mapped at " + hexText(*address) + ", or not so much");
  if (const ForbiddenRange *range = findForbidden(options.forbidden, "memory", *address, bytes.size()))
    return failUsage("forbidden-write", "the lab forbids to write '" + range->name + "'");
  if (llvm::Error error = binding.writeMemory(*address, llvm::arrayRefFromStringRef(bytes)))
    return error;
  say("written; from here on this is another run than the recorded one");
  return Then::Ask;
}

llvm::Expected<std::string> Prompt::counterText(Player &from) {
  DeviceBinding &binding = from.binding(chosen);
  const Description *description = binding.description();
  if (!description || description->counters.empty())
    return failUsage("no-counters", "the description has no counters");
  std::string text;
  for (size_t id = 0; id < description->counters.size(); ++id) {
    const CounterDescription &counter = description->counters[id];
    llvm::Expected<uint64_t> value = binding.capabilities().counters
                                         ? binding.target().counter(uint32_t(id))
                                         : binding.readRegister(description->registers[counter.reg]);
    if (!value)
      return value.takeError();
    text += (text.empty() ? "" : "\n") + counter.name + " = " + std::to_string(*value) +
            (counter.unit.empty() ? "" : " " + counter.unit);
  }
  return text;
}

llvm::Expected<Prompt::Then> Prompt::counters(Words) {
  llvm::Expected<std::string> text = counterText(*player);
  if (!text)
    return text.takeError();
  say(*text);
  return Then::Ask;
}

llvm::Expected<Prompt::Then> Prompt::model(Words words) {
  Player *second = options.shadow ? options.shadow->player() : nullptr;
  if (!second)
    return failUsage("no-shadow",
                     options.shadow ? "the second target plays no longer" : "there is no second target", {},
                     options.shadow ? "`differences` says why" : "start with --shadow URI");
  if (words.empty())
    return failUsage("bad-command", "model read … | model memory … | model counters");
  Player *first = player;
  player = second;
  llvm::StringRef what = words[0];
  words = words.drop_front();
  llvm::Expected<Then> result =
      what == "read" || what == "r"     ? read(words)
      : what == "memory" || what == "m" ? memory(words)
      : what == "counters"              ? counters(words)
                           : failUsage("bad-command", "model read … | model memory … | model counters");
  player = first;
  return result;
}

} // namespace tapeback
