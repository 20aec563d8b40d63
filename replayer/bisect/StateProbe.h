// Looks into two devices that were told the same, where both are quiescent: internal windows, registers,
// memory.
#pragma once

#include "hal/TargetLook.h"
#include "replayer/History.h"
#include "replayer/bisect/Lockstep.h"
#include <map>
#include <set>

namespace tapeback {

/// Registers that hold state, can be read without changing it, and are compared.
bool isProbedRegister(const RegisterDescription &reg);
/// The bits that are compared of such a register, and of a counter.
uint64_t probedBits(const RegisterDescription &reg);
uint64_t counterMask(const CounterDescription &counter);

/// Where the state of two devices differs.
struct StateDifference {
  enum class Kind : uint8_t { Window, Memory, Register, Counter } kind = Kind::Window;
  uint16_t device = 0;
  std::string name;     ///< Window's, register's or counter's; "memory".
  uint64_t address = 0; ///< Device address of the byte; IOVA; register's offset; counter's number.
  uint64_t offset = 0;  ///< In the window; in the mapping; first wrong byte of the register.
  uint64_t good = 0, bad = 0;
  uint64_t wrong = 0; ///< Register, counter: the bits that differ.
};

/// What was looked at and what could not be. Kept over all probes of a bisection.
struct ProbeCoverage {
  std::set<std::string> windows, registers, counters; ///< Compared at least once.
  std::map<std::string, std::string> notVisible;      ///< Name, and why it was not compared.
  bool memory = false;
};

/// The two sides whose states are compared. Refers to them.
struct PlayerPair {
  struct Side {
    Player *player;
  };
  Side good, bad;
  PlayerPair(Lockstep &run)
      : good{run.good.player.get()}, bad{run.bad.player.get()} {} // Two that go together.
  PlayerPair(Player &good, Player &bad) : good{&good}, bad{&bad} {}
};

/// Windows that are larger are not compared.
constexpr uint64_t maxWindowBytes = 64u << 20;

/// One probe's parts. Windows and memory are free of side effects where both targets can be peeked; registers
/// (and exact counters with them) are read like any program would.
enum ProbePart : unsigned { ProbeWindows = 1, ProbeMemory = 2, ProbeRegisters = 4 };
constexpr unsigned probeAll = ProbeWindows | ProbeMemory | ProbeRegisters;

struct ProbeOptions {
  uint64_t maxMemoryBytes = 16u << 20; ///< Of mapped memory, compared per probe.
  WaitLimits waits;
};

/// Compares the states of two sides that were told the same. What differs before the first packet
/// (takeBaseline) is not a divergence but a difference of the targets: such registers, and bytes that nobody
/// has written yet, are left out and named in the coverage.
class StateProbe {
public:
  StateProbe(TapeSource &source, const ProbeOptions &options, ProbeCoverage &coverage)
      : source(source), options(options), coverage(coverage) {}

  llvm::Error takeBaseline(const PlayerPair &run);
  /// What differs first: windows, then memory, then registers. `histories`: what each device had been told,
  /// if bytes that nobody has written are to be told from those that somebody has.
  llvm::Expected<std::optional<StateDifference>> compare(const PlayerPair &run, unsigned parts,
                                                         llvm::ArrayRef<const History *> histories);

  /// Whether everything that compare() looks at is alike, both sides at rest, seen without side effect and
  /// without device time (LookableTarget). False: not alike, not at rest, or not to be seen so; compare()
  /// tells. Bytes that nobody has written count.
  llvm::Expected<bool> alike(const PlayerPair &run);
  /// Whether what is seen so is what reading gives, here and now. Reads: to be undone by a snapshot.
  llvm::Expected<bool> looksAreTrue(const PlayerPair &run);

  /// Differences seen once and not again when looked at a second time: wrong answers, not wrong states. By
  /// name.
  std::map<std::string, uint64_t> transients;

  /// Both targets of every device show all their windows without side effect.
  static bool isFree(const PlayerPair &run);

private:
  llvm::Expected<std::optional<StateDifference>> compareWindows(const PlayerPair &run, uint16_t device,
                                                                const History *history);
  llvm::Expected<std::optional<StateDifference>> compareRegisters(const PlayerPair &run, uint16_t device);
  llvm::Expected<bool> registersAlike(const PlayerPair &run, uint16_t device);
  llvm::Expected<bool> countersAlike(const PlayerPair &run, uint16_t device);
  llvm::Expected<std::optional<StateDifference>> compareCounters(const PlayerPair &run, uint16_t device);
  llvm::Expected<std::optional<StateDifference>> compareMemory(const PlayerPair &run, uint16_t device);
  llvm::Expected<bool> readBoth(const PlayerPair &run, uint16_t device, const InternalWindow &window,
                                std::vector<uint8_t> &good, std::vector<uint8_t> &bad);
  std::optional<uint64_t> firstDifference(const InternalWindow &window, const History *history,
                                          llvm::ArrayRef<uint8_t> good, llvm::ArrayRef<uint8_t> bad) const;
  bool isWritten(const History &history, const InternalWindow &window, uint64_t offset) const;

  /// What is asked of one device, both sides in the same order.
  struct Glance {
    TargetLook good, bad;
    std::vector<unsigned> registers; ///< In front; the conditions for being at rest follow.
    std::vector<uint64_t> counterMasks;
    std::vector<uint64_t> windowSizes;
    bool possible = false;
  };
  llvm::Expected<Glance *> glanceAt(const PlayerPair &run, uint16_t device);
  Glance prepareGlance(const PlayerPair &run, uint16_t device) const;
  bool atRest(const Glance &glance, uint16_t device) const;
  llvm::Expected<bool> looksAreTrue(DeviceBinding &binding, const TargetLook &look,
                                    llvm::ArrayRef<uint64_t> windowSizes) const;

  TapeSource &source;
  ProbeOptions options;
  ProbeCoverage &coverage;
  std::map<uint16_t, Glance> glances;                         ///< By device.
  std::set<std::pair<uint16_t, unsigned>> differentFromStart; ///< Registers.
};

} // namespace tapeback
