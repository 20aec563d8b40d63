#include "hal/qemu/QtestTarget.h"
#include "hal/TargetFailure.h"
#include "hal/qemu/LastWords.h"
#include "hal/qemu/QemuMachine.h"
#include "hal/qemu/QtestControl.h"
#include "hal/qemu/QtestMachine.h"
#include "llvm/ADT/StringExtras.h"
#include <array>
#include <chrono>

namespace tapeback {
namespace {

enum MachineSpace : TargetSpaceId { Ports, Physical, Control };

constexpr uint64_t betweenRests = 1'000'000; ///< For an interrupt, in nanoseconds.

std::string number(uint64_t value) {
  return " 0x" + llvm::utohexstr(value, /*LowerCase=*/true);
}

char widthLetter(unsigned width) {
  return width == 1 ? 'b' : width == 2 ? 'w' : width == 4 ? 'l' : 'q';
}

/// Owns the machine. What QEMU refuses is a Failure "command-refused" where that is known at once (the space
/// "qtest"), and counted in any case. One life: after QEMU's end every call fails with it, until a reset.
class QtestTarget final : public Target {
public:
  QtestTarget(QtestOptions options, TargetIdentity identity, FileDescriptor rom)
      : options(std::move(options)), self(std::move(identity)), rom(std::move(rom)) {}

  llvm::Error launch();
  void nameVersion(const std::string &version) { self.facts["qemu"] = version; }

  const TargetIdentity &identity() const override { return self; }
  TargetCapabilities capabilities() const override {
    TargetCapabilities can;
    can.memory = can.flatMemory = can.reset = can.interrupts = true;
    return can;
  }
  llvm::ArrayRef<TargetSpace> spaces() const override { return spaceTable; }

  llvm::Expected<uint64_t> read(TargetSpaceId space, uint64_t address, unsigned width) override;
  llvm::Error write(TargetSpaceId space, uint64_t address, unsigned width, uint64_t value) override;
  llvm::Error submit(llvm::MutableArrayRef<TargetOperation> batch, size_t *completed) override;
  llvm::Error flush() override { return script().collect(); }

  llvm::Expected<MemoryRegion> map(const MapRequest &) override {
    return unsupportedByTarget(self, "has the memory of its machine, and maps none");
  }
  llvm::Error unmap(uint64_t) override { return unsupportedByTarget(self, "maps no memory"); }
  llvm::Error readMemory(uint64_t address, llvm::MutableArrayRef<uint8_t> out) override;
  llvm::Error writeMemory(uint64_t address, llvm::ArrayRef<uint8_t> in) override;

  llvm::Expected<InterruptResult> waitInterrupt(uint32_t line, uint64_t deadlineNs) override;
  llvm::Error advance(uint64_t nanoseconds) override;
  llvm::Error reset(ResetKind kind) override;
  llvm::Error settle() override;
  std::optional<MachineReport> machineReport() override;

private:
  QtestScript &script() { return machine->script(); }
  llvm::Error control(const TargetOperation &operation);
  llvm::Error queueWrite(uint64_t address, llvm::ArrayRef<uint8_t> in);
  llvm::Error queueOperation(TargetOperation &operation, QtestReply *reply);

  QtestOptions options;
  TargetIdentity self;
  FileDescriptor rom;
  std::unique_ptr<QtestMachine> machine;
  std::array<char, qtestTextBytes> text{}; ///< Of a command that names a device.
  bool intercepts = false;                 ///< The machine was told to tell its interrupts.
  const std::vector<TargetSpace> spaceTable = {
      {"io", 0x10000}, {"physical", ~uint64_t(0)}, {"qtest", qtestControlBytes}};
};

llvm::Error QtestTarget::launch() {
  machine.reset();
  llvm::Expected<std::unique_ptr<QtestMachine>> started = QtestMachine::start(options, rom, self.uri);
  if (!started)
    return started.takeError();
  machine = std::move(*started);
  text = {};
  intercepts = false;
  return script().ask("endianness", /*counted=*/false).takeError();
}

llvm::Error QtestTarget::control(const TargetOperation &operation) {
  const uint64_t address = operation.address, value = operation.value;
  if (llvm::Error error = checkAccess(spaceTable, operation.space, address, operation.width))
    return error;
  if (address >= uint64_t(QtestControl::Text)) {
    for (unsigned i = 0; i < operation.width; ++i)
      text[address - uint64_t(QtestControl::Text) + i] = char(value >> (8 * i));
    return llvm::Error::success();
  }
  std::string command;
  bool asksForInterrupts = false;
  switch (QtestControl(address)) {
  case QtestControl::StepToTimer: command = "clock_step"; break;
  case QtestControl::Step: command = "clock_step " + std::to_string(value); break;
  case QtestControl::SetClock: command = "clock_set " + std::to_string(value); break;
  case QtestControl::SetIrq:
    return failTarget("command-refused", "set_irq_in names a device, which the tape's packet does not",
                      self.uri);
  case QtestControl::Command: {
    command.assign(text.data(), size_t(std::min(value, qtestTextBytes)));
    // Whoever made the tape, QEMU gets nothing that it would abort at.
    if (const char *why = value > qtestTextBytes ? "it is too long" : whyNoTextCommand(command))
      return failTarget("command-refused", std::string("this is no command for QEMU: ") + why, self.uri);
    asksForInterrupts = llvm::StringRef(command).starts_with("irq_intercept_");
    break;
  }
  default: return failUsage("bad-register", "there is no such control of qtest", self.uri);
  }
  llvm::Expected<QtestReply> reply = script().ask(command);
  if (!reply)
    return reply.takeError();
  if (reply->refused)
    return failTarget("command-refused",
                      "QEMU answered '" + printable(reply->text, 80) + "' to '" + command + "'", self.uri,
                      llvm::StringRef(command).starts_with("clock_")
                          ? "Debian's QEMU 7.2 has no clock that qtest can move"
                          : "");
  intercepts |= asksForInterrupts;
  return llvm::Error::success();
}

/// Time is the host's here. What is raised is told between the answers to commands, so that one is asked.
llvm::Expected<InterruptResult> QtestTarget::waitInterrupt(uint32_t line, uint64_t deadlineNs) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  if (llvm::Error error = flush())
    return error;
  if (!intercepts)
    return failTarget("command-refused", "the script did not ask the machine for its interrupts", self.uri);
  for (;;) {
    InterruptResult result;
    result.count = script().takeRaised(line);
    result.fired = result.count != 0;
    const auto waited = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
    if (result.fired || uint64_t(waited) >= deadlineNs)
      return result;
    machine->process().waitEnd(std::min(betweenRests, deadlineNs - uint64_t(waited)));
    if (llvm::Error error = script().ask("endianness", /*counted=*/false).takeError())
      return error;
  }
}

llvm::Error QtestTarget::queueWrite(uint64_t address, llvm::ArrayRef<uint8_t> in) {
  if (in.empty())
    return llvm::Error::success();
  if (in.size() > QtestScript::longestBlock)
    return failUsage("block-too-long", "a block is 64 MiB at most", self.uri);
  return script().queue("write" + number(address) + number(in.size()) + " 0x" +
                        llvm::toHex(in, /*LowerCase=*/true));
}

llvm::Error QtestTarget::queueOperation(TargetOperation &operation, QtestReply *reply) {
  if (operation.kind == TargetOperation::Kind::WriteMemory)
    return queueWrite(operation.address, {operation.data, size_t(operation.length)});
  if (llvm::Error error = checkAccess(spaceTable, operation.space, operation.address, operation.width))
    return error;
  const bool write = operation.kind == TargetOperation::Kind::Write;
  if (operation.space == Ports && operation.width == 8)
    return failUsage("bad-width", "a port is 1, 2 or 4 bytes wide", self.uri);
  std::string command = operation.space == Ports ? write ? "out" : "in" : write ? "write" : "read";
  command += widthLetter(operation.width) + number(operation.address);
  if (write)
    command += number(operation.value & (~uint64_t(0) >> (64 - 8 * operation.width)));
  return script().queue(std::move(command), write ? nullptr : reply);
}

llvm::Error QtestTarget::submit(llvm::MutableArrayRef<TargetOperation> batch, size_t *completed) {
  *completed = 0;
  if (llvm::Error error = flush())
    return error;
  uint64_t base = script().answered(); // Answered commands before operation number `begun`.
  size_t begun = 0;
  std::vector<QtestReply> replies(batch.size());
  auto collectValues = [&](size_t end) -> llvm::Error {
    llvm::Error error = flush();
    const size_t done = begun + size_t(script().answered() - base);
    for (size_t i = begun; i < std::min(done, end); ++i)
      if (batch[i].kind == TargetOperation::Kind::Read && !replies[i].refused) {
        llvm::StringRef text = replies[i].text;
        if (!error && (!text.consume_front("0x") || text.getAsInteger(16, batch[i].value)))
          error = script().fail("target-nonsense",
                                "QEMU answered '" + printable(replies[i].text, 80) + "' to a read", {});
      }
    *completed = std::min(done, end);
    if (error && *completed < batch.size())
      return atPacket(std::move(error), batch[*completed].packet);
    return error;
  };
  for (size_t i = 0; i < batch.size(); ++i) {
    // Empty blocks and the controls are no commands of the pipeline: what came before goes first.
    const bool access = batch[i].kind != TargetOperation::Kind::WriteMemory;
    const bool alone = access ? batch[i].space == Control : batch[i].length == 0;
    llvm::Error error = llvm::Error::success();
    if (alone) {
      error = collectValues(i);
      if (error)
        return error;
      if (access && batch[i].kind == TargetOperation::Kind::Read)
        error = failUsage("bad-register", "the controls of qtest can only be written", self.uri);
      else if (access)
        error = control(batch[i]);
      if (!error) {
        *completed = begun = i + 1;
        base = script().answered();
      }
    } else {
      error = queueOperation(batch[i], &replies[i]);
    }
    if (!error)
      continue;
    // Wrong by itself: all before it are still carried out, and one of them may fail.
    if (!alone && !script().dead())
      if (llvm::Error earlier = collectValues(i)) {
        llvm::consumeError(std::move(error)); // Comes second; the earlier one is what stopped the batch.
        return earlier;
      }
    if (script().dead() && !alone)
      *completed = begun + size_t(script().answered() - base);
    return atPacket(std::move(error), batch[std::min(*completed, batch.size() - 1)].packet);
  }
  return collectValues(batch.size());
}

llvm::Expected<uint64_t> QtestTarget::read(TargetSpaceId space, uint64_t address, unsigned width) {
  TargetOperation operation = TargetOperation::read(space, address, width);
  size_t completed;
  if (llvm::Error error = submit(operation, &completed))
    return error;
  return operation.value;
}

llvm::Error QtestTarget::write(TargetSpaceId space, uint64_t address, unsigned width, uint64_t value) {
  TargetOperation operation = TargetOperation::write(space, address, width, value);
  size_t completed;
  return submit(operation, &completed);
}

llvm::Error QtestTarget::readMemory(uint64_t address, llvm::MutableArrayRef<uint8_t> out) {
  if (out.empty())
    return script().state();
  if (out.size() > QtestScript::longestBlock)
    return failUsage("block-too-long", "a block is 64 MiB at most", self.uri);
  if (llvm::Error error = flush())
    return error;
  llvm::Expected<QtestReply> reply = script().ask("read" + number(address) + number(out.size()));
  if (!reply)
    return reply.takeError();
  if (reply->refused)
    return failTarget("command-refused", "QEMU answered '" + printable(reply->text, 80) + "' to a read",
                      self.uri);
  llvm::StringRef text = reply->text;
  std::string bytes;
  if (!text.consume_front("0x") || text.size() != 2 * out.size() || !llvm::tryGetFromHex(text, bytes))
    return script().fail("target-nonsense", "QEMU answered '" + printable(text, 80) + "' to a read", {});
  std::copy(bytes.begin(), bytes.end(), out.begin());
  return llvm::Error::success();
}

llvm::Error QtestTarget::writeMemory(uint64_t address, llvm::ArrayRef<uint8_t> in) {
  if (llvm::Error error = queueWrite(address, in))
    return error;
  return flush();
}

llvm::Error QtestTarget::advance(uint64_t nanoseconds) {
  if (llvm::Error error = flush())
    return error;
  if (nanoseconds && machine->process().waitEnd(nanoseconds))
    return script().ask("endianness", /*counted=*/false).takeError(); // Any command tells its end.
  return llvm::Error::success();
}

llvm::Error QtestTarget::reset(ResetKind) {
  // A machine that was told nothing yet is as fresh as another.
  if (!script().dead() && !script().issued())
    return llvm::Error::success();
  return launch();
}

llvm::Error QtestTarget::settle() {
  if (llvm::Error error = flush())
    return error;
  return machine->settle(options);
}

std::optional<MachineReport> QtestTarget::machineReport() {
  MachineReport report;
  report.commands = script().issued();
  report.answered = script().answered();
  report.refused = script().refused();
  if (!script().dead())
    return report;
  report.command = script().present() == "endianness" ? "" : script().present();
  report.ended = toFailure(script().state()).code == "target-died";
  std::optional<QemuProcess::End> end = machine->process().end();
  if (report.ended && end) {
    report.signal = end->signal;
    report.exitCode = end->exitCode;
  }
  report.lastWords = summariseLastWords(machine->process().output());
  return report;
}

} // namespace

llvm::Expected<std::unique_ptr<Target>> openQtestTarget(const TargetUri &uri) {
  llvm::Expected<QtestOptions> options = parseQtestOptions(uri);
  if (!options)
    return options.takeError();
  llvm::Expected<FileDescriptor> rom = makeParkedRom();
  if (!rom)
    return rom.takeError();
  TargetIdentity identity;
  identity.uri = uri.text;
  identity.kind = "qtest";
  identity.name = "machine";
  identity.facts["qemu-architecture"] = options->architecture;
  identity.facts["qemu-args"] = options->command.text();
  llvm::Expected<std::unique_ptr<QemuProcess>> version = startQemuVersion(options->program);
  if (!version)
    return version.takeError();
  auto target = std::make_unique<QtestTarget>(*options, std::move(identity), std::move(*rom));
  if (llvm::Error error = target->launch())
    return error;
  llvm::Expected<std::string> text = readQemuVersion(**version, options->program, options->timeoutMs);
  if (!text)
    return text.takeError();
  target->nameVersion(*text);
  return target;
}

std::string qtestUriOf(const std::map<std::string, std::string> &identity, llvm::StringRef options) {
  auto arguments = identity.find("qemu-args");
  if (arguments == identity.end())
    return {};
  auto architecture = identity.find("qemu-architecture");
  std::string uri = "qtest:" + (architecture == identity.end() ? std::string() : architecture->second);
  uri += "?" + (options.empty() ? std::string() : options.str() + "&") + "args=";
  for (char c : arguments->second) {
    if (llvm::isPrint(c) && c != '%' && c != '&' && c != '#')
      uri += c;
    else
      uri += "%" + llvm::toHex(llvm::StringRef(&c, 1));
  }
  return uri;
}

} // namespace tapeback
