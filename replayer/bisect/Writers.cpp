#include "replayer/bisect/Writers.h"
#include "format/MessageText.h"
#include "replayer/Commands.h"
#include "replayer/Rows.h"

namespace tapeback {

bool startsActivity(const TapeSource &source, const Packet &write) {
  const Description *description = source.description(write.device);
  if (!description || write.kind != PacketKind::RegisterWrite)
    return false;
  const RegisterDescription *reg =
      description->find(source.spaceName(write.space), write.address, write.width);
  if (!reg)
    return false;
  // Part writes carry their bits to where they are in the register.
  uint64_t value = write.value << (8 * ((write.address - reg->offset) & 7));
  for (const ActivityDescription &activity : description->activities)
    if (&description->registers[activity.starts.reg] == reg && activity.starts.holds(value))
      return true;
  return doorbellQueue(source, write).has_value();
}

/// The write that handed the Submit over: the next to its queue's doorbell.
static llvm::Expected<uint64_t> doorbellOfSubmit(TapeSource &source, uint64_t submit) {
  constexpr uint64_t nearby = 1 << 16; // A ring of commands with their contents and transfers.
  uint64_t total = source.reader().summary().packets;
  Packet entry;
  PacketExtra extra;
  if (llvm::Error error = source.packetAt(submit, entry, extra))
    return error;
  PacketBatch batch;
  for (uint64_t at = submit + 1; at < total && at - submit <= nearby; at += batch.packets.size()) {
    if (llvm::Error error = source.reader().readPackets(at, std::min<uint64_t>(1024, total - at), batch))
      return error;
    if (batch.packets.empty())
      break;
    for (size_t i = 0; i < batch.packets.size(); ++i)
      if (batch.packets[i].device == entry.device && doorbellQueue(source, batch.packets[i]) == entry.value)
        return at + i;
  }
  return submit;
}

llvm::Expected<uint64_t> doorbellOf(TapeSource &source, uint64_t descriptor) {
  constexpr uint64_t nearby = 64; // Several descriptors and their contents may precede one doorbell.
  uint64_t total = source.reader().summary().packets;
  Packet told, packet;
  PacketExtra extra;
  if (llvm::Error error = source.packetAt(descriptor, told, extra))
    return error;
  if (extra.link == noLink && told.kind == PacketKind::DmaDescriptor) {
    llvm::Expected<std::optional<uint64_t>> submit = submitOfDescriptor(source, descriptor);
    if (!submit)
      return submit.takeError();
    if (*submit)
      return doorbellOfSubmit(source, **submit);
  }
  for (uint64_t at = descriptor; at < total && at - descriptor <= nearby; ++at) {
    if (llvm::Error error = source.packetAt(at, packet, extra))
      return error;
    if (packet.device == told.device && startsActivity(source, packet))
      return at;
  }
  return descriptor;
}

std::string packetText(const TapeSource &source, const Packet &packet, const PacketExtra &extra) {
  const char *kind = packetKindName(packet.kind);
  std::string text = kind ? kind : "unknown-" + std::to_string(unsigned(packet.kind));
  bool access = packet.kind == PacketKind::RegisterRead || packet.kind == PacketKind::RegisterWrite ||
                packet.kind == PacketKind::Poll;
  if (access) {
    std::string space = source.spaceName(packet.space);
    text += " " + space;
    if (const Description *description = source.description(packet.device))
      if (const RegisterDescription *reg = description->find(space, packet.address, packet.width))
        text += " " + reg->name;
    text += " at " + hexText(packet.address) + " = " + hexText(packet.value);
  } else if (extra.length) {
    text += " at " + hexText(packet.address) + ", " + std::to_string(extra.length) + " bytes";
  } else if (packet.value || packet.address) {
    text += " " + hexText(packet.address) + " " + hexText(packet.value);
  }
  return text;
}

std::optional<uint64_t> lastWriterOf(const ShadowState &state, const WrittenThing &thing) {
  switch (thing.kind) {
  case WrittenThing::Kind::Register: return state.lastWriterOfRegister(thing.space, thing.address);
  case WrittenThing::Kind::Memory: return state.lastWriterOfMemory(thing.address);
  case WrittenThing::Kind::Window: return state.lastWriterOfWindow(thing.name, thing.address);
  }
  return std::nullopt;
}

namespace {

std::string describe(const Description *description, const WrittenThing &thing) {
  switch (thing.kind) {
  case WrittenThing::Kind::Register: return thing.name;
  case WrittenThing::Kind::Memory: return "memory at " + hexText(thing.address);
  case WrittenThing::Kind::Window: {
    const InternalWindow *window = description ? description->findWindow(thing.name) : nullptr;
    return thing.name + "+" + hexText(thing.address - (window ? window->base : 0));
  }
  }
  return {};
}

/// What a transfer took the byte from; nothing if that cannot be told.
std::optional<WrittenThing> origin(const Description *description, const Packet &descriptor,
                                   const PacketExtra &extra, const WrittenThing &thing) {
  if (!description)
    return std::nullopt;
  WrittenThing result;
  result.device = thing.device;
  bool toDevice = descriptor.flags & TransferToDevice;
  llvm::Expected<Rows> host = Rows::of(descriptor, extra);
  if (!host) {
    llvm::consumeError(host.takeError()); // Refused when it was issued; here it tells nothing.
    return std::nullopt;
  }
  Rows device = *host;
  device.address = descriptor.value;
  device.stride = host->count > 1 ? extra.mask : 0;
  std::optional<uint64_t> offset = (toDevice ? device : *host).offsetOf(thing.address);
  if (!offset)
    return std::nullopt;
  result.address = (toDevice ? *host : device).addressOf(*offset);
  if (toDevice) {
    result.kind = WrittenThing::Kind::Memory;
    return result;
  }
  result.kind = WrittenThing::Kind::Window;
  for (const InternalWindow &window : description->windows)
    if (result.address >= window.base && result.address - window.base < window.size) {
      result.name = window.name;
      return result;
    }
  return std::nullopt;
}

} // namespace

llvm::Expected<std::vector<WriterRecord>> findWriters(TapeSource &source, WrittenThing thing, uint64_t before,
                                                      unsigned depth) {
  std::vector<WriterRecord> writers;
  const Description *description = source.description(thing.device);
  for (unsigned i = 0; i < depth; ++i) {
    llvm::Expected<std::unique_ptr<History>> history =
        History::before(source, thing.device, before, /*contents=*/false);
    if (!history)
      return history.takeError();
    std::optional<uint64_t> ordinal = lastWriterOf((*history)->state(), thing);
    // A keyframe counts as the writer of what it says; that is no packet that wrote anything.
    if (!ordinal || *ordinal >= before)
      break;
    Packet packet;
    PacketExtra extra;
    if (llvm::Error error = source.packetAt(*ordinal, packet, extra))
      return error;
    WriterRecord record;
    record.wrote = describe(description, thing);
    record.thing = thing;
    record.ordinal = *ordinal;
    uint64_t place = *ordinal;
    std::optional<WrittenThing> next;
    if (packet.kind == PacketKind::DmaDescriptor) {
      record.descriptor = ordinal;
      record.toDevice = packet.flags & TransferToDevice;
      next = origin(description, packet, extra, thing);
      llvm::Expected<uint64_t> doorbell = doorbellOf(source, *ordinal);
      if (!doorbell)
        return doorbell.takeError();
      place = *doorbell;
      if (llvm::Error error = source.packetAt(place, packet, extra))
        return error;
    }
    llvm::Expected<uint64_t> window = source.reader().windowOfPacket(place);
    if (!window)
      return window.takeError();
    record.place = {packet.device, packet.thread, *window, place, std::nullopt, 0, std::nullopt, {}};
    if (llvm::Error error = completePlace(source, record.place))
      return error;
    const char *kind = packetKindName(packet.kind);
    record.kind = kind ? kind : "unknown";
    record.address = packet.address;
    record.value = packet.value;
    if (packet.kind == PacketKind::RegisterWrite || packet.kind == PacketKind::RegisterRead) {
      record.space = source.spaceName(packet.space);
      if (description)
        if (const RegisterDescription *reg = description->find(record.space, packet.address, packet.width))
          record.reg = reg->name;
    } else if (packet.kind != PacketKind::Reset) {
      record.space = "memory";
    }
    writers.push_back(std::move(record));
    if (!next)
      break;
    thing = *next;
    before = *ordinal;
  }
  return writers;
}

} // namespace tapeback
