#include "replayer/AccessRules.h"
#include "llvm/ADT/STLExtras.h"

namespace tapeback {
namespace {

/// Registers that programs read to decide what to do: a difference there sends the program another way.
bool isBranching(RegisterClass cls) {
  switch (cls) {
  case RegisterClass::Progress:
  case RegisterClass::Poll:
  case RegisterClass::Status:
  case RegisterClass::W1C:
  case RegisterClass::ReadToClear:
  case RegisterClass::Fifo: return true;
  case RegisterClass::Stable:
  case RegisterClass::Volatile:
  case RegisterClass::Counter:
  case RegisterClass::Timestamp:
  case RegisterClass::Identity:
  case RegisterClass::AddressLow:
  case RegisterClass::AddressHigh: return false;
  }
  return false;
}

uint64_t comparedBits(const RegisterDescription &reg) {
  switch (reg.policy) {
  case ReplayPolicy::Ignore: return 0;
  case ReplayPolicy::Mask: return reg.compareMask;
  // Memory is placed at the recorded addresses, so address registers compare like any other.
  case ReplayPolicy::Relocate:
  case ReplayPolicy::Compare:
  case ReplayPolicy::SideEffect:
  case ReplayPolicy::MayHang:
  case ReplayPolicy::Forbidden:
  case ReplayPolicy::Substitute: return ~uint64_t(0);
  case ReplayPolicy::PollUntil: return reg.compareMask;
  }
  return ~uint64_t(0);
}

} // namespace

bool isChangedByReads(const RegisterDescription &reg) {
  return reg.cls == RegisterClass::ReadToClear || reg.cls == RegisterClass::Fifo ||
         reg.policy == ReplayPolicy::SideEffect || reg.policy == ReplayPolicy::MayHang;
}

AccessRules::AccessRules(const Description *description, std::vector<std::string> spaces,
                         std::vector<std::string> allowed)
    : description(description), spaces(std::move(spaces)), allowed(std::move(allowed)), slots(slotCount) {}

const AccessRule &AccessRules::find(uint16_t space, uint64_t address, unsigned width) {
  uint64_t hash = (address + (uint64_t(space) << 40)) * 0x9e3779b97f4a7c15;
  Slot &slot = slots[((hash >> 32) ^ width) % slotCount];
  if (slot.used && slot.address == address && slot.space == space && slot.width == width)
    return slot.rule;
  slot.rule = compute(space, address, width);
  slot.address = address;
  slot.space = space;
  slot.width = uint8_t(width);
  slot.used = true;
  return slot.rule;
}

/// Of one byte: the name that would allow to write it. A register that is named may be written wherever it
/// is, and in a range that is named everything may.
const std::string *AccessRules::forbids(llvm::StringRef space, uint64_t address,
                                        const RegisterDescription *reg) const {
  if (reg && llvm::is_contained(allowed, reg->name))
    return nullptr;
  bool inAllowed = false;
  for (const ForbiddenRange &range : description->forbidden) {
    if (range.space != space || address < range.first || address > range.last)
      continue;
    if (!llvm::is_contained(allowed, range.name))
      return &range.name;
    inAllowed = true;
  }
  return reg && reg->policy == ReplayPolicy::Forbidden && !inAllowed ? &reg->name : nullptr;
}

AccessRule AccessRules::compute(uint16_t space, uint64_t address, unsigned width) const {
  AccessRule rule;
  width = std::min(width, 8u);
  rule.compareMask = rule.pollMask = widthMask(width);
  if (!description || space >= spaces.size())
    return rule;
  unsigned ignored = 0;
  // Byte by byte: an access may cover part of a register, or several.
  for (unsigned byte = 0; byte < width && address + byte >= address; ++byte) {
    const RegisterDescription *reg = description->find(spaces[space], address + byte, 1);
    if (!rule.forbidden)
      rule.forbidden = forbids(spaces[space], address + byte, reg);
    if (!reg)
      continue;
    if (!rule.reg)
      rule.reg = reg;
    ignored += reg->policy == ReplayPolicy::Ignore;
    uint64_t compared = comparedBits(*reg) >> (8 * ((address + byte - reg->offset) & 7));
    rule.compareMask &= ~((~compared & 0xff) << (8 * byte));
    uint64_t polled = reg->pollMask >> (8 * ((address + byte - reg->offset) & 7));
    rule.pollMask &= ~((~polled & 0xff) << (8 * byte));
    // A read that changes something is never repeated, whatever else lies in the access.
    rule.readsChange |= isChangedByReads(*reg);
    rule.mayHang |= reg->policy == ReplayPolicy::MayHang;
    rule.substitute |= reg->policy == ReplayPolicy::Substitute;
    rule.flows |= !reg->flowsInto.empty() || !reg->flowsIntoEntries.empty();
    rule.pollUntil |= reg->policy == ReplayPolicy::PollUntil;
    rule.branching |= isBranching(reg->cls);
  }
  if (rule.readsChange)
    rule.pollMask = 0;
  rule.ignore = width && ignored == width;
  rule.whole = rule.reg && rule.reg->offset == address && rule.reg->width == width;
  rule.progress = rule.whole && llvm::any_of(description->queues, [&](const QueueDescription &queue) {
                    unsigned reg = description->indexOf(*rule.reg);
                    return queue.head == reg || queue.done == reg;
                  });
  if (rule.whole) {
    unsigned here = description->indexOf(*rule.reg);
    auto starts = [&](const ActivityDescription &activity) { return activity.starts.reg == here; };
    auto rings = [&](const QueueDescription &queue) { return queue.doorbell == here; };
    // A reset takes its time, too.
    auto resets = [&](const RegisterCondition &condition) { return condition.reg == here; };
    rule.startsWork = llvm::any_of(description->activities, starts) ||
                      llvm::any_of(description->queues, rings) || llvm::any_of(description->resets, resets);
  }
  if (rule.whole && !isChangedByReads(*rule.reg)) {
    auto isHere = [&](const RegisterCondition &condition) {
      return condition.reg == description->indexOf(*rule.reg) && !condition.any;
    };
    rule.tellsDone = llvm::any_of(description->idle, isHere) ||
                     llvm::any_of(description->activities, [&](const ActivityDescription &activity) {
                       return llvm::any_of(activity.done, isHere);
                     });
    rule.tellsCause = llvm::any_of(description->interrupts, [&](const InterruptDescription &line) {
      return line.cause && line.cause->reg == description->indexOf(*rule.reg);
    });
  }
  rule.acknowledges = rule.whole && rule.reg->cls == RegisterClass::W1C &&
                      llvm::any_of(description->interrupts, [&](const InterruptDescription &line) {
                        return line.cause && line.cause->reg == description->indexOf(*rule.reg);
                      });
  rule.carries = rule.whole && llvm::any_of(description->registers, [&](const RegisterDescription &from) {
                   return llvm::any_of(from.flowsInto, [&](const RegisterDescription::Flow &flow) {
                     return flow.reg == description->indexOf(*rule.reg);
                   });
                 });
  return rule;
}

uint64_t bitsThatTellDone(const Description &description, const AccessRule &rule, uint64_t value) {
  if (!rule.tellsDone)
    return 0;
  const unsigned reg = description.indexOf(*rule.reg);
  uint64_t bits = 0;
  auto add = [&](const RegisterCondition &condition) {
    if (condition.reg == reg && !condition.any && condition.holds(value))
      bits |= condition.mask;
  };
  for (const RegisterCondition &condition : description.idle)
    add(condition);
  for (const ActivityDescription &activity : description.activities)
    for (const RegisterCondition &condition : activity.done)
      add(condition);
  return bits;
}

uint64_t bitsThatTellCause(const Description &description, const AccessRule &rule, uint64_t value) {
  if (!rule.tellsCause)
    return 0;
  const unsigned reg = description.indexOf(*rule.reg);
  uint64_t bits = 0;
  for (const InterruptDescription &line : description.interrupts)
    if (line.cause && line.cause->reg == reg)
      bits |= value & line.cause->mask & rule.pollMask;
  return bits;
}

} // namespace tapeback
