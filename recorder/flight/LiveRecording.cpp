#include "recorder/flight/LiveRecording.h"
#include "format/Failure.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Path.h"
#include <cerrno>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

using namespace llvm;

namespace tapeback {

using triggers::ActionOp;
using triggers::CaptureAmount;
using triggers::CaptureUnit;

static constexpr size_t maxRunning = 16;
static constexpr unsigned maxCommands = 1000;

Expected<std::unique_ptr<LiveRecording>> LiveRecording::prepare(const LiveOptions &options,
                                                                const std::vector<CollectorDevice> &devices,
                                                                std::function<void()> wake) {
  std::unique_ptr<LiveRecording> result(new LiveRecording(options));
  triggers::CompileOptions compiling;
  compiling.allowExec = options.allowExec;
  std::vector<const Description *> descriptions;
  for (const CollectorDevice &device : devices) {
    descriptions.push_back(device.description ? &*device.description : nullptr);
    compiling.devices.push_back({device.alias, descriptions.back()});
  }
  uint64_t mostPackets = 0;
  bool onlyPackets = true;
  for (const LiveOptions::File &file : options.triggers) {
    Expected<triggers::Program> program = triggers::compileTriggersOrFail(file.text, file.path, compiling);
    if (!program)
      return program.takeError();
    std::string prefix = options.triggers.size() > 1 ? sys::path::stem(file.path).str() + "." : std::string();
    for (const triggers::Trigger &trigger : program->triggers)
      result->names.push_back(prefix + trigger.name);
    for (const triggers::Action &action : program->actions) {
      result->talks |= action.op == ActionOp::Raise;
      result->snapshots |= action.op == ActionOp::Snapshot;
      if (action.op != ActionOp::Capture)
        continue;
      result->captures = true;
      onlyPackets &= action.pre.unit == CaptureUnit::Packets;
      mostPackets = std::max(mostPackets, action.pre.amount);
    }
    result->talks |= !program->events.empty();
    result->programs.push_back(std::make_unique<triggers::Program>(std::move(*program)));
  }
  for (const std::string &text : options.captureAt) {
    Expected<StartStopCondition> condition = StartStopCondition::parse(text, "--capture-at", descriptions);
    if (!condition)
      return condition.takeError();
    std::string name = options.captureAt.size() > 1
                           ? "condition" + std::to_string(result->conditions.size() + 1)
                           : std::string("condition");
    CaptureAmount pre = options.flight.value_or(CaptureAmount{CaptureUnit::Packets, 1'000'000});
    // As much as there is.
    if (pre.unit == CaptureUnit::Bytes)
      pre.amount = ~uint64_t(0);
    onlyPackets &= pre.unit == CaptureUnit::Packets;
    mostPackets = std::max(mostPackets, pre.amount);
    result->names.push_back(name);
    result->conditions.push_back({std::move(*condition), std::move(name), pre, options.post});
    result->captures = true;
  }
  result->needed = onlyPackets ? CaptureAmount{CaptureUnit::Packets, mostPackets}
                               : CaptureAmount{CaptureUnit::Bytes, options.memoryBytes};
  if (result->talks) {
    Expected<std::unique_ptr<TriggerBus>> bus = TriggerBus::join(options.eventDirectory, std::move(wake));
    if (!bus)
      return bus.takeError();
    result->bus = std::move(*bus);
  }
  if (options.flight || result->captures) {
    Expected<std::unique_ptr<CaptureThread>> writing = CaptureThread::start(options.sink);
    if (!writing)
      return writing.takeError();
    result->writing = std::move(*writing);
  }
  return result;
}

LiveRecording::~LiveRecording() = default;

std::string capturePath(StringRef output, StringRef name) {
  if (name.empty())
    return output.str();
  SmallString<256> path(sys::path::parent_path(output));
  sys::path::append(path, sys::path::stem(output) + "-" + name + sys::path::extension(output));
  return std::string(path);
}

TapeWriter &LiveRecording::start(TapeWriter *file, const Manifest &manifest) {
  TapeWriter *writer = file;
  if (writing) {
    FlightOptions keeping;
    keeping.history = options.flight.value_or(needed);
    keeping.memoryBytes = options.memoryBytes;
    if (keeping.history.unit == CaptureUnit::Bytes)
      keeping.memoryBytes = keeping.history.amount;
    keeping.prefixBytes = keeping.memoryBytes / 4;
    // What is kept beyond a small history should not be many times what was asked for.
    if (keeping.history.unit == CaptureUnit::Packets)
      keeping.chunkPackets = uint32_t(std::clamp<uint64_t>(keeping.history.amount / 4, 1024, 16384));
    history = std::make_unique<FlightHistory>(manifest, keeping, file);
    writer = history.get();
  }
  LiveTriggerOptions observing;
  for (size_t i = 0; i < programs.size(); ++i)
    observing.files.push_back({sys::path::stem(options.triggers[i].path).str(), programs[i].get()});
  observing.conditions = std::move(conditions);
  observing.history = history.get();
  observing.marks = writer;
  observing.allowExec = options.allowExec;
  observing.exec = [this](const std::string &command) { return runCommand(command); };
  if (writing)
    observing.capture = [this](CaptureJob job) { writing->add(std::move(job)); };
  if (bus)
    observing.raise = [this](const std::string &event) { bus->raise(event); };
  observing.snapshot = askSnapshot;
  observing.snapshotTaken = snapshotTaken;
  live = std::make_unique<LiveTriggers>(std::move(observing));
  return *writer;
}

bool LiveRecording::runCommand(const std::string &command) {
  poll();
  if (running.size() >= maxRunning || commands >= maxCommands)
    return false;
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  // Standard output is the recorded program's and the report's.
  posix_spawn_file_actions_adddup2(&files, 2, 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // The recorder blocks some signals for itself.
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  const char *words[] = {"/bin/sh", "-c", command.c_str(), nullptr};
  pid_t child = 0;
  int failed = posix_spawn(&child, words[0], &files, &attributes, const_cast<char **>(words), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (failed)
    return false;
  ++commands;
  running.push_back(child);
  return true;
}

void LiveRecording::poll() {
  for (size_t i = 0; i < running.size();) {
    if (waitpid(running[i], nullptr, WNOHANG) == 0)
      ++i;
    else
      running.erase(running.begin() + ptrdiff_t(i));
  }
  if (!bus || !live)
    return;
  for (const BusMessage &message : bus->take())
    live->raised(message.event, "process " + std::to_string(message.pid),
                 message.receivedNs > message.sentNs ? message.receivedNs - message.sentNs : 0);
}

LiveResult LiveRecording::finish(const Outcome &outcome) {
  LiveResult result;
  result.fired = live->fired();
  result.armed = live->armed();
  result.shortfalls = live->shortfalls();
  result.eventsDropped = live->eventsDropped();
  result.failure = live->failureText();
  result.capturesNotTaken = live->capturesNotTaken();
  result.whyNotTaken = live->whyNotTaken();
  result.marksLeftOut = live->marksLeftOut();
  if (bus)
    result.lostEvents = bus->notDelivered();
  constexpr size_t ofEnd = ~size_t(0);
  if (history)
    result.history = history->status();
  result.endWanted =
      options.flight &&
      (options.atEnd == LiveOptions::AtEnd::Always ||
       (options.atEnd == LiveOptions::AtEnd::Failure && outcome.kind == Outcome::Kind::Failed));
  if (result.endWanted && history->packetCount() > 0) {
    CaptureAmount pre = *options.flight;
    if (pre.unit == CaptureUnit::Bytes)
      pre.amount = ~uint64_t(0);
    uint64_t last = history->packetCount() - 1;
    Expected<triggers::CaptureHistory::Facts> facts = history->facts(last);
    Expected<triggers::PreExtent> before =
        facts ? triggers::resolvePre(*history, last, facts->time, pre) : facts.takeError();
    if (before)
      history->hold(before->first);
    Expected<std::unique_ptr<TapeReader>> snapshot =
        before ? history->snapshot(last + 1, outcome) : before.takeError();
    if (snapshot) {
      CaptureJob job;
      job.event = ofEnd;
      job.first = history->snapshotOrdinal(before->first);
      job.last = job.point = history->snapshotOrdinal(last);
      job.text = "the end of the run";
      job.derivation = "the last " + std::to_string(before->count + 1) + " packets of a recording of " +
                       std::to_string(last + 1);
      if (options.flight->unit != CaptureUnit::Bytes) {
        job.derivation += " (asked for " + triggers::amountText(*options.flight) + " before the last";
        job.derivation += before->isShort ? ": SHORT, there was no more history)" : ")";
      }
      job.snapshot = std::move(*snapshot);
      writing->add(std::move(job));
    } else {
      result.endFailure = toFailure(snapshot.takeError()).message;
      if (result.failure.empty())
        result.failure = result.endFailure;
    }
  }
  result.events = std::move(live->events());
  if (writing) {
    writing->finish();
    for (CaptureThread::Done &one : writing->takeDone()) {
      if (!one.written && result.failure.empty())
        result.failure = one.failure;
      if (one.event == ofEnd) {
        result.endCapture = std::move(one.written);
        result.endFailure = one.failure;
      } else if (one.event < result.events.size()) {
        result.events[one.event].written = std::move(one.written);
        if (!one.failure.empty())
          result.events[one.event].notDone = one.failure;
      }
    }
  }
  return result;
}

} // namespace tapeback
