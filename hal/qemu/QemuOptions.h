// What the URI "qemu:DEVICE?…" asks for.
#pragma once

#include "hal/TargetUri.h"
#include "hal/qemu/QemuDevices.h"
#include "hal/qemu/QemuMedium.h"

namespace tapeback {

struct QemuOptions {
  enum class Machine : uint8_t { Q35, Pc };
  /// Virtual: the guest's clock stands still, and jumps to the next timer of a device. Real: it follows the
  /// host's.
  enum class Time : uint8_t { Virtual, Real };

  const QemuDevice *device = nullptr; ///< Never null once parsed.
  std::string program;                ///< Absolute path of an executable file.
  Machine machine = Machine::Q35;
  Time time = Time::Virtual;
  uint64_t ramBytes = 0;
  uint64_t timeoutMs = 0;
  MediumOptions medium; ///< Of devices that have one.
};

/// Usage failures for what is wrong with the URI; Target failure "qemu-not-found" if QEMU is not installed.
llvm::Expected<QemuOptions> parseQemuOptions(const TargetUri &uri);

/// Bytes of "64M", "1G", "65536"; nothing if it is not such a thing or does not fit.
std::optional<uint64_t> parseByteSize(llvm::StringRef text);

/// The program that the option `qemu` names, or else `fallback` in PATH. Failures as parseQemuOptions.
llvm::Expected<std::string> findQemuProgram(const TargetUri &uri, llvm::StringRef fallback);

/// The absolute path of an executable file of that name, as a shell would find it (absolute entries only).
std::optional<std::string> findInPath(llvm::StringRef name, llvm::StringRef path);

} // namespace tapeback
