#include "hal/nvme/driver/Queue.h"

namespace tapeback::nvme {

int Queue::allocate(tb_device *of, unsigned number) {
  device = of;
  index = number;
  if (int code = commands.allocate(of, mostEntries * sizeof(Command)))
    return code;
  return done.allocate(of, mostEntries * sizeof(Completion));
}

int Queue::begin(unsigned entries) {
  size = entries;
  tail = head = submitted = 0;
  phase = true;
  unreleased = false;
  static constexpr char zeroes[mostEntries * sizeof(Completion)] = {};
  return done.write(0, zeroes, size * sizeof(Completion));
}

int Queue::push(Command command, uint16_t *tag) {
  // Tags of the queues differ, so that a mix-up shows.
  nextTag = uint16_t((nextTag + 1) & 0xfff);
  *tag = uint16_t(index << 12 | nextTag);
  command.setTag(*tag);
  if (int code = commands.write(tail * sizeof(Command), &command, sizeof(Command)))
    return code;
  tail = (tail + 1) % size;
  ++submitted;
  return TB_OK;
}

int Queue::ring() {
  return tb_write32(device, "bar0", Doorbells + 8 * index, tail);
}

int Queue::reap(Completion &completion) {
  constexpr uint64_t phaseBit = 1 << 16; // Of the last word.
  uint64_t at = head * sizeof(Completion);
  if (int code =
          tb_wait_mem(device, done.iova + at + 12, 4, phaseBit, phase ? phaseBit : 0, deadlineNs, nullptr))
    return code;
  if (int code = done.take(at, &completion, sizeof(Completion)))
    return code;
  if (++head == size) {
    head = 0;
    phase = !phase;
  }
  --submitted;
  unreleased = true;
  return TB_OK;
}

int Queue::release() {
  if (!unreleased)
    return TB_OK;
  unreleased = false;
  return tb_write32(device, "bar0", Doorbells + 8 * index + 4, head);
}

} // namespace tapeback::nvme
