#include "tools/verbs/TriggerTape.h"
#include "format/Failure.h"
#include "format/Text.h"
#include "triggers/OutputText.h"

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

/// By device of the tape: which it is in the order that `device N` counts, the command line's where that is
/// known. A tape has its devices in the order in which the program opened them, and not those that it never
/// did.
static std::vector<uint16_t> numberedAs(const TapeSource &tape, std::vector<std::string> &aliases) {
  const std::vector<DeviceRecord> &devices = tape.reader().devices();
  std::vector<uint16_t> own;
  for (size_t i = 0; i < devices.size(); ++i) {
    aliases.push_back(devices[i].alias);
    own.push_back(uint16_t(i));
  }
  const std::map<std::string, std::string> &facts = tape.reader().manifest().facts;
  auto found = facts.find("devices");
  if (found == facts.end())
    return own;
  SmallVector<StringRef, 8> names;
  StringRef(found->second).split(names, ' ', -1, false);
  constexpr size_t mostNames = 4096; // A recorder has far fewer.
  if (names.size() > mostNames)
    return own;
  std::vector<uint16_t> result;
  for (const DeviceRecord &device : devices) {
    auto at = find(names, device.alias);
    if (at == names.end() || is_contained(result, uint16_t(at - names.begin())))
      return own; // Of another recording, or written by hand.
    result.push_back(uint16_t(at - names.begin()));
  }
  aliases.assign(names.begin(), names.end());
  return result;
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
  std::vector<std::string> aliases;
  result->numbers = numberedAs(tape, aliases);
  for (const std::string &alias : aliases)
    options.devices.push_back({alias, result->given.get()});
  if (!result->given)
    for (size_t i = 0; i < result->numbers.size(); ++i)
      options.devices[result->numbers[i]].description = tape.description(uint16_t(i));
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
      Packet packet = batch.packets[i];
      if (packet.device < numbers.size())
        packet.device = numbers[packet.device];
      evaluator.packet(at, packet, batch.extra(packet), fetch, outputs);
      for (size_t t = 0; t < compiled.triggers.size(); ++t)
        if (compiled.triggers[t].keep != noIndex)
          kept[t].push_back(evaluator.keeps(uint32_t(t)));
      seen(at, batch.packets[i], evaluator);
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

} // namespace tapeback::triggers
