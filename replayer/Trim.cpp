#include "replayer/Trim.h"
#include "format/Failure.h"
#include "replayer/StartChoice.h"
#include "replayer/StartState.h"
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
  llvm::Error checkPrefix();

  llvm::Error write(TapeWriter &writer);
  llvm::Error writeTables(TapeWriter &writer);
  llvm::Error writeStartKeyframes(TapeWriter &writer);
  llvm::Error writePackets(TapeWriter &writer);
  llvm::Error copyContent(TapeWriter &writer, BlobId id);
  llvm::Error copyKeyframe(TapeWriter &writer, Keyframe keyframe);
  llvm::Error copyPacket(TapeWriter &writer, Packet packet, PacketExtra extra, uint64_t ordinal);
  Manifest manifest() const;

  TapeSource &source;
  TapeReader &reader;
  llvm::StringRef path;
  const TrimOptions &options;
  TrimReport report;
  uint64_t from = 0, end = 0;
  ChosenStart chosen;
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

/// A prefix from the very start carries everything, unless something is missing from it.
llvm::Error Trimming::checkPrefix() {
  llvm::Expected<std::optional<uint64_t>> loss = findLoss(source, 0, from);
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
  chosen = ChosenStart();
  return llvm::Error::success();
}

llvm::Error Trimming::chooseStart() {
  if (!from) {
    report.how = "the range begins where the tape does";
    return checkPrefix();
  }
  if (options.start != TrimOptions::Start::Prefix) {
    std::string why;
    llvm::Expected<bool> possible = tryKeyframe(source, options.firstWindow, from, end, chosen, why);
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
    llvm::Expected<std::vector<uint64_t>> earlier = restorableWindows(source, options.firstWindow);
    if (!earlier)
      return earlier.takeError();
    for (uint64_t window : *earlier) {
      possible = tryKeyframe(source, window, from, end, chosen, why);
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
  if (!chosen.withKeyframe)
    return llvm::Error::success(); // The tape's own, if it begins with one, are copied with its packets.
  for (std::unique_ptr<History> &history : chosen.histories) {
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
    if (extra.link >= chosen.packet && extra.link < ordinal) {
      extra.link -= chosen.packet;
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
  for (uint64_t position = chosen.packet; position < end;) {
    if (options.progress)
      options.progress(position - chosen.packet, end - chosen.packet);
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
        if (keyframe->packet == position && !(chosen.withKeyframe && position == chosen.packet))
          if (llvm::Error error = copyKeyframe(writer, std::move(*keyframe)))
            return error;
      }
      Packet packet = batch.packets[i];
      if (llvm::Error error = copyPacket(writer, packet, batch.extra(packet), position))
        return error;
      for (const TapeReader::TriggerRecord &trigger : *triggers)
        if (trigger.packet == position)
          if (llvm::Error error = writer.trigger(position - chosen.packet, trigger.text))
            return error;
      if (position + 1 == cursor.endPacket())
        if (llvm::Error error = writer.endWindow(cursor.info().quiescent))
          return error;
    }
  }
  return llvm::Error::success();
}

llvm::Error Trimming::write(TapeWriter &writer) {
  if (llvm::Error error = writeTables(writer))
    return error;
  if (llvm::Error error = writeStartKeyframes(writer))
    return error;
  if (llvm::Error error = writePackets(writer))
    return error;
  llvm::Expected<Outcome> ended = outcomeOfRange(source, chosen.packet, from, end, report.failureInside);
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
  report.firstPacket = chosen.packet;
  report.prefixPackets = from - chosen.packet;
  report.prefixWindows = options.firstWindow - chosen.window;
  report.keyframe = chosen.withKeyframe;
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
