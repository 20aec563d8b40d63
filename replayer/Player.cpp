#include "replayer/Player.h"
#include "format/Failure.h"
#include "replayer/PacketRoles.h"
#include "replayer/Restore.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MathExtras.h"
#include <cstring>

namespace tapeback {

using State = Observation::State;

namespace {

constexpr size_t arenaBytes = 1 << 20;
constexpr uint64_t batchedContent = 64 << 10;

/// A device that is closed loses its memory; so does one that is opened again by the next process after the
/// first died with it.
bool dropsMemory(PacketKind kind) {
  return kind == PacketKind::Open || kind == PacketKind::Close;
}

} // namespace

llvm::Error forbiddenWrite(const std::string &name, uint64_t packet) {
  return failUsage(
      "forbidden-write", "the tape writes to " + name + ", which the description forbids a replay to write",
      "packet " + std::to_string(packet),
      "--allow-register " + name + " if you know that it does no harm; --dry-run lists all writes");
}

/// A name that allows nothing is a mistyped one.
static llvm::Error checkAllowances(const TapeSource &source, llvm::ArrayRef<std::string> names) {
  std::string known;
  llvm::StringSet<> registers;
  for (size_t device = 0; device < source.deviceCount(); ++device)
    if (const Description *description = source.description(uint16_t(device))) {
      auto add = [&](const std::string &name) {
        if (registers.insert(name).second && registers.size() <= 40)
          known += (known.empty() ? "" : ", ") + name;
      };
      for (const ForbiddenRange &range : description->forbidden)
        add(range.name);
      for (const RegisterDescription &reg : description->registers)
        add(reg.name);
    }
  for (const std::string &name : names)
    if (!registers.contains(name))
      return failUsage("unknown-register", "no description has a register or forbidden range '" + name + "'",
                       "--allow-register " + name, known.empty() ? "" : "there are: " + known);
  return llvm::Error::success();
}

bool isFatalForTarget(const Failure &failure) {
  if (failure.cls != FailureClass::Target)
    return false;
  // Failures of one access, after which the target is as alive as before.
  return failure.code != "bus-error" && failure.code != "iova-unavailable" && failure.code != "unsupported" &&
         failure.code != "command-refused";
}

Player::Player(TapeSource &source, const PlayerOptions &options)
    : source(source), options(options), polls(source),
      past(llvm::NextPowerOf2(std::min<uint64_t>(pastValues - 1, source.reader().summary().packets))) {
  this->options.maxBatch = options.pacing.paced ? 1 : std::max<size_t>(1, options.maxBatch);
  if (options.pacing.paced)
    pacer.emplace(options.pacing);
  for (const TapeClock &clock : source.reader().clocks())
    clockNames.push_back(clock.name);
  reserve();
}

void Player::reserve() {
  operations.reserve(options.maxBatch);
  queued.reserve(options.maxBatch);
  arena.reserve(arenaBytes);
}

std::unique_ptr<Player> Player::copy() const {
  std::unique_ptr<Player> other(new Player(*this));
  other->reserve(); // A copied vector has no room left, and what is queued points into the arena.
  return other;
}

llvm::Expected<std::unique_ptr<Player>> Player::create(TapeSource &source, llvm::ArrayRef<Target *> targets,
                                                       const PlayerOptions &options) {
  if (targets.size() != source.deviceCount())
    return failUsage("target-count",
                     "the tape has " + std::to_string(source.deviceCount()) + " devices, but " +
                         std::to_string(targets.size()) + " targets were given",
                     {}, "give --target ALIAS=URI once for each device");
  if (llvm::Error error = checkAllowances(source, options.binding.allowRegisters))
    return error;
  llvm::Expected<std::vector<DeviceNeeds>> needs = findNeeds(source, options.endPacket);
  if (!needs)
    return needs.takeError();
  std::unique_ptr<Player> player(new Player(source, options));
  for (size_t i = 0; i < targets.size(); ++i) {
    llvm::Expected<DeviceBinding> binding =
        DeviceBinding::bind(source, uint16_t(i), *targets[i], options.binding, (*needs)[i]);
    if (!binding)
      return binding.takeError();
    player->bindings.push_back(std::move(*binding));
    const Description *description = source.description(uint16_t(i));
    player->followers.emplace_back(description);
    player->following.emplace_back(description);
  }
  return player;
}

llvm::Error Player::prepare(const StartState &start) {
  for (size_t i = 0; i < bindings.size(); ++i) {
    ResetKind kind = i < start.resetKinds.size() ? ResetKind(start.resetKinds[i]) : ResetKind::Default;
    if (llvm::Error error = bindings[i].reset(kind, 0, fingerprintDifferences))
      return error;
  }
  for (const Keyframe &keyframe : start.keyframes) {
    if (keyframe.device >= bindings.size())
      return failTape("bad-keyframe", "a keyframe of device " + std::to_string(keyframe.device) +
                                          ", which the tape does not have");
    if (llvm::Error error = restoreKeyframe(bindings[keyframe.device], source, keyframe, options.waits))
      return error;
    bindings[keyframe.device].touched();
  }
  return llvm::Error::success();
}

bool Player::answers() const {
  for (const DeviceBinding &binding : bindings)
    if (!binding.capabilities().answers)
      return false;
  return true;
}

ComparisonContext Player::context(const Packet &packet) {
  ComparisonContext result;
  if (packet.device >= bindings.size())
    return result;
  DeviceBinding &binding = bindings[packet.device];
  if (isRegisterAccess(packet.kind) || packet.kind == PacketKind::LateCompletion)
    result.access = &binding.rule(packet.space, packet.address, packet.width);
  if (packet.kind == PacketKind::CounterSnapshot && binding.description() &&
      packet.address < binding.description()->counters.size())
    result.counter = &binding.description()->counters[packet.address];
  return result;
}

//===- Batches
//-----------------------------------------------------------------------------------------------===//

bool Player::canBatch(const Packet &packet, const PacketExtra &extra, const AccessRule *rule) const {
  if (packet.completion == Completion::Pending || isEvidence(packet))
    return false;
  if (rule && bindings[packet.device].isBusConfiguration(packet.space))
    return false;
  if (bindings[packet.device].relocation().moves() && concernsRelocation(packet, rule))
    return false;
  switch (packet.kind) {
  case PacketKind::RegisterRead:
    return !rule->pollUntil && !rule->substitute && !rule->progress && !rule->carries;
  case PacketKind::RegisterWrite: return !rule->forbidden && !rule->carries && !rule->acknowledges;
  case PacketKind::MemoryWrite:
    if (extra.count > 1)
      return false;
    [[fallthrough]];
  case PacketKind::Submit:
    if (packet.kind == PacketKind::Submit &&
        following[packet.device].substitution.flowsIntoEntries(packet.value))
      return false;
    return extra.payload && extra.length <= batchedContent && !(packet.flags & (NotCaptured | Truncated)) &&
           bindings[packet.device].capabilities().memory;
  default: return false;
  }
}

llvm::Error Player::queue(uint64_t ordinal, const Packet &packet, const PacketExtra &extra,
                          ObservationLog &log) {
  bool access = packet.kind == PacketKind::RegisterRead || packet.kind == PacketKind::RegisterWrite;
  TargetSpaceId space = 0;
  llvm::ArrayRef<uint8_t> content;
  if (access) {
    lastContent.content = {};
    llvm::Expected<TargetSpaceId> found = bindings[packet.device].space(packet.space);
    if (!found) { // Refused like an access outside the space: a matter of this packet only.
      if (llvm::Error error = flush(log))
        return error;
      log.observations.emplace_back();
      return noteFailure(found.takeError(), packet, ordinal, log, log.observations.back());
    }
    space = *found;
    if (packet.kind == PacketKind::RegisterWrite)
      noteWrite(packet);
  } else {
    llvm::Expected<llvm::ArrayRef<uint8_t>> stored = queueContent(packet, extra, log);
    if (!stored)
      return stored.takeError();
    content = *stored;
  }
  queued.push_back({log.observations.size(), ordinal, &packet});
  // Filled where it stands: it is as large as a cache line, and this is the issue loop.
  TargetOperation &operation = operations.emplace_back();
  operation.kind = !access                                   ? TargetOperation::Kind::WriteMemory
                   : packet.kind == PacketKind::RegisterRead ? TargetOperation::Kind::Read
                                                             : TargetOperation::Kind::Write;
  operation.width = packet.width;
  operation.space = space;
  operation.address = packet.address;
  operation.value = packet.value;
  operation.data = content.data();
  operation.length = content.size();
  operation.packet = ordinal;
  log.observations.emplace_back();
  queuedDevice = packet.device;
  return operations.size() >= options.maxBatch ? flush(log) : llvm::Error::success();
}

/// What goes into memory with the batch, in the arena.
llvm::Expected<llvm::ArrayRef<uint8_t>> Player::queueContent(const Packet &packet, const PacketExtra &extra,
                                                             ObservationLog &log) {
  llvm::Expected<llvm::ArrayRef<uint8_t>> content = source.content(extra.payload);
  if (!content)
    return content.takeError();
  size_t size = std::min<size_t>(content->size(), batchedContent);
  if (arena.size() + size > arenaBytes)
    if (llvm::Error error = flush(log))
      return error;
  size_t at = arena.size();
  arena.insert(arena.end(), content->begin(), content->begin() + size);
  lastContent = {packet.device, packet.address, extra.length, extra.payload};
  bindings[packet.device].live().overwritten(packet.address, size);
  if (packet.kind == PacketKind::Submit)
    noteSubmit(packet, extra, *content);
  else
    noteOverwritten(packet, extra);
  return llvm::ArrayRef<uint8_t>(arena).slice(at, size);
}

llvm::Error Player::flush(ObservationLog &log) {
  size_t first = 0;
  while (first < operations.size()) {
    DeviceBinding &binding = bindings[queuedDevice];
    binding.touched();
    size_t completed = 0;
    HostTimer timer;
    llvm::Error error = binding.target().submit(
        llvm::MutableArrayRef<TargetOperation>(operations).drop_front(first), &completed);
    completed = std::min(completed, operations.size() - first);
    for (size_t i = first; i < first + completed; ++i) {
      Observation &o = log.observations[queued[i].observation];
      o.value =
          operations[i].kind == TargetOperation::Kind::Read ? operations[i].value : queued[i].packet->value;
      remember(queued[i].ordinal, *queued[i].packet, o, log);
    }
    first += completed;
    if (!error) {
      if (first <
          operations.size()) // Neither carried out nor an error: not something to go round in circles with.
        return failTarget("bad-submit", "the target carried out only part of a batch without saying why",
                          "packet " + std::to_string(queued[first].ordinal));
      break;
    }
    if (first >= operations.size())
      return error; // All carried out and yet an error: not of any packet.
    failingTime += timer.elapsed();
    const Queued &failed = queued[first];
    if (llvm::Error fatal = noteFailure(std::move(error), *failed.packet, failed.ordinal, log,
                                        log.observations[failed.observation]))
      return fatal;
    ++first;
    if (isStopped)
      break;
  }
  // What a stopped target was not given any more was not reached: take it back out of the log.
  if (first < queued.size())
    log.observations.resize(queued[first].observation);
  operations.clear();
  queued.clear();
  arena.clear();
  return llvm::Error::success();
}

llvm::Error Player::noteFailure(llvm::Error error, const Packet &packet, uint64_t ordinal,
                                ObservationLog &log, Observation &o) {
  Failure failure = toFailure(std::move(error));
  if (failure.cls == FailureClass::System || failure.cls == FailureClass::Tape)
    return llvm::make_error<Failure>(std::move(failure));
  std::string place = "packet " + std::to_string(ordinal);
  if (failure.where.compare(0, place.size(), place) != 0)
    failure.where = failure.where.empty() ? place : place + ", " + failure.where;
  if (failure.code == "target-hung" && isRegisterAccess(packet.kind)) {
    const AccessRule &rule = bindings[packet.device].rule(packet.space, packet.address, packet.width);
    if (rule.mayHang)
      failure.hint = "the description says that " + (rule.reg ? rule.reg->name : std::string("it")) +
                     " may hang; timeout=MS in the target's URI says how long an access is waited for" +
                     (failure.hint.empty() ? "" : " (" + failure.hint + ")");
  }
  // Memory that this machine is not allowed to pin, or the user not willing to give: nothing behind it could
  // be compared, and the user can mend it.
  if (packet.kind == PacketKind::MemoryMap &&
      (failure.code == "memlock-limit" || failure.code == "memory-limit"))
    return llvm::make_error<Failure>(std::move(failure));
  if (isRelocationRefusal(failure))
    return llvm::make_error<Failure>(std::move(failure));
  bool expected = packet.completion == Completion::Failed;
  // What the target does not know is neither right nor wrong.
  if (failure.code == "command-refused" && !expected) {
    o.state = State::NotIssued;
    o.rule = Rule::Unsupported;
    return llvm::Error::success();
  }
  if ((isFatalForTarget(failure) && !expected) || failingTime > options.maxFailingTime)
    isStopped = true;
  o.state = State::Failed;
  constexpr size_t keptFailures = 64;
  if (log.failures.size() < keptFailures)
    log.failures.push_back(std::move(failure));
  o.failure = uint32_t(log.failures.size());
  return llvm::Error::success();
}

void Player::stretchRead(const PacketBatch &batch) {
  if (pacer)
    pacer->stretch(batch, clockNames);
}

llvm::Expected<bool> Player::pace(const Packet &packet, uint64_t ordinal, ObservationLog &log) {
  llvm::Error error = pacer->before(bindings[packet.device].target(), packet, ordinal);
  if (!error)
    return false;
  log.observations.emplace_back();
  if (llvm::Error fatal = noteFailure(std::move(error), packet, ordinal, log, log.observations.back()))
    return fatal;
  return true;
}

llvm::Expected<size_t> Player::issueAll(const PacketBatch &batch, size_t begin, size_t end,
                                        ObservationLog &log) {
  size_t next = begin;
  while (next < end && !isStopped) {
    llvm::Expected<size_t> done = issue(batch, next, end, log);
    if (!done)
      return done.takeError();
    if (!*done)
      break;
    next += *done;
  }
  return next - begin;
}

llvm::Expected<size_t> Player::issue(const PacketBatch &batch, size_t begin, size_t end,
                                     ObservationLog &log) {
  size_t before = log.observations.size();
  for (size_t i = begin; i < end && !isStopped; ++i) {
    const Packet &packet = batch.packets[i];
    const PacketExtra &extra = batch.extra(packet);
    uint64_t ordinal = batch.firstOrdinal + i;
    if (packet.device >= bindings.size())
      return failTape("unknown-device",
                      "a packet of device " + std::to_string(packet.device) +
                          ", which the tape does not have",
                      "packet " + std::to_string(ordinal));
    if (!operations.empty() && packet.device != queuedDevice)
      if (llvm::Error error = flush(log))
        return error;
    if (isStopped)
      break;
    const AccessRule *rule = isRegisterAccess(packet.kind)
                                 ? &bindings[packet.device].rule(packet.space, packet.address, packet.width)
                                 : nullptr;
    // Replay looks for these before it touches anything; nothing else may get past this either.
    if (packet.kind == PacketKind::RegisterWrite && rule->forbidden &&
        packet.completion != Completion::Pending)
      return forbiddenWrite(*rule->forbidden, ordinal);
    bool batched = canBatch(packet, extra, rule);
    // Reads that wait for something are issued by themselves.
    if (batched && packet.kind == PacketKind::RegisterRead &&
        bindings[packet.device].capabilities().answers && polls.mayBe(batch, i, *rule)) {
      llvm::Expected<PollRole> role = polls.roleOf(batch, i, *rule);
      if (!role)
        return role.takeError();
      batched = role->kind == PollRole::Kind::None;
    }
    if (batched && packet.kind == PacketKind::RegisterRead && (rule->tellsDone || rule->tellsCause) &&
        bindings[packet.device].capabilities().answers)
      batched = !bitsToldDone(*rule, packet) && !bitsToldCause(*rule, packet);
    if (pacer && !isEvent(packet.kind) && !isEvidence(packet)) {
      llvm::Expected<bool> failed = pace(packet, ordinal, log);
      if (!failed)
        return failed.takeError();
      if (*failed)
        continue;
    }
    if (batched) {
      if (llvm::Error error = queue(ordinal, packet, extra, log))
        return error;
      if (pacer)
        if (llvm::Error error = pacer->after(bindings[packet.device].target(), packet))
          return error;
      continue;
    }
    // Events touch nothing, so they need not break a batch; except that memory goes with its device.
    if (!isEvent(packet.kind) || dropsMemory(packet.kind)) {
      if (llvm::Error error = flush(log))
        return error;
      if (isStopped)
        break;
    }
    if (llvm::Error error = single(batch, i, log))
      return error;
    if (pacer && !isStopped && !isEvent(packet.kind) && !isEvidence(packet))
      if (llvm::Error error = pacer->after(bindings[packet.device].target(), packet))
        return error;
    const Observation &last = log.observations.back();
    bool pause = last.state == State::TimedOut || last.state == State::Failed ||
                 (options.pauseAtContent && last.contentLength) ||
                 log.content.size() >= options.chunkContentBytes;
    if (pause)
      break;
  }
  if (llvm::Error error = flush(log))
    return error;
  return log.observations.size() - before;
}

//===- Single packets
//----------------------------------------------------------------------------------------===//

llvm::Error Player::single(const PacketBatch &batch, size_t index, ObservationLog &log) {
  const Packet &packet = batch.packets[index];
  uint64_t ordinal = batch.firstOrdinal + index;
  size_t at = log.observations.size();
  log.observations.emplace_back();
  Observation o;
  size_t contentBefore = log.content.size();
  HostTimer timer;
  if (!isEvent(packet.kind) && packet.kind != PacketKind::Reset && packet.kind != PacketKind::MemoryMap)
    bindings[packet.device].touched();
  // Only a descriptor right behind it may rely on content that was just written.
  if (!isEvent(packet.kind) && packet.kind != PacketKind::DmaDescriptor)
    lastContent.content = {};
  if (llvm::Error error = carryOut(batch, index, log, o)) {
    failingTime += timer.elapsed();
    log.content.resize(contentBefore);
    o.contentOffset = o.contentLength = 0;
    if (llvm::Error fatal = noteFailure(std::move(error), packet, ordinal, log, o))
      return fatal;
  }
  if (o.state == State::TimedOut)
    vainTime += timer.elapsed();
  log.observations[at] = o;
  remember(ordinal, packet, o, log);
  return llvm::Error::success();
}

llvm::Error Player::carryOut(const PacketBatch &batch, size_t index, ObservationLog &log, Observation &o) {
  const Packet &packet = batch.packets[index];
  const PacketExtra &extra = batch.extra(packet);
  uint64_t ordinal = batch.firstOrdinal + index;
  DeviceBinding &binding = bindings[packet.device];
  o.value = packet.value;
  auto notIssued = [&](Rule rule) {
    o.state = State::NotIssued;
    o.rule = rule;
    return llvm::Error::success();
  };
  if (isEvidence(packet))
    return evidence(packet, o);
  if (isRegisterAccess(packet.kind) && binding.isBusConfiguration(packet.space))
    return notIssued(Rule::BusConfiguration);
  switch (packet.kind) {
  case PacketKind::RegisterRead:
    if (llvm::Error error = registerRead(batch, index, log, o))
      return error;
    return recordedValue(packet, ordinal, o);
  case PacketKind::RegisterWrite: {
    const AccessRule &rule = binding.rule(packet.space, packet.address, packet.width);
    if (packet.completion == Completion::Pending && (rule.mayHang || rule.forbidden))
      return notIssued(Rule::PendingNotReissued);
    return registerWrite(packet, ordinal, o);
  }
  case PacketKind::Poll: return poll(packet, extra, log, o);
  case PacketKind::MemoryWrite:
  case PacketKind::Submit: return writeContent(packet, extra, o);
  case PacketKind::MemoryRead:
  case PacketKind::Acquire: return readContent(packet, extra, log, o);
  case PacketKind::MemoryWait: return memoryWait(packet, extra, log, o);
  case PacketKind::DmaDescriptor:
    if (llvm::Error error = binding.relocation().transfer(ordinal, packet, extra))
      return error;
    noteContent(ordinal, packet, extra);
    return descriptor(packet, extra, o);
  case PacketKind::DmaCompletion:
    binding.relocation().completed(extra.link);
    if (binding.capabilities().memory && !following[packet.device].contents.empty())
      if (llvm::Error error = leaveOut(packet, extra))
        return error;
    return bringsContent(packet) ? readContent(packet, extra, log, o) : llvm::Error::success();
  case PacketKind::CommandDone: return commandDone(packet, extra, log, o);
  case PacketKind::Interrupt: return interrupt(packet, extra, o);
  case PacketKind::CounterSnapshot: return counter(packet, o);
  case PacketKind::Oracle: return oracle(ordinal, packet, extra, o);
  case PacketKind::Reset: return resetDevice(ordinal, packet, o);
  case PacketKind::MemoryMap:
    // An allocation that was refused has no address: to ask for 0 would be something else.
    if (packet.completion == Completion::Failed && !packet.address)
      return notIssued(Rule::NotMapped);
    return binding.capabilities().memory ? binding.map(packet.address, extra.length)
                                         : notIssued(Rule::Unsupported);
  case PacketKind::MemoryUnmap:
    return binding.capabilities().memory ? binding.unmap(packet.address) : notIssued(Rule::Unsupported);
  case PacketKind::LateCompletion: {
    const PastValue *value = recall(extra.link);
    if (!value)
      return notIssued(Rule::LinkLost);
    o.value = value->value;
    return llvm::Error::success();
  }
  case PacketKind::Marker:
  case PacketKind::SpanBegin:
  case PacketKind::SpanEnd:
  case PacketKind::ClockSample:
  case PacketKind::Tick:
  case PacketKind::Loss: return llvm::Error::success();
  case PacketKind::Open:
  case PacketKind::Close: return binding.unmapAll();
  case PacketKind::Expectation: return notIssued(Rule::Evidence);
  }
  return notIssued(Rule::UnknownKind);
}

void Player::noteWrite(const Packet &packet) {
  const AccessRule &rule = bindings[packet.device].rule(packet.space, packet.address, packet.width);
  if (rule.whole) {
    const Description &description = *bindings[packet.device].description();
    unsigned reg = description.indexOf(*rule.reg);
    followers[packet.device].written(reg, packet.value);
    for (const RegisterCondition &condition : description.resets)
      if (condition.reg == reg && condition.holds(packet.value)) {
        following[packet.device].order.reset();
        following[packet.device].interrupts.reset();
        following[packet.device].completions.reset();
      }
  }
  if (!rule.acknowledges)
    following[packet.device].interrupts.handedOver();
  following[packet.device].works |= rule.startsWork;
  if (rule.reg)
    bindings[packet.device].relocation().noted(packet, *rule.reg);
}

llvm::Error Player::registerWrite(const Packet &packet, uint64_t ordinal, Observation &o) {
  DeviceBinding &binding = bindings[packet.device];
  Following &follows = following[packet.device];
  const AccessRule rule = binding.rule(packet.space, packet.address, packet.width);
  uint64_t wanted = packet.value;
  if (rule.carries)
    wanted = follows.substitution.live(binding.description()->indexOf(*rule.reg), wanted);
  if (wanted != packet.value)
    o.rule = Rule::LiveValue;
  // What is done by now can raise no cause that this write does not clear.
  if (rule.acknowledges && follows.interrupts.isInUse() && !follows.interrupts.sawAllDone()) {
    llvm::Expected<bool> idle = isIdle(packet.device);
    if (!idle)
      return idle.takeError();
    follows.interrupts.noteAllDone(*idle);
  }
  llvm::Expected<uint64_t> value = relocatedValue(packet, ordinal, wanted);
  if (!value)
    return value.takeError();
  noteWrite(packet);
  llvm::Expected<TargetSpaceId> space = binding.space(packet.space);
  if (!space)
    return space.takeError();
  if (llvm::Error error = binding.target().write(*space, packet.address, packet.width, *value))
    return error;
  return binding.target().flush();
}

llvm::Error Player::counter(const Packet &packet, Observation &o) {
  DeviceBinding &binding = bindings[packet.device];
  const Description *description = binding.description();
  const CounterDescription *counter = description && packet.address < description->counters.size()
                                          ? &description->counters[packet.address]
                                          : nullptr;
  if (binding.capabilities().counters && packet.address <= UINT32_MAX) {
    llvm::Expected<uint64_t> value = binding.target().counter(uint32_t(packet.address));
    if (!value)
      return value.takeError();
    o.value = *value;
    return llvm::Error::success();
  }
  if (!counter || counter->content) {
    o.state = State::NotIssued;
    o.rule = Rule::UnknownCounter;
    return llvm::Error::success();
  }
  llvm::Expected<uint64_t> value = binding.readRegister(description->registers[counter->reg]);
  if (!value)
    return value.takeError();
  o.value = *value;
  return llvm::Error::success();
}

llvm::Error Player::resetDevice(uint64_t ordinal, const Packet &packet, Observation &o) {
  DeviceBinding &binding = bindings[packet.device];
  if (!binding.capabilities().reset || packet.value > uint64_t(ResetKind::Power)) {
    o.state = State::NotIssued;
    o.rule = Rule::Unsupported;
    return llvm::Error::success();
  }
  ResetKind kind = ResetKind(packet.value);
  followers[packet.device].reset();
  following[packet.device] = Following(binding.description());
  if (binding.isFresh(kind))
    return llvm::Error::success();
  return binding.reset(kind, ordinal, fingerprintDifferences);
}

llvm::Error Player::evidence(const Packet &packet, Observation &o) {
  o.state = State::NotIssued;
  o.rule = Rule::Evidence;
  if (packet.kind != PacketKind::RegisterRead || packet.completion != Completion::Done)
    return llvm::Error::success();
  bool compared = false;
  std::optional<FingerprintDifference> difference =
      bindings[packet.device].compareFingerprint(packet.space, packet.address, packet.value, &compared);
  fingerprintsCompared += compared;
  constexpr size_t keptDifferences = 256;
  if (difference && fingerprintDifferences.size() < keptDifferences)
    fingerprintDifferences.push_back(std::move(*difference));
  return llvm::Error::success();
}

void Player::remember(uint64_t ordinal, const Packet &packet, const Observation &o,
                      const ObservationLog &log) {
  switch (packet.kind) {
  case PacketKind::RegisterRead:
  case PacketKind::Poll:
  case PacketKind::MemoryWait:
  case PacketKind::CounterSnapshot:
  case PacketKind::MemoryRead: break;
  default: return;
  }
  PastValue &slot = past[ordinal & (past.size() - 1)];
  slot.ordinal = ordinal;
  slot.value = o.value;
  slot.valid = o.state == State::Done || o.state == State::TimedOut;
  if (packet.kind == PacketKind::MemoryRead && slot.valid)
    slot.value = littleEndian(log.contentOf(o));
}

const Player::PastValue *Player::recall(uint64_t ordinal) const {
  const PastValue &slot = past[ordinal & (past.size() - 1)];
  return slot.ordinal == ordinal ? &slot : nullptr;
}

} // namespace tapeback
