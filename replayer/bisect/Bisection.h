// The work of one bisection. Inside this folder only; Bisect.h is the way in.
#pragma once

#include "replayer/bisect/Bisect.h"
#include "replayer/bisect/Settle.h"

namespace tapeback {

/// Why windows were not probed, in reports.
constexpr const char *tooManyPlaces = "more windows than --max-probes";

/// Every how many of `count` places are looked at if there may be at most `most` looks (any number; 0: one).
constexpr size_t probeStride(size_t count, uint64_t most) {
  return !count ? 1 : most ? size_t((count - 1) / most) + 1 : count + 1;
}

/// Steps share this. One object, one bisection.
class Bisection {
public:
  Bisection(TapeSource &source, const Endpoints &endpoints, const BisectOptions &options)
      : source(source), endpoints(endpoints), options(options),
        probe(source, options.probe, report.coverage.probes) {}

  llvm::Expected<BisectReport> run();
  llvm::Expected<BisectPlan> plan();

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
  void noteRun(const BisectRun &run, const std::optional<Divergence> &divergence);
  llvm::Error walkProbing(Lockstep &run);
  bool goodDiffers(const Lockstep &run) const;
  bool badDiffers(const Lockstep &run) const;
  void compareRuns(bool goodDiffers, bool badDiffers);

  // Snapshots.cpp
  llvm::Error proveSnapshots(Lockstep &run);
  llvm::Error walkSnapshots(Lockstep &run);
  llvm::Error keepPlace(Lockstep &run);
  llvm::Error confirmObserved();
  /// The states here, at rest, and then as if nothing had been looked at. `settled`: what came of the rest.
  llvm::Expected<std::optional<StateDifference>> probeHere(Lockstep &run, unsigned parts,
                                                           llvm::ArrayRef<const History *> histories,
                                                           Settled *settled, bool *looksTrue = nullptr);
  /// The same of all parts at a boundary, by a glance where that is enough. `both`: and read.
  llvm::Expected<std::optional<StateDifference>> lookHere(Lockstep &run, uint64_t end, bool both,
                                                          Settled *settled);
  llvm::Error startOver();
  struct Interval {
    StateDifference difference;
    uint64_t same = 0, differs = 0; ///< Equal before packet `same`, different before packet `differs`.
    std::optional<uint64_t> shownSame = {}, shownDiffers = {}; ///< Without the devices being given time.
  };
  llvm::Expected<std::optional<Interval>> stepFromPlace(uint64_t from, llvm::ArrayRef<uint64_t> points,
                                                        unsigned parts, bool onlyAtRest);
  llvm::Expected<std::optional<Interval>> insideFromPlace(uint64_t from, uint64_t to, unsigned parts,
                                                          bool withLast);
  bool usesSnapshots() const { return report.plan.method == BisectPlan::Method::Snapshot; }

  // Plan.cpp
  llvm::Error prepare();
  void makePlan();

  // Intermittent.cpp
  bool isIntermittent() const { return report.goodIntermittent || report.badIntermittent; }
  llvm::Error measureRate();
  llvm::Error measureDrains();
  void sumUpRuns();
  /// The one window in which nearly all passes that parted did.
  std::optional<uint64_t> commonWindow() const;
  llvm::Error searchNoisy();
  struct NoisyProbe {
    bool differs = false;
    std::optional<StateDifference> difference; ///< Nothing although it differs: an endpoint failed before.
  };
  llvm::Expected<NoisyProbe> probeNoisy(uint64_t end);
  struct NoisyFinding {
    size_t place = 0;
    std::map<size_t, StateDifference> differences; ///< By place: the last seen there.
  };
  llvm::Expected<NoisyFinding> runNoisy(NoisySearch &search, llvm::ArrayRef<uint64_t> ends,
                                        const char *stage);
  llvm::Expected<std::optional<size_t>> sweepNoisy(llvm::ArrayRef<uint64_t> ends);
  llvm::Error searchInside(const NoisySearch &outer, size_t boundary,
                           const std::map<size_t, StateDifference> &differences);
  void noteStep(uint64_t end, bool differs);

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
  llvm::Expected<std::optional<StateDifference>> makeProbe(uint64_t end, unsigned parts);
  llvm::Expected<std::optional<StateDifference>> stepTo(llvm::ArrayRef<uint64_t> points, size_t *at);
  llvm::Expected<std::optional<StateDifference>> probePoints(llvm::ArrayRef<uint64_t> points, size_t *at,
                                                             unsigned parts);
  llvm::Expected<std::optional<Interval>> narrowByDoorbells(uint64_t from, uint64_t to, unsigned parts);
  StateDifference differenceOf(const Settled::Unequal &unequal) const;
  llvm::Expected<std::optional<StateDifference>> probeSettled(uint64_t end, unsigned parts, bool *comparable);
  llvm::Error nameInterval(const Interval &interval);
  llvm::Error nameState(const StateDifference &difference, uint64_t same, uint64_t differs);
  llvm::Expected<uint64_t> guiltyPacket(const StateDifference &difference, uint64_t same, uint64_t differs);
  llvm::Error moveHistories(std::vector<std::unique_ptr<History>> &histories, uint64_t packet);
  std::vector<const History *> views(const std::vector<std::unique_ptr<History>> &histories) const;

  // KeyframeStart.cpp
  llvm::Error countKeyframes();
  llvm::Error startFromKeyframe(uint64_t from, uint64_t to, unsigned parts);

  // Chain.cpp
  llvm::Error showChain();
  /// Where what link `link` of the chain wrote was surely still there when it was read on; nothing: nowhere.
  llvm::Expected<std::optional<uint64_t>> readOnAt(size_t link);
  llvm::Expected<std::optional<uint64_t>> byteOf(Player &player, const WrittenThing &thing);

  // Moment.cpp
  llvm::Error tellMoment();
  llvm::Error findMoment(Lockstep &run, const WrittenThing &thing, BisectMoment &moment);

  // Bisect.cpp
  llvm::Expected<BisectReport> probeOnce();
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

  std::string whyNoSnapshots; ///< Empty: both sides can be put back, and were seen to be.
  bool bothAnswer = false;
  struct Part {
    BisectPart part;
    StartState start;
  };
  std::optional<Part> inside;      ///< What probes play instead of the whole tape.
  std::unique_ptr<Lockstep> kept;  ///< The first pass, if it left places to go back to.
  std::vector<LockstepPlace> pool; ///< Of `kept`, in the tape's order.
  bool again = false;              ///< The first pass is of no use and has to be made again.
  size_t poolStride = 1;           ///< Boundaries between two places, at least.
  /// Whether a look without side effect can be relied on: seen once where it was not, and at the last place.
  enum class Glances : uint8_t { Untried, True, Off } glances = Glances::Untried;
  std::vector<std::unique_ptr<History>> walked; ///< Moved as far as it was looked into bytes.
  std::vector<Boundary> boundaries;             ///< Quiescent window ends that a probe may look at.
  bool isFree = false;                          ///< Windows and memory can be looked at without side effect.
  std::optional<StateFinding> state;  ///< The earliest boundary at which the states are known to differ.
  std::vector<size_t> sameAtBoundary; ///< Boundaries at which they were found equal.
  std::map<uint64_t, size_t> stepOf;  ///< By packet: index into the report's steps.
  std::map<uint64_t, Divergence> observedIn; ///< By window: what a pass saw there first.
  // Of the first pass, to compare the others with.
  std::vector<Digest> goodDigests, badDigests;
  std::optional<uint64_t> goodLeftTape; ///< First packet at which the good side was not what was recorded.
};

} // namespace tapeback
