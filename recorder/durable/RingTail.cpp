#include "recorder/durable/RingTail.h"
#include "format/Failure.h"
#include "recorder/ring/RingConsumer.h"
#include <cerrno>
#include <csignal>
#include <fstream>

using namespace llvm;

namespace tapeback {

Expected<std::unique_ptr<RingTail>> RingTail::open(const std::string &ringPath, LogTail *log) {
  std::unique_ptr<RingTail> tail(new RingTail(log));
  Expected<std::unique_ptr<ring::RingFile>> opened = ring::RingFile::openLeftBehind(ringPath);
  if (!opened)
    return opened.takeError();
  tail->file = std::move(*opened);
  Expected<RingNote> note = RingNote::read(ringPath);
  if (!note)
    return note.takeError();
  tail->note = std::move(*note);
  return tail;
}

Expected<std::vector<CollectorDevice>> RingTail::devicesOfNote() const {
  std::vector<CollectorDevice> devices;
  for (const RingNote::Device &known : note.devices) {
    CollectorDevice device;
    device.alias = known.alias;
    device.uri = known.uri;
    device.descriptionName = known.descriptionName;
    device.descriptionText = known.descriptionText;
    if (!known.descriptionText.empty()) {
      Expected<Description> description = parseDescription(known.descriptionText, known.descriptionName);
      if (!description)
        return description.takeError();
      device.description = std::move(*description);
    }
    devices.push_back(std::move(device));
  }
  return devices;
}

/// A killed process may stay in the list of processes until somebody asks how it ended.
static bool isAlive(uint32_t pid) {
  if (!pid || (kill(pid_t(pid), 0) != 0 && errno == ESRCH))
    return false;
  std::ifstream status("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(status, line))
    return true;
  size_t name = line.rfind(')');
  return name == std::string::npos || name + 2 >= line.size() || !StringRef("ZX").contains(line[name + 2]);
}

/// A new collector is told what the tape's had been told: which devices are open.
static void openKnownDevices(Collector &collector, const RingNote &note, const ContinuedTape &tape) {
  for (const std::string &alias : tape.devicesOnTape())
    for (size_t i = 0; i < note.devices.size(); ++i) {
      if (note.devices[i].alias != alias || !note.devices[i].opened)
        continue;
      std::vector<uint8_t> payload = RingNote::openPayload(note.devices[i]);
      ring::Record record = {};
      record.type = ring::RecordType::DeviceOpen;
      record.device = uint16_t(i);
      record.payloadBytes = payload.size();
      collector.accept(record, payload);
    }
}

Expected<RecoverTail::Result> RingTail::append(TapeWriter &writer) {
  RecoverTail::Result result;
  const ring::Header &header = file->header();
  if (header.phase.load() != ring::RingPhase::Recording) {
    result.notes.push_back("the ring is there, but the recording was waiting for its start condition, or was "
                           "stopped: nothing of it belongs to the tape");
    result.whole = header.phase.load() == ring::RingPhase::After;
    return result;
  }
  Expected<std::vector<CollectorDevice>> devices = devicesOfNote();
  if (!devices)
    return devices.takeError();
  CollectorOptions options;
  options.keyframeInterval = 0;
  continued.begin(writer);
  Collector collector(continued, std::move(*devices), options);
  openKnownDevices(collector, note, continued);
  continued.ready();
  bool torn = false;
  std::unique_ptr<ring::RingConsumer> consumer = ring::RingConsumer::ofLeftBehind(*file, torn);
  if (torn)
    collector.damaged();
  ring::RingConsumer::Batch batch;
  for (bool more = true; more;)
    switch (consumer->next(batch)) {
    case ring::RingConsumer::Status::Empty: more = false; break;
    case ring::RingConsumer::Status::Corrupt: collector.damaged(); break;
    case ring::RingConsumer::Status::Accesses:
      collector.acceptAccesses(batch.accesses, batch.firstName, batch.concurrent);
      break;
    case ring::RingConsumer::Status::Record:
      collector.accept(batch.record, batch.payload, batch.others);
      break;
    }
  uint32_t holder = header.producerPid.load();
  bool lives = isAlive(holder);
  uint64_t unrecorded = header.unrecorded.load();
  collector.givenUp(unrecorded);
  Expected<TapeSummary> summary = collector.finish({});
  if (!summary)
    return summary.takeError();
  const CollectorReport &report = collector.report();
  result.packets = continued.packetsAppended();
  result.whole = report.whole() && !lives && !torn;
  result.lost = report.notUnderstood ? unknownCount : report.givenUp + report.ringFull;
  for (const std::string &text : report.notes)
    result.notes.push_back(text);
  result.notes.push_back("from the ring " + file->path() + ": " + std::to_string(result.packets) +
                         " packets that the tape had not");
  if (report.pending)
    result.notes.push_back(std::to_string(report.pending) + " operations in the ring never came back");
  if (torn)
    result.notes.push_back("a part of the ring was used again before it was written");
  if (report.givenUp)
    result.notes.push_back("the program went on for " + std::to_string(report.givenUp) +
                           " operations that were not recorded any more");
  if (lives)
    result.notes.push_back("process " + std::to_string(holder) +
                           " still uses the device: what it does is not recorded any more");
  return result;
}

} // namespace tapeback
