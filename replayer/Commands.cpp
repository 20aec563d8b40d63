#include "replayer/Commands.h"

namespace tapeback {
namespace {

/// How far back a command is looked for: a full ring with the transfers of long chains.
constexpr uint64_t farthest = 1 << 16;

/// Calls `look` for the packets before `end`, last first, until it returns false.
llvm::Error
walkBack(TapeSource &source, uint64_t end,
         llvm::function_ref<llvm::Expected<bool>(uint64_t, const Packet &, const PacketExtra &)> look) {
  constexpr uint64_t piece = 1024;
  PacketBatch batch;
  for (uint64_t gone = 0; end && gone < farthest;) {
    uint64_t count = std::min(end, piece);
    if (llvm::Error error = source.reader().readPackets(end - count, count, batch))
      return error;
    for (size_t i = batch.packets.size(); i-- > 0;) {
      llvm::Expected<bool> more =
          look(batch.firstOrdinal + i, batch.packets[i], batch.extra(batch.packets[i]));
      if (!more)
        return more.takeError();
      if (!*more)
        return llvm::Error::success();
    }
    end -= count;
    gone += count;
  }
  return llvm::Error::success();
}

const LayoutDescription *layoutOf(const Description *description, uint64_t queue) {
  return description && queue < description->queues.size()
             ? &description->layouts[description->queues[queue].layout]
             : nullptr;
}

llvm::Expected<std::string> submitText(TapeSource &source, const Packet &packet, const PacketExtra &extra) {
  const Description *description = source.description(packet.device);
  const LayoutDescription *layout = layoutOf(description, packet.value);
  if (!layout)
    return std::string();
  std::string text = description->queues[packet.value].name + " #" + std::to_string(extra.count) + " ";
  if (!extra.payload)
    return text + "(not captured)";
  llvm::Expected<llvm::ArrayRef<uint8_t>> entry = source.reader().blob(extra.payload);
  if (!entry)
    return entry.takeError();
  return text + formatEntry(*layout, *entry);
}

llvm::Expected<std::string> submitTextAt(TapeSource &source, std::optional<uint64_t> ordinal) {
  Packet packet;
  PacketExtra extra;
  if (!ordinal)
    return std::string();
  if (llvm::Error error = source.packetAt(*ordinal, packet, extra))
    return error;
  return submitText(source, packet, extra);
}

/// The last command before `end` that `isIt` says yes to; empty if there is none.
llvm::Expected<std::string>
lastCommandText(TapeSource &source, uint64_t end, uint16_t device,
                llvm::function_ref<llvm::Expected<bool>(const Packet &, const PacketExtra &)> isIt) {
  std::string text;
  llvm::Error error = walkBack(
      source, end, [&](uint64_t, const Packet &packet, const PacketExtra &extra) -> llvm::Expected<bool> {
        if (packet.kind != PacketKind::Submit || packet.device != device)
          return true;
        llvm::Expected<bool> found = isIt(packet, extra);
        if (!found)
          return found.takeError();
        if (!*found)
          return true;
        llvm::Expected<std::string> said = submitText(source, packet, extra);
        if (!said)
          return said.takeError();
        text = *said;
        return false;
      });
  if (error)
    return error;
  return text;
}

/// The fence that a wait was for: the last one submitted that meets its condition.
llvm::Expected<std::string> fenceText(TapeSource &source, uint64_t ordinal, const Packet &wait,
                                      const PacketExtra &wanted) {
  const Description *description = source.description(wait.device);
  if (!description || description->queues.empty())
    return std::string();
  return lastCommandText(
      source, ordinal, wait.device,
      [&](const Packet &packet, const PacketExtra &extra) -> llvm::Expected<bool> {
        const LayoutDescription *layout = layoutOf(description, packet.value);
        if (!layout || !extra.payload)
          return false;
        llvm::Expected<llvm::ArrayRef<uint8_t>> entry = source.reader().blob(extra.payload);
        if (!entry)
          return entry.takeError();
        const EntryForm *form = layout->formOf(*entry);
        return form && form->fence &&
               entryValue(form->fields[form->fence->address], *entry) == wait.address &&
               (entryValue(form->fields[form->fence->value], *entry) & wanted.mask) == wanted.expected;
      });
}

/// The command that a completion is of: the Submit of that number.
llvm::Expected<std::string> doneText(TapeSource &source, uint64_t ordinal, const Packet &done,
                                     const PacketExtra &told) {
  return lastCommandText(source, ordinal, done.device,
                         [&](const Packet &packet, const PacketExtra &extra) -> llvm::Expected<bool> {
                           return packet.value == done.value && extra.count == told.count;
                         });
}

llvm::Expected<std::string> doorbellText(TapeSource &source, uint64_t ordinal) {
  constexpr size_t shown = 4;
  llvm::Expected<std::vector<uint64_t>> submits = submitsOfDoorbell(source, ordinal);
  if (!submits)
    return submits.takeError();
  std::string text;
  if (submits->size() > 1)
    text = std::to_string(submits->size()) + " commands: ";
  if (submits->size() > shown)
    text += "… ";
  for (size_t i = submits->size() > shown ? submits->size() - shown : 0; i < submits->size(); ++i) {
    llvm::Expected<std::string> one = submitTextAt(source, (*submits)[i]);
    if (!one)
      return one.takeError();
    text += *one + (i + 1 < submits->size() ? "; " : "");
  }
  return text;
}

} // namespace

const RegisterDescription *registerWritten(const TapeSource &source, const Packet &packet) {
  const Description *description = source.description(packet.device);
  if (!description || packet.kind != PacketKind::RegisterWrite)
    return nullptr;
  const RegisterDescription *reg =
      description->find(source.spaceName(packet.space), packet.address, packet.width);
  return reg && reg->offset == packet.address ? reg : nullptr;
}

std::optional<unsigned> doorbellQueue(const TapeSource &source, const Packet &packet) {
  const RegisterDescription *reg = registerWritten(source, packet);
  if (!reg)
    return std::nullopt;
  const Description *description = source.description(packet.device);
  for (unsigned i = 0; i < description->queues.size(); ++i)
    if (description->queues[i].doorbell == description->indexOf(*reg))
      return i;
  return std::nullopt;
}

bool isCommand(const TapeSource &source, const Packet &packet) {
  if (packet.kind == PacketKind::Submit || doorbellQueue(source, packet))
    return true;
  const RegisterDescription *reg = registerWritten(source, packet);
  if (!reg)
    return false;
  const Description *description = source.description(packet.device);
  for (const ActivityDescription &activity : description->activities)
    if (activity.starts.reg == description->indexOf(*reg) && activity.starts.holds(packet.value))
      return true;
  return false;
}

bool isReset(const TapeSource &source, const Packet &packet) {
  if (packet.kind == PacketKind::Reset)
    return true;
  const RegisterDescription *reg = registerWritten(source, packet);
  if (!reg)
    return false;
  const Description *description = source.description(packet.device);
  for (const RegisterCondition &condition : description->resets)
    if (condition.reg == description->indexOf(*reg) && condition.holds(packet.value))
      return true;
  return false;
}

llvm::Expected<std::optional<uint64_t>> submitOfDescriptor(TapeSource &source, uint64_t descriptor) {
  Packet told;
  PacketExtra extra;
  if (llvm::Error error = source.packetAt(descriptor, told, extra))
    return error;
  std::optional<uint64_t> found;
  if (told.kind != PacketKind::DmaDescriptor || extra.link != noLink)
    return found;
  llvm::Error error =
      walkBack(source, descriptor,
               [&](uint64_t at, const Packet &packet, const PacketExtra &) -> llvm::Expected<bool> {
                 // Other threads' packets may lie between; of its own thread only what belongs to it.
                 if (packet.device != told.device || packet.thread != told.thread)
                   return true;
                 if (packet.kind == PacketKind::Submit)
                   found = at;
                 return packet.kind == PacketKind::DmaDescriptor || packet.kind == PacketKind::MemoryWrite;
               });
  if (error)
    return error;
  return found;
}

llvm::Expected<std::vector<uint64_t>> submitsOfDoorbell(TapeSource &source, uint64_t doorbell) {
  std::vector<uint64_t> submits;
  Packet rung;
  PacketExtra extra;
  if (llvm::Error error = source.packetAt(doorbell, rung, extra))
    return error;
  std::optional<unsigned> queue = doorbellQueue(source, rung);
  if (!queue)
    return submits;
  llvm::Error error = walkBack(
      source, doorbell, [&](uint64_t at, const Packet &packet, const PacketExtra &) -> llvm::Expected<bool> {
        if (packet.device != rung.device)
          return true;
        if (packet.kind == PacketKind::Submit && packet.value == *queue)
          submits.push_back(at);
        return packet.kind != PacketKind::Reset && doorbellQueue(source, packet) != queue;
      });
  if (error)
    return error;
  std::reverse(submits.begin(), submits.end());
  return submits;
}

llvm::Expected<std::string> commandText(TapeSource &source, uint64_t ordinal) {
  Packet packet;
  PacketExtra extra;
  if (llvm::Error error = source.packetAt(ordinal, packet, extra))
    return error;
  switch (packet.kind) {
  case PacketKind::Submit: return submitText(source, packet, extra);
  case PacketKind::CommandDone: return doneText(source, ordinal, packet, extra);
  case PacketKind::RegisterWrite: return doorbellText(source, ordinal);
  case PacketKind::MemoryWait: return fenceText(source, ordinal, packet, extra);
  case PacketKind::DmaCompletion:
  case PacketKind::DmaDescriptor: {
    uint64_t descriptor = packet.kind == PacketKind::DmaDescriptor ? ordinal : extra.link;
    if (descriptor >= ordinal && packet.kind == PacketKind::DmaCompletion)
      return std::string();
    llvm::Expected<std::optional<uint64_t>> submit = submitOfDescriptor(source, descriptor);
    if (!submit)
      return submit.takeError();
    return submitTextAt(source, *submit);
  }
  default: return std::string();
  }
}

} // namespace tapeback
