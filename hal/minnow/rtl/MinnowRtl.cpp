#include "hal/minnow/rtl/MinnowRtl.h"
#include "hal/minnow/rtl/Archive.h"
#include <VMinnow.h>
#include <VMinnow___024root.h>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <verilated.h>
#include <verilated_fst_c.h>

namespace tapeback::minnow {

MinnowRtl::MinnowRtl(const tapeback_model_host &host, const RtlOptions &given)
    : host(host), options(given), bus(host, options), context(std::make_unique<VerilatedContext>()) {
  context->traceEverOn(true);
  top = std::make_unique<VMinnow>(context.get(), "");
  trace = std::make_unique<VerilatedFstC>();
  top->trace(trace.get(), 99);
  reset(true);
  cycle = 0; // The time of switching on.
}

MinnowRtl::~MinnowRtl() {
  endTrace();
  top->final();
}

// ---- Clocks ----

void MinnowRtl::runCycle() {
  BusToDevice beat = bus.offer(cycle);
  top->busRequestReady = 1;
  top->busResponseValid = beat.valid;
  top->busResponseId = beat.id;
  top->busResponseWrite = beat.write;
  top->busResponseError = beat.error;
  top->busResponseLast = beat.last;
  top->busResponseData = beat.data;
  top->clock = 0;
  // The timestamp's clock is a quarter of the core's, and its edges lie between the core's.
  if ((cycle & 1) == 0)
    top->timeClock = (cycle & 2) == 0;
  top->eval();
  if (trace->isOpen())
    trace->dump(cycle * cycleNs);
  BusFromDevice from = {
      bool(top->busRequestValid), bool(top->busRequestWrite), top->busRequestId,      top->busRequestBeats,
      top->busRequestAddress,     bool(top->busDataValid),    bool(top->busDataLast), top->busData,
      bool(top->busResponseReady)};
  unsigned messages = top->messages;
  top->clock = 1;
  top->eval();
  if (trace->isOpen())
    trace->dump(cycle * cycleNs + cycleNs / 2);
  bus.finishCycle(cycle, from);
  for (; messages; --messages, ++interrupts)
    host.interrupt(host.host, 0);
  ++cycle;
}

void MinnowRtl::access(bool isWrite, uint32_t offset, uint32_t value) {
  run(cyclesBeforeAccess);
  top->registerValid = 1;
  top->registerWrite = isWrite;
  top->registerAddress = uint16_t(offset);
  top->registerWriteData = value;
  runCycle();
  top->registerValid = 0;
  run(accessCycles - cyclesBeforeAccess - 1);
}

uint32_t MinnowRtl::read(uint32_t offset) {
  access(false, offset, 0);
  return top->registerReadData;
}

void MinnowRtl::write(uint32_t offset, uint32_t value) {
  access(true, offset, value);
}

uint64_t MinnowRtl::advance(uint64_t budgetNs) {
  if (top->still && bus.idle())
    return 0;
  uint64_t before = interrupts, cycles = 0;
  uint64_t wanted = (budgetNs / cycleNs) + (budgetNs % cycleNs + residueNs) / cycleNs;
  while (cycles < wanted && cycles < maxCyclesPerAdvance) {
    runCycle();
    ++cycles;
    if (interrupts != before || (top->still && bus.idle()))
      break;
  }
  if (cycles == wanted) {
    residueNs = (budgetNs % cycleNs + residueNs) % cycleNs;
    return budgetNs;
  }
  // Stopped early, so the whole cycles that passed fit into the budget; what was left over before stays.
  return cycles * cycleNs;
}

bool MinnowRtl::reset(bool power) {
  top->errata = options.errata;
  top->registerValid = 0;
  if (power) {
    bus.restart();
    top->powerReset = 1;
    run(8); // The timestamp's clock is slower.
    top->powerReset = 0;
  } else {
    top->pinReset = 1;
    runCycle();
    top->pinReset = 0;
  }
  for (uint32_t i = 0; i < maxResetCycles && top->resetting; ++i)
    runCycle();
  return !top->resetting;
}

// ---- Looking inside ----

uint64_t MinnowRtl::counter(uint32_t id) const {
  const VMinnow___024root &root = *top->rootp;
  switch (id) {
  case 0: return root.Minnow__DOT__counters__DOT__cycles;
  case 1: return root.Minnow__DOT__counters__DOT__macs;
  case 2: return root.Minnow__DOT__counters__DOT__arrayBusy;
  case 3: return root.Minnow__DOT__counters__DOT__readBytes;
  case 4: return root.Minnow__DOT__counters__DOT__writeBytes;
  case 5: return root.Minnow__DOT__counters__DOT__readBursts;
  case 6: return root.Minnow__DOT__counters__DOT__writeBursts;
  case 7: return root.Minnow__DOT__counters__DOT__dmaBusy;
  case 8: return root.Minnow__DOT__counters__DOT__waitSync;
  case 9: return root.Minnow__DOT__counters__DOT__waitQueue;
  case 10: return root.Minnow__DOT__counters__DOT__waitScratchpad;
  default: return root.Minnow__DOT__counters__DOT__commands;
  }
}

void MinnowRtl::peekScratchpad(uint64_t offset, uint8_t *out, uint64_t size) const {
  const VMinnow___024root &root = *top->rootp;
  const VlUnpacked<QData, 2048> *banks[] = {
      &root.Minnow__DOT__scratchpad__DOT__bank__BRA__0__KET____DOT__words,
      &root.Minnow__DOT__scratchpad__DOT__bank__BRA__1__KET____DOT__words,
      &root.Minnow__DOT__scratchpad__DOT__bank__BRA__2__KET____DOT__words,
      &root.Minnow__DOT__scratchpad__DOT__bank__BRA__3__KET____DOT__words};
  auto wordAt = [&](uint64_t at) { return (*banks[at / 8 % 4])[at / 8 / 4]; };
  uint64_t done = 0;
  if (offset % 32 == 0) // A row of all banks at a time.
    for (; size - done >= 32; done += 32)
      for (unsigned bank = 0; bank < 4; ++bank)
        std::memcpy(out + done + 8 * bank, &(*banks[bank])[(offset + done) / 32], 8);
  while (done < size) {
    uint64_t word = wordAt(offset + done), into = (offset + done) % 8,
             piece = std::min(8 - into, size - done);
    word >>= 8 * into;
    std::memcpy(out + done, &word, piece); // The lowest byte first, on the hosts that there are.
    done += piece;
  }
}

uint32_t MinnowRtl::peekRegister(uint32_t offset) {
  uint16_t before = top->registerAddress;
  top->registerAddress = uint16_t(offset);
  top->eval(); // No clock's edge, no access: what is behind the read's multiplexer, and nothing else.
  uint32_t value = top->rootp->Minnow__DOT__registers__DOT__plain;
  top->registerAddress = before;
  return value;
}

// ---- Snapshots ----

namespace {

/// In front of the model's own state.
struct SnapshotHead {
  uint64_t magic, size, digest;
  uint64_t cycle, residueNs;
  HostBus::State bus;
};
constexpr uint64_t snapshotMagic = 0x324c54524e494d01; // "\1MINRTL2"

/// Shows damage, not intent.
uint64_t digestOf(const uint8_t *data, uint64_t size) {
  constexpr uint64_t prime = 0x9e3779b97f4a7c15;
  uint64_t lanes[4] = {1, 2, 3, 4}, sum = size;
  for (; size;
       data += std::min<uint64_t>(size, sizeof lanes), size -= std::min<uint64_t>(size, sizeof lanes)) {
    uint64_t words[4] = {};
    std::memcpy(words, data, std::min<uint64_t>(size, sizeof words));
    for (unsigned i = 0; i < 4; ++i)
      lanes[i] = ((lanes[i] << 27 | lanes[i] >> 37) ^ words[i]) * prime;
  }
  for (uint64_t lane : lanes)
    sum = ((sum << 27 | sum >> 37) ^ lane) * prime;
  return sum;
}

} // namespace

void MinnowRtl::save(std::vector<uint8_t> &out) const {
  out.reserve(savedBytes);
  out.assign(sizeof(SnapshotHead), 0);
  {
    ArchiveWriter archive(out);
    archive << *top;
  }
  SnapshotHead head{};
  head.magic = snapshotMagic;
  head.size = out.size();
  head.cycle = cycle;
  head.residueNs = residueNs;
  head.bus = bus.saved();
  head.digest = digestOf(out.data() + sizeof head, out.size() - sizeof head);
  std::memcpy(out.data(), &head, sizeof head);
}

uint64_t MinnowRtl::savedSize() {
  if (!savedBytes) {
    std::vector<uint8_t> bytes;
    save(bytes);
    savedBytes = bytes.size();
  }
  return savedBytes;
}

bool MinnowRtl::load(const uint8_t *in, uint64_t size) {
  SnapshotHead head;
  if (size != savedSize())
    return false;
  std::memcpy(&head, in, sizeof head);
  if (head.magic != snapshotMagic || head.size != size || head.residueNs >= cycleNs ||
      head.digest != digestOf(in + sizeof head, size - sizeof head) || !bus.restore(head.bus))
    return false;
  ArchiveReader archive(in + sizeof head, size - sizeof head);
  archive >> *top;
  archive.close();
  cycle = head.cycle;
  residueNs = head.residueNs;
  top->errata = options.errata;
  return true;
}

// ---- Waveforms ----

bool MinnowRtl::beginTrace(const char *path, std::string &error) {
  if (trace->isOpen()) {
    error = "a waveform is being written already";
    return false;
  }
  // Verilator ends the process when it cannot open the file.
  FILE *probe = std::fopen(path, "wb");
  if (!probe) {
    error = "the waveform cannot be written to '" + std::string(path) + "'";
    return false;
  }
  std::fclose(probe);
  trace->open(path);
  return true;
}

void MinnowRtl::endTrace() {
  if (trace->isOpen())
    trace->close();
}

} // namespace tapeback::minnow
