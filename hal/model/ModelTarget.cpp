#include "hal/model/ModelTarget.h"
#include "hal/TargetFailure.h"
#include "hal/TargetLook.h"
#include "hal/model/ModelChannel.h"
#include "hal/model/ModelMemory.h"
#include "hal/model/ModelReadings.h"
#include "hal/model/ModelTable.h"
#include "hal/model/PluginSearch.h"
#include "hal/model/tapeback_model.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MathExtras.h"

namespace tapeback {
namespace {

using namespace modelhost;
using Reply = ModelChannel::Reply;

constexpr TargetOptionHelp ownOptions[] = {
    {"timeout", "MS", "host milliseconds that one operation may take (default 10000)"},
    {"memory", "MIB", "most device-visible memory, MiB (default 1024)"},
};
constexpr const char *refusedOption = "bad-model-option", *refusesOptions = "the model refuses its options: ";
constexpr uint64_t defaultMemoryMib = 1024, maxMemoryMib = 1u << 20;
constexpr unsigned maxSnapshots = 64;
/// Contents of all snapshots together, as a multiple of the device-visible memory.
constexpr uint64_t snapshotBudgetFactor = 4;

class ModelTarget final : public Target, public LookableTarget {
public:
  ModelTarget(const TargetUri &uri, std::string plugin, uint64_t timeoutMs, uint64_t memoryBytes)
      : plugin(std::move(plugin)), memory(memoryBytes), channel(uri.rest, timeoutMs) {
    self.uri = uri.text;
    self.kind = uri.scheme;
    self.name = uri.rest;
  }

  llvm::Error start(const TargetUri &uri, const std::string &hostProgram);

  const TargetIdentity &identity() const override { return self; }
  TargetCapabilities capabilities() const override { return table.targetCapabilities(maxSnapshots); }
  llvm::ArrayRef<TargetSpace> spaces() const override { return table.spaces; }

  llvm::Expected<uint64_t> read(TargetSpaceId space, uint64_t address, unsigned width) override;
  llvm::Error write(TargetSpaceId space, uint64_t address, unsigned width, uint64_t value) override;
  llvm::Error submit(llvm::MutableArrayRef<TargetOperation> batch, size_t *completed) override;

  llvm::Expected<MemoryRegion> map(const MapRequest &request) override;
  llvm::Error unmap(uint64_t iova) override;
  llvm::Error readMemory(uint64_t iova, llvm::MutableArrayRef<uint8_t> out) override;
  llvm::Error writeMemory(uint64_t iova, llvm::ArrayRef<uint8_t> in) override;

  llvm::Expected<InterruptResult> waitInterrupt(uint32_t vector, uint64_t deadlineNs) override;
  llvm::Error advance(uint64_t nanoseconds) override;
  llvm::Error reset(ResetKind kind) override;
  llvm::Expected<uint64_t> counter(uint32_t id) override;
  llvm::Error counters(llvm::ArrayRef<uint32_t> ids, llvm::MutableArrayRef<uint64_t> values) override;
  llvm::Expected<uint64_t> deviceTime() override;
  llvm::Error peek(llvm::StringRef window, uint64_t offset, llvm::MutableArrayRef<uint8_t> out) override;

  bool canLook() const override {
    constexpr uint32_t needed = TAPEBACK_MODEL_CAP_PEEK | TAPEBACK_MODEL_CAP_PEEK_REGISTERS;
    return (table.capabilities & needed) == needed && !lookFailed;
  }
  llvm::Error look(TargetLook &look) override;

  llvm::Expected<uint64_t> snapshot() override;
  llvm::Error restore(uint64_t id) override;
  llvm::Error releaseSnapshot(uint64_t id) override;

  llvm::Error beginTrace(llvm::StringRef path) override;
  llvm::Error endTrace() override;

  pid_t hostProcess() const { return channel.hostProcess(); }

private:
  struct Snapshot {
    ModelMemory::Contents memory;
    std::vector<uint8_t> model;
    std::vector<uint64_t> pending;
    uint64_t bytes() const { return memory.bytes + model.size(); }
  };

  /// One round trip. The reply is well-formed, its interrupts are counted and its readings kept; its status
  /// may be a failure.
  llvm::Expected<Reply *> exchange();
  /// One round trip whose status must be success.
  llvm::Expected<Reply *> call();
  llvm::Error statusFailure(const Reply &reply) const;
  llvm::Error startFailure(const Reply &reply) const;
  /// A reply whose body must be one number and nothing else.
  llvm::Expected<uint64_t> callForNumber();
  llvm::Error callForNothing();
  llvm::Expected<AdvanceReply> advanceOnce(uint64_t budgetNs, uint64_t hostLimitNs, uint32_t stopVector);
  /// Lets device time pass until `stopVector` is pending, the budget is used up, or nothing more happens.
  llvm::Error advanceUntil(uint64_t budgetNs, uint32_t stopVector);

  llvm::Error execute(llvm::MutableArrayRef<TargetOperation> chunk, size_t *completed);
  size_t chunkOf(llvm::ArrayRef<TargetOperation> batch) const;
  llvm::Error checkOperation(const TargetOperation &operation) const;
  llvm::Error tellMapped(const IovaSpace::Region &region);
  llvm::Error requireMemory() const;
  llvm::Error makeRegionsAlike(const std::vector<IovaSpace::Region> &wanted);
  llvm::Error lookOnce(TargetLook &look, llvm::ArrayRef<uint32_t> windows, bool *more);
  llvm::Error takePages(WireReader &body, llvm::ArrayRef<uint32_t> windows, bool *more);

  TargetIdentity self;
  std::string plugin;
  ModelTable table;
  ModelMemory memory;
  ModelChannel channel;
  std::vector<uint64_t> pending; ///< Interrupts seen since the last wait, by vector.
  std::map<uint64_t, Snapshot> snapshots;
  uint64_t nextSnapshot = 1, snapshotBytes = 0;
  std::map<uint32_t, std::vector<uint8_t>> shown; ///< By window: as the host process showed it last.
  ModelReadings readings;
  bool lookFailed = false; ///< What it counts as shown may not have come here.
};

llvm::Error ModelTarget::start(const TargetUri &uri, const std::string &hostProgram) {
  if (llvm::Error error = memory.open())
    return error;
  if (llvm::Error error = channel.start(hostProgram, memory.descriptor()))
    return error;
  WireWriter &request = channel.request(Command::Hello);
  request.put(memory.size());
  request.string(plugin.data(), plugin.size());
  std::vector<const TargetUri::Option *> forPlugin;
  for (const TargetUri::Option &option : uri.options)
    if (llvm::none_of(ownOptions, [&](const TargetOptionHelp &own) { return option.key == own.key; }))
      forPlugin.push_back(&option);
  request.put(uint32_t(forPlugin.size()));
  for (const TargetUri::Option *option : forPlugin) {
    request.string(option->key.data(), option->key.size());
    request.string(option->value.data(), option->value.size());
  }
  llvm::Expected<Reply *> reply = channel.call();
  if (!reply)
    return reply.takeError();
  if ((*reply)->status != 0)
    return startFailure(**reply);
  std::optional<ModelTable> parsed = parseModelTable((*reply)->body);
  if (!parsed)
    return channel.misbehaved("a malformed table");
  table = std::move(*parsed);
  self.name = table.name;
  self.facts = table.facts;
  pending.assign(table.vectors, 0);
  // Interrupts raised while the instance was made.
  for (const InterruptEntry &entry : (*reply)->interrupts)
    if (entry.vector < pending.size())
      pending[entry.vector] += entry.count;
  return llvm::Error::success();
}

llvm::Error ModelTarget::startFailure(const Reply &reply) const {
  switch (reply.status) {
  case HostLoadFailed:
    return failUsage("plugin-load-failed", "the model plugin cannot be used: " + reply.text, plugin,
                     "give a shared library made for this machine; hal/edu/model is a worked example");
  case HostNoEntry:
    return failUsage("plugin-no-entry", "the model plugin cannot be used: " + reply.text, plugin,
                     "a plugin exports tapeback_model_entry with default visibility; see tapeback_model.h");
  case HostAbiVersion:
    return failUsage("plugin-abi-version", "the model plugin cannot be used: " + reply.text, plugin,
                     "build the plugin against this version's tapeback_model.h");
  case HostAbiInvalid:
    return failUsage("plugin-abi-invalid", "the model plugin breaks the ABI: " + reply.text, plugin,
                     "correct the plugin; see tapeback_model.h");
  case TAPEBACK_MODEL_E_USAGE:
    return failUsage(refusedOption, refusesOptions + reply.text, "target '" + self.uri + "'",
                     "options of the target itself: timeout, memory; the others are the model's");
  default:
    return failTarget("model-create-failed", "the model could not be made: " + reply.text, plugin,
                      "the plugin's own failure");
  }
}

llvm::Error ModelTarget::statusFailure(const Reply &reply) const {
  std::string message = "model '" + self.name + "': " + reply.text;
  switch (reply.status) {
  case TAPEBACK_MODEL_E_USAGE:
    return failUsage("refused-by-model", message, {}, "the model does not allow this");
  case TAPEBACK_MODEL_E_BUS: return failTarget("bus-error", message, {}, "the device answered with an error");
  case TAPEBACK_MODEL_E_UNSUPPORTED: return failUsage("unsupported", message, {}, "the model cannot do this");
  case TAPEBACK_MODEL_E_NO_MEMORY: return failTarget("model-out-of-memory", message);
  case HostBadBehaviour: return failTarget("model-misbehaved", message, plugin, "correct the plugin");
  default: return failTarget("model-error", message, plugin, "the plugin's own failure");
  }
}

llvm::Expected<Reply *> ModelTarget::exchange() {
  llvm::Expected<Reply *> reply = channel.call();
  if (!reply) {
    readings = {};
    return reply.takeError();
  }
  for (const InterruptEntry &entry : (*reply)->interrupts) {
    if (entry.vector >= pending.size() || entry.count == 0)
      return channel.misbehaved("an interrupt that does not exist");
    uint64_t &count = pending[entry.vector];
    count = entry.count > ~count ? ~uint64_t(0) : count + entry.count;
  }
  if (!readings.take((*reply)->readings, channel.command()))
    return channel.misbehaved("readings that nobody asked for");
  return *reply;
}

llvm::Expected<Reply *> ModelTarget::call() {
  llvm::Expected<Reply *> reply = exchange();
  if (!reply)
    return reply.takeError();
  if ((*reply)->status != 0)
    return statusFailure(**reply);
  return *reply;
}

llvm::Expected<uint64_t> ModelTarget::callForNumber() {
  llvm::Expected<Reply *> reply = call();
  if (!reply)
    return reply.takeError();
  uint64_t value = (*reply)->body.get<uint64_t>();
  if ((*reply)->body.failed || (*reply)->body.left())
    return channel.misbehaved("a reply of the wrong size");
  return value;
}

llvm::Error ModelTarget::callForNothing() {
  llvm::Expected<Reply *> reply = call();
  if (!reply)
    return reply.takeError();
  if ((*reply)->body.left())
    return channel.misbehaved("a reply of the wrong size");
  return llvm::Error::success();
}

// ---- Registers ----

llvm::Expected<uint64_t> ModelTarget::read(TargetSpaceId space, uint64_t address, unsigned width) {
  TargetOperation operation = TargetOperation::read(space, address, width);
  size_t completed = 0;
  if (llvm::Error error = checkOperation(operation))
    return error;
  if (llvm::Error error = execute(operation, &completed))
    return error;
  return operation.value;
}

llvm::Error ModelTarget::write(TargetSpaceId space, uint64_t address, unsigned width, uint64_t value) {
  TargetOperation operation = TargetOperation::write(space, address, width, value);
  size_t completed = 0;
  if (llvm::Error error = checkOperation(operation))
    return error;
  return execute(operation, &completed);
}

llvm::Error ModelTarget::checkOperation(const TargetOperation &operation) const {
  if (operation.kind != TargetOperation::Kind::WriteMemory)
    return checkAccess(table.spaces, operation.space, operation.address, operation.width);
  if (llvm::Error error = requireMemory())
    return error;
  if (memory.covers(operation.address, operation.length))
    return llvm::Error::success();
  return failUsage("unmapped-memory", std::to_string(operation.length) + " bytes at device address 0x" +
                                          llvm::utohexstr(operation.address, true) +
                                          " are not wholly mapped");
}

/// How many operations go into one message together. At least one; content too big for a message goes alone.
size_t ModelTarget::chunkOf(llvm::ArrayRef<TargetOperation> batch) const {
  size_t room = maxMessageBytes - sizeof(MessageHeader) - sizeof(uint32_t), count = 0;
  for (const TargetOperation &operation : batch) {
    uint64_t bytes = sizeof(WireOperation);
    if (operation.kind == TargetOperation::Kind::WriteMemory)
      bytes += operation.length;
    if (count == maxBatch || bytes > room)
      break;
    room -= bytes;
    ++count;
  }
  return std::max<size_t>(count, 1);
}

llvm::Error ModelTarget::submit(llvm::MutableArrayRef<TargetOperation> batch, size_t *completed) {
  *completed = 0;
  // What is wrong with the request itself is found first, so that everything before it is carried out and no
  // more.
  size_t good = 0;
  llvm::Error bad = llvm::Error::success();
  while (good < batch.size() && !bad) {
    bad = checkOperation(batch[good]);
    good += bad ? 0 : 1;
  }
  if (bad)
    bad = atPacket(std::move(bad), batch[good].packet);
  while (*completed < good) {
    llvm::MutableArrayRef<TargetOperation> rest = batch.slice(*completed, good - *completed);
    llvm::MutableArrayRef<TargetOperation> chunk = rest.take_front(chunkOf(rest));
    size_t done = 0;
    const TargetOperation &first = chunk.front();
    llvm::Error error = llvm::Error::success();
    if (first.kind == TargetOperation::Kind::WriteMemory && first.length > maxChunkBytes) {
      error = writeMemory(first.address, llvm::ArrayRef<uint8_t>(first.data, first.length));
      done = error ? 0 : 1;
    } else {
      error = execute(chunk, &done);
    }
    *completed += done;
    if (error)
      return llvm::joinErrors(atPacket(std::move(error), chunk[std::min(done, chunk.size() - 1)].packet),
                              std::move(bad));
  }
  return bad;
}

llvm::Error ModelTarget::execute(llvm::MutableArrayRef<TargetOperation> chunk, size_t *completed) {
  WireWriter &request = channel.request(Command::Execute);
  request.put(uint32_t(chunk.size()));
  for (const TargetOperation &operation : chunk)
    request.put(WireOperation{uint8_t(operation.kind), operation.width, operation.space,
                              uint32_t(operation.length), operation.address, operation.value});
  for (const TargetOperation &operation : chunk)
    if (operation.kind == TargetOperation::Kind::WriteMemory)
      request.bytes(operation.data, operation.length);
  llvm::Expected<Reply *> reply = exchange();
  if (!reply)
    return reply.takeError();
  WireReader &body = (*reply)->body;
  uint32_t done = body.get<uint32_t>();
  bool failed = (*reply)->status != 0;
  if (body.failed || done > chunk.size() || (done == chunk.size()) == failed)
    return channel.misbehaved("a batch that ended nowhere");
  for (TargetOperation &operation : chunk.take_front(done))
    if (operation.kind == TargetOperation::Kind::Read) {
      uint64_t mask = operation.width == 8 ? ~uint64_t(0) : (uint64_t(1) << operation.width * 8) - 1;
      operation.value = body.get<uint64_t>() & mask;
    }
  if (body.failed || body.left())
    return channel.misbehaved("a batch with the wrong number of values");
  *completed = done;
  return failed ? statusFailure(**reply) : llvm::Error::success();
}

// ---- Memory ----

llvm::Error ModelTarget::requireMemory() const {
  if (table.capabilities & TAPEBACK_MODEL_CAP_MEMORY)
    return llvm::Error::success();
  return unsupportedByTarget(self, "does not use memory");
}

llvm::Error ModelTarget::tellMapped(const IovaSpace::Region &region) {
  WireWriter &request = channel.request(Command::Map);
  request.put(region.iova);
  request.put(region.size);
  request.put(region.offset);
  return callForNothing();
}

llvm::Expected<MemoryRegion> ModelTarget::map(const MapRequest &request) {
  if (llvm::Error error = requireMemory())
    return error;
  llvm::Expected<IovaSpace::Region> region = memory.map(request);
  if (!region)
    return region.takeError();
  if (llvm::Error error = tellMapped(*region))
    return llvm::joinErrors(std::move(error), memory.unmap(region->iova).takeError());
  return MemoryRegion{region->iova, region->size, memory.host(*region)};
}

llvm::Error ModelTarget::unmap(uint64_t iova) {
  llvm::Expected<IovaSpace::Region> region = memory.unmap(iova);
  if (!region)
    return region.takeError();
  channel.request(Command::Unmap).put(iova);
  return callForNothing();
}

llvm::Error ModelTarget::readMemory(uint64_t iova, llvm::MutableArrayRef<uint8_t> out) {
  return memory.read(iova, out);
}

llvm::Error ModelTarget::writeMemory(uint64_t iova, llvm::ArrayRef<uint8_t> in) {
  return memory.write(iova, in);
}

// ---- Time and interrupts ----

llvm::Expected<AdvanceReply> ModelTarget::advanceOnce(uint64_t budgetNs, uint64_t hostLimitNs,
                                                      uint32_t stopVector) {
  channel.request(Command::Advance).put(AdvanceRequest{budgetNs, hostLimitNs, stopVector, 0});
  llvm::Expected<Reply *> reply = call();
  if (!reply)
    return reply.takeError();
  auto result = (*reply)->body.get<AdvanceReply>();
  if ((*reply)->body.failed || (*reply)->body.left() || result.advancedNs > budgetNs ||
      result.end > AdvanceEnd::HostLimit)
    return channel.misbehaved("time that passed wrongly");
  return result;
}

llvm::Error ModelTarget::advanceUntil(uint64_t budgetNs, uint32_t stopVector) {
  uint64_t start = HostProcess::nowNs(), left = budgetNs;
  while (true) {
    // The host process stops in time by itself as long as the plugin returns; if it does not, it is killed.
    llvm::Expected<AdvanceReply> step = advanceOnce(left, channel.timeoutNs() / 4, stopVector);
    if (!step)
      return step.takeError();
    left -= step->advancedNs;
    if (left == 0 || step->end != AdvanceEnd::HostLimit)
      return llvm::Error::success();
    if (HostProcess::nowNs() - start >= channel.timeoutNs())
      return failTarget("target-slow",
                        "model '" + self.name + "' let " + std::to_string(budgetNs - left) + " ns of " +
                            std::to_string(budgetNs) + " ns pass within its timeout of " +
                            std::to_string(channel.timeoutNs() / 1000000) + " ms",
                        {}, "give the target a longer timeout=MS");
  }
}

llvm::Expected<InterruptResult> ModelTarget::waitInterrupt(uint32_t vector, uint64_t deadlineNs) {
  if (vector >= pending.size())
    return failUsage("unknown-vector", "there is no interrupt vector " + std::to_string(vector), {},
                     "this model has " + std::to_string(pending.size()));
  // Even what has fired already is asked for once, so that a dead model cannot answer.
  if (llvm::Error error = advanceUntil(pending[vector] ? 0 : deadlineNs, vector))
    return error;
  InterruptResult result{pending[vector] != 0, pending[vector]};
  pending[vector] = 0;
  return result;
}

llvm::Error ModelTarget::advance(uint64_t nanoseconds) {
  return advanceUntil(nanoseconds, noVector);
}

llvm::Error ModelTarget::reset(ResetKind kind) {
  // Messages of the time before say nothing about the time after.
  std::fill(pending.begin(), pending.end(), 0);
  channel.request(Command::Reset).put(uint32_t(kind));
  return callForNothing();
}

llvm::Expected<uint64_t> ModelTarget::counter(uint32_t id) {
  uint64_t value = 0;
  if (llvm::Error error = counters(id, value))
    return error;
  return value;
}

llvm::Error ModelTarget::counters(llvm::ArrayRef<uint32_t> ids, llvm::MutableArrayRef<uint64_t> values) {
  if (std::optional<llvm::ArrayRef<uint64_t>> known = readings.counters(ids)) {
    llvm::copy(*known, values.begin());
    return llvm::Error::success();
  }
  for (uint32_t id : ids)
    if (id >= table.counters)
      return failUsage("unknown-counter", "there is no counter " + std::to_string(id), {},
                       "this model has " + std::to_string(table.counters));
  // One message for many: the way to the host process and back takes longer than the reading.
  for (; !ids.empty(); ids = ids.drop_front(std::min<size_t>(ids.size(), maxBatch))) {
    llvm::ArrayRef<uint32_t> chunk = ids.take_front(maxBatch);
    WireWriter &request = channel.request(Command::Counters);
    request.put(uint32_t(chunk.size()));
    for (uint32_t id : chunk)
      request.put(id);
    readings.follow({});
    llvm::Expected<Reply *> reply = call();
    if (!reply)
      return reply.takeError();
    for (uint64_t &value : values.take_front(chunk.size()))
      value = (*reply)->body.get<uint64_t>();
    values = values.drop_front(chunk.size());
    if ((*reply)->body.failed || (*reply)->body.left())
      return channel.misbehaved("a reply of the wrong size");
    readings.follow(chunk);
  }
  return llvm::Error::success();
}

llvm::Expected<uint64_t> ModelTarget::deviceTime() {
  if (std::optional<uint64_t> known = readings.time())
    return *known;
  channel.request(Command::DeviceTime);
  llvm::Expected<uint64_t> time = callForNumber();
  if (time)
    readings.followTime();
  return time;
}

llvm::Error ModelTarget::peek(llvm::StringRef window, uint64_t offset, llvm::MutableArrayRef<uint8_t> out) {
  if (!(table.capabilities & TAPEBACK_MODEL_CAP_PEEK))
    return unsupportedByTarget(self, "does not let internal windows be seen");
  auto found = llvm::find_if(table.windows, [&](const ModelTable::Window &w) { return w.name == window; });
  if (found == table.windows.end())
    return failUsage("unknown-window", "there is no internal window '" + window.str() + "'");
  if (offset > found->size || found->size - offset < out.size())
    return failUsage("out-of-window", "the range is outside the internal window '" + window.str() + "'");
  while (!out.empty()) {
    size_t size = std::min(out.size(), maxChunkBytes);
    WireWriter &request = channel.request(Command::Peek);
    request.put(uint32_t(found - table.windows.begin()));
    request.put(offset);
    request.put(uint32_t(size));
    llvm::Expected<Reply *> reply = call();
    if (!reply)
      return reply.takeError();
    if ((*reply)->body.left() != size)
      return channel.misbehaved("a reply of the wrong size");
    memcpy(out.data(), (*reply)->body.bytes(size), size);
    out = out.drop_front(size);
    offset += size;
  }
  return llvm::Error::success();
}

// ---- Looks ----

/// One round trip for everything, and one more for every maxLookPages that changed in the windows.
llvm::Error ModelTarget::look(TargetLook &look) {
  if (!canLook())
    return unsupportedByTarget(self, "cannot be looked at without side effect");
  if (look.registers.size() > maxLookRegisters || look.counters.size() > maxLookCounters)
    return failUsage("too-much", "more registers or counters than one look can show");
  for (const TargetOperation &reg : look.registers)
    if (llvm::Error error = checkAccess(table.spaces, reg.space, reg.address, reg.width))
      return error;
  for (uint32_t id : look.counters)
    if (id >= table.counters || !(table.capabilities & TAPEBACK_MODEL_CAP_COUNTERS))
      return failUsage("unknown-counter", "there is no counter " + std::to_string(id));
  std::vector<uint32_t> windows;
  uint64_t bytes = 0;
  for (const std::string &name : look.windows) {
    auto found = llvm::find_if(table.windows, [&](const ModelTable::Window &w) { return w.name == name; });
    if (found == table.windows.end())
      return failUsage("unknown-window", "there is no internal window '" + name + "'");
    bytes = found->size > maxLookBytes ? maxLookBytes + 1 : bytes + found->size;
    windows.push_back(uint32_t(found - table.windows.begin()));
  }
  if (bytes > maxLookBytes)
    return failUsage("too-much", "the internal windows are too big for a look");
  uint64_t pages = 0;
  for (uint32_t window : windows) {
    shown[window].resize(table.windows[window].size);
    pages += llvm::divideCeil(shown[window].size(), lookPageBytes);
  }
  // Every page changed once is the most that there can be to show.
  uint64_t rounds = pages / maxLookPages + 1;
  for (bool first = true, more = true; more; first = false) {
    if (!rounds--) {
      lookFailed = true;
      return channel.misbehaved("a look that does not end");
    }
    TargetLook rest;
    if (llvm::Error error = lookOnce(first ? look : rest, windows, &more)) {
      lookFailed = true;
      return error;
    }
  }
  look.contents.clear();
  for (uint32_t window : windows)
    look.contents.push_back(shown[window]);
  return llvm::Error::success();
}

llvm::Error ModelTarget::lookOnce(TargetLook &look, llvm::ArrayRef<uint32_t> windows, bool *more) {
  WireWriter &request = channel.request(Command::Look);
  request.put(uint32_t(look.registers.size()));
  for (const TargetOperation &reg : look.registers)
    request.put(LookRegister{reg.space, reg.width, reg.address});
  request.put(uint32_t(look.counters.size()));
  for (uint32_t id : look.counters)
    request.put(id);
  request.put(uint32_t(windows.size()));
  for (uint32_t window : windows)
    request.put(window);
  llvm::Expected<Reply *> reply = call();
  if (!reply)
    return reply.takeError();
  WireReader &body = (*reply)->body;
  for (TargetOperation &reg : look.registers)
    reg.value = body.get<uint64_t>() & (reg.width == 8 ? ~uint64_t(0) : (uint64_t(1) << reg.width * 8) - 1);
  look.counterValues.resize(look.counters.size());
  for (uint64_t &value : look.counterValues)
    value = body.get<uint64_t>();
  return takePages(body, windows, more);
}

llvm::Error ModelTarget::takePages(WireReader &body, llvm::ArrayRef<uint32_t> windows, bool *more) {
  *more = body.get<uint32_t>() != 0;
  uint32_t pages = body.get<uint32_t>();
  // Without progress there is no end.
  if (body.failed || pages > maxLookPages || (*more && pages != maxLookPages))
    return channel.misbehaved("a look without what was asked for");
  for (; pages; --pages) {
    uint32_t window = body.get<uint32_t>();
    uint64_t at = body.get<uint32_t>() * lookPageBytes;
    if (body.failed || !llvm::is_contained(windows, window) || at >= shown[window].size())
      return channel.misbehaved("a look at something else");
    uint64_t size = std::min<uint64_t>(lookPageBytes, shown[window].size() - at);
    const uint8_t *from = body.bytes(size);
    if (!from)
      return channel.misbehaved("a look without what was asked for");
    memcpy(shown[window].data() + at, from, size);
  }
  if (body.left())
    return channel.misbehaved("a reply of the wrong size");
  return llvm::Error::success();
}

// ---- Snapshots ----

llvm::Expected<uint64_t> ModelTarget::snapshot() {
  if (!(table.capabilities & TAPEBACK_MODEL_CAP_SNAPSHOT))
    return unsupportedByTarget(self, "has no snapshots");
  if (snapshots.size() == maxSnapshots)
    return failUsage("snapshot-limit", "there are " + std::to_string(maxSnapshots) + " snapshots already", {},
                     "release one first");
  channel.request(Command::SnapshotSave);
  llvm::Expected<uint64_t> size = callForNumber();
  if (!size)
    return size.takeError();
  uint64_t budget = memory.size() * snapshotBudgetFactor - snapshotBytes;
  if (*size > maxSnapshotBytes || *size > budget)
    return failUsage("snapshot-limit",
                     "the model's state of " + std::to_string(*size) + " bytes is too big to keep", {},
                     "release snapshots, or give the target more memory=MIB");
  Snapshot kept;
  kept.model.resize(*size);
  for (uint64_t offset = 0; offset < *size;) {
    uint64_t piece = std::min<uint64_t>(*size - offset, maxChunkBytes);
    WireWriter &request = channel.request(Command::SnapshotRead);
    request.put(offset);
    request.put(uint32_t(piece));
    llvm::Expected<Reply *> reply = call();
    if (!reply)
      return reply.takeError();
    if ((*reply)->body.left() != piece)
      return channel.misbehaved("a reply of the wrong size");
    memcpy(kept.model.data() + offset, (*reply)->body.bytes(piece), piece);
    offset += piece;
  }
  llvm::Expected<ModelMemory::Contents> contents = memory.save(budget - *size);
  if (!contents)
    return contents.takeError();
  kept.memory = std::move(*contents);
  kept.pending = pending;
  snapshotBytes += kept.bytes();
  snapshots.emplace(nextSnapshot, std::move(kept));
  return nextSnapshot++;
}

/// Regions mapped since go, regions unmapped since come back where they were: their host pointers are as
/// before.
llvm::Error ModelTarget::makeRegionsAlike(const std::vector<IovaSpace::Region> &wanted) {
  for (const IovaSpace::Region &region : memory.regions())
    if (!llvm::is_contained(wanted, region))
      if (llvm::Error error = unmap(region.iova))
        return error;
  std::vector<IovaSpace::Region> present = memory.regions();
  for (const IovaSpace::Region &region : wanted) {
    if (llvm::is_contained(present, region))
      continue;
    if (!memory.place(region))
      return failTarget("restore-failed", "a memory region of the snapshot cannot be mapped again");
    if (llvm::Error error = tellMapped(region))
      return error;
  }
  return llvm::Error::success();
}

llvm::Error ModelTarget::restore(uint64_t id) {
  auto found = snapshots.find(id);
  if (found == snapshots.end())
    return failUsage("unknown-snapshot", "there is no snapshot " + std::to_string(id));
  const Snapshot &kept = found->second;
  uint64_t offset = 0;
  do {
    uint64_t piece = std::min<uint64_t>(kept.model.size() - offset, maxChunkBytes);
    WireWriter &request = channel.request(Command::SnapshotWrite);
    request.put(uint64_t(kept.model.size()));
    request.put(offset);
    request.bytes(kept.model.data() + offset, piece);
    if (llvm::Error error = callForNothing())
      return error;
    offset += piece;
  } while (offset < kept.model.size());
  channel.request(Command::SnapshotLoad);
  if (llvm::Error error = callForNothing())
    return error;
  if (llvm::Error error = makeRegionsAlike(kept.memory.regions))
    return error;
  if (llvm::Error error = memory.load(kept.memory))
    return error;
  pending = kept.pending;
  return llvm::Error::success();
}

llvm::Error ModelTarget::releaseSnapshot(uint64_t id) {
  auto found = snapshots.find(id);
  if (found == snapshots.end())
    return failUsage("unknown-snapshot", "there is no snapshot " + std::to_string(id));
  snapshotBytes -= found->second.bytes();
  snapshots.erase(found);
  return llvm::Error::success();
}

// ---- Waveforms ----

llvm::Error ModelTarget::beginTrace(llvm::StringRef path) {
  if (!(table.capabilities & TAPEBACK_MODEL_CAP_TRACE))
    return unsupportedByTarget(self, "writes no waveform");
  llvm::SmallString<256> absolute(path); // The host process might have another working directory.
  if (std::error_code ec = llvm::sys::fs::make_absolute(absolute))
    return failSystem("no-working-directory", ec.message(), path.str());
  if (path.empty() || path.contains('\0') || absolute.size() > maxPathBytes)
    return failUsage("bad-trace-path", "this cannot be the path of a waveform", path.str());
  channel.request(Command::TraceBegin).string(absolute.data(), absolute.size());
  return callForNothing();
}

llvm::Error ModelTarget::endTrace() {
  if (!(table.capabilities & TAPEBACK_MODEL_CAP_TRACE))
    return unsupportedByTarget(self, "writes no waveform");
  channel.request(Command::TraceEnd);
  return callForNothing();
}

} // namespace

llvm::Expected<std::unique_ptr<Target>> openModelTarget(const TargetUri &uri) {
  llvm::Expected<uint64_t> timeout = timeoutOption(uri);
  if (!timeout)
    return timeout.takeError();
  llvm::Expected<uint64_t> mib = numberOption(uri, "memory", defaultMemoryMib, 1, maxMemoryMib);
  if (!mib)
    return mib.takeError();
  llvm::Expected<std::string> plugin = findModelPlugin(uri.scheme, uri.rest);
  if (!plugin)
    return plugin.takeError();
  llvm::Expected<std::string> program = findModelHost();
  if (!program)
    return program.takeError();
  auto target = std::make_unique<ModelTarget>(uri, std::move(*plugin), *timeout, *mib << 20);
  if (llvm::Error error = target->start(uri, *program))
    return error;
  return target;
}

llvm::ArrayRef<TargetOptionHelp> modelTargetOptions() {
  return ownOptions;
}

std::string modelPluginOptions(const TargetUri &uri) {
  TargetUri asking = uri;
  asking.options.push_back({"no-such-option", "1"});
  llvm::Expected<std::unique_ptr<Target>> opened = openModelTarget(asking);
  if (opened)
    return std::string();
  const Failure failure = toFailure(opened.takeError());
  llvm::StringRef text = failure.message;
  text.consume_front(refusesOptions);
  return text.str();
}

pid_t modelHostProcess(const Target &target) {
  auto *model = dynamic_cast<const ModelTarget *>(&target);
  return model ? model->hostProcess() : -1;
}

} // namespace tapeback
