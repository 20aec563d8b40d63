#include "hal/qemu/QemuTarget.h"
#include "hal/TargetFailure.h"
#include "hal/qemu/PciSetup.h"
#include "hal/qemu/QemuMachine.h"
#include "hal/qemu/VirtualClock.h"
#include "llvm/ADT/StringExtras.h"
#include <chrono>
#include <cstring>

namespace tapeback {
namespace {

/// Virtual time does not move what a device computes in a host thread (edu's factorial); such things get up
/// to this much of the host's time for each advance, and a wait for an interrupt that long before it gives
/// up.
constexpr uint64_t hostTimePerAdvanceNs = 1'000'000;
constexpr uint64_t hostTimePerWaitNs = 1'000'000'000;

constexpr uint64_t shortestPauseNs = 20'000, longestPauseNs = 500'000;

std::string hexFact(uint64_t value, unsigned digits) {
  return "0x" + llvm::utohexstr(value, true, digits);
}

/// Owns the virtual machine and the memory. A failure of QEMU is remembered by the machine's client, which
/// every call asks first; a failed restart leaves no machine, and `lost` says why.
class QemuTarget final : public Target {
public:
  QemuTarget(QemuOptions options, TargetIdentity identity, std::unique_ptr<GuestMemory> memory,
             FileDescriptor rom, FileDescriptor medium)
      : options(std::move(options)), self(std::move(identity)), memory(std::move(memory)),
        rom(std::move(rom)), medium(std::move(medium)) {}

  llvm::Error open();

  const TargetIdentity &identity() const override { return self; }
  TargetCapabilities capabilities() const override;
  llvm::ArrayRef<TargetSpace> spaces() const override { return spaceTable; }

  llvm::Expected<uint64_t> read(TargetSpaceId space, uint64_t address, unsigned width) override;
  llvm::Error write(TargetSpaceId space, uint64_t address, unsigned width, uint64_t value) override;
  llvm::Error submit(llvm::MutableArrayRef<TargetOperation> batch, size_t *completed) override;
  llvm::Error flush() override;

  llvm::Expected<MemoryRegion> map(const MapRequest &request) override;
  llvm::Error unmap(uint64_t iova) override;
  llvm::Error readMemory(uint64_t iova, llvm::MutableArrayRef<uint8_t> out) override;
  llvm::Error writeMemory(uint64_t iova, llvm::ArrayRef<uint8_t> in) override;

  llvm::Expected<InterruptResult> waitInterrupt(uint32_t vector, uint64_t deadlineNs) override;
  llvm::Error advance(uint64_t nanoseconds) override;
  llvm::Error reset(ResetKind kind) override;
  llvm::Expected<uint64_t> deviceTime() override;

private:
  llvm::Error state() const;
  bool isVirtual() const { return options.time == QemuOptions::Time::Virtual; }
  llvm::Error launch();
  llvm::Error bringUp();
  llvm::Error checkRegisterAccess(TargetSpaceId space, uint64_t address, unsigned width) const;
  llvm::Error queueOperation(TargetOperation &operation);
  llvm::Error collect();
  llvm::Error tellEnd();
  void countInterrupts();
  InterruptResult takeInterrupts();
  QtestClient &client() { return machine->client(); }
  uint64_t busAddress(TargetSpaceId space, uint64_t address) const {
    return function.bars[space].address + address;
  }

  QemuOptions options;
  TargetIdentity self;
  std::unique_ptr<GuestMemory> memory; ///< Outlives the machine, which maps it.
  FileDescriptor rom;
  FileDescriptor medium;                ///< Keeps its content over resets, as a disk does.
  std::unique_ptr<QemuMachine> machine; ///< Null only if `lost` is set.
  std::optional<VirtualClock> clock;
  std::optional<Failure> lost;
  PciFunction function;
  std::vector<TargetSpace> spaceTable; ///< One per memory BAR, in the order of function.bars.
  uint64_t interruptsSeen = 0;
  uint64_t timeBefore = 0; ///< Device time that passed in the machines before this one.
};

llvm::Error QemuTarget::state() const {
  if (lost)
    return llvm::make_error<Failure>(*lost);
  return machine->client().state();
}

llvm::Error QemuTarget::launch() {
  llvm::Expected<std::unique_ptr<QemuMachine>> started =
      QemuMachine::start(options, *memory, rom, medium, self.uri);
  if (!started)
    return started.takeError();
  machine = std::move(*started);
  return llvm::Error::success();
}

llvm::Error QemuTarget::bringUp() {
  llvm::Expected<uint64_t> alive = client().ask(QtestCommand::endianness());
  if (!alive)
    return alive.takeError();
  llvm::Expected<PciFunction> found =
      setUpPciDevice(client(), *options.device, {GuestMemory::interruptPage, interruptMessageData});
  if (!found)
    return found.takeError();
  function = std::move(*found);
  llvm::Expected<VirtualClock> running = VirtualClock::start(client());
  if (!running)
    return running.takeError();
  clock = *running;
  // Interrupts of an earlier life are nobody's.
  memory->takeInterruptWord();
  interruptsSeen = 0;
  return llvm::Error::success();
}

llvm::Error QemuTarget::open() {
  // Side by side: asking for the version takes half as long as starting the machine.
  llvm::Expected<std::unique_ptr<QemuProcess>> version = startQemuVersion(options.program);
  if (!version)
    return version.takeError();
  if (llvm::Error error = launch())
    return error;
  llvm::Expected<std::string> text = readQemuVersion(**version, options.program, options.timeoutMs);
  if (!text)
    return text.takeError();
  if (llvm::Error error = bringUp())
    return error;
  for (const PciBar &bar : function.bars)
    spaceTable.push_back({"bar" + std::to_string(bar.index), bar.size});
  self.facts["qemu"] = *text;
  self.facts["machine"] = options.machine == QemuOptions::Machine::Q35 ? "q35" : "pc";
  self.facts["time"] = isVirtual() ? "virtual" : "real";
  self.facts["vendor"] = hexFact(options.device->vendorId, 4);
  self.facts["device"] = hexFact(options.device->deviceId, 4);
  self.facts["revision"] = hexFact(function.revision, 2);
  self.facts["class"] = hexFact(function.classCode, 6);
  return llvm::Error::success();
}

TargetCapabilities QemuTarget::capabilities() const {
  TargetCapabilities can;
  can.memory = can.chooseIova = can.reset = can.deviceTime = true;
  can.interrupts = options.device->interrupts != QemuInterrupts::None;
  can.interruptVectors = can.interrupts ? 1 : 0;
  return can;
}

llvm::Error QemuTarget::checkRegisterAccess(TargetSpaceId space, uint64_t address, unsigned width) const {
  if (llvm::Error error = checkAccess(spaceTable, space, address, width))
    return error;
  // QEMU would split it, or drop it without a word.
  if (address % width)
    return failUsage("unaligned-access",
                     "an access of " + std::to_string(width) + " bytes at offset " + hexFact(address, 1) +
                         " is not aligned",
                     self.uri, "access registers at multiples of their width");
  return llvm::Error::success();
}

void QemuTarget::countInterrupts() {
  if (memory->takeInterruptWord())
    ++interruptsSeen;
}

llvm::Error QemuTarget::collect() {
  llvm::Error error = client().collect();
  // The more often one looks, the fewer interrupts are seen as one.
  countInterrupts();
  return error;
}

llvm::Expected<uint64_t> QemuTarget::read(TargetSpaceId space, uint64_t address, unsigned width) {
  if (llvm::Error error = state())
    return error;
  if (llvm::Error error = checkRegisterAccess(space, address, width))
    return error;
  uint64_t value = 0;
  if (llvm::Error error = client().queue(QtestCommand::read(width, busAddress(space, address)), &value))
    return error;
  if (llvm::Error error = collect())
    return error;
  return value;
}

llvm::Error QemuTarget::write(TargetSpaceId space, uint64_t address, unsigned width, uint64_t value) {
  if (llvm::Error error = state())
    return error;
  if (llvm::Error error = checkRegisterAccess(space, address, width))
    return error;
  countInterrupts();
  return client().post(QtestCommand::write(width, busAddress(space, address), value));
}

llvm::Error QemuTarget::flush() {
  if (llvm::Error error = state())
    return error;
  return collect();
}

llvm::Error QemuTarget::queueOperation(TargetOperation &operation) {
  if (operation.kind == TargetOperation::Kind::WriteMemory) {
    llvm::Expected<uint8_t *> host = memory->locate(operation.address, operation.length);
    if (!host)
      return host.takeError();
    // In order: the device must not find memory newer than its registers.
    if (llvm::Error error = collect())
      return error;
    if (operation.length)
      std::memcpy(*host, operation.data, operation.length);
    return llvm::Error::success();
  }
  if (llvm::Error error = checkRegisterAccess(operation.space, operation.address, operation.width))
    return error;
  const uint64_t address = busAddress(operation.space, operation.address);
  if (operation.kind == TargetOperation::Kind::Read)
    return client().queue(QtestCommand::read(operation.width, address), &operation.value);
  return client().queue(QtestCommand::write(operation.width, address, operation.value));
}

llvm::Error QemuTarget::submit(llvm::MutableArrayRef<TargetOperation> batch, size_t *completed) {
  *completed = 0;
  if (llvm::Error error = state())
    return error;
  // What was posted before is not the batch's to blame.
  if (llvm::Error error = collect())
    return error;
  uint64_t base = client().answered(); // Answered commands before operation number `*completed`.
  // Counts what has been carried out, and names the operation that has not.
  auto stop = [&](llvm::Error error, size_t queued) {
    *completed += size_t(client().answered() - base);
    size_t guilty = std::min(*completed, queued);
    return atPacket(std::move(error), batch[guilty].packet);
  };
  for (size_t i = 0; i < batch.size(); ++i) {
    llvm::Error error = queueOperation(batch[i]);
    if (error) {
      // A request that is wrong: all before it are still carried out, and one of them may fail.
      if (!client().dead()) {
        if (llvm::Error earlier = collect()) {
          llvm::consumeError(std::move(error)); // Comes second; the earlier one is what stopped the batch.
          error = std::move(earlier);
        }
      }
      return stop(std::move(error), i);
    }
    if (batch[i].kind == TargetOperation::Kind::WriteMemory) {
      *completed = i + 1;
      base = client().answered();
    }
  }
  if (batch.empty())
    return llvm::Error::success();
  if (llvm::Error error = collect())
    return stop(std::move(error), batch.size() - 1);
  *completed = batch.size();
  return llvm::Error::success();
}

llvm::Expected<MemoryRegion> QemuTarget::map(const MapRequest &request) {
  if (llvm::Error error = state())
    return error;
  return memory->map(request);
}

llvm::Error QemuTarget::unmap(uint64_t iova) {
  if (llvm::Error error = state())
    return error;
  return memory->unmap(iova);
}

llvm::Error QemuTarget::readMemory(uint64_t iova, llvm::MutableArrayRef<uint8_t> out) {
  if (llvm::Error error = flush())
    return error;
  llvm::Expected<uint8_t *> host = memory->locate(iova, out.size());
  if (!host)
    return host.takeError();
  if (!out.empty())
    std::memcpy(out.data(), *host, out.size());
  return llvm::Error::success();
}

llvm::Error QemuTarget::writeMemory(uint64_t iova, llvm::ArrayRef<uint8_t> in) {
  if (llvm::Error error = flush())
    return error;
  llvm::Expected<uint8_t *> host = memory->locate(iova, in.size());
  if (!host)
    return host.takeError();
  if (!in.empty())
    std::memcpy(*host, in.data(), in.size());
  return llvm::Error::success();
}

InterruptResult QemuTarget::takeInterrupts() {
  countInterrupts();
  InterruptResult result{interruptsSeen > 0, interruptsSeen};
  interruptsSeen = 0;
  return result;
}

llvm::Expected<InterruptResult> QemuTarget::waitInterrupt(uint32_t vector, uint64_t deadlineNs) {
  if (vector >= capabilities().interruptVectors)
    return failUsage("unknown-vector", "there is no interrupt vector " + std::to_string(vector), self.uri);
  if (llvm::Error error = flush())
    return error;
  const uint64_t hostNs = isVirtual() ? std::min(deadlineNs, hostTimePerWaitNs) : deadlineNs;
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  for (uint64_t pause = shortestPauseNs;; pause = std::min(2 * pause, longestPauseNs)) {
    if (InterruptResult result = takeInterrupts(); result.fired)
      return result;
    const uint64_t elapsed = uint64_t(std::chrono::nanoseconds(Clock::now() - start).count());
    if (elapsed >= hostNs)
      break;
    if (machine->process().waitEnd(std::min(pause, hostNs - elapsed))) {
      // One last look at what it did before it ended; then any command tells its end.
      if (InterruptResult result = takeInterrupts(); result.fired)
        return result;
      if (llvm::Error error = tellEnd())
        return error;
    }
  }
  // Timers that are due before the deadline in virtual time have their say, however slow the host is.
  if (isVirtual() && deadlineNs)
    if (llvm::Error error = clock->advance(deadlineNs, machine->process(), options.timeoutMs))
      return error;
  return takeInterrupts();
}

llvm::Error QemuTarget::tellEnd() {
  // The process has ended, so any command fails, and says how.
  return client().ask(QtestCommand::endianness()).takeError();
}

llvm::Error QemuTarget::advance(uint64_t nanoseconds) {
  if (llvm::Error error = flush())
    return error;
  if (nanoseconds == 0)
    return llvm::Error::success();
  if (isVirtual())
    if (llvm::Error error = clock->advance(nanoseconds, machine->process(), options.timeoutMs))
      return error;
  const uint64_t hostNs = isVirtual() ? std::min(nanoseconds, hostTimePerAdvanceNs) : nanoseconds;
  if (machine->process().waitEnd(hostNs))
    return tellEnd();
  countInterrupts();
  return llvm::Error::success();
}

llvm::Expected<uint64_t> QemuTarget::deviceTime() {
  if (llvm::Error error = state())
    return error;
  llvm::Expected<uint64_t> now = clock->now();
  if (!now)
    return now.takeError();
  countInterrupts();
  return timeBefore + *now;
}

llvm::Error QemuTarget::reset(ResetKind) {
  // Every kind is a restart: nothing less makes QEMU's devices forget (edu's state survives system_reset).
  llvm::Expected<uint64_t> time = deviceTime();
  if (!time)
    return time.takeError();
  // Dead before the next one starts: two devices must not write to one memory.
  machine->process().kill();
  if (!machine->process().waitEnd(options.timeoutMs * 1'000'000))
    return client().fail("target-hung", "QEMU could not be killed",
                         "see what the process waits for in the kernel");
  const std::vector<PciBar> barsBefore = function.bars;
  clock.reset();
  machine.reset();
  llvm::Error error = launch();
  if (!error)
    error = bringUp();
  if (!error && function.bars != barsBefore)
    error = client().fail("bad-pci-device", "the device came back from a reset with other BARs", {});
  if (error) {
    lost = toFailure(std::move(error));
    return state();
  }
  timeBefore = *time;
  return llvm::Error::success();
}

} // namespace

llvm::Expected<std::unique_ptr<Target>> openQemuTarget(const TargetUri &uri) {
  llvm::Expected<QemuOptions> options = parseQemuOptions(uri);
  if (!options)
    return options.takeError();
  llvm::Expected<std::unique_ptr<GuestMemory>> memory =
      GuestMemory::create(options->ramBytes, options->device->dmaMask);
  if (!memory)
    return memory.takeError();
  llvm::Expected<FileDescriptor> rom = makeParkedRom();
  if (!rom)
    return rom.takeError();
  FileDescriptor medium;
  if (options->device->medium == QemuMedium::Disk) {
    llvm::Expected<FileDescriptor> made = makeMedium(options->medium);
    if (!made)
      return made.takeError();
    medium = std::move(*made);
  }
  TargetIdentity identity;
  identity.uri = uri.text;
  identity.kind = "qemu";
  identity.name = options->device->name;
  auto target = std::make_unique<QemuTarget>(std::move(*options), std::move(identity), std::move(*memory),
                                             std::move(*rom), std::move(medium));
  if (llvm::Error error = target->open())
    return error;
  return target;
}

} // namespace tapeback
