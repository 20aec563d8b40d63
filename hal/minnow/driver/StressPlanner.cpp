#include "hal/minnow/driver/StressPlanner.h"
#include <cstring>

namespace tapeback::stress {

using Kind = StressStep::Kind;

StressPlan::Planner::Planner(const StressOptions &options)
    : evaluation(options.arena, arenaBytes), random(options.seed), options(options),
      source(random, evaluation, options.arena + data, options.arena + arenaBytes), hazards(arenaBytes),
      fenceValue(options.seed << 32) {}

// ---- Steps ----

void StressPlan::Planner::mark(const char *name) {
  steps.emplace_back().name = name;
}

void StressPlan::Planner::write(uint32_t offset, uint64_t value) {
  StressStep &step = steps.emplace_back();
  step.kind = Kind::Write;
  step.offset = offset;
  step.value = value;
}

void StressPlan::Planner::read(const char *name, uint32_t offset, uint64_t value) {
  StressStep &step = steps.emplace_back();
  step.kind = Kind::Read;
  step.name = name;
  step.offset = offset;
  step.value = value;
}

void StressPlan::Planner::poll(const char *name, uint32_t offset, uint64_t mask, uint64_t value) {
  StressStep &step = steps.emplace_back();
  step.kind = Kind::Poll;
  step.name = name;
  step.offset = offset;
  step.mask = mask;
  step.value = value;
}

void StressPlan::Planner::fill(uint32_t at, const void *from, size_t bytes) {
  StressStep &step = steps.emplace_back();
  step.kind = random.chance(20) ? Kind::FillApi : Kind::Fill;
  step.memory = at;
  step.bytes.assign(static_cast<const uint8_t *>(from), static_cast<const uint8_t *>(from) + bytes);
  std::memcpy(evaluation.memory.data() + at, from, bytes);
}

void StressPlan::Planner::awaitInterrupt() {
  steps.emplace_back().kind = Kind::AwaitInterrupt;
}

void StressPlan::Planner::quiet() {
  StressStep &step = steps.emplace_back();
  step.kind = Kind::Quiet;
  step.scratchpadDigest = digestOf(evaluation.scratchpad.data(), evaluation.scratchpad.size());
  step.memoryDigest = digestOf(evaluation.memory.data(), evaluation.memory.size());
  step.exact = evaluation.exact;
}

// ---- Before a round ----

/// The queue is empty.
void StressPlan::Planner::setUpRing(unsigned q, uint32_t size, uint32_t base) {
  write(queueRegister(q, MINNOW_Q_BASE_LO), uint32_t(address(base)));
  write(queueRegister(q, MINNOW_Q_BASE_HI), address(base) >> 32);
  write(queueRegister(q, MINNOW_Q_SIZE), size);
  queues[q].size = size;
  queues[q].base = base;
  queues[q].head = 0;
}

void StressPlan::Planner::setUpRings() {
  for (unsigned q = 0; q < 2; ++q) {
    uint32_t size = random.chance(85) ? random.oneOf({8u, 16u, 16u, 32u}) : random.oneOf({2u, 4u, 64u, 128u});
    uint32_t room = (ringRegion - size * MINNOW_COMMAND_SIZE) / MINNOW_COMMAND_SIZE;
    setUpRing(q, size, q * ringRegion + MINNOW_COMMAND_SIZE * random.below(room + 1));
    read("ring", queueRegister(q, MINNOW_Q_SIZE), size);
  }
}

void StressPlan::Planner::beginRound() {
  program.clear();
  hazards.synchronise();
  hostStores = true;
  descriptorSlot = 0;
  for (unsigned s = 0; s < MINNOW_SEMAPHORES; ++s) {
    freeWaits[s] = semaphores[s];
    uses[s] = semaphores[s] || random.chance(25) ? Use::Free : random.chance(50) ? Use::From0 : Use::From1;
  }
  for (Queue &queue : queues) // A fence may have been seen before its HEAD has moved.
    queue.budget = queue.size - (idle ? 1 : 2);
}

/// What may be changed while nothing is going on.
void StressPlan::Planner::changeSettings() {
  if (!idle)
    return;
  if (random.chance(12))
    setUpRings();
  if (random.chance(15)) {
    uint32_t enable = random.below(8);
    bool message = enable & ~irqEnable & irqStatus;
    write(MINNOW_IRQ_ENABLE, enable);
    irqEnable = enable;
    if (message)
      awaitInterrupt();
  }
  if (random.chance(6)) {
    freeze = !freeze;
    write(MINNOW_CNT_CONTROL, freeze ? MINNOW_CNT_FREEZE : 0);
    evaluation.counting = !freeze;
  }
  if (random.chance(5)) {
    write(MINNOW_CNT_CONTROL, MINNOW_CNT_CLEAR | (freeze ? MINNOW_CNT_FREEZE : 0));
    evaluation.exact = Exact();
  }
}

void StressPlan::Planner::fillData() {
  for (unsigned times = random.below(4); times; --times) {
    std::vector<uint8_t> bytes(8 * random.between(1, random.chance(80) ? 64 : 512));
    bool small = random.chance(30); // Small numbers keep sums away from saturation.
    for (uint8_t &byte : bytes)
      byte = small ? uint8_t(int(random.below(16)) - 8) : uint8_t(random.next());
    uint32_t room = (arenaBytes - data - uint32_t(bytes.size())) / 8;
    fill(data + 8 * random.below(room + 1), bytes.data(), bytes.size());
  }
}

/// The device is halted or not enabled, and nothing moves.
void StressPlan::Planner::useDebugPort(std::vector<StressStep> &into) {
  std::vector<StressStep> before;
  before.swap(steps);
  uint32_t at = random.chance(10) ? MINNOW_SCRATCHPAD_SIZE - 4 : 4 * random.below(MINNOW_SCRATCHPAD_SIZE / 4);
  write(MINNOW_DBG_ADDR, at | random.below(4));
  for (unsigned times = random.between(1, 6); times; --times) {
    if (random.chance(20)) {
      uint32_t value = uint32_t(random.next());
      write(MINNOW_DBG_DATA, value);
      std::memcpy(evaluation.scratchpad.data() + at, &value, 4);
    } else {
      uint32_t value;
      std::memcpy(&value, evaluation.scratchpad.data() + at, 4);
      read("debug port", MINNOW_DBG_DATA, value);
    }
    at = (at + 4) % MINNOW_SCRATCHPAD_SIZE;
  }
  read("debug address", MINNOW_DBG_ADDR, at);
  before.swap(steps);
  into.insert(into.end(), std::make_move_iterator(before.begin()), std::make_move_iterator(before.end()));
}

// ---- Commands ----

StressPlan::Planner::Entry &StressPlan::Planner::emit(unsigned q, const minnow_command &command) {
  hazards.add(q, evaluation.extents(command));
  Entry &entry = program.emplace_back();
  entry.queue = q;
  entry.command = command;
  entry.number = hazards.newest();
  entry.knows = hazards.knows(q);
  entry.verdict = evaluation.execute(command);
  --queues[q].budget;
  ++submitted;
  return entry;
}

bool StressPlan::Planner::tryEmit(unsigned q, const minnow_command &command) {
  if (!queues[q].budget)
    return false;
  std::vector<Extent> extents = evaluation.extents(command);
  if (!hostStores)
    for (const Extent &extent : extents)
      if (extent.host && extent.writes)
        return false;
  if (hazards.races(q, extents)) {
    if (queues[q].budget < 2 || random.chance(30) || !handshake(1 - q, q))
      return false;
  }
  emit(q, command);
  return true;
}

/// What `to` does from now on comes after what `from` did.
bool StressPlan::Planner::handshake(unsigned from, unsigned to) {
  Use use = from ? Use::From1 : Use::From0;
  uint32_t first = random.below(MINNOW_SEMAPHORES);
  for (uint32_t i = 0; i < MINNOW_SEMAPHORES; ++i) {
    uint32_t which = (first + i) % MINNOW_SEMAPHORES;
    if (uses[which] != use || !queues[from].budget || !queues[to].budget)
      continue;
    emit(from, minnow_signal(which));
    uint64_t number = hazards.newest();
    emit(to, minnow_wait(which));
    hazards.learn(to, number);
    return true;
  }
  return false;
}

bool StressPlan::Planner::barrier() {
  if (!queues[0].budget || !queues[1].budget)
    return false;
  emit(0, minnow_barrier());
  emit(1, minnow_barrier());
  hazards.learn(0, hazards.newest());
  hazards.learn(1, hazards.newest() - 1);
  return true;
}

bool StressPlan::Planner::fence(unsigned q) {
  uint32_t at = fences + 8 * (fenceSlot++ % fenceSlots);
  return tryEmit(q, minnow_fence(address(at), ++fenceValue, random.chance(50) ? MINNOW_INTERRUPT : 0));
}

/// Mostly, the last command of a queue is one that can be seen in memory.
void StressPlan::Planner::closingFences() {
  bool used[2] = {};
  for (const Entry &entry : program)
    used[entry.queue] = true;
  for (unsigned q = 0; q < 2; ++q)
    if (used[q] && random.chance(88)) {
      if (queues[q].budget > 1 && random.chance(40)) // What drivers do: store, then say so.
        tryEmit(q, source.transfer(q, true));
      fence(q);
    }
}

/// Signals that nobody waits for yet, and waits that cannot block.
void StressPlan::Planner::useSemaphore(unsigned q) {
  uint32_t which = random.below(MINNOW_SEMAPHORES);
  if (uses[which] != Use::Free || !queues[q].budget)
    return;
  if (freeWaits[which] && random.chance(60)) {
    --freeWaits[which];
    --semaphores[which];
    emit(q, minnow_wait(which));
  } else if (semaphores[which] < 200) {
    ++semaphores[which];
    emit(q, minnow_signal(which));
  }
}

/// Puts descriptors into memory, in any places; returns the address of the first. `behind`: what the last
/// one, which gets no LAST here, says of the next.
uint64_t StressPlan::Planner::chainOf(std::vector<minnow_descriptor> links, uint64_t behind) {
  // Slots of this round that are not used yet, shuffled.
  std::vector<uint32_t> slots(links.size());
  for (uint32_t i = 0; i < slots.size(); ++i)
    slots[i] = descriptorSlot++ % descriptorSlots;
  for (uint32_t i = uint32_t(slots.size()) - 1; i > 0; --i)
    std::swap(slots[i], slots[random.below(i + 1)]);
  auto place = [&](size_t i) { return descriptors + slots[i] * uint32_t(sizeof(minnow_descriptor)); };
  for (size_t i = 0; i < links.size(); ++i) {
    if (!links[i].next)
      links[i].next = i + 1 < links.size() ? address(place(i + 1)) : behind;
    for (uint8_t &byte : links[i].ignored)
      byte = uint8_t(random.next());
    fill(place(i), &links[i], sizeof links[i]);
  }
  return address(place(0));
}

bool StressPlan::Planner::chain(unsigned q, bool fails) {
  uint32_t length = random.chance(90) ? random.between(1, 6) : random.between(7, 40);
  bool tooLong = fails && random.chance(12);
  if (tooLong || (!fails && random.chance(1)))
    length = MINNOW_MAX_CHAIN;
  if (descriptorSlot + length > descriptorSlots)
    return false;
  std::vector<minnow_descriptor> links;
  for (uint32_t i = 0; i < length; ++i) {
    if (length > 40)
      links.push_back(
          minnow_make_descriptor(address(data + 8 * (i % 512)), 8 * i + 0x8000 * q, 8, 1, 0, 0, 0, 0));
    else
      links.push_back(source.descriptor(q, hostStores && random.chance(50)));
    links.back().flags |= random.below(16) << 4; // Ignored.
  }
  // What follows the last descriptor is ignored, whatever it is.
  uint64_t behind =
      random.oneOf<uint64_t>({0, address(arenaBytes), address(descriptors) | 8, uint64_t(1) << 60});
  if (tooLong && random.chance(50)) { // What else is wrong with it comes first.
    links.back() = source.failingDescriptor(q);
    links.back().next = 0;
  }
  if (!fails) {
    links.back().flags |= MINNOW_DESCRIPTOR_LAST;
  } else if (!tooLong) {
    uint32_t kind = random.below(3), victim = random.below(length);
    links.back().flags |= MINNOW_DESCRIPTOR_LAST;
    if (kind == 0) {
      uint32_t flags = links[victim].flags & MINNOW_DESCRIPTOR_LAST;
      links[victim] = source.failingDescriptor(q);
      links[victim].flags |= flags;
    } else {
      links[victim].flags &= ~uint32_t(MINNOW_DESCRIPTOR_LAST);
      links[victim].next =
          kind == 1 ? address(descriptors) + random.between(1, 63) : address(arenaBytes) + 64;
    }
  }
  return tryEmit(q, minnow_dma_chain(chainOf(std::move(links), behind)));
}

bool StressPlan::Planner::randomCommand(unsigned q) {
  uint32_t pick = random.below(100);
  if (pick < 38)
    return tryEmit(q, source.compute(q));
  if (pick < 58)
    return tryEmit(q, source.transfer(q, false));
  if (pick < 72)
    return tryEmit(q, source.transfer(q, true));
  if (pick < 80)
    return chain(q, false);
  if (pick < 84)
    return barrier();
  if (pick < 89)
    return handshake(q, 1 - q);
  if (pick < 92)
    useSemaphore(q);
  else if (pick < 96)
    return hostStores && fence(q);
  return tryEmit(q, minnow_make(MINNOW_NOP, random.below(0x1000000)));
}

/// A command that fails. `alone`: the other queue stands still meanwhile, so that more may be looked at.
bool StressPlan::Planner::failingCommand(unsigned q, bool alone) {
  size_t before = program.size();
  bool emitted = random.chance(25) ? chain(q, true) : tryEmit(q, source.failing(q));
  if (!emitted || program.size() == before || !program.back().verdict)
    return false;
  if (alone && random.chance(50)) {
    std::vector<StressStep> look;
    useDebugPort(look);
    program.back().whenHalted = std::move(look);
  }
  return true;
}

/// One that asks nothing of the other queue.
bool StressPlan::Planner::randomAlone(unsigned q) {
  uint32_t saved = queues[1 - q].budget;
  queues[1 - q].budget = 0;
  bool emitted = randomCommand(q);
  queues[1 - q].budget = saved;
  return emitted;
}

/// Some `count` commands, and where one cannot be placed, fewer.
void StressPlan::Planner::commands(uint32_t count, bool first, bool second) {
  // Room for the fences at the end.
  uint32_t kept[2];
  for (unsigned q = 0; q < 2; ++q)
    queues[q].budget -= kept[q] = queues[q].budget > 0;
  for (uint32_t i = 0; i < count; ++i) {
    unsigned q = first && second ? random.below(2) : second;
    if (first != second && (queues[q].budget == 0))
      break;
    if (first && second)
      randomCommand(q);
    else
      randomAlone(q);
  }
  for (unsigned q = 0; q < 2; ++q)
    queues[q].budget += kept[q];
}

} // namespace tapeback::stress
