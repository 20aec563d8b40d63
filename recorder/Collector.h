// Makes a tape of what comes out of the ring: pairs issues with completions, cuts windows, takes keyframes,
// starts and stops, counts losses, and finds out how the run ended.
//
// Order on the tape is the order in which operations completed (events at their place): a wait then comes
// after whatever another thread did to end it. Everything it is given may come from a hostile program.
#pragma once

#include "format/Failure.h"
#include "format/TapeWriter.h"
#include "hal/description/Description.h"
#include "hal/state/ShadowState.h"
#include "recorder/AccessKeys.h"
#include "recorder/ContentCache.h"
#include "recorder/OrdinalTable.h"
#include "recorder/PacketObserver.h"
#include "recorder/RingPacket.h"
#include "recorder/Underway.h"
#include "recorder/ring/SlotCopy.h"
#include "triggers/OracleSignature.h"
#include "triggers/StartStop.h"
#include <deque>
#include <unordered_map>

namespace tapeback {

/// A device that the program may open, in the order of the capture table.
struct CollectorDevice {
  std::string alias, uri;
  std::string descriptionText, descriptionName; ///< Empty: none.
  std::optional<Description> description;
};

struct CollectorOptions {
  StartStopCondition start = StartStopCondition::begin();
  std::optional<StartStopCondition> stop;
  uint64_t keyframeInterval =
      65536; ///< Packets after which the next quiescent window's end gets a keyframe; 0: never.
  uint64_t flushIntervalNs = 1'000'000'000;
  uint64_t tickIntervalNs = 0;        ///< A Tick when so long no packet came; 0: never.
  PacketObserver *observer = nullptr; ///< Must outlive the collector.
};

/// How the program itself ended.
struct ProgramFate {
  std::optional<int> exit, signal;
};

struct CollectorReport {
  uint64_t pending = 0;       ///< Operations that never came back.
  uint64_t notRecorded = 0;   ///< Packets before the start or after the stop condition.
  uint64_t notUnderstood = 0; ///< Records that made no sense, and places where the ring was damaged.
  uint64_t givenUp = 0;       ///< Packets that the program did not send: it held the recorder for dead.
  uint64_t ringFull = 0;      ///< Operations that the program dropped because it was told not to wait.
  uint64_t diskErrors = 0;    ///< Packets that are not in the file, since writing failed.
  bool started = false, stopped = false;
  std::optional<Failure> writeFailure; ///< The first one.
  std::vector<std::string> notes;      ///< What the program's library had to say; at most 16.
  /// Nothing is missing but what the user asked to leave out.
  bool whole() const { return !notUnderstood && !givenUp && !ringFull && !diskErrors; }
};

/// One thread. Never fails: what goes wrong is counted in the report, and after a write failure the rest is
/// counted and thrown away, so that the program is not held up. `writer` must outlive it. Memory:
/// ShadowLimits a device, 256 MiB of payloads of operations under way, and the tables' bounds.
class Collector {
public:
  Collector(TapeWriter &writer, std::vector<CollectorDevice> devices, CollectorOptions options);
  ~Collector();

  /// A record with its payload, as RingConsumer gives them; `others` counts for Complete records.
  void accept(const ring::Record &record, llvm::ArrayRef<uint8_t> payload, const ring::Others &others = {});
  /// Register accesses that completed in the ring, as RingConsumer gives them: the same as the Issue and the
  /// Complete record of each in turn, but in bulk where they are plain. Names count up from `firstName`;
  /// `concurrent`: each overlapped an operation of another thread.
  void acceptAccesses(llvm::ArrayRef<ring::SlotCopy> accesses, uint64_t firstName, bool concurrent);
  /// The ring was damaged: an unknown number of records is missing here.
  void damaged();
  /// The program says that it did not send so many packets. Once, before finish().
  void givenUp(uint64_t count);
  /// Call when the ring was empty, and at least as often as flushIntervalNs; `now` is the records' clock.
  void idle(uint64_t now);
  /// Everything that was accepted so far, but what is under way, is in the tape's file afterwards. False if
  /// it is not (held for the start condition, or a write failure).
  bool flush(uint64_t now);
  /// All that was issued until `now` was given to this, except what is under way: the observer hears of it.
  void seenUntil(uint64_t now);
  /// The program has ended and the ring is empty: writes what is pending and finishes the tape.
  llvm::Expected<TapeSummary> finish(const ProgramFate &fate);

  const CollectorReport &report() const { return facts; }
  const Outcome &outcome() const { return result; }

private:
  struct Device;
  /// A packet on its way to the tape, with its content.
  struct Item {
    RingPacket ring;
    uint64_t sequence = 0;
    std::vector<uint8_t> payload;
    bool starts = false; ///< It met the start condition.
  };

  bool useSpace(Device &device, uint16_t number);
  bool useClock(Device &device);
  void open(const ring::Record &record, llvm::ArrayRef<uint8_t> payload);
  void issue(Item item);
  void complete(const ring::Record &record, llvm::ArrayRef<uint8_t> payload, const ring::Others &others);
  void event(Item item, bool samePayload);
  void note(llvm::ArrayRef<uint8_t> payload);

  bool takesRuns() const;
  size_t takeRun(llvm::ArrayRef<ring::SlotCopy> accesses, uint64_t firstName, bool concurrent);
  size_t makeRun(llvm::ArrayRef<ring::SlotCopy> accesses, bool concurrent, bool &special);
  void putRun(llvm::ArrayRef<Packet> packets, uint64_t firstName);
  void acceptOne(const ring::SlotCopy &access, uint64_t name, bool concurrent);
  bool addAccessKey(const ring::SlotCopy &access);
  void forgetAccessKeys();
  void malformed(bool uncounted = false);

  /// Puts a packet on the tape (or, outside the recorded part, into the shadow state only).
  void put(Item &item);
  uint64_t record(Item &item);
  void remember(const Item &item, uint64_t ordinal);
  void resolveLink(RingPacket &ring);
  void afterRecord(const Item &item, uint64_t ordinal);
  void putPending(Item &item);
  void putLoss(LossCause cause, uint64_t count);
  void flushLoss();
  void apply(uint64_t ordinal, const Item &item);
  void releaseHeld();
  bool mayBelongToStart(const Item &item) const;
  void beginRecording();
  void endRecording(uint64_t ordinal, const std::string &why);
  void observe(uint64_t ordinal, const Packet &packet, const PacketExtra &extra,
               llvm::ArrayRef<uint8_t> payload);
  void carryOut(uint64_t ordinal, const ObserverWishes &wishes);
  void endDueWindow();
  void keyframe(Device &device);
  bool quiescent() const;
  bool wrote(llvm::Error error);
  llvm::StringRef spaceName(uint16_t space) const;
  /// The device of a record, if it was opened.
  Device *opened(uint16_t index) const;
  /// The device that a packet names. Every packet that is put has one.
  Device &deviceOf(const Packet &packet) const { return *byNumber[packet.device]; }
  bool meets(StartStopCondition &condition, const Item &item) const;
  OraclePlace placeOf(const Device &device) const;
  void countMarker(const Item &item);
  void seeCheck(const Item &item, uint64_t ordinal);
  void seeTargetFailure(const Item &item, uint64_t ordinal);
  void judge(const ProgramFate &fate);
  void tick(uint64_t now);

  TapeWriter &writer;
  CollectorOptions options;
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<Device *> byNumber; ///< In the order of opening.
  std::vector<std::string> spaces{"memory"};
  CollectorReport facts;
  Outcome result;
  std::optional<Outcome> targetFailure; ///< The first operation that failed; counts only if the run failed.

  enum class Phase : uint8_t { Before, Recording, After } phase = Phase::Before;
  bool windowDue = false;   ///< The packet just put ends a window (unless a DmaCompletion follows).
  uint64_t lossCounted = 0; ///< Records not understood since the last packet.
  uint64_t present = 0; ///< The latest time that a record told: that of a loss, which has none of its own.
  bool lossUncounted = false; ///< An unknown number of records is missing since the last packet.
  uint64_t lastKeyframe = 0, lastFlush = 0, flushedPackets = 0, leftOut = 0;
  uint64_t quietSince = 0, quietPackets = 0; ///< When the tape had no packet less than now, and how many.
  unsigned quietLooks = 0;
  UnderwayTable<Item> underway;
  uint64_t underwayBytes = 0;
  std::deque<Item> held; ///< Before the start: what may belong to the write that starts the recording.
  uint64_t heldBytes = 0;
  OrdinalTable ordinals;
  static constexpr size_t runLength = 256;
  AccessKeys keys;
  uint64_t keysGeneration = 0;
  std::vector<Packet> run; ///< Packets on their way, and their keys in the shadow state of their device.
  std::vector<uint32_t> runKeys;
  ContentCache contents;
  std::vector<uint8_t> lastPayload; ///< Of the event just before, for SamePayload.
  uint8_t lastPayloadFlags = 0;
  bool lastWasMemoryWrite = false;
};

} // namespace tapeback
