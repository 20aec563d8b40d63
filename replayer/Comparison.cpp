#include "replayer/Comparison.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/xxhash.h"
#include <algorithm>

namespace tapeback {

using State = Observation::State;

bool bringsContent(const Packet &packet) {
  switch (packet.kind) {
  case PacketKind::MemoryRead:
  case PacketKind::Acquire:
  case PacketKind::CommandDone: return true;
  case PacketKind::DmaCompletion: return packet.flags & TransferFromDevice;
  default: return false;
  }
}

Observation recordedObservation(const Packet &packet, const PacketExtra &extra) {
  Observation o;
  o.value = packet.value;
  if (uint8_t(packet.kind) >= packetKindCount) {
    o.state = State::NotIssued;
    o.rule = Rule::UnknownKind;
    return o;
  }
  switch (packet.completion) {
  case Completion::Done: o.state = State::Done; break;
  case Completion::Failed: o.state = State::Failed; break;
  case Completion::TimedOut: o.state = State::TimedOut; break;
  case Completion::Pending:
  default: // An enumerant of a later version: we do not know what came of it.
    o.state = State::NotIssued;
    o.rule = Rule::PendingOperation;
    return o;
  }
  if (packet.kind == PacketKind::Interrupt)
    o.value = extra.count;
  if (packet.kind == PacketKind::Oracle) {
    o.holds = !(packet.flags & Failed);
    o.expected = extra.expected;
    o.contentOffset = extra.count;
  }
  if (o.state == State::Done && bringsContent(packet)) {
    o.truncated = packet.flags & Truncated;
    if ((packet.flags & NotCaptured) || (!extra.payload && extra.length)) {
      o.state = State::NotIssued;
      bool owned = packet.kind == PacketKind::DmaCompletion && (packet.flags & DeviceOwned);
      o.rule = owned ? Rule::StillOwned : Rule::ContentNotCaptured;
    }
  }
  if (packet.kind == PacketKind::MemoryWrite && o.state == State::Done) {
    bool lacks = (packet.flags & NotCaptured) || (!extra.payload && extra.length);
    if (lacks || (packet.flags & Truncated)) {
      o.state = State::NotIssued;
      o.rule = Rule::ContentNotCaptured;
    }
  }
  return o;
}

namespace {

Comparison byRule(Rule rule) {
  Comparison result;
  result.rule = rule;
  return result;
}

Comparison atValue(Rule rule, uint64_t difference, uint64_t expected, uint64_t actual) {
  Comparison result;
  result.rule = rule;
  result.offset = difference ? unsigned(llvm::countr_zero(difference)) / 8 : 0;
  result.expected = expected;
  result.actual = actual;
  result.hasPlace = true;
  return result;
}

/// At least one of the two is not Done.
Comparison compareStates(const Packet &packet, const Observation &expected, const Observation &actual) {
  // The tape does not know what came of it, but the target's failure is one all the same.
  if (expected.state == State::NotIssued)
    return byRule(actual.state == State::Failed      ? Rule::TargetFailed
                  : actual.state == State::NotIssued ? actual.rule
                                                     : expected.rule);
  if (actual.state == State::NotIssued)
    return byRule(actual.rule);
  if (expected.state == actual.state)
    return byRule(expected.state == State::Failed ? Rule::FailedAsRecorded : Rule::TimedOutAsRecorded);
  if (actual.state == State::Failed)
    return byRule(Rule::TargetFailed);
  if (actual.state == State::TimedOut)
    return atValue(packet.kind == PacketKind::Interrupt ? Rule::InterruptMissing : Rule::ConditionNotMet,
                   expected.value ^ actual.value, expected.value, actual.value);
  return atValue(expected.state == State::Failed ? Rule::FailedInRecording : Rule::TimedOutInRecording,
                 expected.value ^ actual.value, expected.value, actual.value);
}

Comparison compareContent(ObservedSide expected, ObservedSide actual) {
  size_t common = std::min(expected.content.size(), actual.content.size());
  auto [e, a] =
      std::mismatch(expected.content.begin(), expected.content.begin() + common, actual.content.begin());
  if (e != expected.content.begin() + common) {
    Comparison result = atValue(Rule::ContentDiffers, 0, *e, *a);
    result.offset = uint64_t(e - expected.content.begin());
    return result;
  }
  // The tape's content may be shorter than the operation: what there is agrees, the rest is not known.
  if (expected.content.size() != actual.content.size() || expected.observation.truncated ||
      actual.observation.truncated)
    return byRule(Rule::ContentTruncated);
  return byRule(Rule::Same);
}

/// The end of a loop of reads, at least one of them waited for: what changed in the loop is not compared.
Comparison compareLoopEnd(const ComparisonContext &context, const Packet &packet, const Observation &e,
                          const Observation &a) {
  uint64_t varied =
      (e.rule == Rule::PollFound ? e.expected : 0) | (a.rule == Rule::PollFound ? a.expected : 0);
  uint64_t compared = (context.access ? context.access->compareMask : ~uint64_t(0)) & ~varied;
  uint64_t difference = (e.value ^ a.value) & compared & widthMask(packet.width ? packet.width : 8);
  return difference ? atValue(Rule::ValueDiffers, difference, e.value, a.value) : byRule(Rule::PollFound);
}

Comparison compareRead(const ComparisonContext &context, const Packet &packet, uint64_t expected,
                       uint64_t actual) {
  uint64_t compared = context.access ? context.access->compareMask : ~uint64_t(0);
  // Both came at least as far as the tape says, otherwise they would have timed out.
  if (context.access && context.access->progress && packet.kind == PacketKind::RegisterRead)
    return byRule(expected == actual ? Rule::Same : Rule::QueueProgress);
  if (context.access && context.access->substitute && !context.access->flows)
    return byRule(Rule::PolicySubstitute);
  if (context.access && context.access->substitute)
    return byRule(expected == actual ? Rule::Same : Rule::LiveValue);
  if (context.access && context.access->ignore)
    return byRule(Rule::PolicyIgnore);
  uint64_t difference = (expected ^ actual) & widthMask(packet.width ? packet.width : 8);
  if (!difference)
    return byRule(Rule::Same);
  if (!(difference & compared))
    return byRule(Rule::MaskedBits);
  return atValue(Rule::ValueDiffers, difference & compared, expected, actual);
}

Comparison compareCounter(const ComparisonContext &context, uint64_t expected, uint64_t actual) {
  if (!context.counter)
    return byRule(Rule::UnknownCounter);
  if (!context.counter->exact)
    return byRule(Rule::CounterRate);
  unsigned bits = context.counter->widthBits;
  uint64_t mask = bits >= 64 ? ~uint64_t(0) : (uint64_t(1) << bits) - 1;
  uint64_t difference = (expected ^ actual) & mask;
  return difference ? atValue(Rule::ValueDiffers, difference, expected, actual) : byRule(Rule::Same);
}

Comparison compareOracle(const Packet &packet, const PacketExtra &extra, const Observation &expected,
                         const Observation &actual) {
  if (expected.holds == actual.holds)
    return byRule(Rule::Same);
  const Observation &wrong = expected.holds ? actual : expected;
  Comparison result;
  if (extra.length) {
    result = atValue(Rule::OracleDiffers, 0, wrong.expected, wrong.value);
    result.offset = wrong.contentOffset;
  } else {
    result = atValue(Rule::OracleDiffers,
                     (expected.value ^ actual.value) & (extra.mask ? extra.mask : ~uint64_t(0)),
                     expected.value, actual.value);
  }
  (void)packet;
  return result;
}

} // namespace

Comparison compareObservations(const Packet &packet, const PacketExtra &extra,
                               const ComparisonContext &context, ObservedSide expected, ObservedSide actual) {
  const Observation &e = expected.observation, &a = actual.observation;
  if (e.state != State::Done || a.state != State::Done)
    return compareStates(packet, e, a);
  // On both sides of a bisection: nothing in which they differ.
  if (a.rule == Rule::CompletionOrder || e.rule == Rule::CompletionOrder)
    return byRule(a.rule == e.rule ? Rule::Same : Rule::CompletionOrder);
  switch (packet.kind) {
  case PacketKind::RegisterRead:
    if (a.rule == Rule::PollFound || e.rule == Rule::PollFound)
      return compareLoopEnd(context, packet, e, a);
    if (a.rule == Rule::LiveValue || e.rule == Rule::LiveValue) {
      Comparison result = compareRead(context, packet, e.value, a.value);
      return result.rule == Rule::Same ? byRule(Rule::LiveValue) : result;
    }
    return compareRead(context, packet, e.value, a.value);
  case PacketKind::Poll:
  case PacketKind::MemoryWait:
    for (Rule passed : {Rule::QueueProgress, Rule::FencePassed, Rule::LiveValue})
      if (e.rule == passed || a.rule == passed)
        return byRule(passed);
    return byRule(e.value == a.value ? Rule::Same : Rule::PollCondition);
  case PacketKind::MemoryRead:
  case PacketKind::Acquire:
  case PacketKind::CommandDone:
  case PacketKind::DmaCompletion: {
    Comparison result = bringsContent(packet) ? compareContent(expected, actual) : byRule(Rule::Same);
    bool live = a.rule == Rule::LiveValue || e.rule == Rule::LiveValue;
    return live && result.rule == Rule::Same ? byRule(Rule::LiveValue) : result;
  }
  case PacketKind::Interrupt:
    for (Rule stood : {Rule::InterruptCause, Rule::InterruptEarly, Rule::InterruptCoalesced})
      if (a.rule == stood || e.rule == stood)
        return byRule(stood);
    return byRule(e.value == a.value ? Rule::Same : Rule::InterruptCount);
  case PacketKind::CounterSnapshot: return compareCounter(context, e.value, a.value);
  case PacketKind::Oracle: return compareOracle(packet, extra, e, a);
  case PacketKind::LateCompletion: return compareRead(context, packet, e.value, a.value);
  // What is said to the device, and events: issued, and that is all there is to them.
  case PacketKind::RegisterWrite:
  case PacketKind::Submit:
    return byRule(a.rule == Rule::LiveValue || e.rule == Rule::LiveValue ? Rule::LiveValue : Rule::Same);
  case PacketKind::MemoryWrite:
  case PacketKind::DmaDescriptor:
  case PacketKind::Marker:
  case PacketKind::SpanBegin:
  case PacketKind::SpanEnd:
  case PacketKind::ClockSample:
  case PacketKind::Reset:
  case PacketKind::Tick:
  case PacketKind::Loss:
  case PacketKind::MemoryMap:
  case PacketKind::MemoryUnmap:
  case PacketKind::Open:
  case PacketKind::Close:
  case PacketKind::Expectation: return byRule(Rule::Same);
  }
  return byRule(Rule::UnknownKind);
}

CanonicalObservation canonical(const Packet &packet, const ComparisonContext &context, ObservedSide side) {
  const Observation &o = side.observation;
  CanonicalObservation result;
  result.state = uint8_t(o.state);
  if (o.state != State::Done)
    return result;
  switch (packet.kind) {
  case PacketKind::RegisterRead:
  case PacketKind::LateCompletion:
    if (!context.access)
      result.value[0] = o.value;
    else if (!context.access->ignore && !context.access->substitute && !context.access->progress &&
             o.rule != Rule::PollFound)
      result.value[0] = o.value & context.access->compareMask;
    break;
  case PacketKind::MemoryRead:
  case PacketKind::Acquire:
  case PacketKind::CommandDone:
  case PacketKind::DmaCompletion:
    if (bringsContent(packet)) {
      llvm::XXH128_hash_t hash = llvm::xxh3_128bits(side.content);
      result.value[0] = hash.low64;
      result.value[1] = hash.high64;
    }
    break;
  case PacketKind::CounterSnapshot:
    if (context.counter && context.counter->exact)
      result.value[0] = o.value;
    break;
  case PacketKind::Oracle: result.value[0] = o.holds; break;
  default: break;
  }
  return result;
}

} // namespace tapeback
