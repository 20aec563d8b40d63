// A small device in process, deterministic, whose every misbehaviour can be asked for: what the grader, the
// rules and bisect are tested against.
//
// "toy": registers of every class and policy, a DMA engine over an internal buffer, a squaring unit, one
// interrupt. Its clock advances by 1 us a register access and by advance().
#pragma once

#include "hal/Target.h"
#include <functional>
#include <map>
#include <set>

namespace tapeback::test {

/// Register offsets of the toy in its one space, "bar0".
namespace toy {
constexpr uint64_t id = 0x00, scratch = 0x04, square = 0x08, status = 0x0c, irq = 0x10, irqAck = 0x14;
constexpr uint64_t source = 0x20, destination = 0x28, count = 0x30, command = 0x38;
constexpr uint64_t noise = 0x40, fuse = 0x44, mayHang = 0x48, turn = 0x4c, substitute = 0x50, exact = 0x54,
                   rate = 0x58;
constexpr uint64_t wide = 0x60, cookie = 0x70, cookieBack = 0x74, cookieDone = 0x78, cookieTag = 0x7c;
constexpr uint64_t caught = 0x80, stream = 0x84;
constexpr uint64_t bufferBase = 0x1000, bufferSize = 256;
constexpr uint64_t dmaTime = 100'000, squareTime = 10'000; ///< Nanoseconds.
constexpr uint64_t idValue = 0x70f00001;
extern const char *const description; ///< YAML.
} // namespace toy

/// What goes wrong. Ordinals count from 0; nothing set, nothing wrong.
struct ToyFaults {
  std::optional<uint64_t> corruptDma; ///< That DMA moves one byte wrongly …
  uint64_t corruptOffset = 0;         ///< … this one of the transfer …
  uint8_t corruptXor = 0xff;          ///< … by this.
  std::optional<uint64_t> healAtDma;  ///< At the start of that DMA the buffer is as it should be.
  std::optional<uint64_t> wrongRead;  ///< That register read answers wrongly, once.
  uint64_t wrongReadXor = 1;
  std::set<uint64_t> wrongOffsets;         ///< Reads of these registers answer wrongly, always.
  std::optional<uint64_t> wrongSquareOf;   ///< Of that operand.
  std::optional<uint64_t> stickyIrqFrom;   ///< From that acknowledge on, acknowledges do nothing.
  std::optional<uint64_t> hangDma;         ///< That DMA and later ones never end.
  std::optional<uint64_t> lateDataOfDma;   ///< That DMA says it is done 50 us before its data arrives.
  bool noInterrupts = false;               ///< Causes show, interrupts do not come.
  std::optional<uint64_t> dieAt;           ///< Register access: "target-died" from then on.
  std::optional<uint64_t> busErrorAt;      ///< Register access: "bus-error", once.
  std::optional<uint64_t> hangAt;          ///< Register access: "target-hung", and dead.
  bool resetKeepsState = false;            ///< A reset that succeeds and does nothing.
  std::optional<uint64_t> strayWriteAtDma; ///< That DMA also writes a byte elsewhere in mapped memory.
  std::optional<uint64_t> counterError;    ///< Added to counter reads.
  uint64_t skew = 0;                       ///< Added to the noise register: another device of the same kind.
  bool countProbes = false;                ///< DMA ordinals count those to scratch memory below 0x200000 too.
  bool activeOnlyOnOddRuns = false;        ///< Everything above only in every second target made.
};

struct ToyOptions {
  TargetCapabilities capabilities; ///< makeCapabilities() unless changed.
  ToyFaults faults;
  std::string space = "bar0";
  uint64_t firstIova = 0x100000;
  uint64_t slowness = 1; ///< Times as long as documented for everything that the toy does by itself.
  std::map<std::string, std::string> facts{{"vendor", "0x70f0"}};
  static TargetCapabilities makeCapabilities();
  ToyOptions() : capabilities(makeCapabilities()) {}
};

class ScriptedTarget : public Target {
public:
  explicit ScriptedTarget(ToyOptions options = {});

  const TargetIdentity &identity() const override { return self; }
  TargetCapabilities capabilities() const override { return options.capabilities; }
  llvm::ArrayRef<TargetSpace> spaces() const override { return spaceTable; }
  llvm::Expected<uint64_t> read(TargetSpaceId space, uint64_t address, unsigned width) override;
  llvm::Error write(TargetSpaceId space, uint64_t address, unsigned width, uint64_t value) override;
  llvm::Expected<MemoryRegion> map(const MapRequest &request) override;
  llvm::Error unmap(uint64_t iova) override;
  llvm::Error readMemory(uint64_t iova, llvm::MutableArrayRef<uint8_t> out) override;
  llvm::Error writeMemory(uint64_t iova, llvm::ArrayRef<uint8_t> in) override;
  llvm::Expected<InterruptResult> waitInterrupt(uint32_t vector, uint64_t deadlineNs) override;
  llvm::Error advance(uint64_t nanoseconds) override;
  llvm::Error reset(ResetKind kind) override;
  llvm::Expected<uint64_t> counter(uint32_t id) override;
  llvm::Error peek(llvm::StringRef window, uint64_t offset, llvm::MutableArrayRef<uint8_t> out) override;

  // What happened, for tests to look at.
  uint64_t accesses = 0, reads = 0, writes = 0, resets = 0, dmas = 0, acknowledges = 0;
  std::map<uint64_t, uint64_t> writesTo; ///< By offset.
  std::vector<uint8_t> buffer;
  uint64_t now = 0;
  uint64_t hostWrites = 0; ///< writeMemory calls.

private:
  llvm::Error gate(TargetSpaceId space, uint64_t address, unsigned width);
  void catchUp();
  void startDma(uint64_t value);
  void finishDma();
  uint8_t *locate(uint64_t iova, uint64_t length);

  ToyOptions options;
  TargetIdentity self;
  std::vector<TargetSpace> spaceTable;
  std::map<uint64_t, std::vector<uint8_t>> memory;
  std::map<uint64_t, uint64_t> registers;
  bool dead = false;
  std::string deathCode;
  std::optional<uint64_t> dmaEnds, squareEnds;
  struct Late {
    uint64_t at, iova;
    std::vector<uint8_t> data;
  };
  std::optional<Late> late;
  uint64_t runningDma = 0, squared = 0;
  unsigned interruptsPending = 0;
  std::vector<uint8_t> goodBuffer; ///< As it would be without faults.
  uint64_t nextIova;
};

} // namespace tapeback::test
