// The sorts of rounds, and how each comes to its end.
#include "hal/minnow/driver/StressPlanner.h"
#include <algorithm>
#include <cstring>

namespace tapeback::stress {

using Kind = StressStep::Kind;

namespace {

constexpr uint32_t statusIdle = MINNOW_STATUS_ENABLED | MINNOW_STATUS_IDLE;

bool interrupts(const minnow_command &command) {
  return uint8_t(command.w[0]) == MINNOW_FENCE && command.w[0] & 0x100;
}

bool isFence(const minnow_command &command) {
  return uint8_t(command.w[0]) == MINNOW_FENCE;
}

} // namespace

std::vector<StressStep> StressPlan::Planner::next() {
  steps.clear();
  if (submitted >= options.commands)
    return {};
  if (!started) {
    start();
  } else {
    uint32_t pick = random.below(100);
    if (options.errors && pick < 14)
      errorRound();
    else if (options.errors && idle && pick < 16)
      ringErrorRound();
    else if (options.errors && idle && pick == 16 && options.commands >= 1000)
      random.chance(50) ? overflowRound() : manyBurstsRound();
    else if (options.resets && idle && pick >= 17 && pick < 22)
      resetRound();
    else if (idle && pick >= 22 && pick < 26)
      disabledRound();
    else if (idle && pick >= 30 && pick < 33)
      fullRound();
    else if (options.exotic && idle && pick >= 26 && pick < 30)
      random.chance(50) ? selfModifyingRound() : pausedRound();
    else
      ordinaryRound();
  }
  return std::move(steps);
}

// ---- Rounds ----

void StressPlan::Planner::start() {
  started = true;
  mark("start");
  read("id", MINNOW_ID, MINNOW_ID_VALUE);
  read("caps", MINNOW_CAPS, 0x00400802);
  read("status after reset", MINNOW_STATUS, MINNOW_STATUS_IDLE);
  setUpRings();
  write(MINNOW_CONTROL, MINNOW_CONTROL_ENABLE);
  // Something to compute with, everywhere.
  std::vector<uint8_t> bytes(0x4000);
  for (uint8_t &byte : bytes)
    byte = uint8_t(random.next());
  fill(data, bytes.data(), bytes.size());
  beginRound();
  emit(0, minnow_dma(MINNOW_DMA_LOAD, address(data), 0, 0x4000, 4, 0, 0x4000));
  closingFences();
  submit();
  finish(true);
}

void StressPlan::Planner::ordinaryRound() {
  mark("round");
  changeSettings();
  beginRound();
  fillData();
  uint32_t which = random.below(100); // Of queues: both, the first, the second.
  uint32_t count = random.chance(80) ? random.between(2, 14) : random.between(10, 60);
  commands(count, which < 85, which < 70 || which >= 85);
  closingFences();
  submit();
  finish(false);
}

/// Submitted while the device is not enabled: nothing happens until it is.
void StressPlan::Planner::disabledRound() {
  mark("disabled");
  changeSettings();
  write(MINNOW_CONTROL, 0);
  if (random.chance(60))
    useDebugPort(steps);
  beginRound();
  fillData();
  commands(random.chance(50) ? 300 : random.between(4, 20), true, true); // Often exactly full.
  closingFences();
  submit();
  for (unsigned q = 0; q < 2; ++q)
    read("head while disabled", queueRegister(q, MINNOW_Q_HEAD), queues[q].head);
  write(MINNOW_CONTROL, MINNOW_CONTROL_ENABLE);
  finish(false);
}

/// Both rings are exactly full, and one stays so until the other has come round its end.
void StressPlan::Planner::fullRound() {
  mark("full");
  changeSettings();
  write(MINNOW_CONTROL, 0);
  beginRound();
  fillData();
  unsigned q = random.below(2);
  for (unsigned s = 0; s < MINNOW_SEMAPHORES; ++s)
    if (semaphores[s] == 0) // Whatever they were to be for: nothing has been done with them yet.
      uses[s] = q ? Use::From1 : Use::From0;
  for (unsigned tries = 500; tries && queues[q].budget > 2; --tries)
    randomAlone(q);
  if (handshake(q, 1 - q))
    for (unsigned tries = 500; tries && queues[1 - q].budget > 1; --tries)
      randomAlone(1 - q);
  for (unsigned each : {0u, 1u})
    fence(each);
  submit();
  write(MINNOW_CONTROL, MINNOW_CONTROL_ENABLE);
  finish(false);
}

/// Commands that fail, all in one queue: which comes first is certain. The other queue is at work, waits for
/// the end of all failures, or is empty.
void StressPlan::Planner::errorRound() {
  mark("errors");
  changeSettings();
  beginRound();
  fillData();
  unsigned q = random.below(2);
  uint32_t company = random.below(3);
  bool alone = company != 0;
  auto part = [&](uint32_t count) { commands(count, !alone || q == 0, !alone || q == 1); };
  part(random.below(5));
  for (uint32_t failures = random.between(1, 4); failures; --failures) {
    failingCommand(q, alone);
    part(random.below(4));
  }
  if (company == 1 && (random.chance(50) ? handshake(q, 1 - q) : barrier()))
    commands(random.below(8), true, true);
  closingFences();
  submit();
  resumeAll(alone);
  finish(false);
}

/// A ring that lies half behind the end of host memory.
void StressPlan::Planner::ringErrorRound() {
  mark("ring-error");
  unsigned q = random.below(2);
  uint32_t mapped = random.between(1, 4), beyond = random.between(1, 3);
  setUpRing(q, 8, arenaBytes - mapped * MINNOW_COMMAND_SIZE);
  beginRound();
  for (uint32_t i = 0; i < mapped; ++i) {
    uint32_t at = fences + 8 * (fenceSlot++ % fenceSlots);
    emit(q, minnow_fence(address(at), ++fenceValue, random.below(2)));
  }
  for (uint32_t i = 0; i < beyond; ++i) {
    hazards.add(q, {});
    Entry &entry = program.emplace_back();
    entry.queue = q;
    entry.number = hazards.newest();
    entry.fetchFails = true;
    entry.verdict = {MINNOW_BUS_ERROR, address(arenaBytes) + i * MINNOW_COMMAND_SIZE};
    ++submitted;
  }
  submit();
  resumeAll(true);
  finish(true);
  setUpRings();
}

/// SIGNAL until it fails.
void StressPlan::Planner::overflowRound() {
  mark("overflow");
  if (queues[0].size < 64)
    setUpRing(0, 128, 0);
  uint32_t which = MINNOW_SEMAPHORES - 1;
  for (bool over = false; !over;) {
    beginRound();
    if (uses[which] != Use::Free && semaphores[which] == 0)
      uses[which] = Use::Free;
    while (queues[0].budget > 1 && !over) {
      Entry &entry = emit(0, minnow_signal(which));
      if (semaphores[which] < 255) {
        ++semaphores[which];
        continue;
      }
      entry.verdict = {MINNOW_SEMAPHORE_OVERFLOW, which};
      evaluation.exact.commands -= evaluation.counting;
      over = true;
    }
    submit();
    resumeAll(true);
    finish(true);
  }
}

/// A chain that writes one of its own later descriptors.
void StressPlan::Planner::selfModifyingRound() {
  mark("self-modifying");
  beginRound();
  unsigned q = random.below(2);
  uint32_t inside = 64 * random.below(MINNOW_SCRATCHPAD_SIZE / 64), image = data + 64 * random.below(512);
  minnow_descriptor put = source.descriptor(q, random.chance(50));
  put.flags |= MINNOW_DESCRIPTOR_LAST;
  fill(image, &put, sizeof put);
  uint32_t victim = descriptors + 64 * (descriptorSlots - 1);
  minnow_descriptor old = source.descriptor(q, random.chance(50));
  old.flags |= MINNOW_DESCRIPTOR_LAST;
  fill(victim, &old, sizeof old);
  std::vector<minnow_descriptor> links = {
      minnow_make_descriptor(address(image), inside, 64, 1, 0, 0, 0, 0),
      minnow_make_descriptor(address(victim), inside, 64, 1, 0, 0, MINNOW_DESCRIPTOR_STORE, address(victim))};
  emit(q, minnow_dma_chain(chainOf(links, 0)));
  closingFences();
  submit();
  finish(true);
}

/// ENABLE goes and comes while commands run. What ends meanwhile is not counted: nobody knows how much that
/// is.
void StressPlan::Planner::pausedRound() {
  mark("paused");
  beginRound();
  fillData();
  commands(random.between(4, 14), true, true);
  closingFences();
  submit();
  for (unsigned times = random.between(1, 3); times; --times) {
    write(MINNOW_CONTROL, random.chance(50) ? MINNOW_CONTROL_RESUME : 0); // Not halted: RESUME does nothing.
    read("ring", queueRegister(0, MINNOW_Q_SIZE), queues[0].size);        // Lets time pass.
    write(MINNOW_CONTROL, MINNOW_CONTROL_ENABLE);
  }
  for (const Entry &entry : program)
    if (isFence(entry.command))
      irqStatus |= interrupts(entry.command) ? MINNOW_IRQ_FENCE0 << entry.queue : 0;
  poll("idle", MINNOW_STATUS, MINNOW_STATUS_RESETTING | MINNOW_STATUS_IDLE, MINNOW_STATUS_IDLE);
  write(MINNOW_CNT_CONTROL, MINNOW_CNT_CLEAR | (freeze ? MINNOW_CNT_FREEZE : 0));
  evaluation.exact = Exact();
  finish(true);
}

/// More bursts than READ_BURSTS can count.
void StressPlan::Planner::manyBurstsRound() {
  mark("many-bursts");
  beginRound();
  std::vector<minnow_descriptor> links;
  for (uint32_t i = 0; i < 66; ++i)
    links.push_back(minnow_make_descriptor(address(data + 8 * i), 0, 65536, 1, 0, 0, 0, 0));
  links.back().flags |= MINNOW_DESCRIPTOR_LAST;
  unsigned q = random.below(2); // Before the chain: arguments have no order.
  emit(q, minnow_dma_chain(chainOf(links, 0)));
  closingFences();
  submit();
  finish(true);
}

void StressPlan::Planner::resetRound() {
  fromOutside = random.chance(25);
  switch (random.below(4)) {
  case 0: mark("reset"); break;
  case 1: resetHalted(); break;
  case 2: resetBlocked(); break;
  default: resetRunning(); break;
  }
  afterReset();
}

void StressPlan::Planner::resetHalted() {
  mark("reset-halted");
  beginRound();
  unsigned q = random.below(2);
  commands(random.below(5), q == 0, q == 1);
  if (!options.errors || !failingCommand(q, true))
    return submit(), finish(true);
  submit();
  halt(program.back(), true, false);
}

/// One queue waits for what never comes.
void StressPlan::Planner::resetBlocked() {
  mark("reset-blocked");
  beginRound();
  unsigned q = random.below(2);
  commands(random.below(5), q == 0, q == 1);
  if (queues[q].budget < 2)
    return submit(), finish(true);
  fence(q);
  uint32_t which = random.below(MINNOW_SEMAPHORES);
  emit(q, semaphores[which] ? minnow_barrier() : minnow_wait(which));
  submit();
  awaitFences(true);
  poll("the blocked command", queueRegister(q, MINNOW_Q_HEAD), 0xffffffff, program.back().index);
  read("status while blocked", MINNOW_STATUS, MINNOW_STATUS_ENABLED | MINNOW_STATUS_Q0_BUSY << q);
  if (options.exotic) {
    write(queueRegister(q, MINNOW_Q_SIZE), 4);
    write(queueRegister(q, MINNOW_Q_BASE_LO), 0x12345678);
    read("size of a busy queue", queueRegister(q, MINNOW_Q_SIZE), queues[q].size);
    read("base of a busy queue", queueRegister(q, MINNOW_Q_BASE_LO), uint32_t(address(queues[q].base)));
  }
}

/// Both queues are somewhere in work that leaves no trace outside the scratchpad.
void StressPlan::Planner::resetRunning() {
  mark("reset-running");
  fillData();
  beginRound();
  hostStores = false;
  commands(random.between(3, 20), true, true);
  hostStores = true;
  submit();
}

void StressPlan::Planner::afterReset() {
  if (fromOutside) {
    steps.emplace_back().kind = Kind::Reset;
  } else {
    write(MINNOW_CONTROL, MINNOW_CONTROL_SOFT_RESET);
    poll("reset", MINNOW_STATUS, MINNOW_STATUS_RESETTING, 0);
  }
  evaluation.reset();
  hazards.synchronise();
  for (Queue &queue : queues)
    queue = Queue();
  std::fill(std::begin(semaphores), std::end(semaphores), 0);
  irqStatus = irqEnable = 0;
  freeze = false;
  evaluation.counting = true;
  idle = true;
  read("status after reset", MINNOW_STATUS, MINNOW_STATUS_IDLE);
  for (unsigned q = 0; q < 2; ++q)
    for (uint32_t offset : {MINNOW_Q_BASE_LO, MINNOW_Q_SIZE, MINNOW_Q_HEAD, MINNOW_Q_TAIL, MINNOW_Q_DONE})
      read("queue after reset", queueRegister(q, offset), 0);
  for (uint32_t offset : {MINNOW_CONTROL, MINNOW_IRQ_STATUS, MINNOW_IRQ_ENABLE, MINNOW_ERR_CODE,
                          MINNOW_ERR_OPCODE, MINNOW_DBG_ADDR, MINNOW_CNT_CONTROL})
    read("register after reset", offset, 0);
  quiet();
  setUpRings();
  write(MINNOW_CONTROL, MINNOW_CONTROL_ENABLE);
}

// ---- Submission ----

void StressPlan::Planner::ring(unsigned q, std::vector<const Entry *> &entries) {
  Queue &queue = queues[q];
  for (size_t i = 0; i < entries.size();) {
    uint32_t slot = entries[i]->index;
    std::vector<minnow_command> run;
    for (; i < entries.size() && entries[i]->index == slot + run.size(); ++i)
      run.push_back(entries[i]->command);
    uint32_t at = queue.base + slot * MINNOW_COMMAND_SIZE;
    uint32_t fit = at < arenaBytes ? (arenaBytes - at) / MINNOW_COMMAND_SIZE : 0;
    if (fit)
      fill(at, run.data(), std::min<size_t>(run.size(), fit) * MINNOW_COMMAND_SIZE);
  }
  if (entries.empty())
    return;
  write(queueRegister(q, MINNOW_Q_DOORBELL), (entries.back()->index + 1) % queue.size);
  entries.clear();
}

/// Commands into rings, and doorbells: at once or in pieces.
void StressPlan::Planner::submit() {
  std::vector<const Entry *> pending[2];
  uint32_t tail[2] = {queues[0].head, queues[1].head};
  uint32_t pieces = random.chance(60) ? 0 : random.between(5, 40);
  for (Entry &entry : program) {
    unsigned q = entry.queue;
    entry.index = tail[q]++ & (queues[q].size - 1);
    pending[q].push_back(&entry);
    if (random.chance(pieces))
      ring(q, pending[q]);
  }
  unsigned first = random.below(2);
  ring(first, pending[first]);
  ring(1 - first, pending[1 - first]);
}

// ---- Failures ----

/// The device halts for `entry`.
void StressPlan::Planner::halt(const Entry &entry, bool alone, bool resumes) {
  unsigned q = entry.queue;
  if ((irqEnable & MINNOW_IRQ_ERROR) && !(irqStatus & MINNOW_IRQ_ERROR) && random.chance(50))
    awaitInterrupt();
  poll("halted", MINNOW_STATUS, MINNOW_STATUS_HALTED, MINNOW_STATUS_HALTED);
  irqStatus |= MINNOW_IRQ_ERROR;
  read("error code", MINNOW_ERR_CODE, entry.verdict.code);
  read("error queue", MINNOW_ERR_QUEUE, q);
  read("error index", MINNOW_ERR_INDEX, entry.index);
  read("error opcode", MINNOW_ERR_OPCODE, entry.fetchFails ? 0 : entry.command.w[0]);
  read("error address", MINNOW_ERR_ADDR_LO, uint32_t(entry.verdict.address));
  read("error address, high", MINNOW_ERR_ADDR_HI, entry.verdict.address >> 32);
  if (alone) {
    uint32_t busy = 0;
    for (const Entry &other : program)
      busy |= MINNOW_STATUS_Q0_BUSY << other.queue;
    read("status while halted", MINNOW_STATUS, MINNOW_STATUS_ENABLED | MINNOW_STATUS_HALTED | busy);
    read("head while halted", queueRegister(q, MINNOW_Q_HEAD), entry.index);
    read("the other head while halted", queueRegister(1 - q, MINNOW_Q_HEAD), queues[1 - q].head);
    for (const Entry &before : program) {
      if (&before == &entry)
        break;
      if (before.queue == q && interrupts(before.command) && !before.verdict)
        irqStatus |= MINNOW_IRQ_FENCE0 << q;
    }
    read("interrupts while halted", MINNOW_IRQ_STATUS, irqStatus);
    steps.insert(steps.end(), entry.whenHalted.begin(), entry.whenHalted.end());
  }
  if (!resumes)
    return;
  if (random.chance(70)) {
    write(MINNOW_IRQ_STATUS, MINNOW_IRQ_ERROR);
    irqStatus &= ~uint32_t(MINNOW_IRQ_ERROR);
  }
  if (options.exotic && random.chance(25)) { // Resumed, but not enabled: nothing starts yet.
    write(MINNOW_CONTROL, MINNOW_CONTROL_RESUME);
    read("error code after resuming", MINNOW_ERR_CODE, 0);
    read("control", MINNOW_CONTROL, 0);
    write(MINNOW_CONTROL, MINNOW_CONTROL_ENABLE);
    return;
  }
  write(MINNOW_CONTROL, MINNOW_CONTROL_ENABLE | MINNOW_CONTROL_RESUME);
}

/// Every failure of the round in its order.
void StressPlan::Planner::resumeAll(bool alone) {
  for (const Entry &entry : program)
    if (entry.verdict)
      halt(entry, alone, true);
}

// ---- The end of a round ----

/// Stored ranges, if their content is certain once `upTo` (a fence, or null: everything) has been executed.
void StressPlan::Planner::checkStores(const Entry *upTo) {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const Entry &entry : program) {
    if (entry.fetchFails || (upTo && entry.number >= upTo->number))
      continue;
    for (const Extent &extent : evaluation.extents(entry.command)) {
      if (!extent.host || !extent.writes || isFence(entry.command))
        continue;
      bool certain = true;
      for (uint64_t at = extent.at / 8 * 8; upTo && certain && at < extent.at + extent.rowBytes; at += 8)
        certain = hazards.hostWriter(upTo->queue, at) <= upTo->number &&
                  hazards.hostWriter(1 - upTo->queue, at) <= upTo->knows;
      if (certain)
        ranges.emplace_back(extent.at, extent.rowBytes);
    }
  }
  for (unsigned times = std::min<unsigned>(upTo ? 1 : 5, unsigned(ranges.size())); times; --times) {
    // Behind a fence mostly the newest store: the one that the fence might have overtaken.
    bool newest = upTo && random.chance(70);
    auto [at, bytes] = newest ? ranges.back() : ranges[random.below(uint32_t(ranges.size()))];
    bytes = std::min<uint64_t>(bytes, 2048);
    StressStep &step = steps.emplace_back();
    step.kind = Kind::CheckMemory;
    step.name = "stored";
    step.memory = uint32_t(at);
    step.bytes.assign(evaluation.memory.begin() + long(at), evaluation.memory.begin() + long(at + bytes));
  }
}

/// Fences seen in memory: all, or some.
void StressPlan::Planner::awaitFences(bool all) {
  for (const Entry &entry : program) {
    bool last = true; // Of its queue.
    for (const Entry &other : program)
      last = last && (other.queue != entry.queue || other.number <= entry.number);
    if (!isFence(entry.command) || entry.verdict || !(all && last ? true : random.chance(50)))
      continue;
    StressStep &step = steps.emplace_back();
    step.kind = Kind::AwaitMemory;
    step.name = "fence";
    step.memory = uint32_t((entry.command.w[2] | uint64_t(entry.command.w[3]) << 32) - evaluation.arena);
    step.value = entry.command.w[4] | uint64_t(entry.command.w[5]) << 32;
    if (random.chance(40))
      checkStores(&entry);
  }
}

/// Both queues are seen to be empty, in one way or another.
void StressPlan::Planner::settle() {
  poll("idle", MINNOW_STATUS, MINNOW_STATUS_RESETTING | MINNOW_STATUS_IDLE, MINNOW_STATUS_IDLE);
}

void StressPlan::Planner::checkRegisters() {
  if (random.chance(40)) {
    read("interrupts", MINNOW_IRQ_STATUS, irqStatus);
    uint32_t clear = random.chance(70) ? 7 : random.below(8);
    write(MINNOW_IRQ_STATUS, clear);
    irqStatus &= ~clear;
  }
  if (random.chance(15))
    read("status", MINNOW_STATUS, statusIdle);
  if (random.chance(15))
    read("error code", MINNOW_ERR_CODE, 0);
  if (options.exotic && random.chance(15)) { // The debug port is closed.
    uint32_t at = 4 * random.below(MINNOW_SCRATCHPAD_SIZE / 4);
    write(MINNOW_DBG_ADDR, at);
    write(MINNOW_DBG_DATA, 0x12345678);
    read("debug port, closed", MINNOW_DBG_DATA, 0xffffffff);
    read("debug address", MINNOW_DBG_ADDR, at);
  }
  for (unsigned q = 0; q < 2; ++q)
    if (random.chance(15)) {
      read("head", queueRegister(q, MINNOW_Q_HEAD), queues[q].head);
      read("tail", queueRegister(q, MINNOW_Q_TAIL), queues[q].head);
      read("done", queueRegister(q, MINNOW_Q_DONE), queues[q].done);
    }
}

void StressPlan::Planner::checkCounters() {
  if (!random.chance(20))
    return;
  write(MINNOW_CNT_CONTROL, MINNOW_CNT_SNAPSHOT | (freeze ? MINNOW_CNT_FREEZE : 0));
  for (unsigned id : exactCounters) {
    uint64_t value = evaluation.exact.of(id);
    read("counter", MINNOW_CNT_LO + 8 * id, uint32_t(value));
    if (random.chance(20))
      read("counter, high", MINNOW_CNT_HI + 8 * id, value >> 32);
  }
}

/// From the last failure or the submission to a state in which a round may begin.
void StressPlan::Planner::finish(bool mustBeIdle) {
  bool submittedTo[2] = {}, fenced[2] = {}, failed = false;
  for (const Entry &entry : program) {
    submittedTo[entry.queue] = true;
    fenced[entry.queue] = isFence(entry.command) && !entry.verdict; // The last one, in the end.
    failed |= bool(entry.verdict);
    Queue &queue = queues[entry.queue];
    queue.head = (queue.head + 1) & (queue.size - 1);
    ++queue.done;
  }
  bool fencesTell = (fenced[0] || !submittedTo[0]) && (fenced[1] || !submittedTo[1]);
  bool becomesIdle = mustBeIdle || !fencesTell || random.chance(70);

  // A message is certain where a bit rises that was enabled; after failures only in those rounds' last part,
  // so the plan leaves it.
  uint32_t risen = 0;
  for (const Entry &entry : program)
    if (interrupts(entry.command) && !entry.verdict)
      risen |= MINNOW_IRQ_FENCE0 << entry.queue;
  if (!failed && (risen & irqEnable & ~irqStatus) && random.chance(60))
    awaitInterrupt();
  irqStatus |= risen;

  uint32_t way = becomesIdle ? random.below(100) : 0;
  if (way < 60)
    awaitFences(!becomesIdle);
  for (unsigned q = 0; way >= 60 && way < 80 && q < 2; ++q)
    if (submittedTo[q])
      poll("head", queueRegister(q, MINNOW_Q_HEAD), 0xffffffff, queues[q].head);
  for (unsigned q = 0; way >= 80 && way < 88 && q < 2; ++q)
    if (submittedTo[q])
      poll("done", queueRegister(q, MINNOW_Q_DONE), 0xffffffff, queues[q].done);
  if (becomesIdle)
    settle();
  if (random.chance(70))
    checkStores(nullptr);
  idle = becomesIdle;
  if (!idle)
    return;
  checkRegisters();
  checkCounters();
  quiet();
}

} // namespace tapeback::stress
