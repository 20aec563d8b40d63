#include "recorder/durable/LeftBehind.h"
#include "format/Failure.h"
#include "llvm/Support/FileSystem.h"
#include <cstring>

using namespace llvm;

namespace tapeback {

Error refuseRing(const std::string &path) {
  const std::string file = sys::fs::is_directory(path) ? path + "/ring" : path;
  Expected<std::unique_ptr<ring::RingFile>> opened = ring::RingFile::openLeftBehind(file);
  if (!opened) {
    Failure failure = toFailure(opened.takeError());
    // Others lock their files, too.
    if (failure.code == "ring-in-use" && StringRef(file).ends_with("/ring"))
      return make_error<Failure>(std::move(failure));
    return Error::success(); // No ring: whatever else it is, it is for others to say.
  }
  const ring::TapeName &tape = (*opened)->header().tape;
  const std::string name(tape.path, strnlen(tape.path, sizeof(tape.path)));
  if (tape.inode)
    return failUsage("is-a-ring", "this is the ring of a recording whose recorder was killed, not its tape",
                     file, "give its unfinished tape, " + name + "; what the ring has is taken with it");
  return failUsage("flight-ring",
                   "this is the ring of a flight recording whose recorder was killed: the packets that it "
                   "kept were in the recorder's memory, and are lost",
                   file, "without --flight, what was recorded outlives its recorder");
}

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
