// The register map (SPEC.md, section 2).
#include "hal/minnow/model/Counters.h"
#include "hal/minnow/model/Device.h"
#include <cstring>

namespace minnow {
namespace {

enum Offset : uint32_t {
  Id = 0x000,
  Version = 0x004,
  Caps = 0x008,
  Control = 0x00c,
  Status = 0x010,
  IrqStatus = 0x014,
  IrqEnable = 0x018,
  ErrCode = 0x020,
  ErrQueue = 0x024,
  ErrIndex = 0x028,
  ErrOpcode = 0x02c,
  ErrAddrLo = 0x030,
  ErrAddrHi = 0x034,
  DebugAddr = 0x040,
  DebugData = 0x044,
  TimeLo = 0x050,
  TimeHi = 0x054,
  Queues = 0x100, // 0x40 bytes each:
  BaseLo = 0x00,
  BaseHi = 0x04,
  Size = 0x08,
  Head = 0x0c,
  Tail = 0x10,
  Doorbell = 0x14,
  Done = 0x18,
  CounterControl = 0x200,
  Counters = 0x240,
};
constexpr uint32_t queueBytes = 0x40;

constexpr uint32_t controlEnable = 1, controlSoftReset = 2, controlResume = 8;
constexpr uint64_t nsPerTick = 40;

uint32_t low(uint64_t value) {
  return uint32_t(value);
}
uint32_t high(uint64_t value) {
  return uint32_t(value >> 32);
}

uint32_t readStatus(const State &state) {
  uint32_t status = state.enabled | state.halted << 1;
  bool busy = false;
  for (unsigned q = 0; q < queueCount; ++q) {
    const QueueState &queue = state.queues[q];
    status |= uint32_t(isBusy(queue)) << (8 + q);
    status |= uint32_t(queue.phase == Phase::Running && queue.command.isDma()) << 10;
    busy |= isBusy(queue);
  }
  status |= uint32_t(!busy) << 2;
  return status | uint32_t(state.resetRemaining != 0) << 31;
}

bool debugOpen(const State &state) {
  return state.halted || !state.enabled;
}

/// Where DBG_DATA now goes, having moved DBG_ADDR on.
uint8_t *nextDebugWord(State &state) {
  uint8_t *word = state.scratchpad + state.debugAddress;
  state.debugAddress = (state.debugAddress + 4) % scratchpadBytes;
  return word;
}

uint32_t readDebug(State &state) {
  uint32_t value = 0xffffffff;
  if (debugOpen(state))
    memcpy(&value, nextDebugWord(state), sizeof value);
  return value;
}

uint32_t readTime(State &state) {
  uint64_t ticks = state.now / nsPerTick;
  state.timeHigh = high(ticks);
  return low(ticks);
}

uint32_t readQueue(const QueueState &queue, uint32_t offset) {
  switch (offset) {
  case BaseLo: return low(queue.base);
  case BaseHi: return high(queue.base);
  case Size: return queue.size;
  case Head: return queue.head;
  case Tail: return queue.tail;
  case Done: return queue.done;
  default: return 0;
  }
}

uint32_t showFixed(const State &state, uint32_t offset) {
  switch (offset) {
  case Id: return 0x4d4e5731;
  case Version: return 0x00010000;
  case Caps: return 0x00400802;
  case Control: return state.enabled;
  case Status: return readStatus(state);
  case IrqStatus: return state.irqStatus;
  case IrqEnable: return state.irqEnable;
  case ErrCode: return state.error.code;
  case ErrQueue: return state.error.queue;
  case ErrIndex: return state.error.index;
  case ErrOpcode: return state.error.opcode;
  case ErrAddrLo: return low(state.error.address);
  case ErrAddrHi: return high(state.error.address);
  case DebugAddr: return state.debugAddress;
  case TimeHi: return state.timeHigh;
  case CounterControl: return state.freeze;
  default: return 0;
  }
}

/// Of registers whose read does nothing.
uint32_t show(const State &state, uint32_t offset) {
  if (offset >= Queues && offset < Queues + queueCount * queueBytes)
    return readQueue(state.queues[(offset - Queues) / queueBytes], offset % queueBytes);
  if (offset >= Counters && offset < Counters + counterCount * 8) {
    uint64_t value = state.snapshot[(offset - Counters) / 8];
    return offset % 8 ? high(value) : low(value);
  }
  return showFixed(state, offset);
}

bool readDoesSomething(uint32_t offset) {
  return offset == DebugData || offset == TimeLo;
}

uint32_t read(State &state, uint32_t offset) {
  if (!readDoesSomething(offset))
    return show(state, offset);
  return offset == DebugData ? readDebug(state) : readTime(state);
}

void writeSize(QueueState &queue, uint32_t size) {
  bool valid = size >= 2 && size <= 1024 && (size & (size - 1)) == 0;
  queue.size = valid ? size : 0;
  queue.head = queue.tail = 0;
}

void writeQueue(Device &device, QueueState &queue, uint32_t offset, uint32_t value) {
  if (offset == Doorbell) {
    queue.tail = queue.size ? value & (queue.size - 1) : 0;
    return startQueues(device);
  }
  if (isBusy(queue))
    return;
  switch (offset) {
  case BaseLo: queue.base = (queue.base >> 32 << 32) | (value & ~63u); break;
  case BaseHi: queue.base = low(queue.base) | uint64_t(value) << 32; break;
  case Size: writeSize(queue, value); break;
  default: break;
  }
}

void writeControl(Device &device, uint32_t value) {
  if (value & controlSoftReset)
    return beginSoftReset(device);
  device.state.enabled = value & controlEnable;
  if (value & controlResume)
    resume(device);
  startQueues(device);
}

void write(Device &device, uint32_t offset, uint32_t value) {
  State &state = device.state;
  if (offset >= Queues && offset < Queues + queueCount * queueBytes)
    return writeQueue(device, state.queues[(offset - Queues) / queueBytes], offset % queueBytes, value);
  switch (offset) {
  case Control: writeControl(device, value); break;
  case IrqStatus: state.irqStatus &= ~value; break;
  case IrqEnable: writeIrqEnable(device, value); break;
  case DebugAddr: state.debugAddress = value & 0xfffc; break;
  case DebugData:
    if (debugOpen(state))
      memcpy(nextDebugWord(state), &value, sizeof value);
    break;
  case CounterControl: writeCounterControl(state, value); break;
  default: break;
  }
}

/// 32-bit aligned accesses only.
bool isLegal(uint64_t offset, uint32_t width) {
  return width == 4 && offset % 4 == 0;
}

} // namespace

bool readRegister(Device &device, uint64_t offset, uint32_t width, uint64_t &value) {
  passTime(device, device.options.accessTime);
  if (!isLegal(offset, width))
    return false;
  value = read(device.state, uint32_t(offset));
  return true;
}

bool peekRegister(const Device &device, uint64_t offset, uint32_t width, uint64_t &value) {
  if (!isLegal(offset, width) || readDoesSomething(uint32_t(offset)))
    return false;
  value = show(device.state, uint32_t(offset));
  return true;
}

bool writeRegister(Device &device, uint64_t offset, uint32_t width, uint64_t value) {
  passTime(device, device.options.accessTime);
  if (!isLegal(offset, width))
    return false;
  if (!device.state.resetRemaining)
    write(device, uint32_t(offset), uint32_t(value));
  return true;
}

} // namespace minnow
