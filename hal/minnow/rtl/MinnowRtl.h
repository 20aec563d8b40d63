// The Verilated RTL with its clocks, its bus and its register port: a device that can be driven.
//
// Time passes only inside calls: accessCycles for each register access, in advance(), and in a reset. Not
// thread-safe; no globals. Host callbacks happen only inside the calls that let time pass.
#pragma once

#include "hal/minnow/rtl/HostBus.h"
#include "hal/minnow/rtl/RtlOptions.h"
#include <memory>
#include <string>
#include <vector>

class VMinnow;
class VerilatedContext;
class VerilatedFstC;

namespace tapeback::minnow {

class MinnowRtl {
public:
  MinnowRtl(const tapeback_model_host &host, const RtlOptions &options);
  ~MinnowRtl();

  static constexpr uint64_t barSize = 0x10000, scratchpadSize = 0x10000;
  static constexpr uint32_t counterCount = 12;

  uint32_t read(uint32_t offset);
  void write(uint32_t offset, uint32_t value);
  /// An access the slave answers with an error: time passes, nothing else.
  void refuseAccess() { run(accessCycles); }

  /// Runs until `budgetNs` is used up, an interrupt was raised, nothing more can happen by itself, or enough
  /// was done for one call. Returns how much time passed.
  uint64_t advance(uint64_t budgetNs);
  uint64_t timeNs() const { return cycle * cycleNs + residueNs; }

  /// What SOFT_RESET does; with `power` the timestamp and the bus begin anew, too. False: it does not end.
  bool reset(bool power);

  uint64_t counter(uint32_t id) const;
  void peekScratchpad(uint64_t offset, uint8_t *out, uint64_t size) const;
  /// What a register holds; registers whose read does something have nothing to show.
  static bool canPeek(uint32_t offset) { return offset != 0x044 && offset != 0x050; }
  uint32_t peekRegister(uint32_t offset);

  void save(std::vector<uint8_t> &out) const;
  /// Of what save() gives, always.
  uint64_t savedSize();
  /// False: not a snapshot of this build; nothing has changed then.
  bool load(const uint8_t *in, uint64_t size);

  /// False, with a reason: the file cannot be written, or a trace is being written already.
  bool beginTrace(const char *path, std::string &error);
  void endTrace();

private:
  static constexpr uint64_t cycleNs = 10;
  /// Of an access, how many before the slave sees it. An event whose message or memory the host has just seen
  /// has reached the registers by then.
  static constexpr uint32_t accessCycles = 8, cyclesBeforeAccess = 4;
  static constexpr uint32_t maxResetCycles = 10000, maxCyclesPerAdvance = 50000;

  void runCycle();
  void run(uint32_t cycles) {
    while (cycles--)
      runCycle();
  }
  void access(bool isWrite, uint32_t offset, uint32_t value);

  const tapeback_model_host &host;
  RtlOptions options;
  HostBus bus;
  std::unique_ptr<VerilatedContext> context;
  std::unique_ptr<VMinnow> top;
  std::unique_ptr<VerilatedFstC> trace; ///< Declared behind the model, so that it goes first.
  uint64_t cycle = 0;
  uint64_t residueNs = 0; ///< Time allowed and not yet used, less than a cycle.
  uint64_t interrupts = 0;
  uint64_t savedBytes = 0; ///< 0 until it was asked for.
};

} // namespace tapeback::minnow
