#include "tools/verbs/TriggerTape.h"
#include "format/Failure.h"
#include "format/TapeWriter.h"
#include "format/Text.h"
#include "replayer/History.h"
#include "tools/PacketPrinter.h"
#include "tools/Report.h"

using namespace llvm;

namespace tapeback::triggers {

Expected<TriggerFile> readTriggerFile(StringRef path) {
  TextLimits limits;
  limits.maxBytes = maxSourceBytes;
  Expected<std::string> text = readTextFile(path, limits);
  if (!text)
    return text.takeError();
  return TriggerFile{path.str(), std::move(*text)};
}

Expected<DescriptionPointer> loadDescription(StringRef nameOrPath) {
  Expected<DescriptionText> text = loadDescriptionText(nameOrPath);
  if (!text)
    return text.takeError();
  Expected<Description> description = parseDescription(text->text, text->name);
  if (!description)
    return description.takeError();
  return std::make_shared<Description>(std::move(*description));
}

//===- TriggerTape -----------------------------------------------------------------------------------===//

Expected<std::unique_ptr<TriggerTape>> TriggerTape::open(StringRef path, const TriggerFile &file,
                                                         DescriptionPointer given) {
  std::unique_ptr<TriggerTape> result(new TriggerTape());
  Expected<std::unique_ptr<TapeSource>> source = TapeSource::open(path);
  if (!source)
    return source.takeError();
  result->tape = std::move(*source);
  result->given = std::move(given);
  CompileOptions options;
  // Commands are compiled, and never run: a tape is no reason to.
  options.allowExec = true;
  const TapeSource &tape = *result->tape;
  for (size_t i = 0; i < tape.deviceCount(); ++i)
    options.devices.push_back({tape.reader().devices()[i].alias,
                               result->given ? result->given.get() : tape.description(uint16_t(i))});
  Compilation compilation = compileTriggers(file.text, options);
  if (!compilation.program)
    return diagnosticsFailure(compilation.diagnostics, file.path);
  result->compiled = std::move(*compilation.program);
  result->complaints = std::move(compilation.diagnostics);
  return result;
}

StreamNames TriggerTape::names() const {
  StreamNames names;
  names.spaces = tape->spaceNames();
  for (const TapeClock &clock : tape->reader().clocks())
    names.clockTicksPerSecond.push_back(clock.ticksPerSecond);
  return names;
}

Error TriggerTape::run(EvaluationObserver *observer, uint64_t end,
                       function_ref<void(uint64_t, const Packet &, const Evaluator &)> seen,
                       function_ref<void(const Fired &)> fired) {
  TapeReader &reader = tape->reader();
  Evaluator evaluator(compiled, names());
  evaluator.observe(observer);
  kept.assign(compiled.triggers.size(), {});
  Error failure = Error::success();
  auto fetch = [&](BlobId id) -> ArrayRef<uint8_t> {
    if (failure)
      return {};
    Expected<ArrayRef<uint8_t>> content = reader.blob(id);
    if (content)
      return *content;
    failure = joinErrors(std::move(failure), content.takeError());
    return {};
  };
  SmallVector<Output, 8> outputs;
  auto pass = [&] {
    for (const Output &output : outputs)
      if (output.op != ActionOp::Raise)
        fired({output, firedText(compiled, output)});
    outputs.clear();
  };
  PacketBatch batch;
  end = std::min(end, reader.summary().packets);
  for (uint64_t at = 0; at < end && !failure;) {
    if (Error error = reader.readBlockFrom(at, batch))
      return joinErrors(std::move(failure), std::move(error));
    if (batch.packets.empty())
      break;
    for (size_t i = 0; i < batch.packets.size() && at < end && !failure; ++i, ++at) {
      const Packet &packet = batch.packets[i];
      evaluator.packet(at, packet, batch.extra(packet), fetch, outputs);
      for (size_t t = 0; t < compiled.triggers.size(); ++t)
        if (compiled.triggers[t].keep != noIndex)
          kept[t].push_back(evaluator.keeps(uint32_t(t)));
      seen(at, packet, evaluator);
      pass();
    }
  }
  if (end == reader.summary().packets) {
    evaluator.finish(outputs);
    pass();
  }
  missed = evaluator.shortfalls();
  return failure;
}

std::string firedText(const Program &program, const Output &output) {
  const Action &action = program.actions[output.action];
  std::string text;
  switch (output.op) {
  case ActionOp::Fire: text = program.texts[action.a]; break;
  case ActionOp::Marker: text = "marker " + quoteUntrusted(program.texts[action.a]); break;
  case ActionOp::Exec: text = "exec " + quoteUntrusted(program.texts[action.a]); break;
  case ActionOp::Stop: text = "stop"; break;
  case ActionOp::Snapshot: text = "snapshot"; break;
  case ActionOp::Capture: text = "capture"; break;
  default: text = "raise"; break;
  }
  std::string values;
  for (uint32_t v = 0; v < action.valueCount; ++v) {
    const Output::Value &value = output.values[v];
    uint32_t node = program.fireValues[action.firstValue + v];
    values += (v ? ", " : " (") + program.sourceOf(program.nodes[node].where).str() + " ";
    if (!value.known)
      values += "unknown";
    else if (value.isBool)
      values += value.value ? "true" : "false";
    else if (value.isSigned)
      values += std::to_string(int64_t(value.value));
    else
      values += hex(value.value);
  }
  return values.empty() ? text : text + values + ")";
}

//===- TapeHistory -----------------------------------------------------------------------------------===//

Expected<CaptureHistory::Facts> TapeHistory::facts(uint64_t packet) {
  constexpr uint64_t chunk = 4096;
  if (batch.packets.empty() || packet < batch.firstOrdinal ||
      packet - batch.firstOrdinal >= batch.packets.size()) {
    uint64_t from = packet / chunk * chunk;
    if (Error error = reader.readPackets(from, std::min(chunk, end() - from), batch))
      return error;
  }
  const Packet &is = batch.packets[packet - batch.firstOrdinal];
  const PacketExtra &extra = batch.extra(is);
  Facts result;
  result.time = is.issueTime;
  result.bytes = packetBytes + (extra.payload ? extra.length : 0);
  result.kept = !kept || (packet < kept->size() && (*kept)[packet]);
  return result;
}

Expected<CaptureHistory::Window> TapeHistory::windowOf(uint64_t packet) {
  Expected<uint64_t> number = reader.windowOfPacket(packet);
  if (!number)
    return number.takeError();
  Expected<WindowInfo> info = reader.window(*number);
  if (!info)
    return info.takeError();
  return Window{info->firstPacket, info->firstPacket + info->packetCount};
}

//===- Captures as tapes -----------------------------------------------------------------------------===//

namespace {

class CaptureWriting {
public:
  CaptureWriting(TapeSource &source, TapeWriter &writer, const CaptureExtent &extent, uint64_t point,
                 const std::vector<bool> *kept)
      : source(source), reader(source.reader()), writer(writer), extent(extent), point(point), kept(kept) {}

  Error run(const std::string &text) {
    if (Error error = tables())
      return error;
    if (Error error = stateAtCut())
      return error;
    renumbered.assign(extent.last - extent.first + 1, noLink);
    WindowCursor windows(reader);
    PacketBatch batch;
    gap = extent.first;
    for (uint64_t at = extent.first; at <= extent.last;) {
      if (Error error = reader.readBlockFrom(at, batch))
        return error;
      if (batch.packets.empty())
        return failTape("short-tape", "the tape ends before its last packet", "packet " + std::to_string(at));
      for (size_t i = 0; i < batch.packets.size() && at <= extent.last; ++i, ++at) {
        if (Error error = windows.moveTo(at))
          return error;
        if (Error error = packet(batch.packets[i], batch.extra(batch.packets[i]), at))
          return error;
        if (at == point)
          if (Error error = writer.trigger(writer.packetCount() - 1, text))
            return error;
        if (at + 1 == windows.endPacket() && !gap)
          if (Error error = writer.endWindow(windows.info().quiescent))
            return error;
      }
    }
    return Error::success();
  }
  uint64_t packets = 0, dropped = 0;

private:
  Error tables() {
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

  Error stateAtCut() {
    for (size_t device = 0; extent.first && device < source.deviceCount(); ++device) {
      Expected<std::unique_ptr<History>> history =
          History::before(source, uint16_t(device), extent.first, /*contents=*/true);
      if (!history)
        return history.takeError();
      Expected<Keyframe> keyframe =
          (*history)->state().keyframe([&](ArrayRef<uint8_t> content) { return writer.blob(content); });
      if (!keyframe)
        return keyframe.takeError();
      if (Error error = writer.keyframe(std::move(*keyframe)))
        return error;
    }
    return Error::success();
  }

  /// Everything not recorded before the packet at hand, as one packet.
  Error loss(uint64_t time) {
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

  Error packet(Packet packet, PacketExtra extra, uint64_t at) {
    if (kept && at != point && !(at < kept->size() && (*kept)[at])) {
      ++gap;
      ++dropped;
      return Error::success();
    }
    if (Error error = loss(packet.issueTime))
      return error;
    if (linksToPacket(packet.kind) && extra.link != noLink)
      extra.link =
          extra.link >= extent.first && extra.link < at ? renumbered[extra.link - extent.first] : noLink;
    if (extra.payload && !writer.hasBlob(extra.payload)) {
      Expected<ArrayRef<uint8_t>> content = reader.blob(extra.payload);
      if (!content)
        return content.takeError();
      if (Expected<BlobId> stored = writer.blob(*content); !stored)
        return stored.takeError();
    }
    renumbered[at - extent.first] = writer.packetCount();
    ++packets;
    return writer.append(packet, extra);
  }

  TapeSource &source;
  TapeReader &reader;
  TapeWriter &writer;
  const CaptureExtent &extent;
  uint64_t point;
  const std::vector<bool> *kept;
  uint64_t gap = 0;
  std::vector<uint64_t> renumbered;
};

} // namespace

Expected<CaptureTape> writeCaptureTape(TapeSource &source, StringRef out, const CaptureExtent &extent,
                                       uint64_t point, const std::vector<bool> *kept,
                                       const std::string &text) {
  Manifest manifest = source.reader().manifest();
  manifest.parentRoot = source.reader().summary().root;
  manifest.derivation =
      "capture p" + std::to_string(extent.first) + "..p" + std::to_string(extent.last) + ": " + text;
  Expected<std::unique_ptr<TapeWriter>> writer = TapeWriter::create(out, manifest);
  if (!writer)
    return writer.takeError();
  CaptureWriting writing(source, **writer, extent, point, kept);
  Error failure = writing.run(text);
  if (!failure) {
    Outcome outcome;
    outcome.text = "a capture: how the run ended is on the tape it was taken from";
    Expected<TapeSummary> summary = (*writer)->finish(outcome);
    if (summary)
      return CaptureTape{*summary, writing.packets, writing.dropped};
    failure = summary.takeError();
  }
  (*writer)->discard();
  return failure;
}

} // namespace tapeback::triggers
