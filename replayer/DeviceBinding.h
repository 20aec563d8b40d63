// One device of a tape, tied to the target that stands in for it: spaces by name, memory by its recorded
// addresses, wherever it is.
#pragma once

#include "hal/Target.h"
#include "replayer/AccessRules.h"
#include "replayer/LiveMemory.h"
#include "replayer/Needs.h"
#include "replayer/Relocation.h"
#include "replayer/TapeSource.h"
#include <map>

namespace tapeback {

/// A fact that the tape and the target state differently.
struct IdentityDifference {
  std::string key, recorded, replayed;
};

/// A register that does not read, after a reset, as the description or the tape says.
struct FingerprintDifference {
  std::string reg;
  uint64_t expected = 0, actual = 0;
  bool fromTape = false; ///< Expected is what the recording read; otherwise what the description states.
  uint64_t packet = 0;   ///< The reset (0 before the first packet).
};

struct BindingOptions {
  uint8_t poison = 0xa5;
  uint64_t maxMappedBytes = uint64_t(2) << 30; ///< Of one device at one time.
  std::vector<std::string> allowRegisters;     ///< May be written although the description forbids it.
  MemoryLayout layout;                         ///< Where memory is put.
};

/// Refers to source and target, which must outlive it. One thread. Errors are the target's unless stated.
class DeviceBinding {
public:
  /// Usage failure "missing-space" or "no-memory" if the target lacks what the tape needs of this device.
  static llvm::Expected<DeviceBinding> bind(const TapeSource &source, uint16_t device, Target &target,
                                            const BindingOptions &options, const DeviceNeeds &needs);

  Target &target() { return *dut; }
  const TargetCapabilities &capabilities() const { return can; }
  const Description *description() const { return desc; }
  uint16_t device() const { return number; }

  /// The bus's own set-up (BARs, MSI addresses, bus master): accesses to a space "config" that the
  /// description says nothing about. Every target does its own; to re-issue another machine's would be
  /// dangerous.
  bool isBusConfiguration(uint16_t tapeSpace) const {
    return tapeSpace < busSpaces.size() && busSpaces[tapeSpace];
  }
  /// The target's number of a space of the tape; Usage failure if it has none of that name.
  llvm::Expected<TargetSpaceId> space(uint16_t tapeSpace) const;
  const AccessRule &rule(uint16_t space, uint64_t address, unsigned width) {
    return rules.find(space, address, width);
  }
  /// The tape's number of a space by name, for accesses that we make ourselves.
  std::optional<uint16_t> tapeSpace(llvm::StringRef name) const;

  std::vector<IdentityDifference> identityDifferences() const;

  /// Maps at the recorded address, or where the layout says, and fills with poison. All addresses here are
  /// recorded ones.
  llvm::Error map(uint64_t iova, uint64_t length);
  llvm::Error unmap(uint64_t iova);
  llvm::Error unmapAll();
  bool isMapped(uint64_t iova, uint64_t length) const;
  uint64_t bytesMapped() const { return mappedBytes; }
  /// What is mapped now, by recorded address. The region's own address is the placed one.
  const std::map<uint64_t, MemoryRegion> &regions() const { return mapped; }
  /// Content as the recording would have it: addresses that are elsewhere now are the recorded ones.
  llvm::Error readMemory(uint64_t address, llvm::MutableArrayRef<uint8_t> out) const;
  llvm::Error writeMemory(uint64_t address, llvm::ArrayRef<uint8_t> in);
  /// Content is told as recorded where values of this run stand in it, too. What is stored in another way
  /// than by writeMemory() is to be told to it.
  LiveMemory &live() { return lives; }
  const LiveMemory &live() const { return lives; }
  /// Rings of completions that were seen: where in them what stands depends on what else was under way, so
  /// that they are not compared as memory. Base and size in bytes; bounded.
  void noteRing(uint64_t base, uint64_t size) {
    constexpr size_t mostRings = 4096;
    if (rings.size() < mostRings)
      rings[base] = size;
  }
  const std::map<uint64_t, uint64_t> &completionRings() const { return rings; }
  Relocation &relocation() { return moving; }
  const Relocation &relocation() const { return moving; }

  /// Resets (if the target can) and reads the fingerprint. Differences to what the description states are
  /// added to `differences`.
  llvm::Error reset(ResetKind kind, uint64_t packet, std::vector<FingerprintDifference> &differences);
  /// Nothing has been issued since the last reset of that kind: another would be the same.
  bool isFresh(ResetKind kind) const { return fresh && kind == freshKind; }
  void touched() { fresh = false; }
  /// Compares what the recorder read after its reset with what we read after ours. Nothing if the register is
  /// not part of the fingerprint. `compared` says whether it was.
  std::optional<FingerprintDifference> compareFingerprint(uint16_t space, uint64_t address, uint64_t recorded,
                                                          bool *compared);

  /// One access to a described register, whole.
  llvm::Expected<uint64_t> readRegister(const RegisterDescription &reg);
  llvm::Error writeRegister(const RegisterDescription &reg, uint64_t value);

private:
  DeviceBinding(const TapeSource &source, uint16_t device, Target &target, const BindingOptions &options,
                const DeviceNeeds &needs);
  llvm::Error poisonRegion(const MemoryRegion &region);

  const TapeSource *source;
  const Description *desc;
  uint16_t number;
  Target *dut;
  TargetCapabilities can;
  uint8_t poison;
  uint64_t maxMappedBytes, mappedBytes = 0;
  std::vector<std::string> tapeSpaces;
  std::vector<std::optional<TargetSpaceId>> spaceIds;
  std::vector<bool> busSpaces; ///< By tape space.
  AccessRules rules;
  std::map<uint64_t, MemoryRegion> mapped;
  Relocation moving;
  LiveMemory lives;
  std::map<uint64_t, uint64_t> rings;
  struct FingerprintValue {
    unsigned reg;
    uint64_t mask, value;
    uint64_t packet;
  };
  std::vector<FingerprintValue> fingerprint; ///< As read after our last reset.
  bool fresh = false;
  ResetKind freshKind = ResetKind::Default;
};

} // namespace tapeback
