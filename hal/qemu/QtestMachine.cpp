#include "hal/qemu/QtestMachine.h"
#include "hal/qemu/QemuOptions.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include <cerrno>
#include <chrono>

namespace tapeback {
namespace {

constexpr TargetOptionHelp qtestOptions[] = {
    {"args", "ARGS", "the machine: QEMU's arguments, of which only harmless ones are taken"},
    {"cpu", "park|stopped",
     "park: it stands still and the machine runs (default on x86 and ARM); stopped: -S"},
    {"qemu", "PATH", "the program, absolute or to be found in PATH (default qemu-system-ARCHITECTURE)"},
    {"quiet", "MS", "how long nothing may happen before the machine counts as at rest (default 200)"},
    {"timeout", "MS", "how long one command may take (default 10000)"},
};

constexpr const char *qtestSocket = "3";
constexpr const char *qtestRom = "/proc/self/fd/4";
constexpr auto betweenLooks = std::chrono::milliseconds(5);

QtestOptions::Parking parkingOf(llvm::StringRef architecture) {
  if (architecture == "i386" || architecture == "x86_64")
    return QtestOptions::Parking::Rom;
  if (architecture == "arm" || architecture == "aarch64")
    return QtestOptions::Parking::PoweredOff;
  return QtestOptions::Parking::Unknown;
}

/// The machine without "accel=…", which we say ourselves.
std::string withoutAccelerator(llvm::StringRef machine) {
  llvm::SmallVector<llvm::StringRef, 8> parts, kept;
  machine.split(parts, ',');
  for (llvm::StringRef part : parts)
    if (!part.starts_with("accel=") && !part.starts_with("kernel-irqchip=") &&
        !part.starts_with("kernel_irqchip="))
      kept.push_back(part);
  return llvm::join(kept, ",");
}

} // namespace

llvm::Expected<QtestOptions> parseQtestOptions(const TargetUri &uri) {
  if (llvm::Error error = checkTargetOptions(uri, qtestOptions))
    return error;
  const std::string *arguments = uri.find("args");
  if (!arguments)
    return failUsage("unknown-machine", "it is not said which machine is to be started",
                     "target '" + uri.text + "'",
                     "import the capture with --qemu-args \"qemu-system-i386 -M q35 …\", or say "
                     "qtest:i386?args=-M q35 …");
  QtestOptions options;
  llvm::Expected<QemuCommand> command = parseQemuCommand(*arguments);
  if (!command)
    return command.takeError();
  options.command = std::move(*command);
  options.architecture = uri.rest.empty() ? options.command.architecture : uri.rest;
  if (options.architecture.empty())
    options.architecture = "x86_64";
  bool named = options.architecture.size() <= 16 &&
               llvm::all_of(options.architecture, [](char c) { return llvm::isAlnum(c) || c == '_'; });
  if (!named)
    return failUsage("bad-target-uri", "an architecture is a name like i386", "target '" + uri.text + "'",
                     "qtest:i386?args=-M q35");
  options.parking = parkingOf(options.architecture);
  const bool canPark = options.parking != QtestOptions::Parking::Unknown;
  llvm::Expected<size_t> cpu = choiceOption(uri, "cpu", {"park", "stopped"}, canPark ? 0 : 1);
  if (!cpu)
    return cpu.takeError();
  options.cpu = QtestOptions::Cpu(*cpu);
  if (options.cpu == QtestOptions::Cpu::Park && !canPark)
    return failUsage("bad-target-option", "nobody here knows how to park a CPU of " + options.architecture,
                     "target '" + uri.text + "'", "cpu=stopped");
  llvm::Expected<uint64_t> quiet = numberOption(uri, "quiet", 200, 1, 60'000);
  if (!quiet)
    return quiet.takeError();
  options.quietMs = *quiet;
  llvm::Expected<uint64_t> timeout = timeoutOption(uri);
  if (!timeout)
    return timeout.takeError();
  options.timeoutMs = *timeout;
  llvm::Expected<std::string> program = findQemuProgram(uri, "qemu-system-" + options.architecture);
  if (!program)
    return program.takeError();
  options.program = std::move(*program);
  return options;
}

std::vector<std::string> qtestArguments(const QtestOptions &options) {
  std::vector<std::string> all;
  const std::vector<std::string> &theirs = options.command.arguments;
  auto has = [&](llvm::StringRef name) { return llvm::is_contained(theirs, name); };
  for (size_t i = 0; i < theirs.size(); ++i) {
    all.push_back(theirs[i]);
    if ((theirs[i] == "-M" || theirs[i] == "-machine") && i + 1 < theirs.size())
      all.push_back(withoutAccelerator(theirs[++i]));
  }
  // The ports that a machine has if nobody says anything are part of it; what they would open is not.
  for (const char *port : {"-serial", "-parallel"})
    if (!has("-nodefaults") && !has(port)) {
      all.emplace_back(port);
      all.emplace_back("null");
    }
  const char *ours[] = {"-no-user-config", "-display", "none",    "-monitor", "none",
                        "-accel",          "tcg",      "-chardev"};
  all.insert(all.end(), std::begin(ours), std::end(ours));
  all.push_back(std::string("socket,id=tapeback-qtest,fd=") + qtestSocket);
  const char *talk[] = {"-object", "qtest,id=tapeback-qtest0,chardev=tapeback-qtest,log=none", "-sandbox",
                        qemuSandbox};
  all.insert(all.end(), std::begin(talk), std::end(talk));
  if (options.cpu == QtestOptions::Cpu::Stopped) {
    all.emplace_back("-S");
  } else if (options.parking == QtestOptions::Parking::PoweredOff) {
    all.emplace_back("-global");
    all.emplace_back("arm-cpu.start-powered-off=on");
  } else {
    all.emplace_back("-bios");
    all.emplace_back(qtestRom);
  }
  return all;
}

llvm::Expected<std::unique_ptr<QtestMachine>>
QtestMachine::start(const QtestOptions &options, const FileDescriptor &rom, const std::string &name) {
  QemuLaunch launch;
  launch.program = options.program;
  launch.arguments = qtestArguments(options);
  if (options.cpu == QtestOptions::Cpu::Park && options.parking == QtestOptions::Parking::Rom)
    launch.descriptors = {rom.get()};
  FileDescriptor socket;
  llvm::Expected<std::unique_ptr<QemuProcess>> process =
      QemuProcess::startOnSocket(std::move(launch), socket);
  if (!process)
    return process.takeError();
  return std::unique_ptr<QtestMachine>(
      new QtestMachine(std::move(*process), std::move(socket), name, options.timeoutMs));
}

llvm::Error QtestMachine::settle(const QtestOptions &options) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  Clock::time_point quietSince = start;
  while (true) {
    const bool asleep = running->sleeps();
    // Its main loop goes round for each of these, and what it had put off is done then.
    llvm::Expected<QtestReply> alive = qtest.ask("endianness", /*counted=*/false);
    if (!alive)
      return alive.takeError();
    const Clock::time_point now = Clock::now();
    if (!asleep)
      quietSince = now;
    if (now - quietSince >= std::chrono::milliseconds(options.quietMs) ||
        now - start >= std::chrono::milliseconds(options.timeoutMs))
      return llvm::Error::success();
    // Woken by its end; the next question finds out.
    running->waitEnd(uint64_t(std::chrono::nanoseconds(betweenLooks).count()));
  }
}

} // namespace tapeback
