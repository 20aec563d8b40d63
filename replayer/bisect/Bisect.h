// Bisect: names the first window, packet and byte or field in which two targets that are fed one tape part.
//
// Observed: one lockstep pass; what the host saw. Deep: the state of the devices where they are quiescent, so
// that a fault is named where it acts and not where it shows. README.md says exactly what is named.
#pragma once

#include "replayer/Replay.h"
#include "replayer/bisect/Lockstep.h"
#include "replayer/bisect/NoisySearch.h"
#include "replayer/bisect/StateProbe.h"
#include "replayer/bisect/Wave.h"
#include "replayer/bisect/Writers.h"
#include "replayer/repeat/Interval.h"

namespace tapeback {

class ProbeLog;

/// A part of a tape that begins with a keyframe.
struct BisectPart {
  std::unique_ptr<TapeSource> source;
  uint64_t firstPacket = 0; ///< What its packet 0 is in the whole tape; 0: it begins where that does.
};

struct BisectOptions {
  PlayerOptions player;
  ProbeOptions probe;
  bool deep = false;
  bool fromReset = false;
  /// Lockstep passes; more than one shows whether an endpoint repeats itself. Nothing: two, or one if what
  /// parts parts again when the targets are put back to a snapshot.
  std::optional<unsigned> runs;
  unsigned rateRuns = 30; ///< Passes in all, if it does not: they measure how often it fails.
  bool snapshots = true;  ///< Use them where both targets have them.
  bool intermittent =
      false; ///< Search as for a failure that does not come every time, whatever the passes say.
  bool measureDrains = false; ///< What drains do to the rate, though no probe needed one.
  NoisySearchOptions noisy;
  uint64_t maxProbes = 4096; ///< State comparisons of the verification pass, or of the one with snapshots.
  /// Packets that may be issued for prefixes when the verification pass would disturb.
  uint64_t maxPrefixPackets = 1'000'000;
  size_t packetsBefore = 8; ///< Shown before the divergence.
  std::string waveFile;     ///< Where to write a waveform of the window that is named; empty: none.
  ProbeLog *log = nullptr;  ///< Results found here are not made again; those made are added.
  /// Makes a part of these windows that begins with the nearest keyframe that can be restored, for probes
  /// inside a window. Null: probes play the tape from its start.
  std::function<llvm::Expected<BisectPart>(uint64_t firstWindow, uint64_t lastWindow)> cut;
  /// One probe and nothing else: the states before this packet.
  std::optional<uint64_t> at;
  std::function<void(const char *stage, uint64_t done, uint64_t total)> progress;
};

/// How one lockstep pass ended.
struct BisectRun {
  bool diverged = false;
  uint64_t window = 0, packet = 0;
  std::optional<uint64_t> offset;
  std::string text; ///< What differed, as far as it is the same in every run; empty: nothing.
};

/// How the states are looked at: of the ways that there are, the cheapest that can be used here.
struct BisectPlan {
  enum class Method : uint8_t { Observed, Snapshot, Lockstep, Search } method = Method::Observed;
  struct Way {
    Method method;
    std::string whyNot;   ///< Empty: it can be used.
    uint64_t packets = 0; ///< Issued to the bad target if a state is found to differ, at most about.
  };
  std::vector<Way> ways;                         ///< Cheapest first.
  uint64_t packets = 0, windows = 0, places = 0; ///< Of the tape; places: windows that end quiescent.
  /// Of so many places, spread evenly, so many can be restored by a keyframe. None where it does not matter.
  uint64_t keyframesTried = 0, keyframes = 0;
};
/// "observed", "deep-snapshot", "deep-lockstep", "deep-search".
const char *bisectMethodName(BisectPlan::Method method);

/// How often passes part, and whether that stays so. Of an endpoint that does not repeat itself.
struct BisectRate {
  uint64_t hits = 0, counted = 0;
  RateInterval interval;
  uint64_t firstHalfHits = 0, firstHalfCounted = 0;
  double driftProbability = 1; ///< Of halves that differ so much, if nothing drifts.
  bool drifts() const { return driftProbability <= 0.01; }
};

/// The rate once more, with time for both sides to come to rest at each quiescent end of a window.
struct BisectDrains {
  uint64_t drains = 0; ///< Ends of windows at which that took time.
  uint64_t hits = 0, counted = 0;
  RateInterval interval;
  double pValue = 1; ///< Of rates that differ so much, if drains change nothing.
  bool changes() const { return pValue <= 0.01; }
};

/// When the packet that made the states differ acted, by the bad device's clock, in nanoseconds.
struct BisectMoment {
  uint64_t from = 0, to = 0; ///< From before the packet until the device had come to rest behind it.
  std::optional<uint64_t>
      changed; ///< Since then the byte is what it is in the end; nothing: it never changed.
};

/// Where passes parted first.
struct BisectPlace {
  uint64_t window = 0, packet = 0, count = 0;
  std::string text;
};

/// The search for where a failure acts that does not come every time.
struct BisectSearch {
  NoisySearch::State state = NoisySearch::State::Searching;
  uint64_t places = 0; ///< Quiescent ends of windows.
  uint64_t probes = 0, hits = 0;
  // Once a probe differed:
  uint64_t window = 0;                    ///< Which ends at the place of the answer.
  double probability = 0;                 ///< That the failure acts between that place and the one before.
  uint64_t lowWindow = 0, highWindow = 0; ///< The failure acts in one of these …
  double within = 0;                      ///< … with this probability.
  double rate = 0;                        ///< How often a probe behind it shows it.
  NoisySearch::RateTest rateTest;
  bool oneCause() const { return rateTest.pValue > 0.01; }
  // Inside the window, if that was searched, too.
  uint64_t insidePlaces = 0, insideProbes = 0;
  double insideProbability = 1; ///< Of the place named, given the window.
};

/// All probes of one place: what came of them can be had again by one more.
struct BisectStep {
  uint64_t packet = 0; ///< The states were compared behind the packet before this one.
  uint64_t probes = 0, differed = 0;
};

struct BisectCoverage {
  uint64_t windows = 0;                             ///< On the tape.
  uint64_t windowsObserved = 0;                     ///< All of whose observations were compared.
  uint64_t windowsProbed = 0;                       ///< At whose end the states were compared.
  std::map<std::string, uint64_t> windowsNotProbed; ///< Reason, how many.
  ProbeCoverage probes;
  uint64_t packetsNotCompared = 0;
  uint64_t doorbellsNotSettled = 0; ///< Behind which the devices did not become idle: states not compared.
};

struct PacketLine {
  uint64_t packet = 0;
  std::string text;
};

struct BisectReport {
  Verdict verdict = Verdict::Match;
  std::optional<Divergence> first; ///< "expected" is good, "actual" is bad.
  const char *method = "observed"; ///< bisectMethodName(), "deep-bayes", or "probe" (BisectOptions::at).
  std::optional<StateDifference> stateNamed; ///< What `first` is about, if it is a state.
  std::optional<BisectMoment> moment; ///< Of that, where the bad target has a clock and could be put back.
  std::optional<StateDifference> stateAt; ///< Of that one probe, if the states differ.
  BisectPlan plan;
  uint64_t probes = 0; ///< State comparisons made, in all.
  /// Of those, on targets that had played a prefix: to find a window whose end differs, to see that none
  /// before it does, and inside the window.
  uint64_t searchProbes = 0, verifyProbes = 0, insideProbes = 0;
  uint64_t packetsToBad = 0; ///< Issued to the bad target, over all passes and probes.
  uint64_t resumed = 0;      ///< Passes and probes that were not made, because the log has them.
  uint64_t drains = 0; ///< Probes before which the devices were given time that the recorded host did not.
  std::optional<uint64_t> insideStart; ///< Probes inside the window began with a keyframe before this packet.
  std::optional<uint64_t> visibleAt; ///< Deep: the packet after which the states differed; the one before was
                                     ///< the last probe at which they did not.
  std::optional<uint64_t> sameAt;
  std::optional<Divergence> observed; ///< Where the host saw it first, if it did.
  bool healed = false;                ///< The states agreed again later.
  std::vector<WriterRecord> writers;  ///< Who wrote it last, and where that came from.
  std::vector<PacketLine> before;     ///< The packets before the divergence, and itself.
  BisectCoverage coverage;
  std::optional<WaveReport> wave; ///< If one was asked for, and a window is named.

  std::vector<BisectRun> runs;
  bool goodIntermittent = false, badIntermittent = false;
  std::optional<BisectRate> rate;          ///< If an endpoint does not repeat itself.
  std::optional<BisectDrains> drainEffect; ///< If there is a rate, and probes were given time.
  std::vector<BisectPlace> places;         ///< Of all passes that parted, most frequent first; at most 1000.
  uint64_t otherPlaces = 0;                ///< Passes whose place is not among them.
  std::optional<BisectSearch> search; ///< If the failure does not come every time, and states were searched.
  std::vector<BisectStep> steps;      ///< In the order of their first probe; at most 10000.
  std::optional<Divergence> goodAgainstTape; ///< The good endpoint is not what the tape recorded.
  std::optional<Failure> goodFailure, badFailure;
  std::vector<std::string> notes; ///< For people: what was found besides.
};

/// What bisectTape() would do. Opens the targets, resets them, and if they have snapshots sees whether those
/// can be relied on, which plays the tape's first windows. Errors as below.
llvm::Expected<BisectPlan> planBisect(TapeSource &source, const Endpoints &endpoints,
                                      const BisectOptions &options);

/// Errors: bad usage, a bad tape, an endpoint that cannot be opened or brought to the start.
llvm::Expected<BisectReport> bisectTape(TapeSource &source, const Endpoints &endpoints,
                                        const BisectOptions &options);

/// 1 a divergence is named, 0 they do not differ, 4 the good endpoint failed, 5 it cannot be told.
int exitCodeFor(const BisectReport &report);

} // namespace tapeback
