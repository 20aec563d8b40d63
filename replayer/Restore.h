// Puts a device into the state that a keyframe describes, and moves bytes in and out of device-internal
// windows.
#pragma once

#include "replayer/DeviceBinding.h"
#include "replayer/Waiting.h"

namespace tapeback {

/// Moves bytes between an internal window and scratch memory by the window's read-back activity: registers
/// written, started, waited for, as the description says. For targets that cannot be peeked, and for
/// restoring.
///
/// Disturbs the registers that the activity uses: see registers(). One thread; refers to the binding, which
/// must outlive it. Scratch memory is mapped where the target likes, one page that no transfer crosses, and
/// given back by close(), which must be called (an unmap can fail).
class WindowTransfer {
public:
  /// Usage failure "not-visible" with the reason if the description does not say how, or the target cannot.
  static llvm::Expected<WindowTransfer> open(DeviceBinding &binding, const InternalWindow &window,
                                             bool toDevice, const WaitLimits &waits);

  llvm::Error read(uint64_t offset, llvm::MutableArrayRef<uint8_t> out);
  llvm::Error write(uint64_t offset, llvm::ArrayRef<uint8_t> in);
  llvm::Error close();

  /// Registers written on the way, by index; the one that starts the activity is last.
  std::vector<unsigned> registers() const;

private:
  WindowTransfer(DeviceBinding &binding, const InternalWindow &window, const ActivityDescription &activity,
                 const TransferDescription &transfer, const WaitLimits &waits)
      : binding(&binding), window(&window), activity(&activity), transfer(&transfer), waits(waits) {}
  llvm::Error run(uint64_t offset, uint64_t size);
  uint64_t pieceSize() const;

  DeviceBinding *binding;
  const InternalWindow *window;
  const ActivityDescription *activity;
  const TransferDescription *transfer;
  WaitLimits waits;
  MemoryRegion scratch;
};

/// Follows the description's restore recipe: mappings, memory, then the steps in their order. The device must
/// have been reset. Usage failure if something that the recipe needs is not in the keyframe.
llvm::Error restoreKeyframe(DeviceBinding &binding, TapeSource &source, const Keyframe &keyframe,
                            const WaitLimits &waits);

} // namespace tapeback
