// A recording from beginning to end: what `tapeback record` does, without printing anything.
#pragma once

#include "format/Records.h"
#include "recorder/CaptureCompiler.h"
#include "recorder/Collector.h"
#include "recorder/durable/DurableFile.h"
#include "recorder/flight/LiveRecording.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace tapeback {

enum class ProgramOutput : uint8_t; // recorder/Program.h

struct RecordTarget {
  std::string alias; ///< Empty: the name in the URI.
  std::string uri;
  std::string description; ///< A name or path; empty: looked up by the URI's name, or none.
};

/// How far a recording is.
struct RecordStatus {
  uint64_t packets = 0, bytes = 0; ///< On the tape.
  uint64_t timeNs = 0;             ///< Now; any steady clock.
  double ringFill = 0;             ///< 0 to 1. The program waits (or loses) at 1.
  uint64_t lost = 0;               ///< Packets that are known to be missing.
  unsigned armed = 0;              ///< Triggers.
  uint64_t fired = 0;              ///< Firings and captures so far.
};

struct RecordOptions {
  std::vector<RecordTarget> targets; ///< At least one.
  std::string output;
  bool force = false;          ///< Replace an existing file.
  std::string start = "begin"; ///< triggers/StartStop.h.
  std::string stop;            ///< Empty: never.
  std::vector<std::string> command;
  uint64_t ringBytes = 16 << 20;
  uint64_t captureLimit = 64 << 20; ///< Of one memory content; more is cut and flagged.
  uint64_t keyframeInterval = 65536;
  uint64_t tickNs = 1'000'000'000; ///< A Tick when so long no packet came; 0: never.
  EvidenceOptions evidence;
  LiveOptions live; ///< Triggers, captures, flight mode.
  DurableMode durable = DurableMode::Off;
  bool dropWhenFull = false; ///< Do not hold the program up when the ring is full; count what is lost.
  std::string
      preload; ///< A library to put in front of the C library in the program (PreloadTargets.h); empty: none.
  ProgramOutput programOutput{};        ///< Inherit.
  std::vector<std::string> environment; ///< "NAME=value" for the program, beside what a recording needs.
  std::string toolVersion;
  std::function<void(const RecordStatus &)> progress; ///< Called now and then.
};

struct RecordResult {
  TapeSummary summary;
  Outcome outcome;
  CollectorReport report;
  uint64_t bytes = 0;
  std::optional<durable::Cost> durable; ///< If accesses were logged.
  uint64_t programNs = 0;               ///< From starting the program to its end.
  std::vector<std::string> warnings;
  std::string nothingBecause;     ///< Why nothing was recorded; empty: something was.
  std::optional<LiveResult> live; ///< If triggers, captures or flight mode were asked for.
  bool leftRunning =
      false;           ///< A process that used the device outlived the program: what it does is not recorded.
  std::string partial; ///< Where the unfinished tape is, if it could not be finished.
  bool whole() const {
    return report.whole() && !leftRunning && partial.empty() && (!live || live->failure.empty()) &&
           (!durable || (!durable->failures && !durable->unlogged));
  }
};

/// Everything that can be wrong before the program runs is an error, and nothing was launched and nothing
/// written then. Afterwards there is a result: what went wrong (a full disk) is in it, and the program went
/// on all the same.
llvm::Expected<RecordResult> recordProgram(const RecordOptions &options);

/// The environment in which a program drives the same targets by itself, unrecorded: "NAME=value". The
/// targets must make sense.
std::vector<std::string> targetVariables(const std::vector<RecordTarget> &targets);

/// "off", or a list of "markers", "fences" and a period ("10ms") with commas. Usage failure if it is neither.
llvm::Expected<EvidenceOptions> parseEvidence(llvm::StringRef text);

/// "alias=URI" or "URI". Usage failure if the URI makes no sense.
llvm::Expected<RecordTarget> parseRecordTarget(llvm::StringRef text);

} // namespace tapeback
