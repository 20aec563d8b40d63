#include "tests/replayer/ScriptedTarget.h"
#include "format/Failure.h"
#include "hal/TargetFailure.h"
#include <algorithm>
#include <cstring>
#include <utility>

namespace tapeback::test {

const char *const toy::description = R"(
tapeback-description: 1
name: toy
spaces: [bar0]
dma-mask: 0xffffffff
registers:
  - {name: ID, space: bar0, offset: 0x00, access: ro, class: identity, reset: 0x70f00001}
  - {name: SCRATCH, space: bar0, offset: 0x04, class: stable, reset: 0}
  - {name: SQUARE, space: bar0, offset: 0x08, class: stable, reset: 0}
  - name: STATUS
    space: bar0
    offset: 0x0c
    class: status
    policy: mask
    compare-mask: 0xfffffffe
    poll-mask: 0x1
    reset: 0
    fields:
      - {name: BUSY, bits: 0}
      - {name: IRQ_ON_SQUARE, bits: 7}
  - {name: IRQ, space: bar0, offset: 0x10, access: ro, class: status, reset: 0,
     fields: [{name: SQUARE_DONE, bits: 0}, {name: DMA_DONE, bits: 8}]}
  - {name: IRQ_ACK, space: bar0, offset: 0x14, access: wo, policy: side-effect}
  - {name: SRC, space: bar0, offset: 0x20, width: 8, class: address-low, reset: 0}
  - {name: DST, space: bar0, offset: 0x28, width: 8, class: address-low, reset: 0}
  - {name: COUNT, space: bar0, offset: 0x30, width: 8, class: stable, reset: 0}
  - {name: CMD, space: bar0, offset: 0x38, width: 4, class: poll, policy: mask, compare-mask: 0xfffffffe,
     poll-mask: 0x1, reset: 0, fields: [{name: RUN, bits: 0}]}
  - {name: NOISE, space: bar0, offset: 0x40, access: ro, class: volatile}
  - {name: FUSE, space: bar0, offset: 0x44, class: stable, policy: forbidden}
  - {name: MAYHANG, space: bar0, offset: 0x48, class: stable, policy: may-hang}
  - {name: TURN, space: bar0, offset: 0x4c, access: ro, class: poll}
  - {name: SUBST, space: bar0, offset: 0x50, class: stable, policy: substitute}
  - {name: EXACT, space: bar0, offset: 0x54, access: ro, class: counter}
  - {name: RATE, space: bar0, offset: 0x58, access: ro, class: counter}
  - {name: WIDE, space: bar0, offset: 0x60, width: 8, class: stable, policy: mask, compare-mask: 0xff00ffffffffffff, reset: 0,
     fields: [{name: LOW, bits: "31:0"}, {name: TOP, bits: "63:56"}]}
  - {name: COOKIE, space: bar0, offset: 0x70, access: ro, class: stable, policy: substitute,
     flows-into: [{register: COOKIE_BACK}, {register: COOKIE_DONE}, {register: COOKIE_TAG, bits: "15:8"}]}
  - {name: COOKIE_BACK, space: bar0, offset: 0x74, class: stable}
  - {name: COOKIE_DONE, space: bar0, offset: 0x78, access: ro, class: status}
  - {name: COOKIE_TAG, space: bar0, offset: 0x7c, class: stable}
  - {name: CAUGHT, space: bar0, offset: 0x80, class: read-to-clear}
  - {name: STREAM, space: bar0, offset: 0x84, access: ro, class: fifo}
windows:
  - {name: buffer, base: 0x1000, size: 256, read-back: dma, max-transfer: 128, reset: 0}
activities:
  - name: dma
    starts: {register: CMD, mask: 0x1, value: 0x1}
    done:
      - {register: CMD, mask: 0x1, value: 0x0}
      - {register: IRQ, mask: 0x100, value: 0x100}
    transfers:
      - {when: {register: CMD, mask: 0x2, value: 0x0}, direction: to-device, host-address: SRC, device-address: DST,
         count: COUNT, window: buffer}
      - {when: {register: CMD, mask: 0x2, value: 0x2}, direction: from-device, host-address: DST, device-address: SRC,
         count: COUNT, window: buffer}
  - name: square
    starts: {register: SQUARE, any: true}
    done: [{register: STATUS, mask: 0x1, value: 0x0}, {register: IRQ, mask: 0x1, value: 0x1}]
interrupts:
  - {vector: 0, name: irq, cause: {register: IRQ, any: true}}
counters:
  - {name: exact, register: EXACT, exact: true}
  - {name: rate, register: RATE, exact: false}
fingerprint:
  - {register: ID, value: 0x70f00001}
  - {register: SCRATCH}
  - {register: IRQ, value: 0}
restore:
  - {window: buffer}
  - {register: STATUS}
  - {register: SCRATCH}
  - {register: SRC}
  - {register: DST}
  - {register: COUNT}
  - {register: WIDE}
)";

TargetCapabilities ToyOptions::makeCapabilities() {
  TargetCapabilities can;
  can.memory = can.chooseIova = can.interrupts = can.reset = can.peek = true;
  can.interruptVectors = 1;
  return can;
}

ScriptedTarget::ScriptedTarget(ToyOptions given)
    : buffer(toy::bufferSize), options(std::move(given)), goodBuffer(toy::bufferSize),
      nextIova(options.firstIova) {
  self.uri = "scripted:";
  self.kind = "scripted";
  self.name = "toy";
  self.facts = options.facts;
  spaceTable.push_back({options.space, 0x1000});
}

llvm::Error ScriptedTarget::gate(TargetSpaceId space, uint64_t address, unsigned width) {
  if (dead)
    return failTarget("target-died", "the toy is dead", "scripted:");
  if (llvm::Error error = checkAccess(spaceTable, space, address, width))
    return error;
  uint64_t number = accesses++;
  now += 1000;
  catchUp();
  auto is = [&](const std::optional<uint64_t> &at) { return at && *at == number; };
  if (is(options.faults.dieAt)) {
    dead = true;
    return failTarget("target-died", "the toy died", "scripted:");
  }
  if (is(options.faults.hangAt)) {
    dead = true;
    return failTarget("target-hung", "the toy did not answer", "scripted:");
  }
  if (is(options.faults.busErrorAt))
    return failTarget("bus-error", "the toy refused the access", "scripted:");
  return llvm::Error::success();
}

uint8_t *ScriptedTarget::locate(uint64_t iova, uint64_t length) {
  auto after = memory.upper_bound(iova);
  if (after == memory.begin())
    return nullptr;
  auto &[start, bytes] = *std::prev(after);
  uint64_t offset = iova - start;
  if (offset > bytes.size() || length > bytes.size() - offset)
    return nullptr;
  return bytes.data() + offset;
}

void ScriptedTarget::startDma(uint64_t value) {
  registers[toy::command] = value;
  bool probing = registers[(value & 2) ? toy::destination : toy::source] < 0x200000;
  runningDma = probing && !options.faults.countProbes ? ~uint64_t(0) : dmas++;
  if (options.faults.healAtDma == runningDma)
    buffer = goodBuffer;
  bool hangs = options.faults.hangDma && runningDma != ~uint64_t(0) && runningDma >= *options.faults.hangDma;
  dmaEnds = hangs ? ~uint64_t(0) : now + toy::dmaTime * options.slowness;
}

void ScriptedTarget::finishDma() {
  dmaEnds.reset();
  uint64_t value = registers[toy::command];
  bool fromDevice = value & 2;
  uint64_t host = registers[fromDevice ? toy::destination : toy::source];
  uint64_t device = registers[fromDevice ? toy::source : toy::destination];
  uint64_t size = registers[toy::count];
  uint8_t *memoryAt = locate(host, size);
  bool inside = device >= toy::bufferBase && device - toy::bufferBase <= toy::bufferSize &&
                size <= toy::bufferSize - (device - toy::bufferBase);
  if (memoryAt && inside) {
    uint64_t offset = device - toy::bufferBase;
    bool corrupt = options.faults.corruptDma == runningDma && options.faults.corruptOffset < size;
    if (fromDevice) {
      std::vector<uint8_t> data(buffer.begin() + offset, buffer.begin() + offset + size);
      if (corrupt)
        data[options.faults.corruptOffset] ^= options.faults.corruptXor;
      if (options.faults.lateDataOfDma == runningDma)
        late = Late{now + 50'000, host, data};
      else
        std::copy(data.begin(), data.end(), memoryAt);
    } else {
      std::copy(memoryAt, memoryAt + size, buffer.begin() + offset);
      std::copy(memoryAt, memoryAt + size, goodBuffer.begin() + offset);
      if (corrupt)
        buffer[offset + options.faults.corruptOffset] ^= options.faults.corruptXor;
    }
    if (options.faults.strayWriteAtDma == runningDma)
      memory.begin()->second.back() ^= 0x55;
  }
  registers[toy::command] = value & ~uint64_t(1);
  if (value & 4) {
    registers[toy::irq] |= 0x100;
    interruptsPending += !options.faults.noInterrupts;
  }
}

void ScriptedTarget::catchUp() {
  if (dmaEnds && now >= *dmaEnds)
    finishDma();
  if (late && now >= late->at) {
    if (uint8_t *to = locate(late->iova, late->data.size()))
      std::copy(late->data.begin(), late->data.end(), to);
    late.reset();
  }
  if (squareEnds && now >= *squareEnds) {
    squareEnds.reset();
    uint64_t n = squared;
    registers[toy::square] = (n * n + (options.faults.wrongSquareOf == n)) & 0xffffffff;
    registers[toy::status] &= ~uint64_t(1);
    if (registers[toy::status] & 0x80) {
      registers[toy::irq] |= 1;
      interruptsPending += !options.faults.noInterrupts;
    }
  }
}

static uint64_t registerOf(uint64_t address, unsigned *shift) {
  for (uint64_t wide : {toy::source, toy::destination, toy::count, toy::wide})
    if (address >= wide && address < wide + 8) {
      *shift = unsigned(address - wide) * 8;
      return wide;
    }
  *shift = unsigned(address & 3) * 8;
  return address & ~uint64_t(3);
}

llvm::Expected<uint64_t> ScriptedTarget::read(TargetSpaceId space, uint64_t address, unsigned width) {
  if (llvm::Error error = gate(space, address, width))
    return error;
  uint64_t number = reads++;
  unsigned shift;
  uint64_t reg = registerOf(address, &shift);
  uint64_t value = registers[reg];
  if (reg == toy::id)
    value = toy::idValue;
  if (reg == toy::noise)
    value = now * 77 + options.faults.skew;
  if (reg == toy::turn)
    value = dmaEnds ? 0 : 1;
  if (reg == toy::cookie)
    value = registers[reg] = 0x5000 + options.faults.skew * 3 + number;
  if (reg == toy::cookieDone) // Whoever hands back another cookie has not been served.
    value = registers[toy::cookieBack] == registers[toy::cookie] ? registers[toy::cookie] : 0;
  if (reg == toy::caught)
    registers[reg] = 0;
  if (reg == toy::stream)
    value = registers[reg]++;
  if (reg == toy::exact)
    value = dmas + options.faults.counterError.value_or(0);
  if (reg == toy::rate)
    value = now / 1000 + options.faults.skew;
  // Two narrow registers in one wide access.
  if (width == 8 && shift == 0 && reg != toy::source && reg != toy::destination && reg != toy::count &&
      reg != toy::wide)
    value = (value & 0xffffffff) | registers[reg + 4] << 32;
  value >>= shift;
  if (options.faults.wrongRead == number || options.faults.wrongOffsets.count(reg))
    value ^= options.faults.wrongReadXor;
  return width == 8 ? value : value & ((uint64_t(1) << (8 * width)) - 1);
}

llvm::Error ScriptedTarget::write(TargetSpaceId space, uint64_t address, unsigned width, uint64_t value) {
  if (llvm::Error error = gate(space, address, width))
    return error;
  ++writes;
  ++writesTo[address];
  unsigned shift;
  uint64_t reg = registerOf(address, &shift);
  uint64_t mask = width == 8 ? ~uint64_t(0) : ((uint64_t(1) << (8 * width)) - 1);
  value &= mask;
  switch (reg) {
  case toy::id:
  case toy::irq:
  case toy::turn:
  case toy::exact:
  case toy::rate:
  case toy::cookie:
  case toy::cookieDone:
  case toy::stream: break;
  case toy::irqAck: {
    uint64_t number = acknowledges++;
    bool sticky = options.faults.stickyIrqFrom && number >= *options.faults.stickyIrqFrom;
    if (!sticky)
      registers[toy::irq] &= ~value;
    break;
  }
  case toy::square:
    squared = value;
    squareEnds = now + toy::squareTime * options.slowness;
    registers[toy::status] |= 1;
    break;
  case toy::status: registers[reg] = (registers[reg] & 1) | (value & ~uint64_t(1)); break;
  case toy::command:
    if ((value & 1) && !dmaEnds)
      startDma(value);
    break;
  default: registers[reg] = (registers[reg] & ~(mask << shift)) | (value << shift);
  }
  return llvm::Error::success();
}

llvm::Expected<MemoryRegion> ScriptedTarget::map(const MapRequest &request) {
  if (dead)
    return failTarget("target-died", "the toy is dead", "scripted:");
  uint64_t size = (request.size + 4095) & ~uint64_t(4095);
  if (!request.size || request.size > (uint64_t(1) << 30))
    return failUsage("bad-size", "the toy maps at most 1 GiB");
  uint64_t iova;
  if (request.iova && options.capabilities.chooseIova) {
    iova = *request.iova;
  } else {
    while (locate(nextIova, 1))
      nextIova += 4096;
    iova = nextIova;
    if (request.iova && iova != *request.iova)
      return failTarget("iova-unavailable", "the toy places memory where it likes", "scripted:");
  }
  for (const auto &[start, bytes] : memory)
    if (iova < start + bytes.size() && start < iova + size)
      return failTarget("iova-unavailable", "something is mapped there", "scripted:");
  memory[iova].resize(size);
  return MemoryRegion{iova, size, nullptr};
}

llvm::Error ScriptedTarget::unmap(uint64_t iova) {
  if (!memory.erase(iova))
    return failUsage("not-mapped", "nothing is mapped there");
  return llvm::Error::success();
}

llvm::Error ScriptedTarget::readMemory(uint64_t iova, llvm::MutableArrayRef<uint8_t> out) {
  if (dead)
    return failTarget("target-died", "the toy is dead", "scripted:");
  uint8_t *from = locate(iova, out.size());
  if (!from)
    return failUsage("not-mapped", "that memory is not mapped");
  std::copy(from, from + out.size(), out.begin());
  return llvm::Error::success();
}

llvm::Error ScriptedTarget::writeMemory(uint64_t iova, llvm::ArrayRef<uint8_t> in) {
  if (dead)
    return failTarget("target-died", "the toy is dead", "scripted:");
  ++hostWrites;
  uint8_t *to = locate(iova, in.size());
  if (!to)
    return failUsage("not-mapped", "that memory is not mapped");
  std::copy(in.begin(), in.end(), to);
  return llvm::Error::success();
}

llvm::Expected<InterruptResult> ScriptedTarget::waitInterrupt(uint32_t vector, uint64_t deadlineNs) {
  if (dead)
    return failTarget("target-died", "the toy is dead", "scripted:");
  if (vector != 0)
    return failUsage("unknown-vector", "the toy has one interrupt");
  uint64_t end = now + std::min<uint64_t>(deadlineNs, 10'000'000'000);
  while (!interruptsPending && now < end) {
    uint64_t next = end;
    for (const std::optional<uint64_t> &event : {dmaEnds, squareEnds})
      if (event && *event > now)
        next = std::min(next, *event);
    now = next;
    catchUp();
  }
  unsigned count = std::exchange(interruptsPending, 0);
  return InterruptResult{count != 0, count};
}

llvm::Error ScriptedTarget::advance(uint64_t nanoseconds) {
  if (dead)
    return failTarget("target-died", "the toy is dead", "scripted:");
  now += nanoseconds;
  catchUp();
  return llvm::Error::success();
}

llvm::Error ScriptedTarget::reset(ResetKind) {
  if (dead)
    return failTarget("target-died", "the toy is dead", "scripted:");
  ++resets;
  if (options.faults.resetKeepsState)
    return llvm::Error::success();
  registers.clear();
  std::fill(buffer.begin(), buffer.end(), 0);
  std::fill(goodBuffer.begin(), goodBuffer.end(), 0);
  dmaEnds.reset();
  squareEnds.reset();
  late.reset();
  interruptsPending = 0;
  return llvm::Error::success();
}

llvm::Expected<uint64_t> ScriptedTarget::counter(uint32_t id) {
  if (!options.capabilities.counters)
    return Target::counter(id);
  return id == 0 ? dmas + options.faults.counterError.value_or(0) : now / 1000 + options.faults.skew;
}

llvm::Error ScriptedTarget::peek(llvm::StringRef window, uint64_t offset,
                                 llvm::MutableArrayRef<uint8_t> out) {
  if (!options.capabilities.peek)
    return Target::peek(window, offset, out);
  if (window != "buffer" || offset > buffer.size() || out.size() > buffer.size() - offset)
    return failUsage("unknown-window", "the toy has no such window");
  std::copy(buffer.begin() + offset, buffer.begin() + offset + out.size(), out.begin());
  return llvm::Error::success();
}

} // namespace tapeback::test
