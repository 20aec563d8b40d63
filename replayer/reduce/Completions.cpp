#include "replayer/reduce/Completions.h"

namespace tapeback {

llvm::Expected<Completions> Completions::of(const TapeImage &image, const std::vector<bool> &kept) {
  Completions made(image);
  if (image.hasCompletions)
    for (uint32_t i = 0; i < image.packets.size(); ++i)
      if (llvm::Error error = made.follow(i, kept[i]))
        return error;
  return made;
}

/// One that is not made anew in the part goes on there.
void Completions::Ring::begin(bool kept) {
  onTape = saidOnTape = 0;
  inPart = {kept ? 0 : inPart.back()};
  if (kept)
    saidInPart = 0;
}

llvm::Error Completions::follow(uint32_t i, bool kept) {
  const Packet &packet = image.packets[i];
  const PacketExtra &extra = image.extras[i];
  if (packet.kind == PacketKind::CommandDone && extra.mask) {
    Ring &ring = rings[{packet.device, extra.expected}];
    ring.size = extra.mask;
    if (kept)
      numbers[i] = ring.inPart.back();
    ++ring.onTape;
    ring.inPart.push_back(ring.inPart.back() + kept);
    return llvm::Error::success();
  }
  switch (image.roles[i].kind) {
  case QueueRole::Kind::DeviceReset:
    for (auto &[key, ring] : rings)
      if (key.first == packet.device)
        ring.begin(kept);
    return llvm::Error::success();
  case QueueRole::Kind::Release: released(i); return llvm::Error::success();
  case QueueRole::Kind::Submit: return created(packet, extra, kept);
  default: return llvm::Error::success();
  }
}

llvm::Error Completions::created(const Packet &packet, const PacketExtra &extra, bool kept) {
  llvm::Expected<std::optional<TapeImage::Creation>> creation = image.createdBy(packet, extra);
  if (!creation)
    return creation.takeError();
  if (*creation && (*creation)->completions)
    if (auto ring = rings.find({packet.device, (*creation)->base}); ring != rings.end())
      ring->second.begin(kept);
  return llvm::Error::success();
}

void Completions::released(uint32_t i) {
  const Packet &packet = image.packets[i];
  auto found = rings.find({packet.device, image.roles[i].base});
  if (found == rings.end() || !found->second.size)
    return;
  Ring &ring = found->second;
  // The last one that lies there.
  uint64_t behind = (ring.onTape + ring.size - packet.value % ring.size) % ring.size;
  if (behind > ring.onTape)
    return;
  const uint64_t onTape = ring.onTape - behind, inPart = ring.inPart[size_t(onTape)];
  releases[i] = {inPart % ring.size, onTape == ring.saidOnTape || inPart != ring.saidInPart};
  ring.saidOnTape = onTape;
  ring.saidInPart = inPart;
}

bool Completions::release(uint32_t packet, Packet &written) const {
  auto found = releases.find(packet);
  if (found == releases.end())
    return true;
  written.value = found->second.head;
  return found->second.isNew;
}

void Completions::move(uint32_t packet, Packet &moved, PacketExtra &extra,
                       std::vector<uint8_t> &content) const {
  const uint32_t about = moved.kind == PacketKind::CommandDone ? packet : image.about[packet];
  auto number = numbers.find(about);
  const Description *description = image.source->description(moved.device);
  const LayoutDescription *layout = description ? description->completionLayout() : nullptr;
  if (about == TapeImage::none || number == numbers.end() || !layout)
    return;
  const PacketExtra &done = image.extras[about];
  const uint64_t entry = done.expected + number->second % done.mask * done.length;
  moved.address += entry - image.packets[about].address;
  const uint64_t phase = number->second / done.mask % 2 ? 0 : 1;
  const EntryField &field = layout->completes->phase;
  setEntryValue(field, content, phase);
  // Who waits for it by a bit of a word.
  const uint64_t bit = 8 * (entry + field.offset) + field.low;
  if (moved.kind != PacketKind::MemoryWait || bit < 8 * moved.address)
    return;
  const uint64_t shift = bit - 8 * moved.address;
  if (shift < 64 && (extra.mask >> shift & 1))
    extra.expected = (extra.expected & ~(uint64_t(1) << shift)) | phase << shift;
}

} // namespace tapeback
