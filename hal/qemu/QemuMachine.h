// One virtual machine: QEMU's command line, its parked CPU, and the socket to it.
#pragma once

#include "hal/qemu/GuestMemory.h"
#include "hal/qemu/QemuOptions.h"
#include "hal/qemu/QtestClient.h"

namespace tapeback {

/// A running QEMU with its qtest client. Lives from one reset to the next; destruction kills the process.
class QemuMachine {
public:
  /// Starts QEMU on `memory`, with `rom` as its firmware and `medium` (if the device has one) as its disk;
  /// all must outlive the machine. Does not wait for
  /// QEMU to answer: the client's first command does.
  static llvm::Expected<std::unique_ptr<QemuMachine>>
  start(const QemuOptions &options, const GuestMemory &memory, const FileDescriptor &rom,
        const FileDescriptor &medium, const std::string &name);

  QemuProcess &process() { return *running; }
  QtestClient &client() { return qtest; }

private:
  QemuMachine(std::unique_ptr<QemuProcess> process, FileDescriptor socket, const std::string &name,
              uint64_t timeoutMs)
      : running(std::move(process)), qtest(std::move(socket), *running, name, timeoutMs) {}

  std::unique_ptr<QemuProcess> running;
  QtestClient qtest;
};

/// What stands behind -machine, but for the memory: "q35,…".
std::string qemuMachineText(QemuOptions::Machine machine);
/// What the processor runs: it lies `parkedRomBytes` - 16 bytes into a firmware of that size, all else of
/// which stops it, too.
llvm::ArrayRef<uint8_t> parkedCode();
constexpr size_t parkedRomBytes = 65536;

/// A 64 KiB firmware image in a memory file whose reset vector stops the CPU for good: qtest is answered,
/// devices' timers run, and no guest code ever does.
llvm::Expected<FileDescriptor> makeParkedRom();

/// Starts `program --version`, to be read later with readQemuVersion: the two programs start side by side.
llvm::Expected<std::unique_ptr<QemuProcess>> startQemuVersion(const std::string &program);
/// "7.2.22 (Debian …)". Target failure "not-qemu" if the program says something else, "target-hung" if
/// nothing.
llvm::Expected<std::string> readQemuVersion(QemuProcess &process, const std::string &program,
                                            uint64_t timeoutMs);

} // namespace tapeback
