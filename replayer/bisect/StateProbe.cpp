#include "replayer/bisect/StateProbe.h"
#include "format/Failure.h"
#include "replayer/Restore.h"
#include "replayer/WindowPort.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/bit.h"
#include <algorithm>
#include <cstring>

namespace tapeback {

bool isProbedRegister(const RegisterDescription &reg) {
  if (reg.access == RegisterAccess::WriteOnly)
    return false;
  switch (reg.policy) {
  case ReplayPolicy::Compare:
  case ReplayPolicy::Mask:
  case ReplayPolicy::Relocate: break;
  case ReplayPolicy::Ignore:
  case ReplayPolicy::PollUntil:
  case ReplayPolicy::Substitute:
  case ReplayPolicy::SideEffect:
  case ReplayPolicy::MayHang:
  case ReplayPolicy::Forbidden: return false;
  }
  switch (reg.cls) {
  case RegisterClass::Stable:
  case RegisterClass::Status:
  case RegisterClass::W1C:
  case RegisterClass::AddressLow:
  case RegisterClass::AddressHigh: return true;
  case RegisterClass::Volatile:
  case RegisterClass::Progress:
  case RegisterClass::Poll:
  case RegisterClass::ReadToClear:
  case RegisterClass::Fifo:
  case RegisterClass::Counter:
  case RegisterClass::Timestamp:
  case RegisterClass::Identity: return false;
  }
  return false;
}

uint64_t probedBits(const RegisterDescription &reg) {
  return widthMask(reg.width) & (reg.policy == ReplayPolicy::Mask ? reg.compareMask : ~uint64_t(0));
}

uint64_t counterMask(const CounterDescription &counter) {
  return counter.widthBits >= 64 ? ~uint64_t(0) : (uint64_t(1) << counter.widthBits) - 1;
}

namespace {

/// Reads a window by its read-back activity and puts the registers back that this took, as they read before.
llvm::Error readBack(DeviceBinding &binding, const InternalWindow &window, llvm::MutableArrayRef<uint8_t> out,
                     const WaitLimits &waits) {
  llvm::Expected<WindowTransfer> transfer = WindowTransfer::open(binding, window, /*toDevice=*/false, waits);
  if (!transfer)
    return transfer.takeError();
  const Description &description = *binding.description();
  std::vector<unsigned> used = transfer->registers();
  used.pop_back(); // Writing back what started an activity would start it again.
  std::vector<std::pair<unsigned, uint64_t>> before;
  auto work = [&]() -> llvm::Error {
    for (unsigned reg : used) {
      if (description.registers[reg].access == RegisterAccess::WriteOnly)
        continue;
      llvm::Expected<uint64_t> value = binding.readRegister(description.registers[reg]);
      if (!value)
        return value.takeError();
      before.emplace_back(reg, *value);
    }
    if (llvm::Error error = transfer->read(0, out))
      return error;
    for (const auto &[reg, value] : before)
      if (llvm::Error error = binding.writeRegister(description.registers[reg], value))
        return error;
    return binding.target().flush();
  };
  llvm::Error error = work();
  return llvm::joinErrors(std::move(error), transfer->close());
}

llvm::Error readWindow(DeviceBinding &binding, const InternalWindow &window,
                       llvm::MutableArrayRef<uint8_t> out, const WaitLimits &waits) {
  if (LookableTarget *lookable = binding.capabilities().peek ? lookableTarget(binding.target()) : nullptr) {
    TargetLook look; // Brings what has changed since the last one, and no more.
    look.windows.push_back(window.name);
    llvm::Error error = lookable->look(look);
    if (!error && look.contents[0].size() >= out.size()) {
      std::copy_n(look.contents[0].begin(), out.size(), out.begin());
      return llvm::Error::success();
    }
    Failure failure = toFailure(std::move(error));
    if (failure.cls != FailureClass::Usage)
      return llvm::make_error<Failure>(std::move(failure));
  }
  if (binding.capabilities().peek)
    return binding.target().peek(window.name, 0, out);
  if (window.readBack.empty() && window.port) {
    llvm::Expected<WindowPort> port = WindowPort::open(binding, window);
    return port ? port->read(0, out) : port.takeError();
  }
  return readBack(binding, window, out, waits);
}

/// A Usage failure says that it cannot be seen, and why; others are failures.
llvm::Expected<std::optional<std::string>> reasonInvisible(llvm::Error error) {
  if (!error)
    return std::optional<std::string>();
  Failure failure = toFailure(std::move(error));
  if (failure.cls == FailureClass::Usage)
    return std::optional<std::string>(failure.message);
  return llvm::make_error<Failure>(std::move(failure));
}

} // namespace

bool StateProbe::isFree(const PlayerPair &run) {
  for (size_t i = 0; i < run.good.player->deviceCount(); ++i)
    if (!run.good.player->binding(uint16_t(i)).capabilities().peek ||
        !run.bad.player->binding(uint16_t(i)).capabilities().peek)
      return false;
  return true;
}

llvm::Error StateProbe::takeBaseline(const PlayerPair &run) {
  for (size_t i = 0; i < run.good.player->deviceCount(); ++i) {
    // Each register that differs is put aside, so that the next call goes on behind it.
    for (;;) {
      llvm::Expected<std::optional<StateDifference>> difference = compareRegisters(run, uint16_t(i));
      if (!difference)
        return difference.takeError();
      if (!*difference)
        break;
      const RegisterDescription *reg = source.description(uint16_t(i))->findByName((*difference)->name);
      if (!reg ||
          !differentFromStart.insert({uint16_t(i), source.description(uint16_t(i))->indexOf(*reg)}).second)
        break;
      coverage.registers.erase(reg->name);
      coverage.notVisible[reg->name] = "differs already before the first packet: good 0x" +
                                       llvm::utohexstr((*difference)->good, true) + ", bad 0x" +
                                       llvm::utohexstr((*difference)->bad, true);
    }
  }
  return llvm::Error::success();
}

llvm::Expected<std::optional<StateDifference>>
StateProbe::compare(const PlayerPair &run, unsigned parts, llvm::ArrayRef<const History *> histories) {
  for (size_t i = 0; i < run.good.player->deviceCount(); ++i) {
    uint16_t device = uint16_t(i);
    if (parts & ProbeWindows) {
      llvm::Expected<std::optional<StateDifference>> found =
          compareWindows(run, device, i < histories.size() ? histories[i] : nullptr);
      if (!found || *found)
        return found;
    }
    if (parts & ProbeMemory) {
      llvm::Expected<std::optional<StateDifference>> found = compareMemory(run, device);
      if (!found || *found)
        return found;
    }
    if (parts & ProbeRegisters) {
      llvm::Expected<std::optional<StateDifference>> found = compareRegisters(run, device);
      if (!found || *found)
        return found;
      found = compareCounters(run, device);
      if (!found || *found)
        return found;
    }
  }
  return std::optional<StateDifference>();
}

bool StateProbe::isWritten(const History &history, const InternalWindow &window, uint64_t offset) const {
  std::optional<uint64_t> writer = history.state().lastWriterOfWindow(window.name, window.base + offset);
  if (!writer)
    return false;
  // A reset that leaves the content undefined has written nothing.
  Packet packet;
  PacketExtra extra;
  if (llvm::Error error = source.packetAt(*writer, packet, extra)) {
    llvm::consumeError(std::move(error)); // A keyframe's ordinal at the very end: then somebody has.
    return true;
  }
  return packet.kind != PacketKind::Reset;
}

/// False, with the reason in the coverage, if one of the targets does not let the window be seen.
llvm::Expected<bool> StateProbe::readBoth(const PlayerPair &run, uint16_t device,
                                          const InternalWindow &window, std::vector<uint8_t> &good,
                                          std::vector<uint8_t> &bad) {
  for (auto [side, bytes] : {std::pair(&run.good, &good), std::pair(&run.bad, &bad)}) {
    bytes->resize(window.size);
    llvm::Expected<std::optional<std::string>> reason =
        reasonInvisible(readWindow(side->player->binding(device), window, *bytes, options.waits));
    if (!reason)
      return reason.takeError();
    if (*reason) {
      coverage.notVisible[window.name] =
          std::string(side == &run.good ? "good" : "bad") + " target: " + **reason;
      return false;
    }
  }
  return true;
}

std::optional<uint64_t> StateProbe::firstDifference(const InternalWindow &window, const History *history,
                                                    llvm::ArrayRef<uint8_t> good,
                                                    llvm::ArrayRef<uint8_t> bad) const {
  constexpr uint64_t piece = 256;
  for (uint64_t at = 0; at < window.size; ++at) {
    while (window.size - at > piece && std::memcmp(good.data() + at, bad.data() + at, piece) == 0)
      at += piece;
    at = uint64_t(std::mismatch(good.begin() + at, good.end(), bad.begin() + at).first - good.begin());
    if (at == window.size)
      break;
    // What nobody wrote and no reset defines may be anything.
    if (window.reset || !history || isWritten(*history, window, at))
      return at;
  }
  return std::nullopt;
}

llvm::Expected<std::optional<StateDifference>>
StateProbe::compareWindows(const PlayerPair &run, uint16_t device, const History *history) {
  const Description *description = source.description(device);
  if (!description)
    return std::optional<StateDifference>();
  std::vector<uint8_t> good, bad;
  for (const InternalWindow &window : description->windows) {
    if (window.size > maxWindowBytes) {
      coverage.notVisible[window.name] = "larger than what a probe compares";
      continue;
    }
    llvm::Expected<bool> visible = readBoth(run, device, window, good, bad);
    if (!visible)
      return visible.takeError();
    if (!*visible)
      continue;
    coverage.windows.insert(window.name);
    std::optional<uint64_t> at = firstDifference(window, history, good, bad);
    if (!at)
      continue;
    // Reading back takes a transfer, which may itself go wrong: what differs must differ twice.
    std::pair<uint8_t, uint8_t> seen(good[*at], bad[*at]);
    visible = readBoth(run, device, window, good, bad);
    if (!visible)
      return visible.takeError();
    if (!*visible || firstDifference(window, history, good, bad) != at ||
        seen != std::pair(good[*at], bad[*at])) {
      ++transients[window.name];
      continue;
    }
    StateDifference difference;
    difference.kind = StateDifference::Kind::Window;
    difference.device = device;
    difference.name = window.name;
    difference.address = window.base + *at;
    difference.offset = *at;
    difference.good = good[*at];
    difference.bad = bad[*at];
    return std::optional(difference);
  }
  return std::optional<StateDifference>();
}

/// All of them in one batch a side: the usual case, at a fraction of the cost.
llvm::Expected<bool> StateProbe::registersAlike(const PlayerPair &run, uint16_t device) {
  const Description &description = *source.description(device);
  DeviceBinding &good = run.good.player->binding(device), &bad = run.bad.player->binding(device);
  std::vector<unsigned> looked;
  std::vector<TargetOperation> left, right;
  for (const RegisterDescription &reg : description.registers) {
    unsigned index = description.indexOf(reg);
    std::optional<TargetSpaceId> ours = good.target().findSpace(reg.space),
                                 theirs = bad.target().findSpace(reg.space);
    if (!isProbedRegister(reg) || !ours || !theirs || differentFromStart.count({device, index}))
      continue;
    TargetOperation read;
    read.width = uint8_t(reg.width);
    read.address = reg.offset;
    looked.push_back(index);
    read.space = *ours;
    left.push_back(read);
    read.space = *theirs;
    right.push_back(read);
  }
  for (auto [binding, reads] : {std::pair(&good, &left), std::pair(&bad, &right)}) {
    size_t completed = 0;
    if (llvm::Error error = binding->target().submit(*reads, &completed))
      return error;
  }
  for (size_t i = 0; i < looked.size(); ++i) {
    const RegisterDescription &reg = description.registers[looked[i]];
    coverage.registers.insert(reg.name);
    uint64_t mask = probedBits(reg);
    const Relocation &ours = good.relocation(), &theirs = bad.relocation();
    if ((ours.registers.recorded(ours.map, looked[i], left[i].value) ^
         theirs.registers.recorded(theirs.map, looked[i], right[i].value)) &
        mask)
      return false;
  }
  return true;
}

llvm::Expected<std::optional<StateDifference>> StateProbe::compareRegisters(const PlayerPair &run,
                                                                            uint16_t device) {
  const Description *description = source.description(device);
  if (!description)
    return std::optional<StateDifference>();
  DeviceBinding &good = run.good.player->binding(device), &bad = run.bad.player->binding(device);
  llvm::Expected<bool> alike = registersAlike(run, device);
  if (!alike)
    return alike.takeError();
  if (*alike)
    return std::optional<StateDifference>();
  for (const RegisterDescription &reg : description->registers) {
    unsigned index = description->indexOf(reg);
    if (!isProbedRegister(reg) || !good.target().findSpace(reg.space) || !bad.target().findSpace(reg.space) ||
        differentFromStart.count({device, index}))
      continue;
    uint64_t mask = probedBits(reg);
    uint64_t left = 0, right = 0;
    // A difference that does not stay is a wrong answer, not a wrong state: the lockstep's business.
    constexpr int reads = 3;
    bool differs = true;
    int i = 0;
    for (; differs && i < reads; ++i) {
      for (auto [binding, value] : {std::pair(&good, &left), std::pair(&bad, &right)}) {
        llvm::Expected<uint64_t> read = binding->readRegister(reg);
        if (!read)
          return read.takeError();
        const Relocation &relocation = binding->relocation();
        *value = relocation.registers.recorded(relocation.map, description->indexOf(reg), *read);
      }
      differs = ((left ^ right) & mask) != 0;
    }
    coverage.registers.insert(reg.name);
    if (!differs && i > 1)
      ++transients[reg.name];
    if (!differs)
      continue;
    StateDifference difference;
    difference.kind = StateDifference::Kind::Register;
    difference.device = device;
    difference.name = reg.name;
    difference.address = reg.offset;
    difference.wrong = (left ^ right) & mask;
    difference.offset = unsigned(llvm::countr_zero(difference.wrong)) / 8;
    difference.good = left;
    difference.bad = right;
    return std::optional(difference);
  }
  return std::optional<StateDifference>();
}

/// All of them in one message a side: the usual case.
llvm::Expected<bool> StateProbe::countersAlike(const PlayerPair &run, uint16_t device) {
  const Description &description = *source.description(device);
  std::vector<uint32_t> ids;
  for (size_t id = 0; id < description.counters.size(); ++id)
    if (description.counters[id].exact)
      ids.push_back(uint32_t(id));
  std::vector<uint64_t> left(ids.size()), right(ids.size());
  if (llvm::Error error = run.good.player->binding(device).target().counters(ids, left))
    return error;
  if (llvm::Error error = run.bad.player->binding(device).target().counters(ids, right))
    return error;
  for (size_t i = 0; i < ids.size(); ++i) {
    coverage.counters.insert(description.counters[ids[i]].name);
    if ((left[i] ^ right[i]) & counterMask(description.counters[ids[i]]))
      return false;
  }
  return true;
}

/// Counters that every implementation must agree on, where both targets tell them. A fence is seen before its
/// command counts as complete, so that a difference must outlast some time.
llvm::Expected<std::optional<StateDifference>> StateProbe::compareCounters(const PlayerPair &run,
                                                                           uint16_t device) {
  constexpr unsigned looks = 4;
  constexpr uint64_t between = 2'000;
  const Description *description = source.description(device);
  DeviceBinding &good = run.good.player->binding(device), &bad = run.bad.player->binding(device);
  if (!description || !good.capabilities().counters || !bad.capabilities().counters)
    return std::optional<StateDifference>();
  llvm::Expected<bool> alike = countersAlike(run, device);
  if (!alike)
    return alike.takeError();
  if (*alike)
    return std::optional<StateDifference>();
  for (size_t id = 0; id < description->counters.size(); ++id) {
    const CounterDescription &counter = description->counters[id];
    if (!counter.exact)
      continue;
    uint64_t mask = counterMask(counter);
    uint64_t left = 0, right = 0;
    for (unsigned look = 0; look < looks; ++look) {
      for (auto [binding, value] : {std::pair(&good, &left), std::pair(&bad, &right)}) {
        if (look)
          if (llvm::Error error = binding->target().advance(between))
            return error;
        llvm::Expected<uint64_t> read = binding->target().counter(uint32_t(id));
        if (!read)
          return read.takeError();
        *value = *read & mask;
      }
      if (left == right)
        break;
    }
    coverage.counters.insert(counter.name);
    if (left == right)
      continue;
    StateDifference difference;
    difference.kind = StateDifference::Kind::Counter;
    difference.device = device;
    difference.name = counter.name;
    difference.address = id;
    difference.wrong = left ^ right;
    difference.offset = unsigned(llvm::countr_zero(difference.wrong)) / 8;
    difference.good = left;
    difference.bad = right;
    return std::optional(difference);
  }
  return std::optional<StateDifference>();
}

/// Memory that a target shows in place, as it was recorded: with no addresses and no values of this run.
static const uint8_t *inPlace(const DeviceBinding &binding, uint64_t iova, const MemoryRegion &region) {
  bool asRecorded = !binding.relocation().moves() && !binding.live().any(iova, region.size);
  return asRecorded ? region.host : nullptr;
}

/// Completions are compared one by one, as packets; which stands where in their ring is nobody's state.
static void leaveOutRings(const DeviceBinding &binding, uint64_t address, llvm::ArrayRef<uint8_t> from,
                          llvm::MutableArrayRef<uint8_t> to) {
  for (auto [base, size] : binding.completionRings()) {
    uint64_t first = std::max(base, address), last = std::min(base + size, address + to.size());
    if (first < last)
      std::copy(from.begin() + (first - address), from.begin() + (last - address),
                to.begin() + (first - address));
  }
}

llvm::Expected<std::optional<StateDifference>> StateProbe::compareMemory(const PlayerPair &run,
                                                                         uint16_t device) {
  DeviceBinding &good = run.good.player->binding(device), &bad = run.bad.player->binding(device);
  constexpr uint64_t piece = 1 << 20;
  uint64_t looked = 0;
  std::vector<uint8_t> left, right;
  for (const auto &[iova, region] : good.regions()) {
    auto other = bad.regions().find(iova);
    if (other == bad.regions().end() || other->second.size != region.size)
      continue; // One of them could not map it: seen as a failure of that packet.
    const uint8_t *ours = inPlace(good, iova, region), *theirs = inPlace(bad, iova, other->second);
    for (uint64_t at = 0; at < region.size; at += piece) {
      uint64_t size = std::min(piece, region.size - at);
      if (looked + size > options.maxMemoryBytes) {
        coverage.notVisible["memory"] =
            "beyond the first " + std::to_string(options.maxMemoryBytes) + " mapped bytes";
        return std::optional<StateDifference>();
      }
      looked += size;
      coverage.memory = true;
      if (ours && theirs && std::memcmp(ours + at, theirs + at, size) == 0)
        continue;
      left.resize(size);
      right.resize(size);
      if (llvm::Error error = good.readMemory(iova + at, left))
        return error;
      if (llvm::Error error = bad.readMemory(iova + at, right))
        return error;
      leaveOutRings(good, iova + at, left, right);
      leaveOutRings(bad, iova + at, left, right);
      auto [l, r] = std::mismatch(left.begin(), left.end(), right.begin());
      if (l == left.end())
        continue;
      StateDifference difference;
      difference.kind = StateDifference::Kind::Memory;
      difference.device = device;
      difference.name = "memory";
      difference.offset = at + uint64_t(l - left.begin());
      difference.address = iova + difference.offset;
      difference.good = *l;
      difference.bad = *r;
      return std::optional(difference);
    }
  }
  return std::optional<StateDifference>();
}

} // namespace tapeback
