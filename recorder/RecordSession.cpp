#include "recorder/RecordSession.h"
#include "format/Failure.h"
#include "hal/Target.h"
#include "hal/TargetUri.h"
#include "recorder/Facts.h"
#include "recorder/Program.h"
#include "recorder/durable/RingNote.h"
#include "recorder/ring/RingConsumer.h"
#include "recorder/ring/RingFile.h"
#include "recorder/ring/RingProducer.h"
#include "recorder/ring/StampClock.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <atomic>
#include <csignal>
#include <sys/random.h>

using namespace llvm;

namespace tapeback {

namespace {

/// What the device behind the URI is called: the name of its description, and its alias if it has no other.
std::string nameOf(const TargetUri &uri) {
  std::string name = targetDeviceName(uri);
  return name.empty() ? uri.scheme : name;
}

Error checkTargets(const std::vector<RecordTarget> &targets) {
  if (targets.empty())
    return failUsage("no-target", "there is no target to record on", "--target",
                     "for example --target qemu:edu");
  for (const RecordTarget &target : targets) {
    Expected<TargetUri> uri = parseTargetUri(target.uri);
    if (!uri)
      return uri.takeError();
    bool known = false;
    std::string schemes;
    for (const TargetScheme &row : targetSchemes()) {
      known |= uri->scheme == row.scheme;
      schemes += (schemes.empty() ? "" : ", ") + std::string(row.scheme);
    }
    if (!known)
      return failUsage("unknown-scheme", "there is no kind of target '" + uri->scheme + "'", target.uri,
                       "there is: " + schemes);
  }
  return Error::success();
}

Expected<CollectorDevice> prepareDevice(const RecordTarget &target, std::vector<std::string> &warnings) {
  Expected<TargetUri> uri = parseTargetUri(target.uri);
  if (!uri)
    return uri.takeError();
  CollectorDevice device;
  device.uri = target.uri;
  device.alias = target.alias.empty() ? nameOf(*uri) : target.alias;
  std::string wanted = target.description.empty() ? nameOf(*uri) : target.description;
  Expected<DescriptionText> text = loadDescriptionText(wanted);
  if (!text) {
    Failure failure = toFailure(text.takeError());
    if (!target.description.empty() || failure.code != "unknown-description")
      return make_error<Failure>(std::move(failure));
    warnings.push_back(
        "no description is named '" + wanted + "': device '" + device.alias +
        "' is recorded without one (memory that it reads is not captured; --description FILE)");
    return device;
  }
  Expected<Description> description = parseDescription(text->text, text->name);
  if (!description)
    return description.takeError();
  device.descriptionText = text->text;
  device.descriptionName = text->title;
  device.description = std::move(*description);
  return device;
}

Error checkOutput(const RecordOptions &options) {
  if (options.output.empty())
    return failUsage("no-output", "there is no output file", "-o", "give -o FILE.tape");
  if (sys::fs::is_directory(options.output))
    return failUsage("cannot-create", "the output is a directory", options.output);
  if (!options.force && sys::fs::exists(options.output))
    return failUsage("output-exists", "the output exists already", options.output, "--force replaces it");
  return Error::success();
}

/// Everything between the checks and the finished tape.
class Session {
public:
  Session(const RecordOptions &options, std::vector<CollectorDevice> devices,
          std::vector<std::string> warnings, std::unique_ptr<ring::RingFile> reserved)
      : options(options), devices(std::move(devices)), file(std::move(reserved)) {
    result.warnings = std::move(warnings);
  }

  Error prepare();
  Expected<RecordResult> run();

private:
  Error parseConditions();
  Error prepareLive();
  Error openOutput();
  Error makeRecoverable();
  std::vector<std::string> environment() const;
  void drain();
  bool takeBatch();
  void takeAll();
  void between(uint64_t &lastLook);
  void bringUp(uint64_t now);
  void opened();
  void finish();

  const RecordOptions &options;
  std::vector<CollectorDevice> devices;
  CollectorOptions collecting;
  RecordResult result;
  std::unique_ptr<ring::RingFile> file;
  std::unique_ptr<TapeWriter> writer;  ///< Null in flight mode.
  std::unique_ptr<LiveRecording> live; ///< Null without triggers and captures.
  TapeWriter *output = nullptr;        ///< What the collector writes to.
  std::unique_ptr<Collector> collector;
  std::unique_ptr<ring::RingConsumer> consumer;
  ring::RingConsumer::Batch batch;
  std::atomic<ring::RingConsumer *> wakeable{nullptr};
  std::unique_ptr<DurableFile> durableLog; ///< Null: nothing is logged.
  std::string logId;
  RingNote note;
  uint64_t lastWritten = 0;       ///< When bringUp() was last.
  std::atomic<uint64_t> ended{0}; ///< When the program did.
  std::unique_ptr<Program> program;
};

Error Session::parseConditions() {
  std::vector<const Description *> descriptions;
  for (const CollectorDevice &device : devices)
    descriptions.push_back(device.description ? &*device.description : nullptr);
  Expected<StartStopCondition> start = StartStopCondition::parse(options.start, "--start", descriptions);
  if (!start)
    return start.takeError();
  collecting.start = *start;
  if (!options.stop.empty()) {
    Expected<StartStopCondition> stop = StartStopCondition::parse(options.stop, "--stop", descriptions);
    if (!stop)
      return stop.takeError();
    if (stop->isBegin())
      return failUsage("bad-condition", "--stop begin would record nothing", "--stop");
    collecting.stop = *stop;
  }
  collecting.keyframeInterval = options.keyframeInterval;
  collecting.tickIntervalNs = options.tickNs;
  return Error::success();
}

Error Session::prepareLive() {
  if (!options.live.wanted())
    return Error::success();
  Expected<std::unique_ptr<LiveRecording>> prepared = LiveRecording::prepare(options.live, devices, [this] {
    if (ring::RingConsumer *sleeping = wakeable.load())
      sleeping->wake();
  });
  if (!prepared)
    return prepared.takeError();
  live = std::move(*prepared);
  for (const std::string &name : live->captureNames()) {
    std::string path = capturePath(options.output, name + "-1");
    if (!options.force && sys::fs::exists(path))
      return failUsage("output-exists", "a capture exists already", path, "--force replaces it");
  }
  return Error::success();
}

/// The tape, or in flight mode a history in memory.
Error Session::openOutput() {
  Manifest manifest = recordingManifest(options, devices);
  manifest.facts["stamps"] =
      (file->clock().source == ring::StampSource::Counter ? "counter: " : "monotonic clock: ") +
      file->clockReason();
  bool flies = live && live->flight();
  if (options.durable != DurableMode::Off) {
    if (flies)
      return failUsage("bad-option", "--durable needs a tape that is written all the time", "--flight",
                       "leave out one of the two");
    std::array<uint8_t, 16> random;
    if (getrandom(random.data(), random.size(), 0) != ssize_t(random.size()))
      return failSystem("durable-failed", "the system has no random numbers");
    manifest.facts[durable::manifestKey] = logId = llvm::toHex(ArrayRef<uint8_t>(random), /*LowerCase=*/true);
  }
  if (!flies) {
    Expected<std::unique_ptr<TapeWriter>> created = TapeWriter::create(options.output, manifest);
    if (!created)
      return created.takeError();
    writer = std::move(*created);
  }
  if (live)
    live->setSnapshots(
        [this] {
          ring::Header &header = file->header();
          uint64_t now = ring::Producer::now();
          header.requestTime.store(now, std::memory_order_relaxed);
          header.requests.store(1, std::memory_order_relaxed);
          return now;
        },
        [this] { return file->header().requests.load(std::memory_order_relaxed) == 0; });
  output = live ? &live->start(writer.get(), manifest) : writer.get();
  if (!live)
    return Error::success();
  collecting.observer = live->observer();
  if (live->flight())
    collecting.keyframeInterval = 0; // The history sees to its own.
  return Error::success();
}

/// What `recover` needs if we are killed: from the first moment there is a tape, the ring says which, and
/// accesses that may take the host down are logged beside it.
Error Session::makeRecoverable() {
  for (const ring::KeptRing &kept : ring::keptRings())
    result.warnings.push_back("a killed recording left a ring in shared memory (" + kept.path +
                              ") that its tape needs: `tapeback recover " + kept.partial +
                              " -o FILE`, then remove that tape");
  if (Error error = writer->flush())
    return error;
  std::string partial = options.output + ".partial";
  file->nameTape(partial);
  note = RingNote::of(devices);
  note.write(file->path());
  if (options.durable == DurableMode::Off)
    return Error::success();
  std::vector<DurableSource> logged;
  for (const CollectorDevice &device : devices)
    logged.push_back({device.alias, device.description ? &*device.description : nullptr});
  Expected<std::unique_ptr<DurableFile>> log = DurableFile::create(partial, options.durable, logged, logId);
  if (!log)
    return log.takeError();
  durableLog = std::move(*log);
  return Error::success();
}

Error Session::prepare() {
  if (Error error = parseConditions())
    return error;
  if (Error error = prepareLive())
    return error;
  std::vector<CaptureSource> sources;
  for (const CollectorDevice &device : devices)
    sources.push_back({device.alias, device.uri, device.description ? &*device.description : nullptr});
  EvidenceOptions evidence = options.evidence;
  // The program looks for requests where it looks at the time: at every call, which recordings without a
  // `snapshot` are spared.
  if (live && live->wantsSnapshots() && !evidence.periodNs)
    evidence.periodNs = ~uint64_t(0) >> 1;
  Expected<std::vector<uint8_t>> table = compileCaptureTable(sources, evidence);
  if (!table)
    return table.takeError();
  if (Error error = file->begin(*table))
    return error;
  if (Error error = openOutput())
    return error;
  if (writer)
    if (Error error = makeRecoverable()) {
      writer->discard();
      return error;
    }
  collector = std::make_unique<Collector>(*output, devices, collecting);
  consumer = std::make_unique<ring::RingConsumer>(*file);
  // Triggers and other recordings wait for what is recorded; a tape does not.
  constexpr unsigned longestLag = 128;
  consumer->lagBehind(live ? 0 : longestLag);
  if (writer)
    consumer->holdUntilWritten();
  wakeable.store(consumer.get());
  if (Error error = file->awaitMemory()) {
    output->discard();
    return error;
  }
  return Error::success();
}

/// The ring, and the targets by environment as well: if we die before the program looks, it runs on
/// unrecorded.
std::vector<std::string> Session::environment() const {
  std::vector<std::string> variables = targetVariables(options.targets);
  variables.push_back(std::string(ring::environmentName) + "=" + file->path());
  if (durableLog)
    variables.push_back(std::string(durable::environmentName) + "=" + durableLog->path());
  variables.insert(variables.end(), options.environment.begin(), options.environment.end());
  if (!options.preload.empty()) {
    // In front of what the user preloads himself.
    const char *others = std::getenv("LD_PRELOAD");
    variables.push_back("LD_PRELOAD=" + options.preload +
                        (others && *others ? std::string(":") + others : ""));
  }
  return variables;
}

Expected<RecordResult> Session::run() {
  uint64_t start = ring::Producer::now();
  Expected<std::unique_ptr<Program>> started =
      Program::start(options.command, environment(), options.programOutput, [this] {
        ended.store(ring::Producer::now());
        consumer->wake();
      });
  if (!started) {
    output->discard();
    return started.takeError();
  }
  program = std::move(*started);
  drain();
  uint64_t end = ended.load();
  result.programNs = end > start ? end - start : ring::Producer::now() - start;
  finish();
  return std::move(result);
}

/// Flushes and reports while records come in without a pause.
void Session::between(uint64_t &lastLook) {
  uint64_t now = ring::Producer::now();
  if (live)
    live->poll();
  if (now - lastLook < 100'000'000)
    return;
  lastLook = now;
  collector->idle(now);
  if (now - lastWritten >= collecting.flushIntervalNs)
    bringUp(now);
  if (!options.progress)
    return;
  const CollectorReport &report = collector->report();
  options.progress({output->packetCount(), output->bytesWritten(), now, consumer->fill(),
                    report.notUnderstood + report.ringFull + report.diskErrors,
                    live ? live->triggers().armed() : 0, live ? live->triggers().fired() : 0});
}

/// Takes one batch. False if there is none.
bool Session::takeBatch() {
  switch (consumer->next(batch)) {
  case ring::RingConsumer::Status::Empty: return false;
  case ring::RingConsumer::Status::Corrupt: collector->damaged(); return true;
  case ring::RingConsumer::Status::Accesses:
    collector->acceptAccesses(batch.accesses, batch.firstName, batch.concurrent);
    return true;
  case ring::RingConsumer::Status::Record:
    collector->accept(batch.record, batch.payload, batch.others);
    if (batch.record.type == ring::RecordType::DeviceOpen)
      opened();
    return true;
  }
  return false;
}

/// What was taken out of the ring is in the tape's file, and the ring says so: a recovery goes on from there.
/// After a failure to write nothing is waited for any more.
void Session::bringUp(uint64_t now) {
  lastWritten = now;
  collector->flush(now);
  const CollectorReport &report = collector->report();
  consumer->markWritten(report.stopped   ? ring::RingPhase::After
                        : report.started ? ring::RingPhase::Recording
                                         : ring::RingPhase::Before);
}

/// Who recovers the ring needs to know what the program calls its devices' spaces.
void Session::opened() {
  uint64_t now = ring::Producer::now();
  collector->flush(now);
  note.opened(batch.record.device, batch.payload);
  note.write(file->path());
  bringUp(now);
}

void Session::takeAll() {
  uint64_t lastLook = ring::Producer::now();
  for (unsigned count = 1; takeBatch(); ++count) {
    if (consumer->wantsWritten())
      bringUp(ring::Producer::now());
    if (count % 256)
      continue;
    between(lastLook);
    // A process that outlived the program must not keep us here.
    if (program->ended())
      return;
  }
}

void Session::drain() {
  uint64_t lastLook = 0;
  while (!program->ended()) {
    takeAll();
    if (program->ended())
      break;
    collector->seenUntil(consumer->watermark());
    consumer->wait(250);
    between(lastLook);
  }
  consumer->freeze();
  while (takeBatch())
    ;
}

void Session::finish() {
  uint32_t holder = file->header().producerPid.load();
  result.leftRunning =
      holder && int(holder) != program->pid() && (kill(pid_t(holder), 0) == 0 || errno != ESRCH);
  file->header().collectorState.store(uint32_t(ring::CollectorState::Closed));
  if (result.leftRunning)
    result.warnings.push_back("process " + std::to_string(holder) +
                              " still uses the device: what it does from now on is not recorded");
  collector->givenUp(file->header().unrecorded.load());
  if (file->torn()) {
    collector->damaged(); // Even if all that is missing is what we cannot know of.
    result.warnings.push_back("the ring's file was cut short while the program ran: what was in it is lost");
  }
  ProgramFate fate{program->end().exit, program->end().signal};
  Expected<TapeSummary> summary = collector->finish(fate);
  result.report = collector->report();
  result.outcome = collector->outcome();
  result.bytes = output->bytesWritten();
  if (live)
    result.live = live->finish(result.outcome);
  if (durableLog)
    result.durable = durableLog->cost();
  if (durableLog && !summary)
    durableLog->keep();
  if (summary)
    result.summary = *summary;
  else {
    Failure failure = toFailure(summary.takeError());
    if (!result.report.writeFailure)
      result.report.writeFailure.emplace(std::move(failure));
    if (writer)
      result.partial = options.output + ".partial";
  }
  // A packet that a start condition left out is one that the program made.
  const bool made = result.summary.packets || result.report.notRecorded;
  if (!file->header().producersSeen.load() && !file->torn())
    result.nothingBecause = "no device was opened through libtapeback.so on this ring (a process that "
                            "was refused, such as another user's, has said so itself)";
  else if (summary && !made)
    result.nothingBecause = "the program came to libtapeback.so, but opened no device";
  else if (!result.report.started)
    result.nothingBecause = "the start condition " + collecting.start.text() + " was never met";
  if (!result.nothingBecause.empty())
    result.warnings.push_back(result.nothingBecause + ": nothing was recorded");
  else if (collecting.stop && !result.report.stopped)
    result.warnings.push_back("the stop condition " + collecting.stop->text() +
                              " was never met: recorded to the end");
}

} // namespace

std::vector<std::string> targetVariables(const std::vector<RecordTarget> &targets) {
  std::vector<std::string> variables;
  if (targets.size() == 1)
    variables.push_back("TAPEBACK_TARGET=" + targets[0].uri);
  for (const RecordTarget &target : targets) {
    std::string name = target.alias;
    if (name.empty()) {
      Expected<TargetUri> uri = parseTargetUri(target.uri);
      if (!uri) {
        consumeError(uri.takeError()); // Nobody can open it by a name then.
        continue;
      }
      name = nameOf(*uri);
    }
    for (char &c : name)
      c = isAlnum(c) ? c : '_';
    variables.push_back("TAPEBACK_TARGET_" + name + "=" + target.uri);
  }
  return variables;
}

Expected<EvidenceOptions> parseEvidence(StringRef text) {
  EvidenceOptions options{false, false, 0};
  if (text == "off")
    return options;
  SmallVector<StringRef, 4> words;
  text.split(words, ',');
  for (StringRef word : words) {
    uint64_t milliseconds = 0;
    if (word == "markers")
      options.atMarkers = true;
    else if (word == "fences")
      options.atFences = true;
    else if (word.consume_back("ms") && !word.getAsInteger(10, milliseconds) && milliseconds > 0 &&
             milliseconds <= 3'600'000 && !options.periodNs)
      options.periodNs = milliseconds * 1'000'000;
    else
      return failUsage("bad-option", "'" + text.str() + "' does not say when to read counters", "--counters",
                       "off, or some of: markers,fences,Nms (N milliseconds)");
  }
  return options;
}

Expected<RecordTarget> parseRecordTarget(StringRef text) {
  RecordTarget target;
  size_t equals = text.find('='), colon = text.find(':');
  // An option's '=' comes after the scheme's ':'.
  if (equals != StringRef::npos && equals < colon) {
    target.alias = text.take_front(equals).str();
    if (target.alias.empty() || StringRef(target.alias).find_if_not([](char c) {
          return isAlnum(c) || c == '_' || c == '-' || c == '.';
        }) != StringRef::npos)
      return failUsage("bad-alias",
                       "the device's alias '" + target.alias + "' is not made of letters, digits, _ - .",
                       text.str());
    text = text.drop_front(equals + 1);
  }
  target.uri = text.str();
  Expected<TargetUri> uri = parseTargetUri(text);
  if (!uri)
    return uri.takeError();
  return target;
}

Expected<RecordResult> recordProgram(const RecordOptions &options) {
  if (options.command.empty())
    return failUsage("no-program", "there is no program to record", "--",
                     "give it after --: … -- program args");
  if (Error error = checkTargets(options.targets))
    return error;
  if (Error error = checkOutput(options))
    return error;
  // The counter's rate is measured, and the ring's memory allocated, while the descriptions are read.
  const ring::StampChoice stamps(/*monotonicOnly=*/false);
  ring::RingOptions ringOptions;
  ringOptions.dataBytes = options.ringBytes;
  ringOptions.captureLimit = options.captureLimit;
  ringOptions.dropWhenFull = options.dropWhenFull;
  ringOptions.stamps = &stamps;
  Expected<std::unique_ptr<ring::RingFile>> reserved = ring::RingFile::reserve(ringOptions);
  if (!reserved)
    return reserved.takeError();
  std::vector<std::string> warnings;
  std::vector<CollectorDevice> devices;
  for (const RecordTarget &target : options.targets) {
    Expected<CollectorDevice> device = prepareDevice(target, warnings);
    if (!device)
      return device.takeError();
    devices.push_back(std::move(*device));
  }
  Session session(options, std::move(devices), std::move(warnings), std::move(*reserved));
  if (Error error = session.prepare())
    return error;
  return session.run();
}

} // namespace tapeback
