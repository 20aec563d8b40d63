#include "replayer/CaptureTape.h"
#include "format/Failure.h"
#include "replayer/Established.h"
#include "replayer/StartChoice.h"
#include "replayer/StartState.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace tapeback {
namespace {

class CaptureWriting {
public:
  CaptureWriting(TapeSource &source, const CaptureRequest &request)
      : source(source), reader(source.reader()), request(request), from(request.first),
        end(request.last + 1) {}

  Error chooseStart();
  Error write(TapeWriter &writer);
  CaptureTape capture;

private:
  Expected<bool> tryKeyframes(std::vector<std::string> &why);
  Expected<bool> tryWhole(std::vector<std::string> &why);
  Error tables(TapeWriter &writer);
  Error keyframes(TapeWriter &writer);
  Error packets(TapeWriter &writer);
  Error packet(TapeWriter &writer, Packet packet, PacketExtra extra, uint64_t at);
  Error loss(TapeWriter &writer, uint64_t time);
  Error content(TapeWriter &writer, BlobId id);
  Expected<Outcome> outcome();

  TapeSource &source;
  TapeReader &reader;
  const CaptureRequest &request;
  uint64_t from, end;
  ChosenStart chosen;
  uint64_t before = 0;   ///< Packets before the source's first.
  bool headLoss = false; ///< The source's packet 0 says so.
  std::string notRestorable;
  uint64_t gap = 0;
  std::vector<uint64_t> renumbered;
};

/// The nearest place at or before the range that keyframes can establish.
Expected<bool> CaptureWriting::tryKeyframes(std::vector<std::string> &why) {
  Expected<uint64_t> window = reader.windowOfPacket(from);
  if (!window)
    return window.takeError();
  Expected<std::vector<uint64_t>> earlier = std::vector<uint64_t>();
  if (request.maxPrefix)
    earlier = restorableWindows(source, *window);
  if (!earlier)
    return earlier.takeError();
  std::vector<uint64_t> candidates{*window};
  candidates.insert(candidates.end(), earlier->begin(), earlier->end());
  for (uint64_t candidate : candidates) {
    if (candidate == 0)
      continue; // The source's own start.
    Expected<WindowInfo> info = reader.window(candidate);
    if (!info)
      return info.takeError();
    if (from - info->firstPacket > request.maxPrefix)
      continue;
    std::string reason;
    Expected<bool> possible = tryKeyframe(source, candidate, from, end, chosen, reason);
    if (!possible || *possible)
      return possible;
    why.push_back(std::move(reason));
  }
  return false;
}

/// Everything that the source has before the range, as a prefix.
Expected<bool> CaptureWriting::tryWhole(std::vector<std::string> &why) {
  if (from - std::min<uint64_t>(from, headLoss) > request.maxPrefix) {
    why.push_back("what would establish the state lies too far in front of it");
    return false;
  }
  Expected<StartState> begins = findStartState(source, /*fromReset=*/false);
  if (!begins) {
    why.push_back(toFailure(begins.takeError()).message);
    return false;
  }
  Expected<std::optional<uint64_t>> lost = findLoss(source, 0, from);
  if (!lost)
    return lost.takeError();
  if (*lost) {
    why.push_back("packets were lost before the range, at packet " + std::to_string(**lost));
    return false;
  }
  for (size_t device = 0; headLoss && device < source.deviceCount(); ++device) {
    Expected<std::optional<std::string>> missing = findUnestablished(source, uint16_t(device), 1, end);
    if (!missing)
      return missing.takeError();
    if (*missing) {
      why.push_back(**missing);
      return false;
    }
  }
  chosen = ChosenStart();
  return true;
}

Error CaptureWriting::chooseStart() {
  Packet head;
  PacketExtra extra;
  if (Error error = source.packetAt(0, head, extra))
    return error;
  headLoss = head.kind == PacketKind::Loss && head.address == uint64_t(LossCause::NotRecording);
  before = headLoss ? head.value : 0;
  std::vector<std::string> why;
  Expected<bool> possible = tryKeyframes(why);
  if (!possible)
    return possible.takeError();
  if (*possible) {
    capture.how = chosen.packet == from ? "a keyframe at the cut" : "a keyframe and the packets from there";
    return Error::success();
  }
  possible = tryWhole(why);
  if (!possible)
    return possible.takeError();
  if (*possible) {
    capture.how = !headLoss ? "everything from the start of the recording"
                            : "the state that the history begins with, and the packets from there";
    return Error::success();
  }
  chosen = ChosenStart();
  chosen.packet = from;
  chosen.withKeyframe = true;
  for (size_t device = 0; device < source.deviceCount(); ++device) {
    Expected<std::unique_ptr<History>> history =
        History::before(source, uint16_t(device), from, /*contents=*/true);
    if (!history)
      return history.takeError();
    chosen.histories.push_back(std::move(*history));
  }
  // The reasons of many places are mostly the same one.
  why.erase(std::unique(why.begin(), why.end()), why.end());
  constexpr size_t most = 3;
  why.resize(std::min(why.size(), most));
  notRestorable = join(why, "; ");
  capture.restorable = false;
  capture.how = notRestorable;
  return Error::success();
}

Error CaptureWriting::tables(TapeWriter &writer) {
  for (const DeviceRecord &device : reader.devices())
    if (Expected<uint16_t> id = writer.addDevice(device); !id)
      return id.takeError();
  for (const std::string &space : reader.spaces().drop_front(reader.spaces().empty() ? 0 : 1))
    if (Expected<uint16_t> id = writer.addSpace(space); !id)
      return id.takeError();
  for (const TapeClock &clock : reader.clocks().drop_front(reader.clocks().empty() ? 0 : 1))
    if (Expected<uint8_t> id = writer.addClock(clock); !id)
      return id.takeError();
  return Error::success();
}

Error CaptureWriting::content(TapeWriter &writer, BlobId id) {
  if (!id || writer.hasBlob(id))
    return Error::success();
  Expected<ArrayRef<uint8_t>> bytes = reader.blob(id);
  if (!bytes)
    return bytes.takeError();
  Expected<BlobId> stored = writer.blob(*bytes);
  if (!stored)
    return stored.takeError();
  return Error::success();
}

Error CaptureWriting::keyframes(TapeWriter &writer) {
  for (std::unique_ptr<History> &history : chosen.histories) {
    Expected<Keyframe> keyframe =
        history->state().keyframe([&](ArrayRef<uint8_t> bytes) { return writer.blob(bytes); });
    if (!keyframe)
      return keyframe.takeError();
    if (!notRestorable.empty()) {
      keyframe->restorable = false;
      keyframe->reason = notRestorable;
    }
    if (Error error = writer.keyframe(std::move(*keyframe)))
      return error;
  }
  if (chosen.withKeyframe)
    return Error::success();
  for (uint64_t n = 0; n < reader.keyframeCount(); ++n) {
    Expected<Keyframe> keyframe = reader.keyframe(n);
    if (!keyframe)
      return keyframe.takeError();
    if (keyframe->packet > 0)
      break;
    for (const std::vector<KeyframeExtent> *extents : {&keyframe->memory, &keyframe->internal})
      for (const KeyframeExtent &extent : *extents)
        if (Error error = content(writer, extent.content))
          return error;
    if (Error error = writer.keyframe(std::move(*keyframe)))
      return error;
  }
  return Error::success();
}

/// Everything not on this tape before the packet at hand, as one packet.
Error CaptureWriting::loss(TapeWriter &writer, uint64_t time) {
  if (!gap)
    return Error::success();
  Packet lost;
  lost.kind = PacketKind::Loss;
  lost.origin = Origin::Recorder;
  lost.issueTime = lost.completeTime = time;
  lost.address = uint64_t(LossCause::NotRecording);
  lost.value = gap;
  gap = 0;
  return writer.append(lost);
}

Error CaptureWriting::packet(TapeWriter &writer, Packet packet, PacketExtra extra, uint64_t at) {
  if (at == 0 && headLoss) {
    gap = 0;
    renumbered[0] = writer.packetCount();
    capture.packets += at >= from;
    return writer.append(packet);
  }
  if (at >= from && request.kept && at != request.point) {
    uint64_t index = at - from;
    if (index >= request.kept->size() || !(*request.kept)[index]) {
      ++gap;
      ++capture.dropped;
      return Error::success();
    }
  }
  if (Error error = loss(writer, packet.issueTime))
    return error;
  if (at < from) {
    packet.flags |= Prefix;
    ++capture.prefix;
  } else {
    ++capture.packets;
  }
  if (linksToPacket(packet.kind) && extra.link != noLink)
    extra.link =
        extra.link >= chosen.packet && extra.link < at ? renumbered[extra.link - chosen.packet] : noLink;
  if (Error error = content(writer, extra.payload))
    return error;
  renumbered[at - chosen.packet] = writer.packetCount();
  return writer.append(packet, extra);
}

Error CaptureWriting::packets(TapeWriter &writer) {
  Expected<std::vector<TapeReader::TriggerRecord>> marks = reader.triggers();
  if (!marks)
    return marks.takeError();
  renumbered.assign(end - chosen.packet, noLink);
  gap = chosen.packet ? before + chosen.packet - (headLoss ? 1 : 0) : before;
  WindowCursor windows(reader);
  PacketBatch batch;
  for (uint64_t at = chosen.packet; at < end;) {
    if (Error error = reader.readBlockFrom(at, batch))
      return error;
    if (batch.packets.empty())
      return failTape("short-tape", "the tape ends before its last packet", "packet " + std::to_string(at));
    for (size_t i = 0; i < batch.packets.size() && at < end; ++i, ++at) {
      if (Error error = windows.moveTo(at))
        return error;
      if (Error error = packet(writer, batch.packets[i], batch.extra(batch.packets[i]), at))
        return error;
      uint64_t placed = renumbered[at - chosen.packet];
      if (at == request.point)
        if (Error error = writer.trigger(placed, request.text + request.shortness))
          return error;
      for (const TapeReader::TriggerRecord &mark : *marks)
        if (mark.packet == at && placed != noLink && mark.text != request.text)
          if (Error error = writer.trigger(placed, mark.text))
            return error;
      if (at + 1 == windows.endPacket() && !gap)
        if (Error error = writer.endWindow(windows.info().quiescent))
          return error;
    }
  }
  return Error::success();
}

Expected<Outcome> CaptureWriting::outcome() {
  bool inside = false;
  Expected<Outcome> result = outcomeOfRange(source, chosen.packet, from, end, inside);
  if (!result)
    return result;
  if (result->kind == Outcome::Kind::Failed && inside && !request.kept) {
    if (result->packet)
      result->packet = renumbered[*result->packet];
    return result;
  }
  Outcome none;
  none.text = "a capture: how the run ended is on the recording that it was taken from, if there is one";
  return none;
}

Error CaptureWriting::write(TapeWriter &writer) {
  if (Error error = tables(writer))
    return error;
  if (Error error = keyframes(writer))
    return error;
  if (Error error = packets(writer))
    return error;
  Expected<Outcome> ended = outcome();
  if (!ended)
    return ended.takeError();
  Expected<TapeSummary> summary = writer.finish(*ended);
  if (!summary)
    return summary.takeError();
  capture.summary = *summary;
  return Error::success();
}

} // namespace

Expected<CaptureTape> writeCaptureTape(TapeSource &source, StringRef out, const CaptureRequest &request) {
  if (request.first > request.point || request.point > request.last ||
      request.last >= source.reader().summary().packets)
    return failUsage("bad-range", "there are no packets p" + std::to_string(request.first) + "..p" +
                                      std::to_string(request.last));
  CaptureWriting writing(source, request);
  if (Error error = writing.chooseStart())
    return error;
  Manifest manifest = source.reader().manifest();
  if (source.reader().summary().root != Digest{})
    manifest.parentRoot = source.reader().summary().root;
  manifest.derivation = request.derivation;
  Expected<std::unique_ptr<TapeWriter>> writer = TapeWriter::create(out, manifest, request.writer);
  if (!writer)
    return writer.takeError();
  if (Error error = writing.write(**writer)) {
    (*writer)->discard();
    return error;
  }
  return std::move(writing.capture);
}

} // namespace tapeback
