#include "replayer/diff/TapeDiff.h"
#include "format/Failure.h"
#include "replayer/diff/Align.h"
#include "replayer/diff/PairCompare.h"
#include "llvm/ADT/STLExtras.h"

namespace tapeback {

const char *diffKindName(DiffKind kind) {
  switch (kind) {
  case DiffKind::Value: return "value";
  case DiffKind::Content: return "content";
  case DiffKind::Input: return "input";
  case DiffKind::Address: return "address";
  case DiffKind::Condition: return "condition";
  case DiffKind::Outcome: return "outcome";
  case DiffKind::Check: return "check";
  case DiffKind::Deleted: return "deleted";
  case DiffKind::Inserted: return "inserted";
  }
  return "value";
}

namespace {

constexpr size_t noItem = ~size_t(0);

/// One comparison of two tapes.
class TapeComparing {
public:
  TapeComparing(DiffSide &a, DiffSide &b, const DiffOptions &options) : a(a), b(b), options(options) {}
  llvm::Expected<DiffReport> run();

private:
  using Items = std::vector<DiffItem>;
  /// Pairs of a piece in order: indices into its items, or noItem on one side.
  using Steps = std::vector<std::pair<size_t, size_t>>;

  llvm::Error compareStreams(const DiffStream *left, const DiffStream *right);
  void alignRange(unsigned level, size_t beginA, size_t endA, size_t beginB, size_t endB, Steps &steps) const;
  size_t commit(const Steps &steps, bool lastPiece) const;
  llvm::Error emit(const Steps &steps, size_t count, PairCompare &compare);
  llvm::Error emitPair(const DiffItem &left, const DiffItem &right, PairCompare &compare);
  llvm::Error emitRun(DiffKind kind, const DiffItem &item, uint64_t count, uint64_t beforeA, uint64_t beforeB,
                      PairCompare &compare);
  llvm::Error keep(TapeDifference difference);
  llvm::Error conclude();
  void compareFacts();

  DiffSide &a;
  DiffSide &b;
  const DiffOptions &options;
  DiffReport report;
  Items itemsA, itemsB;
  std::map<std::pair<uint16_t, uint16_t>, std::unique_ptr<RegionPairs>> regions; ///< By device pair.
  uint64_t compared = 0;
};

/// The keys of one level in a range, and where they are.
struct LevelKeys {
  std::vector<uint64_t> keys;
  std::vector<size_t> places;
};

LevelKeys keysOf(const std::vector<DiffItem> &items, size_t begin, size_t end, unsigned level) {
  LevelKeys result;
  constexpr unsigned last = unsigned(DiffLevel::Packet);
  for (size_t i = begin; i < end; ++i)
    // What found no partner as an anchor may still find one among the rest.
    if (level == last || unsigned(items[i].level) == level) {
      result.keys.push_back(items[i].key);
      result.places.push_back(i);
    }
  return result;
}

void TapeComparing::alignRange(unsigned level, size_t beginA, size_t endA, size_t beginB, size_t endB,
                               Steps &steps) const {
  constexpr unsigned last = unsigned(DiffLevel::Packet);
  LevelKeys left = keysOf(itemsA, beginA, endA, level), right = keysOf(itemsB, beginB, endB, level);
  std::vector<std::pair<size_t, size_t>> pairs = alignKeys(left.keys, right.keys);
  size_t nextA = beginA, nextB = beginB;
  auto between = [&](size_t upToA, size_t upToB) {
    if (level < last) {
      alignRange(level + 1, nextA, upToA, nextB, upToB, steps);
      return;
    }
    for (; nextA < upToA; ++nextA)
      steps.emplace_back(nextA, noItem);
    for (; nextB < upToB; ++nextB)
      steps.emplace_back(noItem, nextB);
  };
  for (const auto &[inA, inB] : pairs) {
    between(left.places[inA], right.places[inB]);
    steps.emplace_back(left.places[inA], right.places[inB]);
    nextA = left.places[inA] + 1;
    nextB = right.places[inB] + 1;
  }
  between(endA, endB);
}

/// How many steps of a piece are certain: at its end what goes together may lie in the next one.
size_t TapeComparing::commit(const Steps &steps, bool lastPiece) const {
  if (lastPiece)
    return steps.size();
  size_t margin = std::max<size_t>(1, options.pieceItems / 16), lastPair = 0;
  for (size_t i = steps.size(); i-- > 0;) {
    const auto &[inA, inB] = steps[i];
    if (inA == noItem || inB == noItem)
      continue;
    lastPair = std::max(lastPair, i + 1);
    if (inA + margin <= itemsA.size() && inB + margin <= itemsB.size())
      return i + 1;
  }
  return lastPair ? lastPair : steps.size();
}

llvm::Error TapeComparing::compareStreams(const DiffStream *left, const DiffStream *right) {
  uint16_t deviceA = left ? left->number : 0, deviceB = right ? right->number : 0;
  std::unique_ptr<RegionPairs> &pairs = regions[{deviceA, deviceB}];
  if (!pairs)
    pairs = std::make_unique<RegionPairs>(a.regions(deviceA), b.regions(deviceB));
  PairCompare compare(a, b, deviceA, deviceB, *pairs);
  uint64_t positionA = left ? left->first : 0, positionB = right ? right->first : 0;
  bool doneA = !left, doneB = !right;
  while (!doneA || !doneB) {
    itemsA.clear();
    itemsB.clear();
    uint64_t beyondA = positionA, beyondB = positionB;
    bool endA = doneA, endB = doneB;
    if (!endA)
      if (llvm::Error error = a.load(*left, &beyondA, options.pieceItems, itemsA, &endA))
        return error;
    if (!endB)
      if (llvm::Error error = b.load(*right, &beyondB, options.pieceItems, itemsB, &endB))
        return error;
    Steps steps;
    alignRange(0, 0, itemsA.size(), 0, itemsB.size(), steps);
    size_t count = commit(steps, endA && endB);
    if (llvm::Error error = emit(steps, count, compare))
      return error;
    size_t usedA = 0, usedB = 0;
    for (size_t i = 0; i < count; ++i) {
      usedA = steps[i].first == noItem ? usedA : steps[i].first + 1;
      usedB = steps[i].second == noItem ? usedB : steps[i].second + 1;
    }
    // The rest is loaded again with what follows it.
    positionA = usedA == itemsA.size() ? beyondA : usedA ? itemsA[usedA - 1].ordinal + 1 : positionA;
    positionB = usedB == itemsB.size() ? beyondB : usedB ? itemsB[usedB - 1].ordinal + 1 : positionB;
    doneA = endA && usedA == itemsA.size();
    doneB = endB && usedB == itemsB.size();
    if (options.progress)
      options.progress(compared, 0);
  }
  return llvm::Error::success();
}

llvm::Error TapeComparing::emit(const Steps &steps, size_t count, PairCompare &compare) {
  for (size_t i = 0; i < count;) {
    const auto [inA, inB] = steps[i];
    if (inA != noItem && inB != noItem) {
      if (llvm::Error error = emitPair(itemsA[inA], itemsB[inB], compare))
        return error;
      ++i;
      continue;
    }
    size_t end = i + 1;
    auto alike = [&](size_t k) { return (steps[k].first == noItem) == (inA == noItem); };
    while (end < count && alike(end) && (steps[end].first == noItem || steps[end].second == noItem))
      ++end;
    // Where it would stand in the other tape: before the next packet that is there.
    size_t nextA = noItem, nextB = noItem;
    for (size_t k = end; k < steps.size() && (nextA == noItem || nextB == noItem); ++k) {
      nextA = nextA == noItem ? steps[k].first : nextA;
      nextB = nextB == noItem ? steps[k].second : nextB;
    }
    auto ordinalOf = [](const Items &items, size_t index) {
      return index != noItem ? items[index].ordinal : items.empty() ? 0 : items.back().ordinal;
    };
    bool deleted = inA != noItem;
    if (llvm::Error error =
            emitRun(deleted ? DiffKind::Deleted : DiffKind::Inserted, deleted ? itemsA[inA] : itemsB[inB],
                    end - i, ordinalOf(itemsA, nextA), ordinalOf(itemsB, nextB), compare))
      return error;
    i = end;
  }
  return llvm::Error::success();
}

llvm::Error TapeComparing::emitPair(const DiffItem &left, const DiffItem &right, PairCompare &compare) {
  ++report.aligned;
  ++compared;
  llvm::Expected<PairResult> result = compare.compare(left, right);
  if (!result)
    return result.takeError();
  switch (result->state) {
  case PairResult::State::Exact: ++report.exact; return llvm::Error::success();
  case PairResult::State::Tolerated: ++report.tolerated[result->reason]; return llvm::Error::success();
  case PairResult::State::NotCompared: ++report.notCompared[result->reason]; return llvm::Error::success();
  case PairResult::State::Differs: break;
  }
  ++report.counts[unsigned(result->kind)];
  TapeDifference difference;
  difference.kind = result->kind;
  difference.what =
      describeDivergence(a.source(), compare.context(left), left.packet, left.ordinal, 0, result->comparison);
  difference.placeB.device = right.packet.device;
  difference.placeB.thread = right.packet.thread;
  difference.placeB.packet = right.ordinal;
  return keep(std::move(difference));
}

llvm::Error TapeComparing::emitRun(DiffKind kind, const DiffItem &item, uint64_t count, uint64_t beforeA,
                                   uint64_t beforeB, PairCompare &compare) {
  compared += count;
  report.counts[unsigned(kind)] += count;
  TapeDifference difference;
  difference.kind = kind;
  difference.count = count;
  bool deleted = kind == DiffKind::Deleted;
  DiffSide &side = deleted ? a : b;
  ComparisonContext context = deleted ? compare.context(item) : ComparisonContext();
  AccessRule rule;
  if (!deleted && item.packet.width) {
    rule = side.rules(item.packet.device).find(item.packet.space, item.packet.address, item.packet.width);
    context.access = &rule;
  }
  difference.what = describeDivergence(side.source(), context, item.packet, item.ordinal, 0, Comparison());
  if (!deleted)
    difference.what.place.packet = beforeA;
  difference.placeB.device = item.packet.device;
  difference.placeB.thread = item.packet.thread;
  difference.placeB.packet = deleted ? beforeB : item.ordinal;
  return keep(std::move(difference));
}

/// Keeps the earliest, by place on the first tape.
llvm::Error TapeComparing::keep(TapeDifference difference) {
  auto earlier = [](const TapeDifference &left, const TapeDifference &right) {
    return left.what.place.packet < right.what.place.packet;
  };
  std::vector<TapeDifference> &kept = report.differences;
  size_t most = std::max<size_t>(1, options.keptDifferences);
  if (kept.size() == most && !earlier(difference, kept.back()))
    return llvm::Error::success();
  kept.insert(std::upper_bound(kept.begin(), kept.end(), difference, earlier), std::move(difference));
  if (kept.size() > most)
    kept.pop_back();
  return llvm::Error::success();
}

void TapeComparing::compareFacts() {
  constexpr size_t most = 64;
  auto compare = [&](const std::string &prefix, const std::map<std::string, std::string> &left,
                     const std::map<std::string, std::string> &right) {
    std::map<std::string, std::pair<std::string, std::string>> all;
    for (const auto &[key, value] : left)
      all[key].first = value;
    for (const auto &[key, value] : right)
      all[key].second = value;
    for (const auto &[key, values] : all)
      if (values.first != values.second && report.facts.size() < most)
        report.facts.push_back({prefix + key, values.first, values.second});
  };
  TapeReader &left = a.source().reader(), &right = b.source().reader();
  compare("", left.manifest().facts, right.manifest().facts);
  for (const DeviceRecord &device : left.devices())
    for (const DeviceRecord &other : right.devices())
      if (device.alias == other.alias) {
        std::string prefix = "device " + device.alias + " ";
        compare(prefix, device.identity, other.identity);
        compare(prefix, {{"target", device.targetUri}}, {{"target", other.targetUri}});
        if (device.description != other.description)
          report.notes.push_back("the tapes carry different descriptions of device " + device.alias +
                                 "; the first tape's counts");
      }
}

llvm::Error TapeComparing::conclude() {
  for (auto &[pair, known] : regions)
    report.relocated |= known->anyMoved();
  for (TapeDifference &difference : report.differences) {
    struct Side {
      TapeSource &source;
      PacketPlace &place;
    };
    for (const Side &side : {Side{a.source(), difference.what.place}, Side{b.source(), difference.placeB}}) {
      if (!side.source.reader().summary().packets)
        continue;
      llvm::Expected<uint64_t> window = side.source.reader().windowOfPacket(
          std::min(side.place.packet, side.source.reader().summary().packets - 1));
      if (!window)
        return window.takeError();
      side.place.window = *window;
    }
  }
  if (!report.differences.empty()) {
    TapeDifference &first = report.differences.front();
    if (first.kind != DiffKind::Inserted)
      if (llvm::Error error = completePlace(a.source(), first.what.place))
        return error;
    if (first.kind != DiffKind::Deleted)
      if (llvm::Error error = completePlace(b.source(), first.placeB))
        return error;
    if (first.kind == DiffKind::Inserted) {
      first.what.place.marker = first.placeB.marker;
      first.what.place.markerOccurrence = first.placeB.markerOccurrence;
      first.what.place.command = first.placeB.command;
      first.what.place.commandText = first.placeB.commandText;
    }
    report.first = first;
  }
  const Outcome &left = a.source().reader().outcome(), &right = b.source().reader().outcome();
  if (left.signature && right.signature)
    report.signatureMatch = matchSignatures(*left.signature, *right.signature);
  if (a.losses() || b.losses())
    report.notCompared["packets were lost"] += a.losses() + b.losses();
  report.evidenceA = a.evidence();
  report.evidenceB = b.evidence();
  compareFacts();
  report.verdict = report.total()                ? Verdict::Divergence
                   : !report.notCompared.empty() ? Verdict::Incomplete
                                                 : Verdict::Match;
  return llvm::Error::success();
}

llvm::Expected<DiffReport> TapeComparing::run() {
  auto partner = [](const DiffStream &stream, const std::vector<DiffStream> &others) -> const DiffStream * {
    for (const DiffStream &other : others)
      if (other.device == stream.device && other.thread == stream.thread)
        return &other;
    return nullptr;
  };
  for (const DiffStream &stream : a.streams())
    if (llvm::Error error = compareStreams(&stream, partner(stream, b.streams())))
      return error;
  for (const DiffStream &stream : b.streams())
    if (!partner(stream, a.streams()))
      if (llvm::Error error = compareStreams(nullptr, &stream))
        return error;
  if (llvm::Error error = conclude())
    return error;
  return std::move(report);
}

} // namespace

int exitCodeFor(const DiffReport &report) {
  return report.verdict == Verdict::Match ? 0 : report.verdict == Verdict::Divergence ? 1 : 5;
}

std::string differenceText(const TapeDifference &difference) {
  Divergence shown = difference.what;
  if (difference.kind == DiffKind::Inserted)
    shown.place.packet = difference.placeB.packet, shown.place.window = difference.placeB.window;
  std::string text = diffKindName(difference.kind) + std::string(": ");
  bool oneSide = difference.kind == DiffKind::Inserted || difference.kind == DiffKind::Deleted;
  if (oneSide)
    text += std::to_string(difference.count) + (difference.count == 1 ? " packet" : " packets") +
            (difference.kind == DiffKind::Inserted ? " only in B: " : " only in A: ");
  std::string where = divergenceText(shown, "A", "B");
  // A rule's words say nothing of a packet that has no partner.
  if (oneSide)
    where = where.substr(0, where.find("): ") == std::string::npos ? where.size() : where.find("): ") + 1) +
            (shown.place.commandText.empty() ? "" : " [" + shown.place.commandText + "]");
  text += where;
  if (!oneSide && difference.placeB.packet != difference.what.place.packet)
    text += " (packet " + std::to_string(difference.placeB.packet) + " of B)";
  return text;
}

llvm::Expected<DiffReport> diffTapes(std::unique_ptr<TapeSource> a, std::unique_ptr<TapeSource> b,
                                     const DiffOptions &options) {
  llvm::Expected<std::unique_ptr<DiffSide>> left = DiffSide::create(std::move(a), nullptr);
  if (!left)
    return left.takeError();
  llvm::Expected<std::unique_ptr<DiffSide>> right = DiffSide::create(std::move(b), left->get());
  if (!right)
    return right.takeError();
  return TapeComparing(**left, **right, options).run();
}

} // namespace tapeback
