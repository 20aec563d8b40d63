// What surrounds triggers and captures in a recording: programs compiled before it begins, the history, the
// thread that writes captures, commands, and events of other recordings.
#pragma once

#include "recorder/Collector.h"
#include "recorder/flight/LiveTriggers.h"
#include "recorder/flight/TriggerBus.h"

namespace tapeback {

struct LiveOptions {
  struct File {
    std::string path, text;
  };
  std::vector<File> triggers;         ///< Trigger files.
  std::vector<std::string> captureAt; ///< Conditions as of --start: a capture each time.
  triggers::CaptureAmount post;       ///< Behind these.
  /// Flight mode: what is kept in memory; nothing is written but captures. None: everything is written.
  std::optional<triggers::CaptureAmount> flight;
  uint64_t memoryBytes = uint64_t(256) << 20;
  enum class AtEnd : uint8_t { Failure, Always, Never };
  AtEnd atEnd = AtEnd::Failure; ///< Flight mode: when the history at the end becomes a tape.
  bool allowExec = false;
  std::string eventDirectory; ///< Of events between recordings; empty: the user's.
  CaptureSink sink;           ///< Makes a tape of a capture.

  bool wanted() const { return flight || !triggers.empty() || !captureAt.empty(); }
};

struct LiveResult {
  std::vector<TriggerEvent> events;
  uint64_t eventsDropped = 0, fired = 0, lostEvents = 0;
  uint64_t capturesNotTaken = 0; ///< A bound left them out.
  std::string whyNotTaken;       ///< If so: the first of them.
  uint64_t marksLeftOut = 0;     ///< Trigger points that are not marked on the tape.
  unsigned armed = 0;
  triggers::Evaluator::Shortfalls shortfalls;
  std::optional<FlightStatus> history;
  bool endWanted = false; ///< The history at the end was to become a tape.
  std::optional<WrittenCapture> endCapture;
  std::string endFailure; ///< Why that could not be written, if it was tried.
  std::string failure;    ///< The first thing that went wrong; captures are not whole then.
};

/// "OUT-NAME-3.tape" for capture 3 of trigger NAME of a recording to OUT.tape; OUT.tape if there is no name.
std::string capturePath(llvm::StringRef output, llvm::StringRef name);

/// Used by one thread. Commands are started with /bin/sh, at most 16 at a time and 1,000 a recording.
class LiveRecording {
public:
  /// Everything that can be wrong with triggers, before anything is launched. `devices` must outlive it.
  static llvm::Expected<std::unique_ptr<LiveRecording>> prepare(const LiveOptions &options,
                                                                const std::vector<CollectorDevice> &devices,
                                                                std::function<void()> wake);
  ~LiveRecording();

  bool flight() const { return options.flight.has_value(); }
  /// Some trigger may want a snapshot of the counters.
  bool wantsSnapshots() const { return snapshots; }
  /// Of triggers that capture: their files are called after them.
  const std::vector<std::string> &captureNames() const { return names; }
  /// What the collector is to write to. `file` is null in flight mode, and must outlive this otherwise.
  TapeWriter &start(TapeWriter *file, const Manifest &manifest);
  PacketObserver *observer() { return live.get(); }
  /// How the program is asked for a counter snapshot (the time of asking), and whether it has heard of it.
  void setSnapshots(std::function<uint64_t()> ask, std::function<bool()> taken) {
    askSnapshot = std::move(ask);
    snapshotTaken = std::move(taken);
  }
  LiveTriggers &triggers() { return *live; }

  /// Now and then: events of other recordings, commands that ended.
  void poll();
  /// After the collector's finish(): the history at the end, and everything written.
  LiveResult finish(const Outcome &outcome);

private:
  LiveRecording(const LiveOptions &options) : options(options) {}
  bool runCommand(const std::string &command);

  const LiveOptions &options;
  std::vector<std::unique_ptr<triggers::Program>> programs;
  std::vector<LiveTriggerOptions::Condition> conditions;
  std::vector<std::string> names;
  bool captures = false, talks = false, snapshots = false;
  triggers::CaptureAmount needed;
  std::unique_ptr<FlightHistory> history;
  std::unique_ptr<LiveTriggers> live;
  std::unique_ptr<CaptureThread> writing; ///< Null: there are no captures, and no history.
  std::unique_ptr<TriggerBus> bus;
  std::function<uint64_t()> askSnapshot;
  std::function<bool()> snapshotTaken;
  std::vector<int> running;
  unsigned commands = 0;
};

} // namespace tapeback
