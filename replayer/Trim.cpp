#include "replayer/Trim.h"
#include "format/Failure.h"
#include "replayer/Established.h"
#include "replayer/History.h"
#include "replayer/StartState.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace tapeback {
namespace {

/// One trim. Works on packet numbers: [start, from) is the prefix, [from, end) the range.
class Trimming {
public:
  Trimming(TapeSource &source, llvm::StringRef path, const TrimOptions &options)
      : source(source), reader(source.reader()), path(path), options(options) {}

  llvm::Expected<TrimReport> run();

private:
  llvm::Error findRange();
  llvm::Error chooseStart();
  llvm::Expected<bool> tryKeyframe(uint64_t window, std::string &why);
  llvm::Error checkPrefix();
  llvm::Expected<std::optional<uint64_t>> findLoss(uint64_t first, uint64_t last);
  llvm::Expected<std::vector<uint64_t>> restorableWindows();

  llvm::Error write(TapeWriter &writer);
  llvm::Error writeTables(TapeWriter &writer);
  llvm::Error writeStartKeyframes(TapeWriter &writer);
  llvm::Error writePackets(TapeWriter &writer);
  llvm::Error copyContent(TapeWriter &writer, BlobId id);
  llvm::Error copyKeyframe(TapeWriter &writer, Keyframe keyframe);
  llvm::Error copyPacket(TapeWriter &writer, Packet packet, PacketExtra extra, uint64_t ordinal);
  llvm::Expected<Outcome> outcome();
  Manifest manifest() const;

  TapeSource &source;
  TapeReader &reader;
  llvm::StringRef path;
  const TrimOptions &options;
  TrimReport report;
  uint64_t start = 0, from = 0, end = 0;
  uint64_t startWindow = 0;
  std::vector<std::unique_ptr<History>> atStart; ///< What each device had been told before `start`.
  bool withKeyframe = false;
};

llvm::Error Trimming::findRange() {
  uint64_t windows = reader.summary().windows;
  if (options.firstWindow > options.lastWindow || options.lastWindow >= windows)
    return failUsage("bad-range",
                     "there are no windows w" + std::to_string(options.firstWindow) + "..w" +
                         std::to_string(options.lastWindow) + " on the tape",
                     {}, windows ? "it has w0..w" + std::to_string(windows - 1) : "it has no windows");
  llvm::Expected<WindowInfo> first = reader.window(options.firstWindow);
  if (!first)
    return first.takeError();
  llvm::Expected<WindowInfo> last = reader.window(options.lastWindow);
  if (!last)
    return last.takeError();
  from = first->firstPacket;
  end = last->firstPacket + last->packetCount;
  return llvm::Error::success();
}

/// Whether the tape can begin at a window with keyframes: all devices restorable there, and nothing in the
/// range depends on what a keyframe does not restore. Fills `atStart` and `start` if so.
llvm::Expected<bool> Trimming::tryKeyframe(uint64_t window, std::string &why) {
  llvm::Expected<WindowInfo> info = reader.window(window);
  if (!info)
    return info.takeError();
  uint64_t cut = info->firstPacket;
  llvm::Expected<std::optional<uint64_t>> loss = findLoss(cut, from);
  if (!loss)
    return loss.takeError();
  if (*loss) {
    why = "window " + std::to_string(window) + ": packets were lost behind it, at packet " +
          std::to_string(**loss);
    return false;
  }
  std::vector<std::unique_ptr<History>> histories;
  for (size_t device = 0; device < source.deviceCount(); ++device) {
    llvm::Expected<std::unique_ptr<History>> history =
        History::before(source, uint16_t(device), cut, /*contents=*/true);
    if (!history)
      return history.takeError();
    llvm::Expected<Keyframe> keyframe = (*history)->state().keyframe(
        [](llvm::ArrayRef<uint8_t>) -> llvm::Expected<BlobId> { return BlobId(); });
    if (!keyframe)
      return keyframe.takeError();
    if (!keyframe->restorable) {
      why = "window " + std::to_string(window) + ": " + keyframe->reason;
      return false;
    }
    histories.push_back(std::move(*history));
  }
  for (size_t device = 0; device < source.deviceCount(); ++device) {
    // The check walks on; what is kept for writing must stay at the cut.
    llvm::Expected<std::optional<std::string>> missing =
        findUnestablished(source, uint16_t(device), cut, end);
    if (!missing)
      return missing.takeError();
    if (*missing) {
      why = "window " + std::to_string(window) + ": " + **missing;
      return false;
    }
  }
  start = cut;
  startWindow = window;
  atStart = std::move(histories);
  withKeyframe = true;
  return true;
}

/// Windows before the range at whose start all devices are restorable, nearest first, not too far back.
llvm::Expected<std::vector<uint64_t>> Trimming::restorableWindows() {
  constexpr uint64_t farthest = 256;
  constexpr size_t most = 8;
  std::vector<uint64_t> found;
  uint64_t first = options.firstWindow > farthest ? options.firstWindow - farthest : 1;
  std::vector<std::unique_ptr<History>> histories;
  for (uint64_t window = first; window < options.firstWindow; ++window) {
    llvm::Expected<WindowInfo> info = reader.window(window);
    if (!info)
      return info.takeError();
    bool restorable = true;
    for (size_t device = 0; device < source.deviceCount(); ++device) {
      if (device == histories.size()) {
        llvm::Expected<std::unique_ptr<History>> history =
            History::before(source, uint16_t(device), info->firstPacket, /*contents=*/true);
        if (!history)
          return history.takeError();
        histories.push_back(std::move(*history));
      } else if (llvm::Error error = histories[device]->advanceTo(info->firstPacket)) {
        return error;
      }
      if (!histories[device]->state().quiescent()) {
        restorable = false;
        continue;
      }
      llvm::Expected<Keyframe> keyframe = histories[device]->state().keyframe(
          [](llvm::ArrayRef<uint8_t>) -> llvm::Expected<BlobId> { return BlobId(); });
      if (!keyframe)
        return keyframe.takeError();
      restorable &= keyframe->restorable;
    }
    if (restorable)
      found.push_back(window);
  }
  std::reverse(found.begin(), found.end());
  if (found.size() > most)
    found.resize(most);
  return found;
}

/// The first packet of [first, last) at which packets are missing.
llvm::Expected<std::optional<uint64_t>> Trimming::findLoss(uint64_t first, uint64_t last) {
  PacketBatch batch;
  for (uint64_t position = first; position < last; position += batch.packets.size()) {
    if (llvm::Error error = reader.readBlockFrom(position, batch))
      return error;
    if (batch.packets.empty())
      break;
    for (size_t i = 0; i < batch.packets.size() && position + i < last; ++i) {
      const Packet &packet = batch.packets[i];
      // A recording that begins late says so at its head, behind its keyframes.
      bool atHead =
          packet.address == uint64_t(LossCause::NotRecording) && position + i < source.deviceCount() + 8;
      if (packet.kind == PacketKind::Loss && packet.value && !atHead)
        return std::optional<uint64_t>(position + i);
    }
  }
  return std::optional<uint64_t>();
}

/// A prefix from the very start carries everything, unless something is missing from it.
llvm::Error Trimming::checkPrefix() {
  llvm::Expected<std::optional<uint64_t>> loss = findLoss(0, from);
  if (!loss)
    return loss.takeError();
  if (*loss) {
    std::string why = report.notes.empty() ? std::string() : " (" + llvm::join(report.notes, "; ") + ")";
    return failUsage(
        "not-trimmable",
        "packets were lost at packet " + std::to_string(**loss) +
            ", so what comes before the range does not establish its state, and there is no restorable "
            "keyframe either" +
            why,
        "window " + std::to_string(options.firstWindow), "begin the range at an earlier or later window");
  }
  llvm::Expected<StartState> begins = findStartState(source, /*fromReset=*/false);
  if (!begins) {
    Failure failure = toFailure(begins.takeError());
    return failUsage("not-trimmable", failure.message, failure.where,
                     "begin the range at a window whose state can be restored");
  }
  start = startWindow = 0;
  atStart.clear();
  withKeyframe = false;
  return llvm::Error::success();
}

llvm::Error Trimming::chooseStart() {
  if (!from) {
    report.how = "the range begins where the tape does";
    return checkPrefix();
  }
  if (options.start != TrimOptions::Start::Prefix) {
    std::string why;
    llvm::Expected<bool> possible = tryKeyframe(options.firstWindow, why);
    if (!possible)
      return possible.takeError();
    if (*possible) {
      report.how = "a keyframe at the cut";
      return llvm::Error::success();
    }
    report.notes.push_back(why);
    if (options.start == TrimOptions::Start::Keyframe)
      return failUsage("not-trimmable", "the state at the cut cannot be restored: " + why,
                       "window " + std::to_string(options.firstWindow),
                       "a pinned prefix may do: leave out --start keyframe");
    llvm::Expected<std::vector<uint64_t>> earlier = restorableWindows();
    if (!earlier)
      return earlier.takeError();
    for (uint64_t window : *earlier) {
      possible = tryKeyframe(window, why);
      if (!possible)
        return possible.takeError();
      if (*possible) {
        report.how =
            "a keyframe at window " + std::to_string(window) + " and the windows from there as a prefix";
        return llvm::Error::success();
      }
      report.notes.push_back(why);
    }
  }
  report.how = "everything before the range as a prefix";
  return checkPrefix();
}

//===- Writing
//-----------------------------------------------------------------------------------------------===//

Manifest Trimming::manifest() const {
  Manifest result = reader.manifest();
  result.parentRoot = reader.summary().root;
  result.derivation =
      "trim w" + std::to_string(options.firstWindow) + "..w" + std::to_string(options.lastWindow);
  return result;
}

llvm::Error Trimming::writeTables(TapeWriter &writer) {
  for (const DeviceRecord &device : reader.devices())
    if (llvm::Expected<uint16_t> id = writer.addDevice(device); !id)
      return id.takeError();
  for (const std::string &space : reader.spaces().drop_front(reader.spaces().empty() ? 0 : 1))
    if (llvm::Expected<uint16_t> id = writer.addSpace(space); !id)
      return id.takeError();
  for (const TapeClock &clock : reader.clocks().drop_front(reader.clocks().empty() ? 0 : 1))
    if (llvm::Expected<uint8_t> id = writer.addClock(clock); !id)
      return id.takeError();
  return llvm::Error::success();
}

llvm::Error Trimming::copyContent(TapeWriter &writer, BlobId id) {
  if (!id || writer.hasBlob(id))
    return llvm::Error::success();
  llvm::Expected<llvm::ArrayRef<uint8_t>> content = reader.blob(id);
  if (!content)
    return content.takeError();
  llvm::Expected<BlobId> stored = writer.blob(*content);
  if (!stored)
    return stored.takeError();
  if (*stored != id)
    return failTape("bad-content", "a content of the tape does not have the hash it is stored under");
  return llvm::Error::success();
}

llvm::Error Trimming::copyKeyframe(TapeWriter &writer, Keyframe keyframe) {
  for (const std::vector<KeyframeExtent> *extents : {&keyframe.memory, &keyframe.internal})
    for (const KeyframeExtent &extent : *extents)
      if (llvm::Error error = copyContent(writer, extent.content))
        return error;
  return writer.keyframe(std::move(keyframe));
}

llvm::Error Trimming::writeStartKeyframes(TapeWriter &writer) {
  if (!withKeyframe)
    return llvm::Error::success(); // The tape's own, if it begins with one, are copied with its packets.
  for (std::unique_ptr<History> &history : atStart) {
    llvm::Expected<Keyframe> keyframe =
        history->state().keyframe([&](llvm::ArrayRef<uint8_t> content) { return writer.blob(content); });
    if (!keyframe)
      return keyframe.takeError();
    if (llvm::Error error = writer.keyframe(std::move(*keyframe)))
      return error;
  }
  return llvm::Error::success();
}

llvm::Error Trimming::copyPacket(TapeWriter &writer, Packet packet, PacketExtra extra, uint64_t ordinal) {
  if (ordinal < from)
    packet.flags |= Prefix;
  if (linksToPacket(packet.kind) && extra.link != noLink) {
    if (extra.link >= start && extra.link < ordinal) {
      extra.link -= start;
    } else {
      extra.link = noLink;
      ++report.linksCut;
    }
  }
  if (llvm::Error error = copyContent(writer, extra.payload))
    return error;
  return writer.append(packet, extra);
}

llvm::Error Trimming::writePackets(TapeWriter &writer) {
  llvm::Expected<std::vector<TapeReader::TriggerRecord>> triggers = reader.triggers();
  if (!triggers)
    return triggers.takeError();
  uint64_t keyframes = reader.keyframeCount(), nextKeyframe = 0;
  WindowCursor cursor(reader);
  PacketBatch batch;
  for (uint64_t position = start; position < end;) {
    if (options.progress)
      options.progress(position - start, end - start);
    if (llvm::Error error = reader.readBlockFrom(position, batch))
      return error;
    if (batch.packets.empty() || batch.firstOrdinal != position)
      return failTape("short-tape", "the tape ends before its last packet",
                      "packet " + std::to_string(position));
    for (size_t i = 0; i < batch.packets.size() && position < end; ++i, ++position) {
      if (llvm::Error error = cursor.moveTo(position))
        return error;
      for (; nextKeyframe < keyframes; ++nextKeyframe) {
        llvm::Expected<Keyframe> keyframe = reader.keyframe(nextKeyframe);
        if (!keyframe)
          return keyframe.takeError();
        if (keyframe->packet > position)
          break;
        // At the start ours says the same, or more.
        if (keyframe->packet == position && !(withKeyframe && position == start))
          if (llvm::Error error = copyKeyframe(writer, std::move(*keyframe)))
            return error;
      }
      Packet packet = batch.packets[i];
      if (llvm::Error error = copyPacket(writer, packet, batch.extra(packet), position))
        return error;
      for (const TapeReader::TriggerRecord &trigger : *triggers)
        if (trigger.packet == position)
          if (llvm::Error error = writer.trigger(position - start, trigger.text))
            return error;
      if (position + 1 == cursor.endPacket())
        if (llvm::Error error = writer.endWindow(cursor.info().quiescent))
          return error;
    }
  }
  return llvm::Error::success();
}

/// The recorded outcome as it concerns this range. A signature's marker keeps its name and the commands since
/// it, but is counted from the new start; if it lies before the start, commands count from there.
llvm::Expected<Outcome> Trimming::outcome() {
  Outcome result = reader.outcome();
  if (result.kind != Outcome::Kind::Failed)
    return result;
  // Without a place it is the program's end that failed, which only the tape's end knows.
  bool inside =
      result.packet ? *result.packet >= from && *result.packet < end : end == reader.summary().packets;
  report.failureInside = inside;
  if (!inside) {
    std::string text = "the recorded failure lies outside this range (" + result.text + ")";
    result = Outcome();
    result.text = std::move(text);
    return result;
  }
  if (!result.packet || !result.signature || !start)
    return result;
  Packet packet;
  PacketExtra extra;
  if (llvm::Error error = source.packetAt(*result.packet, packet, extra))
    return error;
  llvm::Expected<std::unique_ptr<History>> before =
      History::before(source, packet.device, start, /*contents=*/false);
  if (!before)
    return before.takeError();
  const ShadowState &atCut = (*before)->state();
  Signature &signature = *result.signature;
  // Walk the new tape's part with counters that begin at its start.
  ShadowState counted(source.description(packet.device), source.spaceNames(), packet.device);
  llvm::Error failure = llvm::Error::success();
  PacketBatch batch;
  for (uint64_t position = start; position <= *result.packet; position += batch.packets.size()) {
    if (llvm::Error error = reader.readBlockFrom(position, batch))
      return error;
    if (batch.packets.empty())
      break;
    for (size_t i = 0; i < batch.packets.size() && position + i <= *result.packet; ++i) {
      const Packet &seen = batch.packets[i];
      if (seen.kind != PacketKind::Marker)
        continue;
      counted.apply(position + i, seen, batch.extra(seen), [&](BlobId id) -> llvm::ArrayRef<uint8_t> {
        llvm::Expected<llvm::ArrayRef<uint8_t>> content = reader.blob(id);
        if (content)
          return *content;
        failure = llvm::joinErrors(std::move(failure), content.takeError());
        return {};
      });
    }
  }
  if (failure)
    return failure;
  if (counted.markerOccurrence()) {
    signature.marker = counted.marker();
    signature.markerOccurrence = counted.markerOccurrence();
  } else {
    signature.marker.clear();
    signature.markerOccurrence = 0;
    signature.command -= std::min(signature.command, atCut.commandsSinceMarker());
  }
  result.packet = *result.packet - start;
  return result;
}

llvm::Error Trimming::write(TapeWriter &writer) {
  if (llvm::Error error = writeTables(writer))
    return error;
  if (llvm::Error error = writeStartKeyframes(writer))
    return error;
  if (llvm::Error error = writePackets(writer))
    return error;
  llvm::Expected<Outcome> ended = outcome();
  if (!ended)
    return ended.takeError();
  llvm::Expected<TapeSummary> summary = writer.finish(*ended);
  if (!summary)
    return summary.takeError();
  report.summary = *summary;
  return llvm::Error::success();
}

llvm::Expected<TrimReport> Trimming::run() {
  if (llvm::Error error = findRange())
    return error;
  if (llvm::Error error = chooseStart())
    return error;
  report.firstPacket = start;
  report.prefixPackets = from - start;
  report.prefixWindows = options.firstWindow - startWindow;
  report.keyframe = withKeyframe;
  llvm::Expected<std::unique_ptr<TapeWriter>> writer = TapeWriter::create(path, manifest(), options.writer);
  if (!writer)
    return writer.takeError();
  if (llvm::Error error = write(**writer)) {
    (*writer)->discard();
    return error;
  }
  return std::move(report);
}

} // namespace

llvm::Expected<TrimReport> trimTape(TapeSource &source, llvm::StringRef out, const TrimOptions &options) {
  return Trimming(source, out, options).run();
}

} // namespace tapeback
