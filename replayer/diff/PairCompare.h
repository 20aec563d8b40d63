// Compares two packets that go together, one of each tape.
#pragma once

#include "replayer/Comparison.h"
#include "replayer/diff/DiffSide.h"
#include "replayer/diff/TapeDiff.h"

namespace tapeback {

/// What came of comparing a pair.
struct PairResult {
  enum class State : uint8_t { Exact, Tolerated, NotCompared, Differs } state = State::Exact;
  std::string reason; ///< Tolerated: the rule. NotCompared: why.
  DiffKind kind = DiffKind::Value;
  Comparison comparison; ///< Differs.
};

/// For one pair of streams; remembers what of one tape stands for what of the other. Refers to all it is
/// given.
class PairCompare {
public:
  PairCompare(DiffSide &a, DiffSide &b, uint16_t deviceA, uint16_t deviceB, RegionPairs &regions)
      : a(a), b(b), deviceA(deviceA), deviceB(deviceB), regions(regions) {}

  llvm::Expected<PairResult> compare(const DiffItem &left, const DiffItem &right);
  /// What rules of a register access the pair is compared by.
  ComparisonContext context(const DiffItem &item);

private:
  llvm::Expected<PairResult> compareInput(const DiffItem &left, const DiffItem &right);
  llvm::Expected<PairResult> compareObserved(const DiffItem &left, const DiffItem &right);
  llvm::Expected<PairResult> compareContents(const DiffItem &left, const DiffItem &right, DiffKind kind);
  PairResult compareWrite(const DiffItem &left, const DiffItem &right);
  PairResult compareCondition(const DiffItem &left, const DiffItem &right);
  bool isMapped(const DiffItem &item) const;
  bool stands(uint64_t valueA, uint64_t valueB) const;
  void learn(uint64_t valueA, uint64_t valueB);

  DiffSide &a;
  DiffSide &b;
  uint16_t deviceA, deviceB;
  RegionPairs &regions;
  /// Values that the device gave to both programs (policy substitute): what of A is what of B. The last few.
  std::vector<std::pair<uint64_t, uint64_t>> live;
  size_t nextLive = 0;
};

} // namespace tapeback
