#include "replayer/diff/DiffSide.h"
#include "format/Failure.h"
#include "replayer/Commands.h"
#include "llvm/Support/xxhash.h"

namespace tapeback {
namespace {

constexpr size_t mostStreams = 4096;

/// Says nothing about what host and device did to each other.
bool isBesideTheRun(const Packet &packet) {
  switch (packet.kind) {
  case PacketKind::Tick:
  case PacketKind::ClockSample:
  case PacketKind::Loss: return true;
  default: return packet.origin == Origin::Recorder;
  }
}

uint64_t keyOf(std::initializer_list<uint64_t> parts, llvm::StringRef text = {}) {
  std::vector<uint64_t> words(parts);
  words.push_back(llvm::xxh3_64bits(text));
  return llvm::xxh3_64bits(
      llvm::ArrayRef(reinterpret_cast<const uint8_t *>(words.data()), words.size() * sizeof(uint64_t)));
}

bool isRegisterKind(PacketKind kind) {
  return kind == PacketKind::RegisterRead || kind == PacketKind::RegisterWrite || kind == PacketKind::Poll ||
         kind == PacketKind::LateCompletion;
}

/// The write of a register that tells the device to do something.
bool isCommandWrite(const Description *description, const RegisterDescription *reg, const Packet &packet) {
  if (!description || !reg || packet.kind != PacketKind::RegisterWrite || reg->offset != packet.address)
    return false;
  unsigned index = description->indexOf(*reg);
  for (const ActivityDescription &activity : description->activities)
    if (activity.starts.reg == index && activity.starts.holds(packet.value))
      return true;
  for (const QueueDescription &queue : description->queues)
    if (queue.doorbell == index)
      return true;
  return false;
}

} // namespace

llvm::Expected<std::unique_ptr<DiffSide>> DiffSide::create(std::unique_ptr<TapeSource> source,
                                                           const DiffSide *shared) {
  std::unique_ptr<DiffSide> side(new DiffSide);
  side->tape = std::move(source);
  TapeSource &tape = *side->tape;
  for (size_t i = 0; i < tape.deviceCount(); ++i) {
    const Description *description = tape.description(uint16_t(i));
    if (shared)
      for (size_t k = 0; k < shared->tape->deviceCount(); ++k)
        if (shared->tape->reader().devices()[k].alias == tape.reader().devices()[i].alias)
          description = shared->description(uint16_t(k));
    side->descriptions.push_back(description);
    side->mappings.emplace_back();
    side->accessRules.emplace_back(description, tape.spaceNames(), std::vector<std::string>());
  }
  if (llvm::Error error = side->survey())
    return error;
  return side;
}

const Description *DiffSide::description(uint16_t device) const {
  return device < descriptions.size() ? descriptions[device] : nullptr;
}

llvm::Error DiffSide::survey() {
  std::map<std::pair<uint16_t, uint16_t>, size_t> known;
  PacketBatch batch;
  for (uint64_t position = 0;; position += batch.packets.size()) {
    if (llvm::Error error = tape->reader().readBlockFrom(position, batch))
      return error;
    if (batch.packets.empty())
      break;
    for (size_t i = 0; i < batch.packets.size(); ++i) {
      const Packet &packet = batch.packets[i];
      if (packet.device >= mappings.size())
        return failTape("unknown-device",
                        "a packet of device " + std::to_string(packet.device) +
                            ", which the tape does not have",
                        "packet " + std::to_string(position + i));
      mappings[packet.device].apply(position + i, packet, batch.extra(packet));
      lossPackets += packet.kind == PacketKind::Loss && packet.value &&
                     packet.address != uint64_t(LossCause::NotRecording);
      if (isBesideTheRun(packet)) {
        ++evidencePackets;
        continue;
      }
      auto [place, isNew] = known.try_emplace({packet.device, packet.thread}, allStreams.size());
      if (isNew) {
        if (allStreams.size() == mostStreams)
          return failUsage("too-many-threads",
                           "the tape has more than " + std::to_string(mostStreams) + " threads",
                           "packet " + std::to_string(position + i), "compare parts of it: `tapeback trim`");
        DiffStream stream;
        stream.device = tape->reader().devices()[packet.device].alias;
        if (stream.device.empty())
          stream.device = "#" + std::to_string(packet.device);
        stream.number = packet.device;
        stream.thread = packet.thread;
        stream.first = position + i;
        allStreams.push_back(stream);
      }
      ++allStreams[place->second].packets;
    }
  }
  return llvm::Error::success();
}

llvm::Expected<DiffItem> DiffSide::itemOf(uint64_t ordinal, const Packet &packet, const PacketExtra &extra) {
  DiffItem item;
  item.ordinal = ordinal;
  item.packet = packet;
  item.extra = extra;
  const uint64_t kind = uint64_t(packet.kind);
  if (isRegisterKind(packet.kind)) {
    item.key = keyOf({kind, packet.address, packet.width}, tape->spaceName(packet.space));
    const AccessRule &rule = rules(packet.device).find(packet.space, packet.address, packet.width);
    if (isCommandWrite(description(packet.device), rule.reg, packet))
      item.level = DiffLevel::Command;
    return item;
  }
  switch (packet.kind) {
  case PacketKind::Marker:
  case PacketKind::SpanBegin:
  case PacketKind::Oracle:
  case PacketKind::Open: {
    llvm::Expected<std::string> name = tape->name(extra.payload);
    if (!name)
      return name.takeError();
    item.key = keyOf({kind}, *name);
    item.level = packet.kind == PacketKind::Marker      ? DiffLevel::Marker
                 : packet.kind == PacketKind::SpanBegin ? DiffLevel::Span
                                                        : DiffLevel::Packet;
    return item;
  }
  case PacketKind::SpanEnd: {
    item.level = DiffLevel::Span;
    Packet begin;
    PacketExtra beginExtra;
    std::string name;
    if (extra.link < ordinal) {
      if (llvm::Error error = tape->packetAt(extra.link, begin, beginExtra))
        return error;
      llvm::Expected<std::string> found = tape->name(beginExtra.payload);
      if (!found)
        return found.takeError();
      name = *found;
    }
    item.key = keyOf({kind}, name);
    return item;
  }
  case PacketKind::Submit: {
    item.level = DiffLevel::Command;
    uint64_t form = 0;
    const Description *known = description(packet.device);
    if (known && packet.value < known->queues.size() && extra.payload) {
      llvm::Expected<llvm::ArrayRef<uint8_t>> entry = tape->reader().blob(extra.payload);
      if (!entry)
        return entry.takeError();
      const LayoutDescription &layout = known->layouts[known->queues[packet.value].layout];
      form = layout.opcode ? entryValue(*layout.opcode, *entry) + 1 : 0;
    }
    item.key = keyOf({kind, packet.value, form});
    return item;
  }
  case PacketKind::MemoryMap:
  case PacketKind::Expectation: item.key = keyOf({kind, extra.length}); return item;
  case PacketKind::MemoryWrite:
  case PacketKind::MemoryRead:
  case PacketKind::MemoryWait:
  case PacketKind::Acquire:
  case PacketKind::DmaDescriptor:
  case PacketKind::DmaCompletion:
  case PacketKind::MemoryUnmap: {
    const Regions &all = mappings[packet.device];
    Regions::Place at = all.locate(packet.address, ordinal);
    uint64_t size = at.region == Regions::none ? 0 : all[at.region].length;
    uint64_t direction = packet.flags & (TransferToDevice | TransferFromDevice);
    uint64_t again = packet.kind == PacketKind::DmaCompletion ? packet.value : 0;
    item.key = keyOf({kind, size, at.offset, extra.length, direction, again, packet.width});
    return item;
  }
  case PacketKind::CommandDone:
  case PacketKind::Reset: item.key = keyOf({kind, packet.value}); return item;
  case PacketKind::Interrupt:
  case PacketKind::CounterSnapshot: item.key = keyOf({kind, packet.address}); return item;
  default: item.key = keyOf({kind}); return item;
  }
}

/// Two reads of one register in a row, the first of which may be a turn of a loop that waits for a change.
bool DiffSide::isPollTurn(const DiffItem &before, const DiffItem &after) {
  if (before.packet.kind != PacketKind::RegisterRead || after.key != before.key ||
      before.packet.completion != Completion::Done || after.packet.completion != Completion::Done)
    return false;
  const AccessRule &rule =
      rules(after.packet.device).find(after.packet.space, after.packet.address, after.packet.width);
  if (!rule.reg)
    return false;
  // Each read of these takes something away: as many reads, as many answers.
  return rule.reg->cls != RegisterClass::ReadToClear && rule.reg->cls != RegisterClass::Fifo;
}

/// A loop ends with a change; the same value again and again is as many reads.
bool DiffSide::endsPoll(const std::vector<DiffItem> &run) {
  const Packet &last = run.back().packet;
  const AccessRule &rule = rules(last.device).find(last.space, last.address, last.width);
  if (rule.pollUntil)
    return true;
  for (size_t i = 0; i + 1 < run.size(); ++i)
    if (((run[i].packet.value ^ run[0].packet.value) & rule.compareMask) != 0)
      return false;
  return ((run[0].packet.value ^ last.value) & rule.compareMask) != 0;
}

llvm::Error DiffSide::load(const DiffStream &stream, uint64_t *position, size_t most,
                           std::vector<DiffItem> &items, bool *done) {
  constexpr size_t longestPoll = 1 << 16;
  std::vector<DiffItem> run; ///< Reads that may turn out to be a loop.
  auto flush = [&] {
    if (run.empty())
      return;
    if (run.size() > 1 && endsPoll(run)) {
      run.back().polls = uint32_t(run.size() - 1);
      items.push_back(run.back());
    } else {
      items.insert(items.end(), run.begin(), run.end());
    }
    run.clear();
  };
  PacketBatch batch;
  *done = false;
  while (items.size() + run.size() < most || (!run.empty() && run.size() < longestPoll)) {
    if (llvm::Error error = tape->reader().readBlockFrom(*position, batch))
      return error;
    if (batch.packets.empty()) {
      *done = true;
      break;
    }
    for (const Packet &packet : batch.packets) {
      if (run.empty() && items.size() >= most)
        break;
      uint64_t ordinal = (*position)++;
      if (packet.device != stream.number || packet.thread != stream.thread || isBesideTheRun(packet))
        continue;
      llvm::Expected<DiffItem> item = itemOf(ordinal, packet, batch.extra(packet));
      if (!item)
        return item.takeError();
      if (!run.empty() && (run.size() >= longestPoll || !isPollTurn(run.back(), *item)))
        flush();
      if (item->packet.kind == PacketKind::RegisterRead && item->level == DiffLevel::Packet)
        run.push_back(*item);
      else
        items.push_back(*item);
    }
  }
  flush();
  return llvm::Error::success();
}

} // namespace tapeback
