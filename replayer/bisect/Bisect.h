// Bisect: names the first window, packet and byte or field in which two targets that are fed one tape part.
//
// Observed: one lockstep pass; what the host saw. Deep: the state of the devices where they are quiescent, so
// that a fault is named where it acts and not where it shows. README.md says exactly what is named.
#pragma once

#include "replayer/Replay.h"
#include "replayer/bisect/Lockstep.h"
#include "replayer/bisect/StateProbe.h"
#include "replayer/bisect/Wave.h"
#include "replayer/bisect/Writers.h"

namespace tapeback {

struct BisectOptions {
  PlayerOptions player;
  ProbeOptions probe;
  bool deep = false;
  bool fromReset = false;
  unsigned runs = 2;         ///< Lockstep passes; more than one shows whether an endpoint repeats itself.
  uint64_t maxProbes = 4096; ///< State comparisons of the verification pass.
  /// Packets that may be issued for prefixes when the verification pass would disturb.
  uint64_t maxPrefixPackets = 1'000'000;
  size_t packetsBefore = 8; ///< Shown before the divergence.
  std::string waveFile;     ///< Where to write a waveform of the window that is named; empty: none.
  std::function<void(const char *stage, uint64_t done, uint64_t total)> progress;
};

/// How one lockstep pass ended.
struct BisectRun {
  bool diverged = false;
  uint64_t window = 0, packet = 0;
  std::optional<uint64_t> offset;
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
  std::optional<Divergence> first;   ///< "expected" is good, "actual" is bad.
  const char *method = "observed";   ///< Or "deep-lockstep", "deep-search".
  uint64_t probes = 0;               ///< State comparisons made.
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
  std::optional<Divergence> goodAgainstTape; ///< The good endpoint is not what the tape recorded.
  std::optional<Failure> goodFailure, badFailure;
  std::vector<std::string> notes; ///< For people: what was found besides.
};

/// Errors: bad usage, a bad tape, an endpoint that cannot be opened or brought to the start.
llvm::Expected<BisectReport> bisectTape(TapeSource &source, const Endpoints &endpoints,
                                        const BisectOptions &options);

/// 1 a divergence is named, 0 they do not differ, 4 the good endpoint failed, 5 it cannot be told.
int exitCodeFor(const BisectReport &report);

} // namespace tapeback
