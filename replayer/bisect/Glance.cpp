// The usual case, cheaply: both devices at rest and alike, seen without side effect, in one message a side.
#include "format/Failure.h"
#include "replayer/bisect/StateProbe.h"
#include <cstring>

namespace tapeback {

/// Whether settle() would wait for the device to come to rest.
static bool comesToRest(const Description &description) {
  return !description.queues.empty() && !description.idle.empty();
}

StateProbe::Glance StateProbe::prepareGlance(const PlayerPair &run, uint16_t device) const {
  Glance glance;
  const Description &description = *source.description(device);
  DeviceBinding &good = run.good.player->binding(device), &bad = run.bad.player->binding(device);
  glance.possible = good.capabilities().peek && bad.capabilities().peek && lookableTarget(good.target()) &&
                    lookableTarget(bad.target());
  auto add = [&](const RegisterDescription &reg) {
    std::optional<TargetSpaceId> ours = good.target().findSpace(reg.space),
                                 theirs = bad.target().findSpace(reg.space);
    if (!ours || !theirs)
      return false;
    glance.good.registers.push_back(TargetOperation::read(*ours, reg.offset, reg.width));
    glance.bad.registers.push_back(TargetOperation::read(*theirs, reg.offset, reg.width));
    return true;
  };
  for (const RegisterDescription &reg : description.registers) {
    unsigned index = description.indexOf(reg);
    if (isProbedRegister(reg) && !differentFromStart.count({device, index}) && add(reg))
      glance.registers.push_back(index);
  }
  if (comesToRest(description))
    for (const RegisterCondition &condition : description.idle)
      glance.possible &= add(description.registers[condition.reg]);
  if (good.capabilities().counters && bad.capabilities().counters)
    for (size_t id = 0; id < description.counters.size(); ++id)
      if (description.counters[id].exact) {
        glance.good.counters.push_back(uint32_t(id));
        glance.counterMasks.push_back(counterMask(description.counters[id]));
      }
  glance.bad.counters = glance.good.counters;
  for (const InternalWindow &window : description.windows)
    if (window.size <= maxWindowBytes) {
      glance.good.windows.push_back(window.name);
      glance.windowSizes.push_back(window.size);
    }
  glance.bad.windows = glance.good.windows;
  return glance;
}

/// Looks at both sides. Null if that cannot be done.
llvm::Expected<StateProbe::Glance *> StateProbe::glanceAt(const PlayerPair &run, uint16_t device) {
  auto [at, isNew] = glances.try_emplace(device);
  Glance &glance = at->second;
  if (isNew)
    glance = prepareGlance(run, device);
  for (auto [side, look] : {std::pair(&run.good, &glance.good), std::pair(&run.bad, &glance.bad)}) {
    LookableTarget *target =
        glance.possible ? lookableTarget(side->player->binding(device).target()) : nullptr;
    if (!target)
      return nullptr;
    if (llvm::Error error = target->look(*look)) {
      Failure failure = toFailure(std::move(error));
      if (failure.cls != FailureClass::Usage)
        return llvm::make_error<Failure>(std::move(failure));
      glance.possible = false; // It does not show that: compare() finds out what it does.
      return nullptr;
    }
    for (size_t i = 0; i < glance.windowSizes.size(); ++i)
      glance.possible &= look->contents[i].size() >= glance.windowSizes[i];
  }
  return glance.possible ? &glance : nullptr;
}

bool StateProbe::atRest(const Glance &glance, uint16_t device) const {
  const Description &description = *source.description(device);
  if (!comesToRest(description))
    return true;
  for (const TargetLook *look : {&glance.good, &glance.bad}) {
    bool rests = false;
    for (size_t i = 0; i < description.idle.size(); ++i)
      rests |= description.idle[i].holds(look->registers[glance.registers.size() + i].value);
    if (!rests)
      return false;
  }
  return true;
}

llvm::Expected<bool> StateProbe::alike(const PlayerPair &run) {
  for (size_t i = 0; i < run.good.player->deviceCount(); ++i) {
    uint16_t device = uint16_t(i);
    llvm::Expected<std::optional<StateDifference>> memory = compareMemory(run, device);
    if (!memory)
      return memory.takeError();
    if (*memory)
      return false;
    const Description *description = source.description(device);
    if (!description)
      continue; // compare() sees no more of it either.
    llvm::Expected<Glance *> seen = glanceAt(run, device);
    if (!seen)
      return seen.takeError();
    if (!*seen || !atRest(**seen, device))
      return false;
    const TargetLook &good = (*seen)->good, &bad = (*seen)->bad;
    const Relocation &ours = run.good.player->binding(device).relocation(),
                     &theirs = run.bad.player->binding(device).relocation();
    for (size_t k = 0; k < (*seen)->registers.size(); ++k) {
      unsigned index = (*seen)->registers[k];
      const RegisterDescription &reg = description->registers[index];
      if ((ours.registers.recorded(ours.map, index, good.registers[k].value) ^
           theirs.registers.recorded(theirs.map, index, bad.registers[k].value)) &
          probedBits(reg))
        return false;
      coverage.registers.insert(reg.name);
    }
    for (size_t k = 0; k < good.counters.size(); ++k) {
      if ((good.counterValues[k] ^ bad.counterValues[k]) & (*seen)->counterMasks[k])
        return false;
      coverage.counters.insert(description->counters[good.counters[k]].name);
    }
    for (size_t k = 0; k < good.windows.size(); ++k) {
      if (std::memcmp(good.contents[k].data(), bad.contents[k].data(), (*seen)->windowSizes[k]) != 0)
        return false;
      coverage.windows.insert(good.windows[k]);
    }
  }
  return true;
}

/// Registers are read first, which takes device time: what is compared has to be what they hold at rest.
llvm::Expected<bool> StateProbe::looksAreTrue(DeviceBinding &binding, const TargetLook &look,
                                              llvm::ArrayRef<uint64_t> windowSizes) const {
  std::vector<TargetOperation> reads = look.registers;
  size_t completed = 0;
  if (llvm::Error error = binding.target().submit(reads, &completed))
    return error;
  for (size_t i = 0; i < reads.size(); ++i)
    if (reads[i].value != look.registers[i].value)
      return false;
  std::vector<uint64_t> counters(look.counters.size());
  if (llvm::Error error = binding.target().counters(look.counters, counters))
    return error;
  if (counters != look.counterValues)
    return false;
  std::vector<uint8_t> content;
  for (size_t i = 0; i < look.windows.size(); ++i) {
    content.resize(windowSizes[i]);
    if (llvm::Error error = binding.target().peek(look.windows[i], 0, content))
      return error;
    if (std::memcmp(content.data(), look.contents[i].data(), content.size()) != 0)
      return false;
  }
  return true;
}

llvm::Expected<bool> StateProbe::looksAreTrue(const PlayerPair &run) {
  for (size_t i = 0; i < run.good.player->deviceCount(); ++i) {
    if (!source.description(uint16_t(i)))
      continue;
    llvm::Expected<Glance *> seen = glanceAt(run, uint16_t(i));
    if (!seen)
      return seen.takeError();
    if (!*seen)
      continue;
    for (auto [side, look] : {std::pair(&run.good, &(*seen)->good), std::pair(&run.bad, &(*seen)->bad)}) {
      llvm::Expected<bool> same =
          looksAreTrue(side->player->binding(uint16_t(i)), *look, (*seen)->windowSizes);
      if (!same || !*same)
        return same;
    }
  }
  return true;
}

} // namespace tapeback
