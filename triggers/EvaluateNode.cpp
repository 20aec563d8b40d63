// Values of expressions. What is not known makes a comparison false, and a number unknown.
#include "triggers/Compiler.h"
#include "triggers/Evaluator.h"

using namespace llvm;

namespace tapeback::triggers {

namespace {

Evaluator::Value known(uint64_t value) {
  return {value, true};
}
Evaluator::Value known(std::optional<uint64_t> value) {
  return {value.value_or(0), value.has_value()};
}

bool inRange(const SetRange &range, uint64_t value) {
  if (range.pattern)
    return ((value ^ range.first) & range.mask) == 0;
  if (range.isSigned)
    return int64_t(value) >= int64_t(range.first) && int64_t(value) <= int64_t(range.last);
  return value >= range.first && value <= range.last;
}

std::optional<uint64_t> arithmetic(const Node &node, uint64_t a, uint64_t b) {
  switch (node.op) {
  case NodeOp::Add: return a + b;
  case NodeOp::Subtract: return a - b;
  case NodeOp::Multiply: return a * b;
  case NodeOp::Divide:
    if (!b)
      return std::nullopt;
    if (!node.isSigned)
      return a / b;
    return b == ~uint64_t(0) ? 0 - a : uint64_t(int64_t(a) / int64_t(b));
  case NodeOp::Modulo:
    if (!b)
      return std::nullopt;
    if (!node.isSigned)
      return a % b;
    return b == ~uint64_t(0) ? 0 : uint64_t(int64_t(a) % int64_t(b));
  case NodeOp::BitAnd: return a & b;
  case NodeOp::BitOr: return a | b;
  case NodeOp::BitXor: return a ^ b;
  case NodeOp::ShiftLeft: return b < 64 ? a << b : 0;
  case NodeOp::ShiftRight:
    if (node.isSigned)
      return uint64_t(int64_t(a) >> std::min<uint64_t>(b, 63));
    return b < 64 ? a >> b : 0;
  default: return std::nullopt;
  }
}

} // namespace

Evaluator::Value Evaluator::evaluate(uint32_t index) const {
  const Node &node = compiled.nodes[index];
  auto isKind = [&] {
    return packetNow && unsigned(packetNow->kind) < 64 && (node.imm >> unsigned(packetNow->kind) & 1);
  };
  switch (node.op) {
  case NodeOp::Constant: return known(node.imm);
  case NodeOp::And: return known(uint64_t(holds(node.a) && holds(node.b)));
  case NodeOp::Or: return known(uint64_t(holds(node.a) || holds(node.b)));
  case NodeOp::Not: return known(uint64_t(!holds(node.a)));
  case NodeOp::Equal:
  case NodeOp::NotEqual:
  case NodeOp::Less:
  case NodeOp::LessEqual: {
    Value a = evaluate(node.a), b = evaluate(node.b);
    if (!a.known || !b.known)
      return known(uint64_t(0));
    bool result;
    if (node.op == NodeOp::Equal || node.op == NodeOp::NotEqual)
      result = (((a.value ^ b.value) & node.imm) == 0) == (node.op == NodeOp::Equal);
    else if (node.isSigned)
      result = int64_t(a.value) < int64_t(b.value) || (node.op == NodeOp::LessEqual && a.value == b.value);
    else
      result = a.value < b.value || (node.op == NodeOp::LessEqual && a.value == b.value);
    return known(uint64_t(result));
  }
  case NodeOp::In: {
    Value a = evaluate(node.a);
    for (uint32_t i = node.b; a.known && i < node.b + node.imm; ++i)
      if (inRange(compiled.sets[i], a.value))
        return known(uint64_t(1));
    return known(uint64_t(0));
  }
  case NodeOp::KindIs: return known(uint64_t(isKind()));
  case NodeOp::PlaceIs:
    for (uint32_t i = node.a; isKind() && i < node.a + node.b; ++i)
      if (placeMatches(compiled.places[i], *packetNow, true))
        return known(uint64_t(1));
    return known(uint64_t(0));
  case NodeOp::NameIs:
  case NodeOp::NameStarts: return known(uint64_t(nameIs(node)));
  case NodeOp::FormIs:
    return known(uint64_t(isKind() && entryNow.form && entryNow.form == compiled.forms[node.a].form));
  case NodeOp::Raised: return known(uint64_t(raisedNow == node.a));
  case NodeOp::Changed:
  case NodeOp::Rose:
  case NodeOp::Fell:
  case NodeOp::Wrapped:
  case NodeOp::Regressed: return known(uint64_t(slotEvent(node)));
  case NodeOp::Add:
  case NodeOp::Subtract:
  case NodeOp::Multiply:
  case NodeOp::Divide:
  case NodeOp::Modulo:
  case NodeOp::BitAnd:
  case NodeOp::BitOr:
  case NodeOp::BitXor:
  case NodeOp::ShiftLeft:
  case NodeOp::ShiftRight: {
    Value a = evaluate(node.a), b = evaluate(node.b);
    if (!a.known || !b.known)
      return {};
    return known(arithmetic(node, a.value, b.value));
  }
  case NodeOp::BitNot:
  case NodeOp::Negate: {
    Value a = evaluate(node.a);
    return {node.op == NodeOp::BitNot ? ~a.value : 0 - a.value, a.known};
  }
  case NodeOp::Field: return field(PacketField(node.a));
  case NodeOp::Payload: {
    Value offset = evaluate(node.a);
    ArrayRef<uint8_t> bytes = content();
    if (!offset.known || offset.value > bytes.size() || bytes.size() - offset.value < node.b)
      return {};
    uint64_t value = 0;
    for (uint32_t i = node.b; i-- > 0;)
      value = value << 8 | bytes[offset.value + i];
    return known(value);
  }
  case NodeOp::EntryField: {
    const EntryFieldReference &reference = compiled.entryFields[node.a];
    if (entryNow.form != reference.form.form)
      return {};
    return known(entryValue(*reference.field, content()));
  }
  case NodeOp::Slot:
  case NodeOp::Previous:
  case NodeOp::Delta:
  case NodeOp::Interval: return slotValue(node);
  case NodeOp::Variable: return known(variables[node.a]);
  default: return memoryValue(node);
  }
}

Evaluator::Value Evaluator::field(PacketField which) const {
  if (which == PacketField::Expired)
    return {expiredKey, expiredKnown};
  if (!packetNow)
    return {};
  const Packet &packet = *packetNow;
  const PacketExtra &extra = *extraNow;
  auto flag = [&](PacketFlags bit) { return known(uint64_t((packet.flags & bit) != 0)); };
  bool ended = packet.completion != Completion::Pending;
  switch (which) {
  case PacketField::Value:
    // A read that did not come back has none.
    if (packet.kind != PacketKind::RegisterWrite &&
        (packet.completion == Completion::Pending || packet.completion == Completion::Failed))
      return {};
    return known(packet.value);
  case PacketField::Address: return known(packet.address);
  case PacketField::Width: return known(uint64_t(packet.width));
  case PacketField::Thread: return known(uint64_t(packet.thread));
  case PacketField::Issue: return known(nanoseconds(timesClock(packet), packet.issueTime));
  case PacketField::Complete: return {nanoseconds(timesClock(packet), packet.completeTime), ended};
  case PacketField::Duration: {
    uint64_t issue = nanoseconds(timesClock(packet), packet.issueTime),
             complete = nanoseconds(timesClock(packet), packet.completeTime);
    return {complete - issue, ended && complete >= issue};
  }
  case PacketField::Length: return known(extra.length);
  case PacketField::Mask: return known(extra.mask);
  case PacketField::Expected: return known(extra.expected);
  case PacketField::Deadline: return known(extra.deadline);
  case PacketField::Count: return known(extra.count);
  case PacketField::Link: return {extra.link, extra.link != noLink};
  case PacketField::Packet: return known(ordinalNow);
  case PacketField::PayloadSize: return known(uint64_t(content().size()));
  case PacketField::Queue: return {packet.value, packet.kind == PacketKind::Submit};
  case PacketField::Vector: return {packet.address, packet.kind == PacketKind::Interrupt};
  case PacketField::Completion: return known(uint64_t(packet.completion));
  case PacketField::Origin: return known(uint64_t(packet.origin));
  case PacketField::Failed: return flag(Failed);
  case PacketField::Concurrent: return flag(Concurrent);
  case PacketField::Truncated: return flag(Truncated);
  case PacketField::NotCaptured: return flag(NotCaptured);
  case PacketField::ToDevice: return flag(TransferToDevice);
  case PacketField::FromDevice: return flag(TransferFromDevice);
  case PacketField::DeviceOwned: return flag(DeviceOwned);
  case PacketField::Expired: break;
  }
  return {};
}

bool Evaluator::nameIs(const Node &node) const {
  if (!packetNow || unsigned(packetNow->kind) >= 64 ||
      (node.op == NodeOp::NameIs && !(node.imm >> unsigned(packetNow->kind) & 1)))
    return false;
  switch (packetNow->kind) {
  case PacketKind::Marker:
  case PacketKind::SpanBegin:
  case PacketKind::Oracle:
  case PacketKind::Open: break;
  default: return false;
  }
  ArrayRef<uint8_t> bytes = content();
  StringRef name(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  return node.op == NodeOp::NameIs ? name == compiled.texts[node.a]
                                   : name.starts_with(compiled.texts[node.a]);
}

Evaluator::Value Evaluator::slotValue(const Node &node) const {
  const SlotState &slot = slots[node.a];
  switch (node.op) {
  case NodeOp::Slot: return {slot.value >> node.b & node.imm, slot.known};
  case NodeOp::Previous: return {slot.previous >> node.b & node.imm, slot.previousKnown};
  case NodeOp::Delta:
    return {(slot.value - slot.previous) & bitsBelow(compiled.slots[node.a].widthBits), slot.previousKnown};
  default: return {slot.seenAt - slot.previousAt, slot.previousKnown};
  }
}

/// Whether the packet at hand did that to the slot.
bool Evaluator::slotEvent(const Node &node) const {
  const SlotState &slot = slots[node.a];
  if (!packetNow || slot.step != step || !slot.previousKnown)
    return false;
  uint64_t before = slot.previous >> node.b & node.imm, after = slot.value >> node.b & node.imm;
  unsigned bits = compiled.slots[node.a].widthBits;
  // A counter that fell by more than half of what it can count has wrapped.
  bool wrapped = after < before && before - after > bitsBelow(bits) / 2;
  switch (node.op) {
  case NodeOp::Changed: return before != after;
  case NodeOp::Rose: return !before && after;
  case NodeOp::Fell: return before && !after;
  case NodeOp::Wrapped: return wrapped;
  default: return after < before && !wrapped;
  }
}

Evaluator::Value Evaluator::memoryValue(const Node &node) const {
  switch (node.op) {
  case NodeOp::Running: return known(uint64_t(timers[node.a].running));
  case NodeOp::Elapsed: return {timeNow - std::min(timeNow, timers[node.a].host), timers[node.a].running};
  case NodeOp::Has:
  case NodeOp::Lookup:
  case NodeOp::Age: {
    Value key = evaluate(node.b);
    const ValueTable &table = tables[node.a];
    if (node.op == NodeOp::Has)
      return known(uint64_t(key.known && table.has(key.value)));
    if (!key.known)
      return {};
    if (node.op == NodeOp::Lookup)
      return known(table.get(key.value));
    std::optional<uint64_t> came = table.cameAt(key.value);
    return {timeNow - std::min(timeNow, came.value_or(0)), came.has_value()};
  }
  case NodeOp::Size: return known(uint64_t(tables[node.a].size()));
  case NodeOp::Quantile: return known(statistics[node.a].quantile(node.imm));
  case NodeOp::Mean: return known(statistics[node.a].mean());
  case NodeOp::Minimum: return known(statistics[node.a].minimum());
  case NodeOp::Maximum: return known(statistics[node.a].maximum());
  case NodeOp::Samples: return known(statistics[node.a].samples());
  case NodeOp::Mapped: {
    Value a = evaluate(node.a), b = evaluate(node.b);
    uint16_t device = packetNow ? packetNow->device : 0xffff;
    // Too many ranges: better silent than wrong.
    if (!a.known || !b.known || device >= mappings.size())
      return known(uint64_t(1));
    return known(uint64_t(mappings[device].covers(a.value, b.value).value_or(true)));
  }
  default: return {};
  }
}

} // namespace tapeback::triggers
