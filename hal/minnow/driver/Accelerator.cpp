#include "hal/minnow/driver/Accelerator.h"
#include <cstdio>

namespace tapeback::minnow {

namespace {

uint32_t ofQueue(unsigned queue, uint32_t which) {
  return MINNOW_QUEUE + MINNOW_QUEUE_STRIDE * queue + which;
}

/// A fence's word, by its number: slots are used again once they were seen.
uint32_t slotOf(uint64_t number, uint32_t slots) {
  return uint32_t(number % slots) * 8;
}

} // namespace

Accelerator::Accelerator(tb_device *device, const AcceleratorOptions &options)
    : device(device), options(options) {}

bool Accelerator::good(const char *what, int code) {
  if (code >= 0)
    return !broken;
  if (!broken)
    text = std::string(what) + ": " + tb_error();
  broken = deadTarget = true;
  return false;
}

bool Accelerator::held(const char *name, int outcome) {
  if (outcome == 1)
    return !broken;
  if (!good(name, outcome))
    return false;
  ++wrongChecks;
  if (text.empty())
    text = "check '" + std::string(name) + "' does not hold";
  if (options.keepGoing)
    return true;
  broken = true;
  return false;
}

bool Accelerator::write(uint32_t offset, uint32_t value) {
  return !broken && good("tb_write32", tb_write32(device, "bar0", offset, value));
}

bool Accelerator::read(uint32_t offset, uint32_t &value) {
  return !broken && good("tb_read32", tb_read32(device, "bar0", offset, &value));
}

bool Accelerator::readAndCheck(const char *name, uint32_t offset, uint32_t expected) {
  uint32_t actual = 0;
  return read(offset, actual) && held(name, tb_check_equal(device, name, expected, actual));
}

bool Accelerator::allocate(size_t size, Memory &memory) {
  void *pointer = nullptr;
  if (broken || !good("tb_alloc", tb_alloc(device, size, 0, &memory.iova, &pointer)))
    return false;
  memory.pointer = static_cast<uint8_t *>(pointer);
  memory.size = size;
  return true;
}

bool Accelerator::releaseMemory(const Memory &memory) {
  return good("tb_free", tb_free(device, memory.iova));
}

bool Accelerator::fill(const Memory &memory, size_t offset, const void *bytes, size_t size) {
  if (broken)
    return false;
  if (!memory.pointer)
    return good("tb_mem_write", tb_mem_write(device, memory.iova + offset, bytes, size));
  memcpy(memory.pointer + offset, bytes, size);
  return true;
}

/// Must leave the device idle, disabled, without an error, and its queues where they begin.
bool Accelerator::reset() {
  if (!write(MINNOW_CONTROL, MINNOW_CONTROL_SOFT_RESET))
    return false;
  if (int code =
          tb_poll(device, "bar0", MINNOW_STATUS, 4, MINNOW_STATUS_RESETTING, 0, options.deadlineNs, nullptr))
    return code == TB_E_TIMEOUT ? hung("reset") : good("tb_poll", code);
  return readAndCheck("status after reset", MINNOW_STATUS, MINNOW_STATUS_IDLE) &&
         readAndCheck("head 0 after reset", ofQueue(0, MINNOW_Q_HEAD), 0) &&
         readAndCheck("head 1 after reset", ofQueue(1, MINNOW_Q_HEAD), 0);
}

bool Accelerator::stop() {
  return reset();
}

bool Accelerator::start() {
  if (!readAndCheck("id", MINNOW_ID, MINNOW_ID_VALUE) || !reset())
    return false;
  counters = {};
  for (unsigned q = 0; q < MINNOW_QUEUES; ++q) {
    Queue &queue = queues[q];
    Memory ring = queue.ring, fences = queue.fences;
    if (ring.size == 0 && (!allocate(size_t(options.ringEntries) * MINNOW_COMMAND_SIZE, ring) ||
                           !allocate(size_t(options.ringEntries) * 8, fences)))
      return false;
    queue = Queue();
    queue.ring = ring;
    queue.fences = fences;
    if (!write(ofQueue(q, MINNOW_Q_BASE_LO), uint32_t(ring.iova)) ||
        !write(ofQueue(q, MINNOW_Q_BASE_HI), uint32_t(ring.iova >> 32)) ||
        !write(ofQueue(q, MINNOW_Q_SIZE), options.ringEntries))
      return false;
  }
  return write(MINNOW_IRQ_ENABLE, MINNOW_IRQ_FENCE0 | MINNOW_IRQ_FENCE1 | MINNOW_IRQ_ERROR) &&
         write(MINNOW_CNT_CONTROL, MINNOW_CNT_CLEAR) && write(MINNOW_CONTROL, MINNOW_CONTROL_ENABLE);
}

bool Accelerator::put(unsigned q, const minnow_command &command) {
  Queue &queue = queues[q];
  while (queue.outstanding + 1 >= options.ringEntries)
    if (!waitOldest(q))
      return false;
  if (!fill(queue.ring, size_t(queue.tail) * MINNOW_COMMAND_SIZE, &command, sizeof command))
    return false;
  queue.tail = (queue.tail + 1) % options.ringEntries;
  ++queue.outstanding;
  ++queue.sinceFence;
  ++counters.commands;
  return true;
}

bool Accelerator::push(unsigned q, const minnow_command &command, const minnow_descriptor *chain) {
  if (broken)
    return false;
  count(command, chain);
  // A fence at least every half ring, so that a full one always has something to wait for.
  return put(q, command) && (queues[q].sinceFence < options.ringEntries / 2 - 1 || putFence(q, false));
}

bool Accelerator::putFence(unsigned q, bool interrupt) {
  Queue &queue = queues[q];
  uint64_t address = queue.fences.iova + slotOf(queue.fencesPut, options.ringEntries);
  uint64_t value = (++fenceValues << 8) | q;
  if (!put(q, minnow_fence(address, value, interrupt ? MINNOW_INTERRUPT : 0)))
    return false;
  queue.values.push_back(value);
  queue.entries.push_back(queue.sinceFence);
  queue.sinceFence = 0;
  ++queue.fencesPut;
  return true;
}

bool Accelerator::fence(unsigned q, bool interrupt, Fence &fence) {
  if (broken || !putFence(q, interrupt))
    return false;
  fence.queue = q;
  fence.number = queues[q].fencesPut - 1;
  fence.interrupt = interrupt;
  return ring(q);
}

bool Accelerator::ring(unsigned q) {
  Queue &queue = queues[q];
  if (queue.rung == queue.tail)
    return !broken;
  queue.rung = queue.tail;
  return write(ofQueue(q, MINNOW_Q_DOORBELL), queue.tail);
}

/// Before a wait: all that the device has to do for it, it must know of, in both queues.
bool Accelerator::ringAll() {
  for (unsigned q = 0; q < MINNOW_QUEUES; ++q)
    if (!ring(q))
      return false;
  return true;
}

bool Accelerator::waitOldest(unsigned q) {
  Queue &queue = queues[q];
  if (!ringAll())
    return false;
  uint64_t address = queue.fences.iova + slotOf(queue.fencesSeen, options.ringEntries);
  int code = tb_wait_mem(device, address, 8, ~uint64_t(0), queue.values.front(), options.deadlineNs, nullptr);
  if (code == TB_E_TIMEOUT)
    return hung("fence");
  if (!good("tb_wait_mem", code))
    return false;
  queue.outstanding -= queue.entries.front();
  queue.entries.pop_front();
  queue.values.pop_front();
  ++queue.fencesSeen;
  return true;
}

bool Accelerator::wait(const Fence &fence) {
  if (broken || !ringAll())
    return false;
  if (fence.interrupt) {
    int code = tb_wait_irq(device, 0, options.deadlineNs, nullptr);
    // That of an error wakes us, too: then the fence does not come, and its wait says why.
    if (code == TB_E_TIMEOUT)
      return hung("interrupt");
    if (!good("tb_wait_irq", code))
      return false;
  }
  while (!broken && queues[fence.queue].fencesSeen <= fence.number)
    if (!waitOldest(fence.queue))
      return false;
  return !broken;
}

bool Accelerator::acknowledge(const Fence &fence) {
  uint32_t cause = fence.queue ? MINNOW_IRQ_FENCE1 : MINNOW_IRQ_FENCE0;
  return readAndCheck("interrupt cause", MINNOW_IRQ_STATUS, cause) && write(MINNOW_IRQ_STATUS, cause);
}

bool Accelerator::waitIdle() {
  if (broken)
    return false;
  int code = tb_poll(device, "bar0", MINNOW_STATUS, 4, MINNOW_STATUS_RESETTING | MINNOW_STATUS_IDLE,
                     MINNOW_STATUS_IDLE, options.deadlineNs, nullptr);
  return code == TB_E_TIMEOUT ? hung("idle") : good("tb_poll", code);
}

void Accelerator::count(const minnow_command &command, const minnow_descriptor *chain) {
  auto moved = [this](bool store, uint64_t rowBytes, uint64_t rows) {
    (store ? counters.writeBytes : counters.readBytes) += rowBytes * rows;
    (store ? counters.writeBursts : counters.readBursts) += (rowBytes + 63) / 64 * rows;
  };
  const uint32_t *w = command.w;
  switch (w[0] & 0xff) {
  case MINNOW_GEMM: counters.macs += uint64_t(w[5]) * w[6] * w[7]; break;
  case MINNOW_DMA_LOAD: moved(false, w[5], w[6]); break;
  case MINNOW_DMA_STORE: moved(true, w[5], w[6]); break;
  case MINNOW_DMA_CHAIN:
    for (const minnow_descriptor *link = chain; link; ++link) {
      moved(link->flags & MINNOW_DESCRIPTOR_STORE, link->row_bytes, link->rows);
      if (link->flags & MINNOW_DESCRIPTOR_LAST)
        break;
    }
    break;
  default: break;
  }
}

bool Accelerator::checkCounters() {
  if (!write(MINNOW_CNT_CONTROL, MINNOW_CNT_SNAPSHOT))
    return false;
  struct Row {
    const char *low, *high;
    minnow_counter counter;
    unsigned width;
    uint64_t expected;
  };
  const Row rows[] = {
      {"MACS", "MACS high", MINNOW_CNT_MACS, 48, counters.macs},
      {"READ_BYTES", "READ_BYTES high", MINNOW_CNT_READ_BYTES, 40, counters.readBytes},
      {"WRITE_BYTES", "WRITE_BYTES high", MINNOW_CNT_WRITE_BYTES, 40, counters.writeBytes},
      {"READ_BURSTS", nullptr, MINNOW_CNT_READ_BURSTS, 16, counters.readBursts},
      {"WRITE_BURSTS", nullptr, MINNOW_CNT_WRITE_BURSTS, 32, counters.writeBursts},
      {"COMMANDS", nullptr, MINNOW_CNT_COMMANDS, 32, counters.commands},
  };
  for (const Row &row : rows) {
    uint64_t expected = row.expected & ((uint64_t(1) << row.width) - 1);
    if (!readAndCheck(row.low, MINNOW_CNT_LO + 8 * row.counter, uint32_t(expected)) ||
        (row.high && !readAndCheck(row.high, MINNOW_CNT_HI + 8 * row.counter, uint32_t(expected >> 32))))
      return false;
  }
  return true;
}

/// A wait that ended without what it waited for: the registers that tell why, then the verdict.
bool Accelerator::hung(const char *name) {
  uint32_t status = 0, code = 0, queue = 0, index = 0, opcode = 0, low = 0, high = 0, heads[2] = {},
           tails[2] = {};
  if (!read(MINNOW_STATUS, status) || !read(MINNOW_ERR_CODE, code) || !read(MINNOW_ERR_QUEUE, queue) ||
      !read(MINNOW_ERR_INDEX, index) || !read(MINNOW_ERR_OPCODE, opcode) || !read(MINNOW_ERR_ADDR_LO, low) ||
      !read(MINNOW_ERR_ADDR_HI, high))
    return false;
  for (unsigned q = 0; q < MINNOW_QUEUES; ++q)
    if (!read(ofQueue(q, MINNOW_Q_HEAD), heads[q]) || !read(ofQueue(q, MINNOW_Q_TAIL), tails[q]))
      return false;
  char line[400];
  int length =
      snprintf(line, sizeof line, "'%s' did not come: status 0x%x, queue 0 at %u of %u, queue 1 at %u of %u",
               name, status, heads[0], tails[0], heads[1], tails[1]);
  if (code && length > 0 && size_t(length) < sizeof line)
    snprintf(line + length, sizeof line - size_t(length),
             "; error %u at queue %u, index %u, command 0x%08x, address 0x%llx", code, queue, index, opcode,
             (unsigned long long)high << 32 | low);
  text = line;
  ++wrongChecks;
  good("tb_fail", tb_fail(device, name));
  broken = true; // Nothing can be waited for any more, whatever was to go on.
  return false;
}

} // namespace tapeback::minnow
