// Events and the messages they send (SPEC.md, section 7).
#include "hal/minnow/model/Device.h"

namespace minnow {
namespace {

void send(Device &device) {
  ++device.messages;
  device.bus.interrupt(device.bus.context);
}

} // namespace

void raise(Device &device, uint32_t bits) {
  State &state = device.state;
  uint32_t risen = bits & ~state.irqStatus;
  state.irqStatus |= bits;
  if (risen & state.irqEnable)
    send(device);
}

void writeIrqEnable(Device &device, uint32_t bits) {
  State &state = device.state;
  uint32_t newly = bits & irqBits & ~state.irqEnable;
  state.irqEnable = bits & irqBits;
  if (newly & state.irqStatus)
    send(device);
}

} // namespace minnow
