// The work of one bisection. Inside this folder only; Bisect.h is the way in.
#pragma once

#include "replayer/bisect/Bisect.h"
#include "replayer/bisect/Settle.h"

namespace tapeback {

/// Steps share this. One object, one bisection.
class Bisection {
public:
  Bisection(TapeSource &source, const Endpoints &endpoints, const BisectOptions &options)
      : source(source), endpoints(endpoints), options(options),
        probe(source, options.probe, report.coverage.probes) {}

  llvm::Expected<BisectReport> run();

private:
  /// A place between two packets at which all devices are quiescent: before packet `end`.
  struct Boundary {
    uint64_t window, end;
  };
  struct StateFinding {
    StateDifference difference;
    size_t boundary; ///< Index into `boundaries`.
  };

  // Observed.cpp
  llvm::Error takeBaseline();
  llvm::Error observe();
  llvm::Error observeOnce(unsigned number);
  llvm::Error walkProbing(Lockstep &run);
  void compareRuns(const Lockstep &run);

  // Deep.cpp
  llvm::Error search();
  llvm::Error searchByPrefixes(unsigned parts);
  llvm::Error verify();
  llvm::Error verifyByPrefixes(size_t count, unsigned parts);
  llvm::Error localise();
  llvm::Error localiseTail();
  llvm::Expected<std::optional<StateDifference>> lookAt(llvm::ArrayRef<uint64_t> points, size_t *at,
                                                        unsigned parts);
  llvm::Expected<std::vector<uint64_t>> quiescentPoints(uint64_t from, uint64_t to, bool withLast);
  /// Fresh targets side by side, whose answers nobody compares: for looking at states only.
  llvm::Expected<std::unique_ptr<Lockstep>> startUncompared();
  llvm::Expected<std::optional<StateDifference>> probeAt(uint64_t end, unsigned parts);
  llvm::Expected<std::optional<StateDifference>> stepTo(llvm::ArrayRef<uint64_t> points, size_t *at);
  llvm::Expected<std::optional<StateDifference>> probePoints(llvm::ArrayRef<uint64_t> points, size_t *at,
                                                             unsigned parts);
  struct Interval {
    StateDifference difference;
    uint64_t same, differs; ///< Equal before packet `same`, different before packet `differs`.
  };
  llvm::Expected<std::optional<Interval>> narrowByDoorbells(uint64_t from, uint64_t to, unsigned parts);
  StateDifference differenceOf(const Settled::Unequal &unequal) const;
  llvm::Expected<std::optional<StateDifference>> probeSettled(uint64_t end, unsigned parts, bool *comparable);
  llvm::Error nameState(const StateDifference &difference, uint64_t same, uint64_t differs);
  llvm::Expected<uint64_t> guiltyPacket(const StateDifference &difference, uint64_t same, uint64_t differs);
  llvm::Error moveHistories(std::vector<std::unique_ptr<History>> &histories, uint64_t packet);
  std::vector<const History *> views(const std::vector<std::unique_ptr<History>> &histories) const;

  // Bisect.cpp
  llvm::Error findBoundaries();
  llvm::Error conclude();
  llvm::Error linesBefore(uint64_t packet, uint16_t device);

  void progress(const char *stage, uint64_t done, uint64_t total) {
    if (options.progress)
      options.progress(stage, done, total);
  }
  WrittenThing writtenThing(const StateDifference &difference) const;

  TapeSource &source;
  const Endpoints &endpoints;
  const BisectOptions &options;
  BisectReport report;
  StateProbe probe;
  StartState start;

  std::vector<Boundary> boundaries;   ///< Quiescent window ends that a probe may look at.
  bool isFree = false;                ///< Windows and memory can be looked at without side effect.
  std::optional<StateFinding> state;  ///< The earliest boundary at which the states are known to differ.
  std::vector<size_t> sameAtBoundary; ///< Boundaries at which they were found equal.
  // Of the first pass, to compare the others with.
  std::vector<Digest> goodDigests, badDigests;
  std::optional<uint64_t> goodLeftTape; ///< First packet at which the good side was not what was recorded.
};

} // namespace tapeback
