#include "replayer/diff/PairCompare.h"
#include "replayer/Rows.h"
#include "llvm/ADT/bit.h"

namespace tapeback {
namespace {

constexpr size_t liveValues = 256;
constexpr uint64_t largestCompared = 256u << 20;

PairResult tolerated(const char *rule) {
  PairResult result;
  result.state = PairResult::State::Tolerated;
  result.reason = rule;
  return result;
}

PairResult notCompared(std::string why) {
  PairResult result;
  result.state = PairResult::State::NotCompared;
  result.reason = std::move(why);
  return result;
}

PairResult pairDiffers(DiffKind kind, Rule rule, uint64_t left, uint64_t right, uint64_t offset = 0) {
  PairResult result;
  result.state = PairResult::State::Differs;
  result.kind = kind;
  result.comparison.rule = rule;
  result.comparison.hasPlace = true;
  result.comparison.expected = left;
  result.comparison.actual = right;
  result.comparison.offset = offset;
  return result;
}

bool givesContent(const Packet &packet) {
  switch (packet.kind) {
  case PacketKind::MemoryWrite:
  case PacketKind::Submit:
  case PacketKind::Expectation: return true;
  case PacketKind::DmaDescriptor: return packet.flags & TransferToDevice;
  default: return false;
  }
}

bool hasAddress(PacketKind kind) {
  switch (kind) {
  case PacketKind::MemoryWrite:
  case PacketKind::MemoryRead:
  case PacketKind::MemoryWait:
  case PacketKind::Acquire:
  case PacketKind::Submit:
  case PacketKind::CommandDone:
  case PacketKind::DmaDescriptor:
  case PacketKind::DmaCompletion: return true;
  default: return false;
  }
}

uint64_t wordAt(llvm::ArrayRef<uint8_t> bytes, size_t at, size_t width) {
  return littleEndian(bytes.slice(at, width));
}

} // namespace

ComparisonContext PairCompare::context(const DiffItem &item) {
  ComparisonContext result;
  const Packet &packet = item.packet;
  switch (packet.kind) {
  case PacketKind::RegisterRead:
  case PacketKind::RegisterWrite:
  case PacketKind::Poll:
  case PacketKind::LateCompletion:
    result.access = &a.rules(deviceA).find(packet.space, packet.address, packet.width);
    break;
  case PacketKind::CounterSnapshot:
    if (const Description *description = a.description(deviceA))
      if (packet.address < description->counters.size())
        result.counter = &description->counters[packet.address];
    break;
  default: break;
  }
  return result;
}

bool PairCompare::stands(uint64_t valueA, uint64_t valueB) const {
  for (const auto &[left, right] : live)
    if (left == valueA && right == valueB)
      return true;
  return false;
}

void PairCompare::learn(uint64_t valueA, uint64_t valueB) {
  if (live.size() < liveValues)
    live.emplace_back(valueA, valueB);
  else
    live[nextLive++ % liveValues] = {valueA, valueB};
}

/// What a register was told. Addresses are what they point at; live values are the other run's own.
PairResult PairCompare::compareWrite(const DiffItem &left, const DiffItem &right) {
  uint64_t difference = (left.packet.value ^ right.packet.value) & widthMask(left.packet.width);
  if (!difference)
    return {};
  ComparisonContext rules = context(left);
  if (rules.access && rules.access->ignore)
    return tolerated("ignore");
  const RegisterDescription *reg = rules.access ? rules.access->reg : nullptr;
  bool address = reg && (reg->cls == RegisterClass::AddressLow || reg->cls == RegisterClass::AddressHigh ||
                         reg->policy == ReplayPolicy::Relocate);
  if (const Description *description = a.description(deviceA); reg && description)
    for (const ActivityDescription &activity : description->activities)
      for (const TransferDescription &transfer : activity.transfers)
        address |= transfer.hostAddress == description->indexOf(*reg);
  if (address && regions.relocated(left.packet.value, right.packet.value, left.packet.width))
    return tolerated("relocated");
  if (stands(left.packet.value, right.packet.value))
    return tolerated("substitute");
  return pairDiffers(DiffKind::Input, Rule::ValueDiffers, left.packet.value, right.packet.value,
                     unsigned(llvm::countr_zero(difference)) / 8);
}

/// What was waited for.
PairResult PairCompare::compareCondition(const DiffItem &left, const DiffItem &right) {
  if (left.extra.mask != right.extra.mask)
    return pairDiffers(DiffKind::Condition, Rule::ValueDiffers, left.extra.mask, right.extra.mask);
  uint64_t wantedA = left.extra.expected & left.extra.mask, wantedB = right.extra.expected & right.extra.mask;
  if (wantedA == wantedB)
    return {};
  if (stands(left.extra.expected, right.extra.expected))
    return tolerated("substitute");
  return pairDiffers(DiffKind::Condition, Rule::ValueDiffers, left.extra.expected, right.extra.expected);
}

/// Contents by hash where they are equal; otherwise byte by byte, with addresses in them (aligned words that
/// point at the same byte of a buffer that lies elsewhere) and live values taken for equal.
llvm::Expected<PairResult> PairCompare::compareContents(const DiffItem &left, const DiffItem &right,
                                                        DiffKind kind) {
  constexpr size_t mostWords = 1 << 16; // Addresses in one content.
  auto missing = [](const DiffItem &item) {
    return (item.packet.flags & NotCaptured) || (!item.extra.payload && item.extra.length);
  };
  if ((left.packet.flags | right.packet.flags) & DeviceOwned)
    return tolerated("device-owned");
  if (missing(left) || missing(right))
    return notCompared("content not captured");
  bool truncated = (left.packet.flags | right.packet.flags) & Truncated;
  if (left.extra.payload == right.extra.payload)
    return truncated ? notCompared("content captured in part") : PairResult();
  if (left.extra.length > largestCompared)
    return pairDiffers(kind, Rule::ContentDiffers, left.extra.payload.lo, right.extra.payload.lo);
  llvm::Expected<llvm::ArrayRef<uint8_t>> ours = a.source().reader().blob(left.extra.payload);
  if (!ours)
    return ours.takeError();
  llvm::Expected<llvm::ArrayRef<uint8_t>> theirs = b.source().reader().blob(right.extra.payload);
  if (!theirs)
    return theirs.takeError();
  size_t common = std::min(ours->size(), theirs->size()), words = 0;
  bool relocated = false, substituted = false;
  for (size_t at = 0; at < common;) {
    auto [l, r] = std::mismatch(ours->begin() + at, ours->begin() + common, theirs->begin() + at);
    at = size_t(l - ours->begin());
    if (at == common)
      break;
    bool explained = false;
    for (size_t width : {size_t(8), size_t(4)}) {
      size_t word = at & ~(width - 1);
      if (explained || word + width > common || words >= mostWords)
        continue;
      uint64_t valueA = wordAt(*ours, word, width), valueB = wordAt(*theirs, word, width);
      bool moved = regions.relocated(valueA, valueB, unsigned(width));
      bool live = !moved && kind == DiffKind::Input && stands(valueA, valueB);
      if (!moved && !live)
        continue;
      relocated |= moved;
      substituted |= live;
      explained = true;
      ++words;
      at = word + width;
    }
    if (!explained)
      return pairDiffers(kind, Rule::ContentDiffers, *l, *r, at);
  }
  if (ours->size() != theirs->size() || truncated)
    return notCompared("content captured in part");
  return tolerated(relocated ? "relocated" : substituted ? "substitute" : "same");
}

/// All of the packet's range lies in one mapping of the first tape.
bool PairCompare::isMapped(const DiffItem &item) const {
  const Regions &all = a.regions(deviceA);
  Regions::Place begin = all.locate(item.packet.address, item.ordinal);
  llvm::Expected<Rows> rows = Rows::of(item.packet, item.extra);
  if (!rows) {
    llvm::consumeError(rows.takeError()); // Rows that make no sense lie nowhere.
    return false;
  }
  if (begin.region == Regions::none || !rows->length())
    return begin.region != Regions::none;
  Regions::Place end = all.locate(rows->addressOf(rows->length() - 1), item.ordinal);
  return end.region == begin.region;
}

llvm::Expected<PairResult> PairCompare::compareInput(const DiffItem &left, const DiffItem &right) {
  const Packet &packet = left.packet;
  if (hasAddress(packet.kind) &&
      !regions.same(packet.address, left.ordinal, right.packet.address, right.ordinal))
    return pairDiffers(DiffKind::Address, Rule::ValueDiffers, packet.address, right.packet.address);
  switch (packet.kind) {
  case PacketKind::RegisterWrite: return compareWrite(left, right);
  case PacketKind::Poll:
  case PacketKind::MemoryWait: return compareCondition(left, right);
  case PacketKind::DmaDescriptor:
    if (packet.value != right.packet.value)
      return pairDiffers(DiffKind::Input, Rule::ValueDiffers, packet.value, right.packet.value);
    break;
  default: break;
  }
  return givesContent(packet) ? compareContents(left, right, DiffKind::Input) : PairResult();
}

llvm::Expected<PairResult> PairCompare::compareObserved(const DiffItem &left, const DiffItem &right) {
  const Packet &packet = left.packet;
  Observation expected = recordedObservation(packet, left.extra);
  Observation actual = recordedObservation(right.packet, right.extra);
  bool done = expected.state == Observation::State::Done && actual.state == Observation::State::Done;
  if (done && bringsContent(packet))
    return compareContents(left, right, DiffKind::Content);
  ComparisonContext rules = context(left);
  if (packet.kind == PacketKind::RegisterRead && rules.access && rules.access->substitute && done) {
    if (packet.value == right.packet.value)
      return PairResult();
    learn(packet.value, right.packet.value);
    return tolerated("substitute");
  }
  if (packet.kind == PacketKind::RegisterRead && rules.access && rules.access->reg && done &&
      (rules.access->reg->cls == RegisterClass::AddressLow ||
       rules.access->reg->cls == RegisterClass::AddressHigh) &&
      regions.relocated(packet.value, right.packet.value, packet.width))
    return tolerated("relocated");
  if (left.packet.completion == Completion::Pending || right.packet.completion == Completion::Pending)
    return left.packet.completion == right.packet.completion
               ? notCompared("never came back")
               : pairDiffers(DiffKind::Outcome, Rule::PendingOperation, left.packet.value,
                             right.packet.value);
  Comparison comparison = compareObservations(packet, left.extra, rules, {expected, {}}, {actual, {}});
  PairResult result;
  switch (gradeOf(comparison.rule)) {
  case Grade::Exact: return result;
  case Grade::Tolerated: return tolerated(ruleName(comparison.rule));
  case Grade::NotCaptured: return notCompared(ruleText(comparison.rule));
  default: break;
  }
  result.state = PairResult::State::Differs;
  result.comparison = comparison;
  result.kind = packet.kind == PacketKind::Oracle ? DiffKind::Check
                : done                            ? DiffKind::Value
                                                  : DiffKind::Outcome;
  return result;
}

llvm::Expected<PairResult> PairCompare::compare(const DiffItem &left, const DiffItem &right) {
  const Packet &packet = left.packet;
  if (uint8_t(packet.kind) >= packetKindCount)
    return notCompared("of a kind that this version does not know");
  if (packet.kind == PacketKind::MemoryMap && packet.completion == Completion::Done &&
      right.packet.completion == Completion::Done) {
    Regions::Place ours = a.regions(deviceA).locate(packet.address, left.ordinal);
    Regions::Place theirs = b.regions(deviceB).locate(right.packet.address, right.ordinal);
    if (ours.region != Regions::none && theirs.region != Regions::none)
      regions.pair(ours.region, theirs.region);
  }
  llvm::Expected<PairResult> told = compareInput(left, right);
  if (!told || told->state == PairResult::State::Differs)
    return told;
  if (hasAddress(packet.kind) && (packet.flags & right.packet.flags & NotCaptured) && !isMapped(left))
    return tolerated("not-mapped"); // In both, or their addresses would differ: there was nothing to capture.
  llvm::Expected<PairResult> seen = compareObserved(left, right);
  if (!seen || seen->state == PairResult::State::Differs)
    return seen;
  PairResult result = *seen;
  if (told->state == PairResult::State::NotCompared || result.state == PairResult::State::Exact)
    result = *told;
  if (result.state == PairResult::State::Exact && left.polls + right.polls)
    result = tolerated("poll-iteration");
  return result;
}

} // namespace tapeback
