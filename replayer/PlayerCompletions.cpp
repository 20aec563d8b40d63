// The part of Player that waits for commands to be done where the device says so in a ring, and that leaves
// out of contents what the description does not compare.
#include "format/Failure.h"
#include "replayer/Player.h"

namespace tapeback {

using State = Observation::State;

/// Where memory has `live` now, in the bytes of an entry at `address`, the tape has `recorded`.
static void learnBytes(LiveMemory &memory, uint64_t address, llvm::ArrayRef<uint8_t> recorded,
                       llvm::ArrayRef<uint8_t> live) {
  for (size_t at = 0; at < live.size() && at < recorded.size(); at += 8) {
    size_t width = std::min<size_t>(8, std::min(live.size(), recorded.size()) - at);
    memory.learn(address + at, unsigned(width), widthMask(unsigned(width)),
                 littleEndian(recorded.slice(at, width)), littleEndian(live.slice(at, width)));
  }
}

/// All new entries of the ring, in the target's order.
llvm::Error Player::lookAtRing(uint16_t device, uint64_t base, uint64_t size) {
  DeviceBinding &binding = bindings[device];
  CommandCompletion &completions = following[device].completions;
  std::vector<uint8_t> entry(binding.description()->completionLayout()->size);
  for (uint64_t round = 0; round < size; ++round) {
    uint64_t at = completions.next(base, size);
    if (!binding.isMapped(at, entry.size()))
      return failUsage("not-mapped", "a ring of completions is not in mapped memory");
    binding.live().overwritten(at, entry.size()); // What stood there in the round before.
    if (llvm::Error error = binding.readMemory(at, entry))
      return error;
    if (!completions.saw(base, size, entry))
      break;
  }
  return llvm::Error::success();
}

/// The command is done here as well, at the latest after a wait; what the target said of it, in recorded
/// terms where the description does not compare.
llvm::Error Player::commandDone(const Packet &packet, const PacketExtra &extra, ObservationLog &log,
                                Observation &o) {
  constexpr uint64_t mostEntries = 1 << 16, patience = 10;
  DeviceBinding &binding = bindings[packet.device];
  CommandCompletion &completions = following[packet.device].completions;
  auto notIssued = [&](Rule rule) {
    o.state = State::NotIssued;
    o.rule = rule;
    return llvm::Error::success();
  };
  const Description *description = binding.description();
  const LayoutDescription *layout = description ? description->completionLayout() : nullptr;
  if (!binding.capabilities().memory || !binding.capabilities().answers)
    return notIssued(Rule::Unsupported);
  if (!layout || packet.value >= description->queues.size() || extra.length != layout->size)
    return notIssued(Rule::UnknownKind);
  if (!extra.payload || extra.mask == 0 || extra.mask > mostEntries)
    return notIssued(Rule::ContentNotCaptured);
  binding.noteRing(extra.expected, extra.mask * layout->size);
  uint64_t recordedOfRing = completions.recorded(extra.expected);
  auto read = [&]() -> llvm::Expected<uint64_t> {
    if (llvm::Error error = lookAtRing(packet.device, extra.expected, extra.mask))
      return error;
    // As many as the host will hand back: those places must have been looked at.
    return uint64_t(completions.find(packet.value, extra.count) &&
                    completions.seen(extra.expected) >= recordedOfRing);
  };
  uint64_t deadline = options.waits.defaultDeadline > options.waits.maxDeadline / patience
                          ? options.waits.maxDeadline
                          : options.waits.defaultDeadline * patience;
  llvm::Expected<WaitResult> waited = waitForCondition(binding.target(), read, 1, 1, deadline, options.waits);
  if (!waited)
    return waited.takeError();
  const std::vector<uint8_t> *said = completions.find(packet.value, extra.count);
  if (!waited->met || !said) {
    timedOut(1, 1, deadline, log, o);
    return llvm::Error::success();
  }
  llvm::Expected<llvm::ArrayRef<uint8_t>> recorded = source.content(extra.payload);
  if (!recorded)
    return recorded.takeError();
  std::vector<uint8_t> told = *said;
  completions.forget(packet.value, extra.count);
  auto asRecorded = [&](const EntryField &field) {
    setEntryValue(field, told, entryValue(field, *recorded));
  };
  asRecorded(layout->completes->phase); // Follows from the place.
  for (const EntryField &field : layout->forms.front().fields)
    if (field.ignored)
      asRecorded(field);
  // Who looks at the recorded place finds what was said of the recorded command.
  std::vector<uint8_t> there(layout->size);
  if (!binding.isMapped(packet.address, there.size()))
    return failUsage("not-mapped", "a completion is not in mapped memory");
  binding.live().overwritten(packet.address, there.size());
  if (llvm::Error error = binding.readMemory(packet.address, there))
    return error;
  learnBytes(binding.live(), packet.address, told, there);
  o.contentOffset = log.content.size();
  o.contentLength = told.size();
  log.content.insert(log.content.end(), told.begin(), told.end());
  if (there != told)
    o.rule = Rule::LiveValue;
  return llvm::Error::success();
}

/// A transfer of the entry that was submitted last was told: what it brings, if the description says so.
void Player::noteContent(uint64_t descriptor, const Packet &packet, const PacketExtra &extra) {
  constexpr size_t mostContents = 1 << 14;
  Following &follows = following[packet.device];
  if (!follows.form || extra.link != noLink || !(packet.flags & TransferFromDevice) ||
      !followers[packet.device].isInEntry())
    return;
  for (const EntryTransfer &transfer : follows.form->transfers) {
    if (transfer.toDevice || !transfer.content ||
        (transfer.when &&
         !transfer.when->holds(entryValue(follows.form->fields[transfer.when->field], follows.entry))))
      continue;
    if (follows.contents.size() >= mostContents)
      follows.contents.erase(follows.contents.begin());
    follows.contents[descriptor] = {*transfer.content, transfer.pages ? packet.value : 0};
    return;
  }
}

/// What the transfer brought is about to be looked at: fields that are not compared count as recorded.
llvm::Error Player::leaveOut(const Packet &packet, const PacketExtra &extra) {
  DeviceBinding &binding = bindings[packet.device];
  auto found = following[packet.device].contents.find(extra.link);
  if (found == following[packet.device].contents.end() || extra.count > 1 || !extra.payload)
    return llvm::Error::success();
  auto [layout, offset] = found->second;
  following[packet.device].contents.erase(found);
  llvm::Expected<llvm::ArrayRef<uint8_t>> recorded = source.content(extra.payload);
  if (!recorded)
    return recorded.takeError();
  if (!binding.isMapped(packet.address, recorded->size()))
    return llvm::Error::success(); // Said where it is read.
  binding.live().overwritten(packet.address, recorded->size());
  for (const EntryField &field : binding.description()->layouts[layout].forms.front().fields) {
    if (!field.ignored || field.offset < offset || field.offset - offset > recorded->size() ||
        recorded->size() - (field.offset - offset) < field.width)
      continue;
    size_t at = size_t(field.offset - offset);
    uint8_t bytes[8];
    llvm::MutableArrayRef<uint8_t> live(bytes, field.width);
    if (llvm::Error error = binding.readMemory(packet.address + at, live))
      return error;
    uint64_t mask = field.mask() << field.low;
    binding.live().learn(packet.address + at, field.width, mask,
                         littleEndian(recorded->slice(at, field.width)) & mask, littleEndian(live) & mask);
  }
  return llvm::Error::success();
}

} // namespace tapeback
