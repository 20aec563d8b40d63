// Values that cross the Target interface.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace tapeback {

using TargetSpaceId = uint16_t;

struct TargetSpace {
  std::string name;  ///< "bar0", "config" …
  uint64_t size = 0; ///< Bytes.
};

struct TargetIdentity {
  std::string uri;                          ///< As opened.
  std::string kind;                         ///< The scheme.
  std::string name;                         ///< "edu".
  std::map<std::string, std::string> facts; ///< vendor, device, version, serial, firmware … as known.
};

struct TargetCapabilities {
  bool registers = true;
  bool memory = false;     ///< map and memory access.
  bool chooseIova = false; ///< map honours MapRequest::iova.
  bool flatMemory = false; ///< All addresses are memory's already: nothing has to be mapped.
  bool interrupts = false;
  bool reset = false;
  bool counters = false;
  bool deviceTime = false;
  bool peek = false; ///< Internal windows can be read without side effect and for free.
  bool snapshots = false;
  bool trace = false; ///< A waveform or log can be written.
  bool answers =
      true; ///< False for null: — reads return nothing that means anything; nothing can be compared.
  unsigned maxSnapshots = 0;
  unsigned interruptVectors = 0;
};

struct MapRequest {
  uint64_t size = 0; ///< Bytes; rounded up to 4 KiB.
  uint64_t alignment = 4096;
  std::optional<uint64_t> iova;
};

/// Mapped memory. `host` is the same memory as the device sees, coherent, valid until unmap; null if the
/// target has no such view (use readMemory/writeMemory).
struct MemoryRegion {
  uint64_t iova = 0;
  uint64_t size = 0;
  uint8_t *host = nullptr;
};

struct InterruptResult {
  bool fired = false;
  uint64_t count = 0; ///< How many were seen since the last wait, at least; they coalesce.
};

/// How a program fared that is the target: a machine that was started for it.
struct MachineReport {
  uint64_t commands = 0;        ///< It was given.
  uint64_t answered = 0;        ///< Of these, also by a refusal.
  uint64_t refused = 0;         ///< It does not know the command: neither passed nor failed.
  bool ended = false;           ///< By itself: not because it had to be killed.
  int signal = 0, exitCode = 0; ///< Both 0 while it runs.
  std::string lastWords;        ///< One line; empty if it ended without a word.
  std::string command;          ///< What it did not answer; empty if it ended with everything answered.
};

/// Numbers are on tape (Reset packets).
enum class ResetKind : uint8_t { Default = 0, Function = 1, Bus = 2, Power = 3 };

struct TargetOperation {
  enum class Kind : uint8_t { Read, Write, WriteMemory } kind = Kind::Read;
  uint8_t width = 0;
  TargetSpaceId space = 0;
  uint64_t address = 0;
  uint64_t value = 0;            ///< Write: what; Read: filled in.
  const uint8_t *data = nullptr; ///< WriteMemory: `length` bytes, owned by the caller until submit returns.
  uint64_t length = 0;
  uint64_t packet = 0; ///< Named in failures.

  /// A width that no access has stays one.
  static TargetOperation read(TargetSpaceId space, uint64_t address, unsigned width) {
    TargetOperation operation;
    operation.width = uint8_t(std::min(width, 255u));
    operation.space = space;
    operation.address = address;
    return operation;
  }
  static TargetOperation write(TargetSpaceId space, uint64_t address, unsigned width, uint64_t value) {
    TargetOperation operation = read(space, address, width);
    operation.kind = Kind::Write;
    operation.value = value;
    return operation;
  }
};

} // namespace tapeback
