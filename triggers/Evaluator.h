// Carries out a compiled trigger file: packets and ticks in, actions out. The same class serves a live
// recording and `tapeback trigger run`.
#pragma once

#include "triggers/Memory.h"
#include "triggers/Program.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include <algorithm>
#include <iterator>
#include <memory>

namespace tapeback::triggers {

/// What the stream's numbers mean. Tables may grow later: tell with Evaluator::names().
struct StreamNames {
  std::vector<std::string> spaces;
  std::vector<uint64_t> clockTicksPerSecond; ///< By clock id. Clock 0 is the host's, others the device's.
};

/// What a rule wants done. Marker, Stop, Snapshot and Exec are wishes: whoever runs the evaluator carries
/// them out, or reports why not.
struct Output {
  ActionOp op = ActionOp::Fire;
  uint32_t trigger = 0, state = 0, rule = 0, action = 0;
  /// The trigger point: the packet that made it fire; of `after` rules the last packet before the deadline.
  /// noPacket if there was none before.
  uint64_t packet = 0;
  uint64_t time = 0; ///< Nanoseconds of the host's clock; of `after` the deadline.
  struct Value {
    uint64_t value = 0;
    bool known = false, isBool = false, isSigned = false;
  };
  std::array<Value, 4> values; ///< Of Fire.
};
constexpr uint64_t noPacket = ~uint64_t(0);

/// Of a packet's issue and complete times. A ClockSample names the clock that it read; its times are the
/// host's.
inline uint8_t timesClock(const Packet &packet) {
  return packet.kind == PacketKind::ClockSample ? 0 : packet.clock;
}

/// Which values of the packets of one key (device, kind, space, address) can concern any trigger, in any
/// state.
class KeyFilter {
public:
  bool passes(uint64_t value) const {
    return always || ((bloom >> bit(value) & 1) && std::binary_search(values.begin(), values.end(), value));
  }
  bool never() const { return !always && values.empty(); }
  static KeyFilter everything() {
    KeyFilter filter;
    filter.always = true;
    return filter;
  }
  /// Passes what either lets pass: several programs watch one stream.
  void merge(const KeyFilter &other) {
    std::vector<uint64_t> both;
    std::set_union(values.begin(), values.end(), other.values.begin(), other.values.end(),
                   std::back_inserter(both));
    values = std::move(both);
    bloom |= other.bloom;
    always |= other.always;
  }

private:
  friend class Evaluator;
  static unsigned bit(uint64_t value) { return unsigned(value * 0x9e3779b97f4a7c15 >> 58); }
  bool always = false;
  uint64_t bloom = 0;
  std::vector<uint64_t> values; ///< In order.
};

class Evaluator;

/// Sees everything that an evaluator decides: for `explain` and `coverage`. May ask the evaluator for values.
class EvaluationObserver {
public:
  virtual ~EvaluationObserver() = default;
  /// `condition` of a `when` rule was looked at, or a deadline came. `fired`: it also met count, rate and
  /// holdoff.
  virtual void ruleSeen(const Evaluator &, uint32_t trigger, uint32_t rule, bool held, bool fired) = 0;
  virtual void entered(const Evaluator &, uint32_t trigger, uint32_t state) = 0;
};

/// One stream, one thread. Deterministic: the same packets give the same outputs, however many ticks lie
/// between them. Memory is what Program::memoryBytes says, plus at most 65,536 dictionary keys; nothing a
/// packet says makes it allocate beyond that. The program must outlive it.
///
/// Time is the issue stamp of the packets in their order, and never goes backwards; at the end of a stream it
/// goes on to the last completion. A packet's deadlines are met before its rules are looked at.
class Evaluator {
public:
  explicit Evaluator(const Program &program, StreamNames names);
  ~Evaluator();

  using Fetch = llvm::function_ref<llvm::ArrayRef<uint8_t>(BlobId)>;

  /// The next packet. `fetch` gives a content (empty if there is none); it is called at most once a packet.
  /// Outputs are appended to `out`: at most program.actions.size() a step and deadline.
  void packet(uint64_t ordinal, const Packet &packet, const PacketExtra &extra, Fetch fetch,
              llvm::SmallVectorImpl<Output> &out);
  /// Time passed without a packet; no packet issued before `hostTime` follows. Only makes deadlines known
  /// earlier: the trigger points are the same.
  void tick(uint64_t hostTime, llvm::SmallVectorImpl<Output> &out);
  /// The stream ended: time goes on to the latest completion seen.
  void finish(llvm::SmallVectorImpl<Output> &out);
  /// An event raised outside (by another process). Rules that wait for it are looked at now.
  void raise(llvm::StringRef event, llvm::SmallVectorImpl<Output> &out);

  /// For recorders that keep a dictionary of (device, kind, space, address): the filter of a packet's key,
  /// good until setNames() or until more than 65,536 keys have been asked for. Packets that it does not let
  /// pass need packetPassed() only.
  const KeyFilter &filterOf(const Packet &packet);
  bool concerns(const Packet &packet) { return filterOf(packet).passes(packet.value); }
  /// A packet that concerns nobody passed: deadlines are checked, nothing else. Inline and cheap.
  void packetPassed(uint64_t ordinal, uint64_t issueTime, uint64_t completeTime,
                    llvm::SmallVectorImpl<Output> &out) {
    if (issueTime > nextHost || packetsSeen + 1 >= nextPacket || !started) {
      passSlowly(ordinal, issueTime, completeTime, out);
      return;
    }
    now = issueTime > now ? issueTime : now;
    latest = completeTime > latest ? completeTime : latest;
    lastPacket = ordinal;
    ++packetsSeen;
  }

  void setNames(StreamNames names);
  void observe(EvaluationObserver *observer) { watcher = observer; }

  /// Whether trigger `trigger` wants the packet shown last kept (`keep`); true without a `keep`.
  bool keeps(uint32_t trigger) const { return kept.empty() || kept[trigger]; }
  bool armed(uint32_t trigger) const { return triggers[trigger].armed; }
  uint32_t stateOf(uint32_t trigger) const { return triggers[trigger].state; }
  /// Firings of one rule so far, entries of one state.
  uint64_t fired(uint32_t rule) const { return rules[rule].fired; }

  /// What was not done, or not in time, because of a bound: deadlines beyond 256 a step (met a step later),
  /// raises and re-arms beyond 8 rounds, entries that full tables dropped, contents not there.
  struct Shortfalls {
    uint64_t deadlines = 0, raises = 0, evictions = 0, contents = 0;
    bool any() const { return deadlines || raises || evictions || contents; }
  };
  Shortfalls shortfalls() const;

  struct Value {
    uint64_t value = 0;
    bool known = false;
  };
  /// A node's value for the packet at hand; for observers.
  Value value(uint32_t node) const { return evaluate(node); }
  bool holds(uint32_t node) const {
    Value v = evaluate(node);
    return v.known && v.value;
  }
  const Program &program() const { return compiled; }

private:
  static constexpr uint64_t noTime = ~uint64_t(0);
  struct TriggerState {
    bool armed = true;
    uint32_t state = 0;
    uint64_t enteredHost = 0, enteredDevice = noTime, enteredPacket = 0;
    uint64_t generation = 1; ///< Entries of a state so far.
  };
  struct RuleState {
    uint64_t seen = 0, fired = 0;
    uint64_t heldOffFrom = noTime; ///< When it fired last, by the holdoff's clock.
    uint64_t metAt = 0; ///< Deadlines: the generation (of the state's entry, the timer's start) met.
    std::unique_ptr<RateWindow> rate;
  };
  struct TimerState {
    bool running = false;
    uint64_t host = 0, device = noTime, packet = 0;
    uint64_t generation = 0;
  };
  struct SlotState {
    uint64_t value = 0, previous = 0;
    uint64_t seenAt = 0, previousAt = 0;
    uint64_t step = 0; ///< The packet that brought it.
    bool known = false, previousKnown = false;
  };
  /// Whom a packet of a key concerns.
  struct Audience {
    std::vector<uint32_t> triggers, slots;
    std::vector<uint32_t> anyValue; ///< Those of the triggers that no value leaves cold.
    KeyFilter filter;
  };

  // Evaluator.cpp
  void start(uint64_t time, uint64_t ordinal);
  void passSlowly(uint64_t ordinal, uint64_t issueTime, uint64_t completeTime,
                  llvm::SmallVectorImpl<Output> &out);
  void lookAt(const Audience &audience, llvm::SmallVectorImpl<Output> &out);
  void runTrigger(uint32_t trigger, llvm::SmallVectorImpl<Output> &out);
  bool runRule(uint32_t trigger, uint32_t rule, llvm::SmallVectorImpl<Output> &out);
  void fire(uint32_t trigger, uint32_t rule, llvm::SmallVectorImpl<Output> &out);
  void act(uint32_t trigger, uint32_t rule, Range actions, llvm::SmallVectorImpl<Output> &out);
  void assign(const Action &action);
  void output(uint32_t trigger, uint32_t rule, uint32_t action, llvm::SmallVectorImpl<Output> &out);
  void enter(uint32_t trigger, uint32_t state, llvm::SmallVectorImpl<Output> &out);
  void reset(uint32_t trigger, llvm::SmallVectorImpl<Output> &out);
  void settle(llvm::SmallVectorImpl<Output> &out);
  uint64_t nanoseconds(uint8_t clock, uint64_t ticks) const;
  uint64_t deviceTime(uint32_t trigger) const;
  void leavePacket();

  // FollowDevice.cpp
  void updateSlot(uint32_t slot);
  void followEntry();
  void followElement(const Description &description, const EntryForm &form, llvm::ArrayRef<uint8_t> entry,
                     uint32_t left);
  void sampleClock();

  // Deadlines.cpp
  struct Due {
    uint32_t trigger = noIndex, rule = noIndex;
    uint64_t at = ~uint64_t(0);
  };
  std::optional<uint64_t> deadlineOf(uint32_t trigger, const Rule &rule, const RuleState &state) const;
  Due earliest(Clock clock) const;
  void meetDeadlines(Clock clock, llvm::SmallVectorImpl<Output> &out);
  void schedule();
  uint64_t clockNow(Clock clock, uint32_t trigger) const;
  bool rateReached(uint32_t trigger, const Rule &rule, RuleState &state);

  // Dispatch.cpp
  const Audience &audienceOf(const Packet &packet);
  uint32_t makeAudience(const Packet &packet);
  bool concernsTrigger(const Trigger &trigger, const Packet &packet, std::vector<uint64_t> &values) const;
  bool alwaysShown(PacketKind kind) const;
  bool placeMatches(const RegisterPlace &place, const Packet &packet, bool exact) const;

  // EvaluateNode.cpp
  Value evaluate(uint32_t node) const;
  Value field(PacketField field) const;
  Value slotValue(const Node &node) const;
  bool slotEvent(const Node &node) const;
  Value memoryValue(const Node &node) const;
  bool nameIs(const Node &node) const;
  llvm::ArrayRef<uint8_t> content() const;

  const Program &compiled;
  StreamNames names;
  std::vector<uint32_t> spaceOf; ///< Of the stream's spaces: index into Program::spaces, or noIndex.
  EvaluationObserver *watcher = nullptr;

  std::vector<TriggerState> triggers;
  std::vector<RuleState> rules;
  std::vector<uint64_t> variables;
  std::vector<TimerState> timers;
  std::vector<ValueTable> tables;
  std::vector<Statistic> statistics;
  std::vector<SlotState> slots;
  std::vector<MappedRanges> mappings; ///< By device.
  std::vector<char> kept;             ///< Empty if no trigger has a `keep`.
  std::vector<uint32_t> keepers;

  llvm::DenseMap<std::pair<uint64_t, uint64_t>, uint32_t> audienceByKey;
  std::vector<std::unique_ptr<Audience>> audiences;
  std::vector<uint32_t> audienceByKind;
  std::unique_ptr<Audience> overflow; ///< Of a key beyond those that are kept.

  bool started = false;
  uint64_t now = 0, latest = 0;
  std::vector<uint64_t> deviceNow; ///< By device; noTime: no sample of its clock yet.
  uint64_t lastPacket = noPacket, packetsSeen = 0, step = 0;
  /// Before these nothing is due.
  uint64_t nextHost = ~uint64_t(0), nextPacket = ~uint64_t(0);
  bool rescheduling = true;
  std::vector<uint32_t> clocked;     ///< Rules with a deadline, of all triggers.
  std::vector<uint32_t> ownerOf;     ///< Of each rule: the trigger.
  std::vector<uint32_t> stateOfRule; ///< Of each rule: its state, or noIndex of `always`.
  std::vector<uint32_t> listeners;   ///< Triggers with rules that wait for an event.

  // The step at hand.
  const Packet *packetNow = nullptr;
  const PacketExtra *extraNow = nullptr;
  const Fetch *fetchNow = nullptr;
  uint64_t ordinalNow = noPacket, pointNow = noPacket, timeNow = 0;
  uint64_t expiredKey = 0;
  bool expiredKnown = false;
  uint32_t raisedNow = noIndex;
  std::vector<uint32_t> raisedNext, resetNext;
  mutable bool contentFetched = false;
  mutable llvm::ArrayRef<uint8_t> contentNow;
  mutable uint64_t missingContents = 0;
  // The entry at hand, and where the next element of a list is expected.
  FormReference entryNow;
  struct Element {
    uint16_t device = 0;
    uint64_t address = 0;
    uint32_t left = 0;
    const LayoutDescription *layout = nullptr;
  };
  std::optional<Element> element;
  uint64_t droppedDeadlines = 0, droppedRaises = 0;
};

} // namespace tapeback::triggers
