// An internal window through its address and data registers, for devices that have a debug port.
#pragma once

#include "replayer/DeviceBinding.h"

namespace tapeback {

/// Refers to the binding, which must outlive it. One thread. Leaves the address register where it was.
class WindowPort {
public:
  /// Usage failure "not-visible" if the window has no port, or it cannot be used in the device's present
  /// state: the registers that decide are read.
  static llvm::Expected<WindowPort> open(DeviceBinding &binding, const InternalWindow &window);

  llvm::Error read(uint64_t offset, llvm::MutableArrayRef<uint8_t> out);
  /// Words that the content covers in part keep their other bytes.
  llvm::Error write(uint64_t offset, llvm::ArrayRef<uint8_t> in);

private:
  WindowPort(DeviceBinding &binding, const InternalWindow &window, TargetSpaceId addressSpace,
             TargetSpaceId dataSpace)
      : binding(&binding), window(&window), addressSpace(addressSpace), dataSpace(dataSpace) {}
  llvm::Error access(uint64_t address, llvm::MutableArrayRef<uint64_t> words, bool isWrite);
  const RegisterDescription &addressRegister() const;
  const RegisterDescription &dataRegister() const;

  DeviceBinding *binding;
  const InternalWindow *window;
  TargetSpaceId addressSpace, dataSpace;
};

} // namespace tapeback
