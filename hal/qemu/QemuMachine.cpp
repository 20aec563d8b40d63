#include "hal/qemu/QemuMachine.h"
#include "hal/qemu/LastWords.h"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>

namespace tapeback {
namespace {

// QEMU gets these descriptors, in this order, from 3 on. Nothing of ours has a name in the file system, so
// nothing can be left behind there and nobody else can connect.
constexpr const char *socketDescriptor = "3";
constexpr const char *memoryPath = "/proc/self/fd/4";
constexpr const char *romPath = "/proc/self/fd/5";
constexpr const char *mediumPath = "/proc/self/fd/6"; // Of devices that have one.

constexpr size_t romBytes = parkedRomBytes;
/// The CPU starts 16 bytes below the end of the ROM: cli; hlt; jmp back to the hlt.
constexpr size_t resetVector = romBytes - 16;
constexpr uint8_t park[] = {0xfa, 0xf4, 0xeb, 0xfd};

/// A disk named `medium`, on the memory file, held up as the options say.
void addMedium(const MediumOptions &options, std::vector<std::string> &arguments) {
  bool limited = options.readIops || options.writeIops;
  const char *whole = limited ? "medium-unlimited" : "medium";
  arguments.insert(
      arguments.end(),
      {"-blockdev",
       std::string("driver=file,node-name=medium-file,locking=off,discard=unmap,filename=") + mediumPath,
       "-blockdev", std::string("driver=raw,discard=unmap,file=medium-file,node-name=") + whole});
  if (!limited)
    return;
  std::string group = "throttle-group,id=medium-limits";
  if (options.readIops)
    group += ",x-iops-read=" + std::to_string(options.readIops);
  if (options.writeIops)
    group += ",x-iops-write=" + std::to_string(options.writeIops);
  arguments.insert(
      arguments.end(),
      {"-object", group, "-blockdev",
       std::string("driver=throttle,discard=unmap,node-name=medium,throttle-group=medium-limits,file=") +
           whole});
}

std::vector<std::string> qemuArguments(const QemuOptions &options) {
  const std::string ram = std::to_string(options.ramBytes);
  const std::string machine = qemuMachineText(options.machine) + ",memory-backend=ram";
  std::vector<std::string> arguments = {
      "-name",
      std::string("tapeback-") + options.device->name,
      "-nodefaults",
      "-no-user-config",
      "-display",
      "none",
      "-accel",
      "tcg",
      "-machine",
      machine,
      "-m",
      std::to_string(options.ramBytes >> 20) + "M",
      "-object",
      std::string("memory-backend-file,id=ram,share=on,mem-path=") + memoryPath + ",size=" + ram,
      "-bios",
      romPath,
      "-chardev",
      std::string("socket,id=qtest,fd=") + socketDescriptor,
      // Not -qtest: it logs every line to standard error.
      "-object",
      "qtest,id=qtest0,chardev=qtest,log=none",
      "-sandbox",
      qemuSandbox,
  };
  if (options.device->medium == QemuMedium::Disk)
    addMedium(options.medium, arguments);
  arguments.emplace_back("-device");
  arguments.emplace_back(options.device->argument);
  if (options.time == QemuOptions::Time::Virtual) {
    arguments.emplace_back("-icount");
    arguments.emplace_back("shift=0,sleep=off");
  }
  return arguments;
}

} // namespace

std::string qemuMachineText(QemuOptions::Machine machine) {
  // The PIT ticks 18 times a second without being asked; with virtual time that is a busy loop. The HPET is
  // our clock.
  return std::string(machine == QemuOptions::Machine::Q35 ? "q35,sata=off,smbus=off" : "pc") +
         ",pit=off,hpet=on,vmport=off";
}

llvm::ArrayRef<uint8_t> parkedCode() {
  return park;
}

llvm::Expected<std::unique_ptr<QemuMachine>>
QemuMachine::start(const QemuOptions &options, const GuestMemory &memory, const FileDescriptor &rom,
                   const FileDescriptor &medium, const std::string &name) {
  QemuLaunch launch;
  launch.program = options.program;
  launch.arguments = qemuArguments(options);
  launch.descriptors = {memory.descriptor(), rom.get()};
  if (medium)
    launch.descriptors.push_back(medium.get());
  FileDescriptor socket;
  llvm::Expected<std::unique_ptr<QemuProcess>> process =
      QemuProcess::startOnSocket(std::move(launch), socket);
  if (!process)
    return process.takeError();
  return std::unique_ptr<QemuMachine>(
      new QemuMachine(std::move(*process), std::move(socket), name, options.timeoutMs));
}

llvm::Expected<FileDescriptor> makeParkedRom() {
  auto failed = [](const char *what) {
    return failSystem("out-of-memory", std::string("firmware image: ") + what + ": " + std::strerror(errno));
  };
  FileDescriptor file(::memfd_create("tapeback-parked-rom", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file)
    return failed("memfd_create");
  std::string image(romBytes, '\xf4'); // hlt, wherever it might go astray.
  std::memcpy(image.data() + resetVector, park, sizeof park);
  if (::write(file.get(), image.data(), image.size()) != ssize_t(image.size()))
    return failed("write");
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0)
    return failed("sealing");
  return file;
}

llvm::Expected<std::unique_ptr<QemuProcess>> startQemuVersion(const std::string &program) {
  QemuLaunch launch;
  launch.program = program;
  launch.arguments = {"--version"};
  return QemuProcess::start(launch);
}

llvm::Expected<std::string> readQemuVersion(QemuProcess &process, const std::string &program,
                                            uint64_t timeoutMs) {
  if (!process.waitEnd(timeoutMs * 1'000'000))
    return failTarget("target-hung",
                      "'" + program + " --version' did not end within " + std::to_string(timeoutMs) + " ms",
                      program, "see that the program named by qemu= is QEMU");
  std::string output = process.output();
  llvm::StringRef line = llvm::StringRef(output).split('\n').first;
  if (!line.consume_front("QEMU emulator version "))
    return failTarget("not-qemu",
                      "'" + program + " --version' " + process.fate() + " and said '" + printable(line, 80) +
                          "', which is not what QEMU says",
                      program, "name QEMU's program for x86-64 with qemu=PATH");
  return printable(line.trim(), 120);
}

} // namespace tapeback
