#include "recorder/durable/LeftBehind.h"
#include "format/Failure.h"
#include "llvm/Support/FileSystem.h"

using namespace llvm;

namespace tapeback {

void LeftBehind::note(Error error) {
  Failure failure = toFailure(std::move(error));
  notes.push_back(failure.where + ": " + failure.message + ": not used");
}

LeftBehind::LeftBehind(const std::string &partial, const std::string &given) {
  Expected<DurableLog> found = readDurableLog(durableLogOf(partial));
  if (found) {
    log = std::make_unique<LogTail>(std::move(*found));
  } else {
    Failure failure = toFailure(found.takeError());
    if (failure.code != "no-durable-log")
      note(make_error<Failure>(std::move(failure)));
  }
  std::string path = given.empty() ? ring::findRingOf(partial) : given;
  if (path.empty())
    return;
  if (sys::fs::is_directory(path))
    path += "/ring";
  Expected<std::unique_ptr<RingTail>> opened = RingTail::open(path, log.get());
  if (opened)
    ring = std::move(*opened);
  else
    note(opened.takeError());
}

void LeftBehind::tookManifest(const Manifest &manifest) {
  if (log && !log->belongsTo(manifest)) {
    notes.push_back("the durable log beside the tape is of another recording: not used");
    logIsForeign = true;
  }
}

void LeftBehind::tookDevice(const DeviceRecord &device) {
  if (log)
    log->tookDevice(device);
  if (ring)
    ring->tape().tookDevice(device);
}

void LeftBehind::tookSpace(StringRef name) {
  if (log)
    log->tookSpace(name);
  if (ring)
    ring->tape().tookSpace(name);
}

void LeftBehind::tookClock(const TapeClock &clock) {
  if (ring)
    ring->tape().tookClock(clock);
}

void LeftBehind::took(const Packet &packet, const PacketExtra &) {
  if (log)
    log->took(packet);
  if (ring)
    ring->tape().took(packet);
}

Expected<RecoverTail::Result> LeftBehind::append(TapeWriter &writer) {
  Result result;
  if (ring) {
    Expected<Result> appended = ring->append(writer);
    if (!appended)
      return appended.takeError();
    result = std::move(*appended);
  }
  result.notes.insert(result.notes.begin(), notes.begin(), notes.end());
  return result;
}

Expected<RecoverTail::Result> LeftBehind::appendPending(TapeWriter &writer) {
  return log && !logIsForeign ? log->appendPending(writer) : Result();
}

} // namespace tapeback
