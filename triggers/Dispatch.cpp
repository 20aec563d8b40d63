// Which triggers a packet concerns: a list per dictionary key, made when the key is first seen.
#include "triggers/Compiler.h"
#include "triggers/Evaluator.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace tapeback::triggers {

/// Beyond so many keys, packets share the list of their kind, which may be longer than need be.
static constexpr size_t maxKeys = 65536;

static bool hasPlace(PacketKind kind) {
  return kind == PacketKind::RegisterRead || kind == PacketKind::RegisterWrite || kind == PacketKind::Poll ||
         kind == PacketKind::CounterSnapshot;
}

/// `exact`: with the packet's width; otherwise with any width that a later packet of the same key may have.
bool Evaluator::placeMatches(const RegisterPlace &place, const Packet &packet, bool exact) const {
  if (packet.space >= spaceOf.size() || spaceOf[packet.space] != place.space)
    return false;
  if (!place.width)
    return packet.address == place.offset;
  uint64_t width = exact ? std::max<uint64_t>(packet.width, 1) : 8;
  return packet.address >= place.offset ? packet.address - place.offset < place.width
                                        : place.offset - packet.address < width;
}

/// What the program says concerns triggers of every device, whatever the packet's device is.
static bool ofProgram(PacketKind kind) {
  return kind == PacketKind::Marker || kind == PacketKind::SpanBegin || kind == PacketKind::SpanEnd ||
         kind == PacketKind::Oracle || kind == PacketKind::Tick || kind == PacketKind::Loss;
}

/// True: whatever its value. Otherwise with one of the values that are added to `values`, if any.
bool Evaluator::concernsTrigger(const Trigger &trigger, const Packet &packet,
                                std::vector<uint64_t> &values) const {
  if (unsigned(packet.kind) >= 64 || (trigger.device != packet.device && !ofProgram(packet.kind)))
    return false;
  for (const Interest &interest : trigger.interests) {
    if (!(interest.kinds >> unsigned(packet.kind) & 1))
      continue;
    bool counter = packet.kind == PacketKind::CounterSnapshot;
    bool matches = interest.counter != noIndex ? !counter || packet.address == interest.counter
                   : interest.place != noIndex
                       ? counter || placeMatches(compiled.places[interest.place], packet, false)
                       : true;
    if (!matches)
      continue;
    if (!interest.hasValue)
      return true;
    values.push_back(interest.value);
  }
  return false;
}

uint32_t Evaluator::makeAudience(const Packet &packet) {
  auto audience = std::make_unique<Audience>();
  std::vector<uint64_t> &values = audience->filter.values;
  for (uint32_t t = 0; t < compiled.triggers.size(); ++t) {
    size_t before = values.size();
    bool always = concernsTrigger(compiled.triggers[t], packet, values);
    if (always)
      audience->anyValue.push_back(t);
    if (always || values.size() > before)
      audience->triggers.push_back(t);
  }
  llvm::sort(values);
  values.erase(llvm::unique(values), values.end());
  for (uint64_t value : values)
    audience->filter.bloom |= uint64_t(1) << KeyFilter::bit(value);
  for (uint32_t s = 0; s < compiled.slots.size(); ++s) {
    const SlotDescription &slot = compiled.slots[s];
    if (slot.device != packet.device)
      continue;
    bool counter = packet.kind == PacketKind::CounterSnapshot;
    if (counter ? slot.isCounter && slot.counter == packet.address
                : !slot.isCounter && (accessKinds >> unsigned(packet.kind) & 1) &&
                      placeMatches(slot.place, packet, false))
      audience->slots.push_back(s);
  }
  audience->filter.always =
      !audience->anyValue.empty() || !audience->slots.empty() || alwaysShown(packet.kind);
  audiences.push_back(std::move(audience));
  return uint32_t(audiences.size() - 1);
}

const Evaluator::Audience &Evaluator::audienceOf(const Packet &packet) {
  static const Audience nobody;
  if (unsigned(packet.kind) >= 64 || packet.device >= compiled.devices.size())
    return nobody;
  if (!hasPlace(packet.kind) && packet.device == 0) {
    uint32_t &index = audienceByKind[unsigned(packet.kind)];
    if (index == noIndex)
      index = makeAudience(packet);
    return *audiences[index];
  }
  uint64_t address = hasPlace(packet.kind) ? packet.address : 0;
  uint64_t rest = uint64_t(packet.device) << 32 | uint64_t(packet.space) << 8 | uint64_t(packet.kind);
  if (!hasPlace(packet.kind))
    rest &= ~(uint64_t(0xffff) << 8);
  auto found = audienceByKey.find({address, rest});
  if (found != audienceByKey.end())
    return *audiences[found->second];
  if (audienceByKey.size() >= maxKeys) {
    // Too many places to keep a list for each: this one is made for this packet only.
    uint32_t index = makeAudience(packet);
    if (!overflow)
      overflow = std::make_unique<Audience>();
    *overflow = std::move(*audiences[index]);
    audiences.pop_back();
    return *overflow;
  }
  uint32_t index = makeAudience(packet);
  audienceByKey[{address, rest}] = index;
  return *audiences[index];
}

/// Packets that the evaluator itself follows, whether a rule waits for them or not.
bool Evaluator::alwaysShown(PacketKind kind) const {
  if (!keepers.empty())
    return true;
  switch (kind) {
  case PacketKind::MemoryMap:
  case PacketKind::MemoryUnmap: return compiled.usesMappings;
  case PacketKind::Submit:
  case PacketKind::MemoryWrite: return compiled.usesEntries;
  case PacketKind::ClockSample: return true;
  default: return false;
  }
}

const KeyFilter &Evaluator::filterOf(const Packet &packet) {
  static const KeyFilter everything = KeyFilter::everything();
  // Of a packet of any key, what is kept has to be known.
  return keepers.empty() ? audienceOf(packet).filter : everything;
}

} // namespace tapeback::triggers
