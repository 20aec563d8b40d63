// The machine of somebody's bug report: its command line checked again, its CPU parked, nothing of this
// machine behind it.
#pragma once

#include "hal/TargetUri.h"
#include "hal/qemu/QemuArguments.h"
#include "hal/qemu/QtestScript.h"

namespace tapeback {

/// What the URI "qtest:ARCHITECTURE?args=…" asks for.
struct QtestOptions {
  enum class Cpu : uint8_t {
    Park,    ///< Stands still while the machine runs: timers and bottom halves run. Not on all architectures.
    Stopped, ///< -S: never starts. What needs time to pass in the guest does not happen.
  };
  /// How a CPU is parked.
  enum class Parking : uint8_t {
    Rom,        ///< Runs into our ROM, which stops it for good (x86).
    PoweredOff, ///< Nobody switches it on (ARM, where CPUs can be off).
    Unknown,
  };
  std::string architecture; ///< "i386".
  std::string program;      ///< Absolute path.
  QemuCommand command;
  Cpu cpu = Cpu::Park;
  Parking parking = Parking::Rom;
  uint64_t timeoutMs = 0;
  uint64_t quietMs = 0; ///< How long nothing may happen before the machine counts as at rest.
};

/// Usage failures for what is wrong with the URI or not on the allow-list; Target failure "qemu-not-found" if
/// QEMU of that architecture is not installed.
llvm::Expected<QtestOptions> parseQtestOptions(const TargetUri &uri);

/// The whole command line but the program's name. QEMU gets descriptor 3 (the socket) and, parked, 4 (the
/// ROM).
std::vector<std::string> qtestArguments(const QtestOptions &options);

/// A running QEMU with its script. Destruction kills the process.
class QtestMachine {
public:
  /// Does not wait for QEMU to answer: the script's first command does.
  static llvm::Expected<std::unique_ptr<QtestMachine>>
  start(const QtestOptions &options, const FileDescriptor &rom, const std::string &name);
  QemuProcess &process() { return *running; }
  QtestScript &script() { return qtest; }

  /// Waits until all of QEMU's threads have slept for `quietMs` while its main loop went round, or it ended:
  /// the failure. At most `timeoutMs` of a machine that never rests, which is no failure.
  llvm::Error settle(const QtestOptions &options);

private:
  QtestMachine(std::unique_ptr<QemuProcess> process, FileDescriptor socket, const std::string &name,
               uint64_t timeoutMs)
      : running(std::move(process)), qtest(std::move(socket), *running, name, timeoutMs) {}

  std::unique_ptr<QemuProcess> running;
  QtestScript qtest;
};

} // namespace tapeback
