#include "replayer/reduce/TapeImage.h"
#include "format/Failure.h"
#include "replayer/Commands.h"
#include "replayer/PacketRoles.h"
#include <algorithm>
#include <map>

namespace tapeback {

llvm::Expected<TapeImage> TapeImage::load(TapeSource &source) {
  TapeImage image;
  image.source = &source;
  TapeReader &reader = source.reader();
  uint64_t count = reader.summary().packets;
  if (count > maxPackets)
    return failUsage("tape-too-long",
                     "the tape has " + std::to_string(count) + " packets; reduce works on at most " +
                         std::to_string(maxPackets),
                     {}, "cut it first: tapeback trim TAPE --range …");
  WindowCursor cursor(reader);
  auto take = [&](const PacketBatch &batch, size_t packets) -> llvm::Expected<bool> {
    for (const Packet &packet : llvm::ArrayRef<Packet>(batch.packets).take_front(packets)) {
      if (llvm::Error error = cursor.moveTo(image.packets.size()))
        return error;
      image.windows.push_back(uint32_t(cursor.window()));
      image.packets.push_back(packet);
      image.extras.push_back(batch.extra(packet));
    }
    return true;
  };
  if (llvm::Error error = source.eachBlock({}, take))
    return error;
  image.findRoles();
  image.findFills();
  if (llvm::Error error = image.findNeeds())
    return error;
  return image;
}

bool TapeImage::isEvidenceOnly(size_t packet) const {
  switch (packets[packet].kind) {
  case PacketKind::Tick:
  case PacketKind::ClockSample:
  case PacketKind::SpanBegin:
  case PacketKind::SpanEnd: return true;
  default: return isEvidence(packets[packet]);
  }
}

/// What a write of a register says to the queues.
static QueueRole roleOfWrite(const Description &description, const RegisterDescription &reg, uint64_t value) {
  unsigned index = description.indexOf(reg);
  for (const RegisterCondition &reset : description.resets)
    if (reset.reg == index && reset.holds(value))
      return {QueueRole::Kind::DeviceReset, 0};
  for (unsigned i = 0; i < description.queues.size(); ++i) {
    const QueueDescription &queue = description.queues[i];
    if (queue.doorbell == index)
      return {QueueRole::Kind::Doorbell, i};
    if (queue.size == index)
      return {QueueRole::Kind::Size, i};
    if (llvm::is_contained(queue.rewind, index))
      return {QueueRole::Kind::Rewind, i};
  }
  return {};
}

void TapeImage::findRoles() {
  roles.assign(packets.size(), {});
  for (size_t i = 0; i < packets.size(); ++i) {
    const Packet &packet = packets[i];
    if (packet.kind == PacketKind::Submit)
      roles[i] = {QueueRole::Kind::Submit, unsigned(packet.value)};
    else if (packet.kind == PacketKind::Reset)
      roles[i] = {QueueRole::Kind::DeviceReset, 0};
    if (const RegisterDescription *reg = registerWritten(*source, packet))
      roles[i] = roleOfWrite(*source->description(packet.device), *reg, packet.value);
  }
}

void TapeImage::findFills() {
  fills.assign(packets.size(), none);
  uint32_t map = none;
  for (uint32_t i = 0; i < packets.size(); ++i) {
    if (packets[i].kind == PacketKind::MemoryMap) {
      map = i;
      continue;
    }
    bool inside = map != none && packets[i].kind == PacketKind::MemoryWrite &&
                  packets[i].device == packets[map].device && packets[i].address >= packets[map].address &&
                  packets[i].address - packets[map].address < extras[map].length;
    if (inside)
      fills[i] = map;
    else
      map = none;
  }
}

namespace {

/// The last fence that would write there, by device and address.
class Fences {
public:
  explicit Fences(const TapeImage &image) : image(image) {}

  llvm::Error submitted(size_t packet) {
    const Packet &submit = image.packets[packet];
    const Description *description = image.source->description(submit.device);
    BlobId payload = image.extras[packet].payload;
    if (!description || submit.value >= description->queues.size() || !payload)
      return llvm::Error::success();
    llvm::Expected<llvm::ArrayRef<uint8_t>> entry = image.source->reader().blob(payload);
    if (!entry)
      return entry.takeError();
    const LayoutDescription &layout = description->layouts[description->queues[size_t(submit.value)].layout];
    const EntryForm *form = layout.formOf(*entry);
    if (form && form->fence)
      last[{submit.device, entryValue(form->fields[form->fence->address], *entry)}].push_back(
          {entryValue(form->fields[form->fence->value], *entry), uint32_t(packet)});
    return llvm::Error::success();
  }
  uint32_t causeOf(const Packet &wait, const PacketExtra &extra) const {
    auto found = last.find({wait.device, wait.address});
    if (found == last.end())
      return TapeImage::none;
    for (auto fence = found->second.rbegin(); fence != found->second.rend(); ++fence)
      if ((fence->first & extra.mask) == extra.expected)
        return fence->second;
    return TapeImage::none;
  }

private:
  const TapeImage &image;
  std::map<std::pair<uint16_t, uint64_t>, std::vector<std::pair<uint64_t, uint32_t>>> last;
};

} // namespace

llvm::Error TapeImage::findNeeds() {
  needs.assign(packets.size(), none);
  std::map<std::pair<uint16_t, uint16_t>, uint32_t> lastSubmit;         // By device and thread.
  std::map<std::tuple<uint16_t, uint64_t, uint64_t>, uint32_t> entries; // By device, queue, number.
  Fences fences(*this);
  for (size_t i = 0; i < packets.size(); ++i) {
    const Packet &packet = packets[i];
    const PacketExtra &extra = extras[i];
    if (packet.kind == PacketKind::Submit) {
      lastSubmit[{packet.device, packet.thread}] = uint32_t(i);
      entries[{packet.device, packet.value, extra.count}] = uint32_t(i);
      if (llvm::Error error = fences.submitted(i))
        return error;
    } else if (packet.kind == PacketKind::DmaDescriptor && extra.link == noLink) {
      auto found = lastSubmit.find({packet.device, packet.thread});
      needs[i] = found == lastSubmit.end() ? none : found->second;
    } else if (packet.kind == PacketKind::CommandDone) {
      auto found = entries.find({packet.device, packet.value, extra.count});
      needs[i] = found == entries.end() ? none : found->second;
    } else if (packet.kind == PacketKind::MemoryWait) {
      needs[i] = fences.causeOf(packet, extra);
    } else if (packet.kind == PacketKind::Expectation) {
      // It belongs to the check behind it.
      if (i + 1 < packets.size() && packets[i + 1].kind == PacketKind::Oracle)
        needs[i] = uint32_t(i + 1);
    } else if (linksToPacket(packet.kind) && extra.link < i) {
      needs[i] = uint32_t(extra.link);
    }
  }
  return llvm::Error::success();
}

} // namespace tapeback
