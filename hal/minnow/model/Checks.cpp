#include "hal/minnow/model/Checks.h"
#include "hal/minnow/model/Scratchpad.h"

namespace minnow {
namespace {

/// Collects the first fault of a sequence of checks.
class Checker {
public:
  /// BAD_ARGUMENT unless least <= value <= most.
  Checker &within(uint32_t value, uint32_t least, uint32_t most) {
    return require(value >= least && value <= most, ErrorCode::BadArgument, value);
  }
  Checker &holds(bool condition, uint32_t value) { return require(condition, ErrorCode::BadArgument, value); }
  Checker &aligned(uint64_t value, uint64_t to = 8) {
    return require(value % to == 0, ErrorCode::Misaligned, value);
  }
  /// OUT_OF_RANGE unless `rows` rows lie in the scratchpad.
  Checker &inside(uint32_t address, uint32_t rows, uint32_t stride, uint64_t rowBytes) {
    uint64_t end = address + uint64_t(rows - 1) * stride + (rowBytes + 7) / 8 * 8;
    return require(end <= scratchpadBytes, ErrorCode::OutOfRange, address);
  }
  Fault result() const { return fault; }

private:
  Checker &require(bool condition, ErrorCode code, uint64_t address) {
    if (!fault && !condition)
      fault = {code, address};
    return *this;
  }

  Fault fault;
};

Fault checkGemm(const uint32_t *w) {
  uint32_t m = w[5], n = w[6], k = w[7];
  return Checker()
      .within(m, 1, 1024)
      .within(n, 1, 1024)
      .within(k, 1, 1024)
      .aligned(w[2])
      .aligned(w[3])
      .aligned(w[4])
      .aligned(w[8])
      .aligned(w[9])
      .aligned(w[10])
      .inside(w[2], m, w[8], k)
      .inside(w[3], k, w[9], n)
      .inside(w[4], m, w[10], uint64_t(n) * 4)
      .result();
}

constexpr uint32_t mostRows = 4096;

Fault checkAdd(const Command &command, uint32_t elementBytes) {
  const uint32_t *w = command.word;
  uint32_t rows = w[5], cols = w[6];
  bool broadcast = command.opcode() == Vadd32 && command.flag();
  uint64_t rowBytes = uint64_t(cols) * elementBytes;
  Checker checker;
  checker.within(rows, 1, mostRows).within(cols, 1, mostRows);
  checker.aligned(w[2]).aligned(w[3]).aligned(w[4]).aligned(w[7]);
  if (!broadcast) // Else w8 is ignored.
    checker.aligned(w[8]);
  checker.aligned(w[9]);
  checker.inside(w[2], rows, w[7], rowBytes)
      .inside(w[3], broadcast ? 1 : rows, broadcast ? 0 : w[8], rowBytes)
      .inside(w[4], rows, w[9], rowBytes);
  return checker.result();
}

Fault checkRelu(const uint32_t *w) {
  uint32_t rows = w[5], cols = w[6];
  return Checker()
      .within(rows, 1, mostRows)
      .within(cols, 1, mostRows)
      .aligned(w[2])
      .aligned(w[4])
      .aligned(w[7])
      .aligned(w[9])
      .inside(w[2], rows, w[7], cols)
      .inside(w[4], rows, w[9], cols)
      .result();
}

Fault checkRequant(const uint32_t *w) {
  uint32_t rows = w[5], cols = w[6];
  return Checker()
      .within(rows, 1, mostRows)
      .within(cols, 1, mostRows)
      .within(w[10], 1, 0x7fffffff)
      .within(w[11], 0, 62)
      .aligned(w[2])
      .aligned(w[4])
      .aligned(w[7])
      .aligned(w[9])
      .inside(w[2], rows, w[7], uint64_t(cols) * 4)
      .inside(w[4], rows, w[9], cols)
      .result();
}

Fault checkMaxpool(const uint32_t *w) {
  uint32_t height = w[5], width = w[6], channels = w[7], window = w[8], stride = w[9];
  Checker checker;
  checker.within(height, 1, 256)
      .within(width, 1, 256)
      .within(channels, 8, 512)
      .holds(channels % 8 == 0, channels)
      .within(window, 1, 8)
      .holds(window <= height && window <= width, window)
      .within(stride, 1, 8)
      .aligned(w[2])
      .aligned(w[4]);
  if (Fault fault = checker.result())
    return fault; // What follows divides by `stride`.
  uint64_t outHeight = (height - window) / stride + 1, outWidth = (width - window) / stride + 1;
  return checker.inside(w[2], 1, 0, uint64_t(height) * width * channels)
      .inside(w[4], 1, 0, outHeight * outWidth * channels)
      .result();
}

} // namespace

Fault check(const DmaJob &job) {
  return Checker()
      .within(job.rowBytes, 8, 65536)
      .within(job.rows, 1, 4096)
      .aligned(job.host)
      .aligned(job.scratchpad)
      .aligned(job.rowBytes)
      .aligned(job.hostStride)
      .aligned(job.scratchpadStride)
      .inside(job.scratchpad, job.rows, job.scratchpadStride, job.rowBytes)
      .result();
}

Fault checkDescriptorAddress(uint64_t address) {
  return Checker().aligned(address, descriptorBytes).result();
}

Fault check(const Command &command) {
  const uint32_t *w = command.word;
  switch (command.opcode()) {
  case Nop:
  case Barrier: return {};
  case DmaLoad:
  case DmaStore: return check(jobOf(command));
  case DmaChain: return checkDescriptorAddress(command.wide(2));
  case Gemm: return checkGemm(w);
  case Vadd32: return checkAdd(command, 4);
  case Vadd8: return checkAdd(command, 1);
  case Relu8: return checkRelu(w);
  case Requant: return checkRequant(w);
  case Maxpool8: return checkMaxpool(w);
  case Fence: return Checker().aligned(command.wide(2)).result();
  case Signal:
  case Wait: return Checker().within(w[2], 0, 7).result();
  default: return {ErrorCode::BadOpcode, 0};
  }
}

} // namespace minnow
