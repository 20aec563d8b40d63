// Issues a tape's packets to targets and notes what came of each. Judges nothing.
//
// Replay has one Player, bisect two that are fed the same packets.
#pragma once

#include "replayer/CommandCompletion.h"
#include "replayer/Comparison.h"
#include "replayer/CompletionOrder.h"
#include "replayer/DeviceBinding.h"
#include "replayer/InterruptFollower.h"
#include "replayer/Lanes.h"
#include "replayer/Observation.h"
#include "replayer/Pacing.h"
#include "replayer/PollFinder.h"
#include "replayer/QueueFollower.h"
#include "replayer/StartState.h"
#include "replayer/Substitution.h"
#include "replayer/TapeSource.h"
#include "replayer/Waiting.h"

namespace tapeback {

struct PlayerOptions {
  BindingOptions binding;
  std::optional<uint64_t> endPacket; ///< What comes from here on needs nothing of the targets.
  WaitLimits waits;
  PacingOptions pacing; ///< Paced: packets are issued one by one.
  /// Operations handed to the target at once. 1: each packet is complete before the next is issued.
  size_t maxBatch = 256;
  /// issue() returns early after a packet that brought content, so that memory can be looked at again before
  /// anything else is issued.
  bool pauseAtContent = false;
  /// issue() returns early once this much content of memory was observed.
  uint64_t chunkContentBytes = 16u << 20;
  /// One operation that brings more is not compared.
  uint64_t maxContentBytes = 256u << 20;
  /// Host time that operations which fail may take together; then the target counts as hung.
  uint64_t maxFailingTime = 30'000'000'000;
};

/// Owns neither the source nor the targets (one per device of the tape, in its order); both must outlive it.
/// One thread. Memory: bounded by the options and by one batch.
class Player {
public:
  /// Usage failure if a target cannot stand in for its device.
  static llvm::Expected<std::unique_ptr<Player>> create(TapeSource &source, llvm::ArrayRef<Target *> targets,
                                                        const PlayerOptions &options);

  /// All it knows now, of the same targets. Not within issue(), and not if it is paced on the host's clock:
  /// what that says is not restored.
  std::unique_ptr<Player> copy() const;

  /// Brings the targets to where the tape begins: reset as recorded, fingerprint, keyframe restored. A target
  /// that fails here fails the replay.
  llvm::Error prepare(const StartState &start);

  /// Issues packets [begin, end) of the batch and appends one observation for each that was reached. Returns
  /// how many. Fewer than asked: enough content, a wait or an operation that did not end well, or stopped().
  /// Failures of the target are observations; an error is the tape's, ours, or the refusal of a write that
  /// the description forbids.
  llvm::Expected<size_t> issue(const PacketBatch &batch, size_t begin, size_t end, ObservationLog &log);
  /// The same in as many goes as it takes, for who follows another. Fewer than asked: stopped().
  llvm::Expected<size_t> issueAll(const PacketBatch &batch, size_t begin, size_t end, ObservationLog &log);

  /// Issues the packets of a cluster, in the order that their lanes allow; not paced. The observations are in
  /// the tape's order, one for each unless the target stopped.
  llvm::Expected<size_t> issueLanes(const PacketBatch &batch, LaneCluster cluster, ObservationLog &log);
  const LanesReport &lanes() const { return laneCounts; }

  /// A stretch of the tape was read: what pacing has to know of it.
  void stretchRead(const PacketBatch &batch);
  const Pacer *pacing() const { return pacer ? &*pacer : nullptr; }

  /// The target failed where the tape does not expect it and cannot go on.
  bool stopped() const { return isStopped; }
  /// Host time spent in waits that ended without what was waited for.
  uint64_t uselessWait() const { return vainTime; }

  size_t deviceCount() const { return bindings.size(); }
  DeviceBinding &binding(uint16_t device) { return bindings[device]; }
  bool answers() const;
  /// What comparisons of this packet go by. Valid until the next call.
  ComparisonContext context(const Packet &packet);

  /// Fingerprints after resets that are not what the description or the tape says, and how many were looked
  /// at.
  std::vector<FingerprintDifference> fingerprintDifferences;
  uint64_t fingerprintsCompared = 0;

private:
  Player(TapeSource &source, const PlayerOptions &options);
  Player(const Player &) = default;
  void reserve();

  // Batches.
  bool canBatch(const Packet &packet, const PacketExtra &extra, const AccessRule *rule) const;
  llvm::Error queue(uint64_t ordinal, const Packet &packet, const PacketExtra &extra, ObservationLog &log);
  llvm::Expected<llvm::ArrayRef<uint8_t>> queueContent(const Packet &packet, const PacketExtra &extra,
                                                       ObservationLog &log);
  llvm::Error flush(ObservationLog &log);

  /// Lets the gap before the packet pass; true if the target failed meanwhile, which is the packet's.
  llvm::Expected<bool> pace(const Packet &packet, uint64_t ordinal, ObservationLog &log);

  llvm::Expected<bool> tryInLane(const PacketBatch &batch, size_t index, bool final, ObservationLog &lane,
                                 ObservationLog &log, Observation &place);

  // One packet at a time. Errors of class Target and Usage become the observation's.
  llvm::Error single(const PacketBatch &batch, size_t index, ObservationLog &log);
  llvm::Error carryOut(const PacketBatch &batch, size_t index, ObservationLog &log, Observation &o);
  llvm::Error registerRead(const PacketBatch &batch, size_t index, ObservationLog &log, Observation &o);
  llvm::Error registerWrite(const Packet &packet, uint64_t ordinal, Observation &o);
  llvm::Error waitForProgress(const AccessRule &rule, const Packet &packet, TargetSpaceId space,
                              ObservationLog &log, Observation &o);
  void noteWrite(const Packet &packet);
  // PlayerRelocation.cpp: memory that is elsewhere than recorded.
  bool concernsRelocation(const Packet &packet, const AccessRule *rule) const;
  llvm::Expected<uint64_t> relocatedValue(const Packet &packet, uint64_t ordinal, uint64_t value);
  llvm::Error recordedValue(const Packet &packet, uint64_t ordinal, Observation &o);
  llvm::Error poll(const Packet &packet, const PacketExtra &extra, ObservationLog &log, Observation &o);
  llvm::Error memoryWait(const Packet &packet, const PacketExtra &extra, ObservationLog &log, Observation &o);
  bool isMapped(const Packet &packet, const PacketExtra &extra) const;
  llvm::Error writeContent(const Packet &packet, const PacketExtra &extra, Observation &o);
  llvm::Error readContent(const Packet &packet, const PacketExtra &extra, ObservationLog &log,
                          Observation &o);
  llvm::Error descriptor(const Packet &packet, const PacketExtra &extra, Observation &o);
  llvm::Error interrupt(const Packet &packet, const PacketExtra &extra, Observation &o);
  llvm::Error counter(const Packet &packet, Observation &o);
  llvm::Error oracle(uint64_t ordinal, const Packet &packet, const PacketExtra &extra, Observation &o);
  llvm::Expected<std::optional<std::vector<uint8_t>>> wantedContent(uint64_t ordinal, const Packet &packet,
                                                                    const PacketExtra &extra);
  llvm::Error memoryOracle(uint64_t ordinal, const Packet &packet, const PacketExtra &extra, Observation &o);
  llvm::Error resetDevice(uint64_t ordinal, const Packet &packet, Observation &o);
  llvm::Error evidence(const Packet &packet, Observation &o);
  /// The entry as this run has it, in `scratch` if it is another than the recorded one. Fills `changed`.
  llvm::ArrayRef<uint8_t> liveEntry(const Packet &packet, llvm::ArrayRef<uint8_t> entry);
  void noteLive(const Packet &packet, llvm::ArrayRef<uint8_t> entry);
  void noteSubmit(const Packet &packet, const PacketExtra &extra, llvm::ArrayRef<uint8_t> entry);
  // PlayerCompletions.cpp
  llvm::Error lookAtRing(uint16_t device, uint64_t base, uint64_t size);
  llvm::Error commandDone(const Packet &packet, const PacketExtra &extra, ObservationLog &log,
                          Observation &o);
  void noteContent(uint64_t descriptor, const Packet &packet, const PacketExtra &extra);
  llvm::Error leaveOut(const Packet &packet, const PacketExtra &extra);
  void noteOverwritten(const Packet &packet, const PacketExtra &extra);
  llvm::Error notePassed(const Packet &packet, ObservationLog &log, Observation &o);
  llvm::Error checkOrder(uint16_t device, llvm::ArrayRef<CompletionOrder::Due> due, ObservationLog &log,
                         Observation &o);
  void timedOut(uint64_t mask, uint64_t expected, uint64_t deadline, ObservationLog &log, Observation &o);
  llvm::Expected<bool> isIdle(uint16_t device);
  uint64_t bitsToldDone(const AccessRule &rule, const Packet &packet) const;
  uint64_t bitsToldCause(const AccessRule &rule, const Packet &packet) const;
  llvm::Expected<bool> waitInterrupt(const Packet &packet, const PacketExtra &extra, uint64_t deadline,
                                     Observation &o);
  llvm::Error noteFailure(llvm::Error error, const Packet &packet, uint64_t ordinal, ObservationLog &log,
                          Observation &o);

  // Values of past packets, for what refers back to them. As many slots as a short tape has use for, a power
  // of two: a bisect makes many players.
  struct PastValue {
    uint64_t ordinal = ~uint64_t(0), value = 0;
    bool valid = false;
  };
  static constexpr size_t pastValues = 1 << 16;
  void remember(uint64_t ordinal, const Packet &packet, const Observation &o, const ObservationLog &log);
  const PastValue *recall(uint64_t ordinal) const;

  TapeSource &source;
  PlayerOptions options;
  std::vector<DeviceBinding> bindings;
  std::vector<QueueFollower> followers; ///< By device.
  struct Following {
    explicit Following(const Description *description)
        : order(description), substitution(description), completions(description) {}
    CompletionOrder order;
    Substitution substitution;
    InterruptFollower interrupts;
    CommandCompletion completions;
    const EntryForm *form = nullptr; ///< Of the entry submitted last, and that entry.
    std::vector<uint8_t> entry;
    struct Content {
      unsigned layout;
      uint64_t offset; ///< Of the transfer's first byte in it.
    };
    std::map<uint64_t, Content> contents; ///< By descriptor; of transfers that are not done.
    bool works = false;                   ///< Something was handed over since the reset.
  };
  std::vector<Following> following; ///< By device.
  PollFinder polls;
  unsigned lateFences = 0; ///< Looked for once more: each costs time.
  std::vector<PastValue> past;

  std::vector<TargetOperation> operations;
  struct Queued {
    size_t observation;
    uint64_t ordinal;
    const Packet *packet; ///< In the batch that is being issued.
  };
  std::vector<Queued> queued;
  std::vector<uint8_t> arena; ///< Contents of queued memory writes; never grows while some are queued.
  uint16_t queuedDevice = 0;
  std::optional<Pacer> pacer;
  LanesReport laneCounts;
  std::vector<std::string> clockNames;
  std::vector<uint8_t> scratch;
  struct LiveField {
    const EntryField *field;
    uint64_t recorded, live;
  };
  std::vector<LiveField> liveFields; ///< Of the entry that is being stored.

  /// The last content put into memory: a descriptor that repeats it needs no second write.
  struct {
    uint16_t device = 0;
    uint64_t address = 0, length = 0;
    BlobId content;
  } lastContent;

  uint64_t failingTime = 0, vainTime = 0;
  bool isStopped = false;
};

/// The refusal of a write to a register or range that the description forbids: class Usage, the packet named.
llvm::Error forbiddenWrite(const std::string &name, uint64_t packet);

/// After such a failure there is no point in going on.
bool isFatalForTarget(const Failure &failure);

} // namespace tapeback
