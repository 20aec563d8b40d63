#include "replayer/PollFinder.h"
#include "replayer/PacketRoles.h"
#include "llvm/ADT/STLExtras.h"

namespace tapeback {
namespace {

constexpr uint64_t longestGap = 64;       ///< Packets of others between two turns.
constexpr uint64_t longestLoop = 1 << 20; ///< In packets, others' included.
constexpr size_t mostLoops = 4096;
constexpr unsigned mostRegisters = 4; ///< That one loop looks at.

/// Says nothing about what the thread does to the device.
bool isBeside(const Packet &packet) {
  switch (packet.kind) {
  case PacketKind::ClockSample:
  case PacketKind::Tick: return true;
  default: return isEvidence(packet);
  }
}

bool isSameRead(const Packet &a, const Packet &b) {
  return b.kind == PacketKind::RegisterRead && b.completion == Completion::Done && a.address == b.address &&
         a.space == b.space && a.width == b.width;
}

/// `repeated`, and of `varied` what lies directly above it, bit by bit: where a count carries to.
uint64_t carriedFrom(uint64_t repeated, uint64_t varied) {
  for (uint64_t grown = repeated;; repeated = grown) {
    grown |= (repeated << 1) & varied;
    if (grown == repeated)
      return grown;
  }
}

bool isSameThread(const Packet &a, const Packet &b) {
  return a.device == b.device && a.thread == b.thread;
}

} // namespace

PollFinder::PollFinder(TapeSource &source) : source(source) {
  for (size_t device = 0; device < source.deviceCount(); ++device)
    rules.emplace_back(source.description(uint16_t(device)), source.spaceNames(), std::vector<std::string>());
}

/// In a loop that looks at several registers: reading it changes nothing, so that it may be read more or less
/// often.
bool PollFinder::mayRepeat(const Packet &packet) const {
  return packet.kind == PacketKind::RegisterRead && packet.completion == Completion::Done &&
         packet.device < rules.size() &&
         !rules[packet.device].find(packet.space, packet.address, packet.width).readsChange;
}

llvm::Expected<PollFinder::Registers>
PollFinder::turnsFrom(const Packet &first, llvm::function_ref<llvm::Expected<const Packet *>()> next) const {
  // The thread's reads from here on, as many as three turns of the most registers have.
  llvm::SmallVector<Packet, 3 * mostRegisters> seen = {first};
  for (uint64_t others = 0; others < longestGap && seen.size() < 3 * mostRegisters;) {
    llvm::Expected<const Packet *> packet = next();
    if (!packet)
      return packet.takeError();
    if (!*packet)
      break;
    if (!isSameThread(first, **packet) || isBeside(**packet)) {
      ++others;
      continue;
    }
    if ((*packet)->kind != PacketKind::RegisterRead)
      break;
    seen.push_back(**packet);
    // Most reads are not repeated: no further than it takes to see that.
    if (seen.size() == mostRegisters + 1 &&
        llvm::none_of(llvm::drop_begin(seen), [&](const Packet &one) { return isSameRead(first, one); }))
      return Registers();
  }
  for (size_t period = 2; period <= mostRegisters && 3 * period <= seen.size(); ++period) {
    bool repeats = true;
    for (size_t i = 0; i < 3 * period && repeats; ++i)
      repeats = i < period ? mayRepeat(seen[i]) && (!i || !isSameRead(first, seen[i]))
                           : isSameRead(seen[i - period], seen[i]);
    if (repeats)
      return Registers(seen.begin(), seen.begin() + period);
  }
  return Registers();
}

bool PollFinder::mayBe(const PacketBatch &batch, size_t index, const AccessRule &rule) const {
  if (rule.pollUntil)
    return true;
  if (!rule.pollMask)
    return false;
  uint64_t ordinal = batch.firstOrdinal + index;
  if (ordinal < coveredUntil || index + 1 >= batch.packets.size())
    return true;
  const Packet &packet = batch.packets[index], &next = batch.packets[index + 1];
  if (!isSameThread(packet, next) || isBeside(next) || isSameRead(packet, next))
    return true;
  if (next.kind != PacketKind::RegisterRead)
    return false;
  size_t at = index;
  bool ranOut = false;
  llvm::Expected<Registers> turn = turnsFrom(packet, [&]() -> llvm::Expected<const Packet *> {
    ranOut = ++at >= batch.packets.size();
    return ranOut ? nullptr : &batch.packets[at];
  });
  return ranOut || !llvm::cantFail(std::move(turn)).empty();
}

/// Null behind the tape's end.
llvm::Expected<const Packet *> PollFinder::at(const PacketBatch &batch, uint64_t ordinal, uint64_t total) {
  constexpr uint64_t chunk = 256;
  auto in = [&](const PacketBatch &from) -> const Packet * {
    bool has = ordinal >= from.firstOrdinal && ordinal - from.firstOrdinal < from.packets.size();
    return has ? &from.packets[ordinal - from.firstOrdinal] : nullptr;
  };
  if (const Packet *packet = in(batch))
    return packet;
  if (ordinal >= total)
    return nullptr;
  if (const Packet *packet = in(ahead))
    return packet;
  if (llvm::Error error = source.reader().readPackets(ordinal, std::min(chunk, total - ordinal), ahead))
    return error;
  return in(ahead);
}

llvm::Expected<PollFinder::Loop> PollFinder::find(const PacketBatch &batch, size_t index,
                                                  const AccessRule &rule) {
  const Packet packet = batch.packets[index];
  uint64_t first = batch.firstOrdinal + index, total = source.reader().summary().packets;
  uint64_t mask = rule.pollUntil ? rule.compareMask : rule.pollMask;
  Loop loop;
  loop.first = first;
  loop.exit = first;
  uint64_t before = packet.value, varied = 0, repeated = 0, changedAtExit = 0;
  uint64_t exitValue = packet.value, exitTime = packet.completeTime;
  uint64_t last = first;
  // Registers that are looked at in turn; this one is the first of them.
  uint64_t ahead = first;
  llvm::Expected<Registers> several = turnsFrom(packet, [&] { return this->at(batch, ++ahead, total); });
  if (!several)
    return several.takeError();
  Registers turn = std::move(*several);
  if (turn.empty())
    turn.push_back(packet);
  size_t position = 0;
  for (uint64_t gap = 0, at = first + 1; gap < longestGap && at - first < longestLoop; ++at) {
    llvm::Expected<const Packet *> next = this->at(batch, at, total);
    if (!next)
      return next.takeError();
    if (!*next)
      break;
    if (!isSameThread(packet, **next) || isBeside(**next)) {
      ++gap;
      continue;
    }
    position = (position + 1) % turn.size();
    if (!isSameRead(turn[position], **next))
      break;
    gap = 0;
    if (position)
      continue;
    last = at;
    uint64_t changed = ((*next)->value ^ before) & mask;
    if (changed) {
      repeated |= varied & changed;
      varied |= changed;
      changedAtExit = changed;
      exitValue = (*next)->value;
      exitTime = (*next)->completeTime;
      loop.exit = at;
    }
    before = (*next)->value;
  }
  // A register of which the description says that it is waited for: until the recorded value comes, however
  // that came about.
  if (rule.pollUntil) {
    loop.exit = last;
    loop.role = {PollRole::Kind::Exit, mask, before & mask, 0, 0};
  } else {
    uint64_t once = varied & ~carriedFrom(repeated, varied);
    loop.role = {PollRole::Kind::Exit, once ? once : changedAtExit, 0, varied, 0};
    loop.role.value = exitValue & loop.role.mask;
    if (loop.exit == first) { // No change at all: reads like others, up to the last of them.
      loop.role = {};
      loop.exit = last;
    }
  }
  if (exitTime > packet.issueTime)
    loop.role.duration = exitTime - packet.issueTime;
  return loop;
}

llvm::Expected<PollRole> PollFinder::roleOf(const PacketBatch &batch, size_t index, const AccessRule &rule) {
  const Packet &packet = batch.packets[index];
  if (packet.completion != Completion::Done || (!rule.pollUntil && !rule.pollMask))
    return PollRole();
  uint64_t ordinal = batch.firstOrdinal + index;
  if (loops.size() >= mostLoops)
    loops.clear();
  Loop &loop = loops[{packet.device, packet.thread, packet.space, packet.address}];
  // Behind the exit the same reads may go on without a change: those are looked at once, too.
  if (ordinal < loop.first || ordinal > loop.exit) {
    llvm::Expected<Loop> found = find(batch, index, rule);
    if (!found)
      return found.takeError();
    loop = *found;
    coveredUntil = std::max(coveredUntil, loop.exit + 1);
  }
  if (loop.role.kind != PollRole::Kind::Exit || ordinal == loop.exit)
    return loop.role;
  PollRole turn;
  turn.kind = PollRole::Kind::Turn;
  return turn;
}

} // namespace tapeback
