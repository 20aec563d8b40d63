// The part of Player that touches memory: contents in and out, fences, and the checks that are made on them.
#include "format/Failure.h"
#include "replayer/Player.h"
#include "replayer/Rows.h"
#include "llvm/ADT/StringExtras.h"

namespace tapeback {

using State = Observation::State;

llvm::Error Player::memoryWait(const Packet &packet, const PacketExtra &extra, ObservationLog &log,
                               Observation &o) {
  DeviceBinding &binding = bindings[packet.device];
  if (!binding.capabilities().memory) {
    o.state = State::NotIssued;
    o.rule = Rule::Unsupported;
    return llvm::Error::success();
  }
  unsigned width = packet.width;
  if (!width || width > 8)
    return failUsage("bad-width", "a wait for a word of " + std::to_string(width) + " bytes");
  const QueueFollower &queues = followers[packet.device];
  auto read = [&]() -> llvm::Expected<uint64_t> {
    uint8_t bytes[8] = {};
    if (llvm::Error error = binding.readMemory(packet.address, llvm::MutableArrayRef<uint8_t>(bytes, width)))
      return error;
    o.value = littleEndian(llvm::ArrayRef<uint8_t>(bytes, width));
    bool met = (o.value & extra.mask) == extra.expected;
    // A target that is faster may have passed several fences before we look.
    bool passed = !met && queues.isBehindFence(packet.address, width, extra.mask, extra.expected, o.value);
    bool live = binding.live().any(packet.address, width);
    o.rule = passed ? Rule::FencePassed : live ? Rule::LiveValue : Rule::Same;
    return uint64_t(met || passed);
  };
  uint64_t deadline = binding.capabilities().answers ? extra.deadline : 0;
  llvm::Expected<WaitResult> waited = waitForCondition(binding.target(), read, 1, 1, deadline, options.waits);
  if (!waited)
    return waited.takeError();
  if (!waited->met) {
    timedOut(extra.mask, extra.expected, deadline, log, o);
    return llvm::Error::success();
  }
  return notePassed(packet, log, o);
}

/// All of it. Rows without end or beyond any memory are what a device is told by mistake, and are not; other
/// rows that make no sense count as mapped: something is wrong with them, which is not that.
bool Player::isMapped(const Packet &packet, const PacketExtra &extra) const {
  const DeviceBinding &binding = bindings[packet.device];
  llvm::Expected<Rows> rows = Rows::of(packet, extra);
  if (!rows) {
    llvm::consumeError(rows.takeError()); // What is wrong is said where it is issued; see above.
    uint64_t first = extra.count ? extra.length / extra.count : extra.length;
    return first && binding.isMapped(packet.address, first) && extra.length <= binding.bytesMapped();
  }
  for (uint64_t row = 0; row < rows->count; ++row)
    if (rows->rowBytes && !binding.isMapped(rows->rowAddress(row), rows->rowBytes))
      return false;
  return true;
}

llvm::Error Player::writeContent(const Packet &packet, const PacketExtra &extra, Observation &o) {
  DeviceBinding &binding = bindings[packet.device];
  auto notIssued = [&](Rule rule) {
    o.state = State::NotIssued;
    o.rule = rule;
    return llvm::Error::success();
  };
  if (!binding.capabilities().memory)
    return notIssued(Rule::Unsupported);
  if (!extra.payload) {
    if (packet.kind == PacketKind::Submit)
      noteSubmit(packet, extra, {});
    if (!isMapped(packet, extra))
      return notIssued(Rule::NotMapped);
    return extra.length ? notIssued(Rule::ContentNotCaptured) : llvm::Error::success();
  }
  llvm::Expected<llvm::ArrayRef<uint8_t>> content = source.content(extra.payload);
  if (!content)
    return content.takeError();
  lastContent = {packet.device, packet.address, extra.length, extra.payload};
  if (packet.kind == PacketKind::MemoryWrite)
    noteOverwritten(packet, extra);
  if (packet.kind == PacketKind::Submit) {
    noteSubmit(packet, extra, *content);
    if (llvm::Error error = binding.relocation().submitted(packet.value, packet.address, *content))
      return error;
  }
  llvm::Expected<Rows> rows = Rows::of(packet, extra);
  if (!rows)
    return rows.takeError();
  if (content->size() > rows->length())
    return failUsage("bad-content", "a content of " + std::to_string(content->size()) + " bytes for " +
                                        std::to_string(rows->length()));
  if (packet.kind != PacketKind::Submit)
    return rows->write(binding, *content);
  if (llvm::Error error = rows->write(binding, liveEntry(packet, *content)))
    return error;
  noteLive(packet, *content);
  if (!liveFields.empty())
    o.rule = Rule::LiveValue;
  return llvm::Error::success();
}

llvm::ArrayRef<uint8_t> Player::liveEntry(const Packet &packet, llvm::ArrayRef<uint8_t> entry) {
  const Substitution &substitution = following[packet.device].substitution;
  liveFields.clear();
  if (!substitution.flowsIntoEntries(packet.value))
    return entry;
  scratch.assign(entry.begin(), entry.end());
  substitution.liveEntry(packet.value, scratch,
                         [&](const EntryField &field, uint64_t recorded, uint64_t live) {
                           liveFields.push_back({&field, recorded, live});
                         });
  return scratch;
}

/// What stands in the entry now, and what the device will write when its fence is done.
void Player::noteLive(const Packet &packet, llvm::ArrayRef<uint8_t> entry) {
  LiveMemory &memory = bindings[packet.device].live();
  for (const LiveField &one : liveFields)
    memory.learn(packet.address + one.field->offset, one.field->width, one.field->mask() << one.field->low,
                 one.recorded << one.field->low, one.live << one.field->low);
  const Description *description = source.description(packet.device);
  if (!description || packet.value >= description->queues.size() || (liveFields.empty() && memory.empty()))
    return;
  const LayoutDescription &layout = description->layouts[description->queues[packet.value].layout];
  const EntryForm *form = layout.formOf(entry);
  if (!form || !form->fence)
    return;
  const EntryField &value = form->fields[form->fence->value];
  uint64_t recorded = entryValue(value, entry), live = recorded;
  for (const LiveField &one : liveFields)
    if (one.field == &value)
      live = one.live;
  memory.learn(entryValue(form->fields[form->fence->address], entry), value.width, widthMask(value.width),
               recorded & widthMask(value.width), live);
}

llvm::Error Player::readContent(const Packet &packet, const PacketExtra &extra, ObservationLog &log,
                                Observation &o) {
  DeviceBinding &binding = bindings[packet.device];
  auto notIssued = [&](Rule rule) {
    o.state = State::NotIssued;
    o.rule = rule;
    return llvm::Error::success();
  };
  if (!binding.capabilities().memory)
    return notIssued(Rule::Unsupported);
  // What is there now depends on how far the transfer is that writes there next: another target is elsewhere.
  if (packet.kind == PacketKind::DmaCompletion && (packet.flags & DeviceOwned))
    return notIssued(Rule::StillOwned);
  // The device was told to write where nothing is, and the tape says as much.
  if ((packet.flags & NotCaptured) && !isMapped(packet, extra))
    return notIssued(Rule::NotMapped);
  if (extra.length > options.maxContentBytes)
    return notIssued(Rule::ContentNotCaptured);
  llvm::Expected<Rows> rows = Rows::of(packet, extra);
  if (!rows)
    return rows.takeError();
  // The length is the tape's word: nothing is allocated for memory that is not there.
  for (uint64_t row = 0; row < rows->count && extra.length; ++row)
    if (!binding.isMapped(rows->rowAddress(row), rows->rowBytes))
      return failUsage("not-mapped", std::to_string(rows->rowBytes) + " bytes at 0x" +
                                         llvm::utohexstr(rows->rowAddress(row), true) + " are not mapped");
  o.contentOffset = log.content.size();
  o.contentLength = extra.length;
  log.content.resize(log.content.size() + extra.length);
  for (uint64_t row = 0; row < rows->count && !binding.live().empty(); ++row)
    if (binding.live().any(rows->rowAddress(row), rows->rowBytes))
      o.rule = Rule::LiveValue;
  return rows->read(binding,
                    llvm::MutableArrayRef<uint8_t>(log.content).slice(o.contentOffset, o.contentLength));
}

llvm::Error Player::descriptor(const Packet &packet, const PacketExtra &extra, Observation &o) {
  if (packet.flags & TransferFromDevice)
    noteOverwritten(packet, extra);
  // What the device itself is still to write has no payload, and nothing is missing.
  if (!(packet.flags & TransferToDevice) || (packet.flags & DeviceOwned))
    return llvm::Error::success();
  if (!extra.payload || (packet.flags & NotCaptured)) {
    if (extra.length) {
      o.state = State::NotIssued;
      o.rule = isMapped(packet, extra) ? Rule::ContentNotCaptured : Rule::NotMapped;
    }
    return llvm::Error::success();
  }
  // A transfer of a Submit is evidence: its content was put there by a MemoryWrite, perhaps long ago, and
  // what the device has written since is not to be undone.
  if (extra.link == noLink && followers[packet.device].isInEntry())
    return llvm::Error::success();
  // Usually the packet before has put the content there.
  if (lastContent.device == packet.device && lastContent.address == packet.address &&
      lastContent.length == extra.length && lastContent.content == extra.payload)
    return llvm::Error::success();
  return writeContent(packet, extra, o);
}

//===- Oracles
//-----------------------------------------------------------------------------------------------===//

llvm::Error Player::oracle(uint64_t ordinal, const Packet &packet, const PacketExtra &extra, Observation &o) {
  if (extra.length)
    return memoryOracle(ordinal, packet, extra, o);
  o.holds = !(packet.flags & Failed);
  o.expected = extra.expected;
  // Without a mask nothing was compared (tb_check, tb_fail); without a link the value is the program's own.
  if (!extra.mask || extra.link == noLink)
    return llvm::Error::success();
  const PastValue *value = extra.link < ordinal ? recall(extra.link) : nullptr;
  if (!value || !value->valid) {
    o.state = State::NotIssued;
    o.rule = value ? Rule::OracleUnknown : Rule::LinkLost;
    return llvm::Error::success();
  }
  o.recomputed = true;
  o.value = value->value;
  o.holds = ((value->value ^ extra.expected) & extra.mask) == 0;
  return llvm::Error::success();
}

/// The content that a memory check wanted: if it held in the recording, what the Acquire before it brought;
/// if it failed, the Expectation directly in front of it, and on tapes without one what is known of it: the
/// Acquire's content up to the first wrong byte, and that byte. Nothing if it cannot be had.
llvm::Expected<std::optional<std::vector<uint8_t>>>
Player::wantedContent(uint64_t ordinal, const Packet &packet, const PacketExtra &extra) {
  using Content = std::optional<std::vector<uint8_t>>;
  bool failed = packet.flags & Failed;
  Packet holder;
  PacketExtra held;
  if (failed && ordinal) {
    if (llvm::Error error = source.packetAt(ordinal - 1, holder, held))
      return error;
    if (holder.kind == PacketKind::Expectation && holder.device == packet.device &&
        holder.address == packet.address && held.length == extra.length && held.payload &&
        !(holder.flags & (NotCaptured | Truncated))) {
      llvm::Expected<llvm::ArrayRef<uint8_t>> content = source.content(held.payload);
      if (!content)
        return content.takeError();
      return content->size() == extra.length ? Content(content->vec()) : Content();
    }
  }
  if (llvm::Error error = source.packetAt(extra.link, holder, held))
    return error;
  bool inRows = holder.kind == PacketKind::DmaCompletion && held.count > 1;
  if (!bringsContent(holder) || inRows || holder.address != packet.address || !held.payload ||
      (holder.flags & (NotCaptured | Truncated)))
    return Content();
  llvm::Expected<llvm::ArrayRef<uint8_t>> content = source.content(held.payload);
  if (!content)
    return content.takeError();
  if (content->size() < extra.length || (failed && extra.count >= extra.length))
    return Content();
  std::vector<uint8_t> wanted = content->take_front(failed ? extra.count : extra.length).vec();
  if (failed)
    wanted.push_back(uint8_t(extra.expected));
  return Content(std::move(wanted));
}

llvm::Error Player::memoryOracle(uint64_t ordinal, const Packet &packet, const PacketExtra &extra,
                                 Observation &o) {
  DeviceBinding &binding = bindings[packet.device];
  auto notIssued = [&](Rule rule) {
    o.state = State::NotIssued;
    o.rule = rule;
    return llvm::Error::success();
  };
  if (!binding.capabilities().memory)
    return notIssued(Rule::Unsupported);
  if (extra.link >= ordinal) // noLink too.
    return notIssued(Rule::LinkLost);
  if (extra.length > options.maxContentBytes)
    return notIssued(Rule::OracleUnknown);
  llvm::Expected<std::optional<std::vector<uint8_t>>> wanted = wantedContent(ordinal, packet, extra);
  if (!wanted)
    return wanted.takeError();
  if (!*wanted)
    return notIssued(Rule::OracleUnknown);
  if (!binding.isMapped(packet.address, extra.length))
    return failUsage("not-mapped", std::to_string(extra.length) + " bytes at 0x" +
                                       llvm::utohexstr(packet.address, true) + " are not mapped");
  scratch.resize(extra.length);
  if (llvm::Error error = binding.readMemory(packet.address, scratch))
    return error;
  o.recomputed = true;
  o.value = o.expected = 0;
  auto [w, s] = std::mismatch((*wanted)->begin(), (*wanted)->end(), scratch.begin());
  o.holds = w == (*wanted)->end();
  if (o.holds) // What was wanted behind that nobody wrote down.
    return (*wanted)->size() < extra.length ? notIssued(Rule::OracleUnknown) : llvm::Error::success();
  o.contentOffset = uint64_t(w - (*wanted)->begin());
  o.expected = *w;
  o.value = *s;
  return llvm::Error::success();
}

} // namespace tapeback
