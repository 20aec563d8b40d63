// Trigger programs over a recording in progress: shows them every packet, and does what they want done.
#pragma once

#include "recorder/PacketObserver.h"
#include "recorder/flight/CaptureJob.h"
#include "recorder/flight/FlightHistory.h"
#include "triggers/StartStop.h"
#include <map>

namespace tapeback {

/// What a trigger did, for the summary.
struct TriggerEvent {
  std::string trigger; ///< "hang.late_fence" if there are several files.
  triggers::ActionOp op = triggers::ActionOp::Fire;
  std::optional<uint64_t> packet; ///< Of the recording; none: before the first.
  uint64_t time = 0;
  std::string text;
  std::string notDone;  ///< Why it was not executed; empty: it was.
  uint64_t delayNs = 0; ///< Snapshot: until the program did it. Raised from outside: from raise to here.
  std::optional<triggers::CaptureExtent> extent; ///< Captures.
  std::optional<WrittenCapture> written;
};

struct LiveTriggerOptions {
  struct File {
    std::string name; ///< For messages.
    const triggers::Program *program = nullptr;
  };
  std::vector<File> files;
  /// Captures at a condition of --capture-at.
  struct Condition {
    StartStopCondition condition;
    std::string name;
    triggers::CaptureAmount pre, post;
  };
  std::vector<Condition> conditions;
  FlightHistory *history = nullptr; ///< Captures come from it; null: they are not executed.
  TapeWriter *marks = nullptr;      ///< Where trigger points are marked.
  bool allowExec = false;
  std::function<void(CaptureJob)> capture;
  std::function<bool(const std::string &command)> exec; ///< False: it could not be started.
  std::function<void(const std::string &event)> raise;  ///< To other processes.
  std::function<uint64_t()> snapshot;  ///< Asks the program for one; the time of that (host's clock).
  std::function<bool()> snapshotTaken; ///< Whether the program has heard of it.
};

/// One thread. Refers to the programs, the history and the writer, which must outlive it. Memory: what the
/// programs say, a bit a packet of the history for each trigger with a `keep`, and at most 10,000 events.
class LiveTriggers final : public PacketObserver {
public:
  explicit LiveTriggers(LiveTriggerOptions options);
  ~LiveTriggers() override;

  void deviceOpened(uint16_t device, uint16_t index) override;
  void spaceAdded(uint16_t id, llvm::StringRef name) override;
  void clockAdded(uint8_t id, uint64_t ticksPerSecond) override;
  void packet(uint64_t ordinal, const Packet &packet, const PacketExtra &extra,
              llvm::ArrayRef<uint8_t> payload) override;
  void passed(uint64_t firstOrdinal, llvm::ArrayRef<Packet> packets) override;
  void tick(uint64_t now) override;
  void ended() override;
  const triggers::KeyFilter *filterOf(const Packet &packet) override;
  uint64_t filterGeneration() const override { return generation; }
  const ObserverWishes *takeWishes() override;

  /// Another process raised an event, so long ago.
  void raised(llvm::StringRef event, const std::string &from, uint64_t delayNs);
  std::vector<TriggerEvent> &events() { return log; }
  uint64_t eventsDropped() const { return notLogged; } ///< Beyond those in the list.
  uint64_t fired() const { return firings; }
  unsigned armed() const;
  triggers::Evaluator::Shortfalls shortfalls() const;
  /// Captures that a bound left out, of the oldest of which `whyNotTaken` is said.
  uint64_t capturesNotTaken() const { return notTaken; }
  const std::string &whyNotTaken() const { return notTakenWhy; }
  uint64_t marksLeftOut() const { return notMarked; } ///< Of trigger points, on the tape.
  bool failed() const { return !failure.empty(); }
  const std::string &failureText() const { return failure; }

private:
  struct FileState;
  /// A capture whose end has not come yet.
  struct Pending {
    std::string trigger, text, name;
    uint64_t point = 0;
    triggers::CaptureAmount pre, post;
    triggers::PreExtent before;
    triggers::PostWalk walk;
    uint64_t next = 0; ///< The packet that `walk` sees next.
    size_t event = 0;
    FileState *file = nullptr; ///< With a `keep`: whose.
    uint32_t keeper = triggers::noIndex;
  };
  class KeptHistory;

  void handle(FileState &file, uint64_t ordinal);
  void handle(FileState &file, const triggers::Output &output);
  size_t note(const TriggerEvent &event);
  void begin(const std::string &trigger, const std::string &text, uint64_t point, uint64_t time,
             triggers::CaptureAmount pre, triggers::CaptureAmount post, size_t event, FileState *file,
             uint32_t keeper);
  void advance(Pending &pending, uint64_t ordinal, const triggers::CaptureHistory::Facts *facts);
  void advanceAll(uint64_t ordinal, const Packet &packet, const PacketExtra &extra);
  void complete(size_t index, const char *whyShort);
  void holdHistory();
  void snapshotSeen(uint64_t ordinal, uint64_t time);
  void trouble(llvm::Error error);
  void mark(uint64_t packet, const std::string &text);
  void markEarly();

  LiveTriggerOptions options;
  std::vector<std::unique_ptr<FileState>> files;
  triggers::StreamNames names;
  std::vector<uint16_t> indexOf; ///< Of devices by number on the tape.
  bool sameDevices = true;
  uint64_t generation = 1;
  std::vector<std::unique_ptr<triggers::KeyFilter>> merged;
  std::map<std::array<uint64_t, 3>, const triggers::KeyFilter *> mergedByKey;
  std::vector<Pending> pending;
  std::vector<std::pair<size_t, uint64_t>> asked; ///< Snapshots: events, and when they were asked for.
  std::map<std::string, uint64_t> numbers;        ///< Captures by trigger.
  std::vector<TriggerEvent> log;
  uint64_t notLogged = 0, firings = 0, marks = 0, notTaken = 0, notMarked = 0;
  ObserverWishes wishes, taken;
  unsigned ownMarkers = 0; ///< Of ours in a row.
  bool keepers = false, over = false;
  uint64_t lastOrdinal = 0, lastTime = 0;
  std::vector<std::string> early; ///< Marks from before the first packet.
  std::string failure, notTakenWhy;
};

} // namespace tapeback
