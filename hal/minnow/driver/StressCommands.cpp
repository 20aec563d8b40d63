#include "hal/minnow/driver/StressCommands.h"
#include <algorithm>
#include <cstring>

namespace tapeback::stress {
namespace {

constexpr uint64_t round8(uint64_t bytes) {
  return (bytes + 7) & ~uint64_t(7);
}

constexpr uint64_t span(uint32_t rows, uint32_t stride, uint64_t rowBytes) {
  return uint64_t(rows - 1) * stride + round8(rowBytes);
}

/// What one command may cost on a simulated device.
constexpr uint64_t mostMacs = 60000;

} // namespace

uint32_t CommandSource::dimension(uint32_t most) {
  uint32_t percent = random.below(100);
  uint32_t limit = percent < 60 ? 12 : percent < 94 ? 40 : most;
  return random.between(1, std::min(limit, most));
}

uint32_t CommandSource::place(unsigned half, uint64_t bytes) {
  uint32_t last = uint32_t(MINNOW_SCRATCHPAD_SIZE - bytes) / 8;
  if (random.chance(4))
    return last * 8;
  if (loadEnd[half] && random.chance(15)) {
    uint32_t before = 8 * random.between(1, uint32_t(std::max<uint64_t>(bytes / 8, 1)));
    if (before <= loadEnd[half] && (loadEnd[half] - before) / 8 <= last)
      return loadEnd[half] - before;
  }
  if (recents && random.chance(35)) {
    uint32_t at = recent[half][random.below(std::min(recents, 8u))];
    if (at / 8 <= last)
      return at;
  }
  uint32_t word = random.below(last + 1);
  if (random.chance(80)) { // In its own half, if it fits.
    uint32_t middle = MINNOW_SCRATCHPAD_SIZE / 16;
    if (half == 0 && bytes <= MINNOW_SCRATCHPAD_SIZE / 2)
      word = random.below(middle - uint32_t(bytes) / 8 + 1);
    else if (half == 1 && last >= middle)
      word = middle + random.below(last - middle + 1);
  }
  return word * 8;
}

uint32_t CommandSource::stride(uint64_t rowBytes) {
  return uint32_t(round8(rowBytes)) + 8 * (random.chance(60) ? 0 : random.below(6));
}

minnow_command CommandSource::gemm(unsigned half) {
  uint32_t m, n, k;
  do {
    m = dimension(64), n = dimension(64), k = dimension(random.chance(20) ? 1024 : 96);
  } while (uint64_t(m) * n * k > mostMacs);
  uint32_t lda = random.chance(5) ? 0 : stride(k), ldb = stride(n), ldc = stride(n * 4);
  // One statement each: the order in which arguments are evaluated differs between compilers.
  uint32_t a = place(half, span(m, lda, k)), b = place(half, span(k, ldb, n)),
           c = place(half, span(m, ldc, n * 4));
  return minnow_gemm(a, b, c, m, n, k, lda, ldb, ldc, random.chance(40));
}

minnow_command CommandSource::vector(unsigned half) {
  uint32_t opcode = random.oneOf({MINNOW_VADD32, MINNOW_VADD8, MINNOW_RELU8});
  uint32_t element = opcode == MINNOW_VADD32 ? 4 : 1, rows = dimension(64), cols = dimension(4096 / element);
  if (rows > 8 && cols > 64)
    rows = 8;
  bool broadcast = opcode == MINNOW_VADD32 && random.chance(35);
  uint64_t bytes = uint64_t(cols) * element;
  uint32_t lda = stride(bytes), ldb = broadcast ? random.below(100) : stride(bytes), ldd = stride(bytes);
  uint32_t a = place(half, span(rows, lda, bytes));
  uint32_t b = place(half, broadcast ? round8(bytes) : span(rows, ldb, bytes)),
           d = place(half, span(rows, ldd, bytes));
  if (random.chance(25))
    d = a, ldd = lda;
  else if (opcode != MINNOW_RELU8 && !broadcast && random.chance(20))
    d = b, ldd = ldb;
  if (opcode == MINNOW_RELU8)
    return minnow_relu8(a, d, rows, cols, lda, ldd);
  return minnow_vadd(opcode, a, b, d, rows, cols, lda, ldb, ldd, broadcast);
}

minnow_command CommandSource::requant(unsigned half) {
  uint32_t rows = dimension(64), cols = dimension(512);
  if (rows > 8 && cols > 64)
    rows = 8;
  uint32_t lda = stride(cols * 4), ldd = stride(cols);
  uint32_t a = place(half, span(rows, lda, cols * 4)), d = place(half, span(rows, ldd, cols));
  if (random.chance(25)) {
    d = a;
    ldd = std::min(ldd, lda);
  }
  uint32_t bits = random.between(1, 31), multiplier = uint32_t(random.next() >> (64 - bits)) | 1;
  // Mostly so that sums of some thousand products land around 127; otherwise anything.
  uint32_t shift = random.chance(75) ? std::min(62u, bits + random.between(0, 12)) : random.below(63);
  int32_t zero = random.chance(70) ? int32_t(random.below(64)) - 32 : int32_t(random.next());
  if (shift && random.chance(35)) { // One element comes to lie at the upper end, before it is rounded.
    int32_t value;
    uint32_t offset = random.below(rows) * lda;
    offset += 4 * random.below(cols);
    std::memcpy(&value, state.scratchpad.data() + a + offset, 4);
    int64_t result = 127 - ((int64_t(value) * int32_t(multiplier)) >> shift);
    if (result == int32_t(result))
      zero = int32_t(result);
  }
  return minnow_requant(a, d, rows, cols, lda, ldd, multiplier, shift, zero, random.chance(40));
}

minnow_command CommandSource::pool(unsigned half) {
  uint32_t window, height, width, channels;
  do {
    window = random.between(1, random.chance(80) ? 3 : 8);
    height = random.between(window, window + 12), width = random.between(window, window + 12);
    channels = 8 * random.between(1, random.chance(80) ? 3 : 64);
  } while (height * width * channels > 8192);
  uint32_t step = random.between(1, random.chance(80) ? 3 : 8);
  uint64_t out = uint64_t((height - window) / step + 1) * ((width - window) / step + 1) * channels;
  uint32_t a = place(half, height * width * channels), d = place(half, out);
  return minnow_maxpool8(a, d, height, width, channels, window, step);
}

minnow_command CommandSource::compute(unsigned half) {
  for (;;) {
    uint32_t pick = random.below(100);
    minnow_command command = pick < 40   ? gemm(half)
                             : pick < 65 ? vector(half)
                             : pick < 85 ? requant(half)
                                         : pool(half);
    command.w[0] |= random.below(0x10000) << 16; // The tag.
    if (Evaluation::check(command) || !Evaluation::isDefined(command))
      continue;
    recent[half][recents++ % 8] = command.w[4];
    return command;
  }
}

minnow_command CommandSource::transfer(unsigned half, bool store) {
  if (!store && random.chance(1)) { // As much as there can be in one command.
    uint32_t most = random.oneOf({1u, 16u, 4096u}), bytes = most == 4096 ? 8 : 65536 / most;
    uint32_t outside = random.oneOf({0u, 8u, bytes}), into = random.oneOf({0u, 8u, bytes});
    uint64_t from = data + 8 * random.below(64);
    return minnow_dma(MINNOW_DMA_LOAD, from, 0, bytes, most, outside, most == 1 ? 0xfffffff8 : into);
  }
  uint32_t limit = random.chance(80) ? 32 : 256;
  uint32_t rowBytes = 8 * random.between(1, limit), rows = random.chance(50) ? 1 : random.between(1, 12);
  if (rows * rowBytes > 8192)
    rows = 1;
  uint32_t hostStride = random.chance(4) ? 8 * random.below(4) : stride(rowBytes) + 8 * random.below(32);
  uint32_t inside = random.chance(4) ? 8 * random.below(4) : stride(rowBytes);
  uint64_t bytes = span(rows, hostStride, rowBytes), room = dataEnd - data - bytes;
  uint64_t at = data + 8 * uint64_t(random.below(uint32_t(room / 8 + 1)));
  if (random.chance(30)) { // Around a page's end.
    uint64_t page =
        (data + 4096 * uint64_t(random.between(1, uint32_t((dataEnd - data) / 4096 - 1)))) & ~uint64_t(4095);
    uint64_t before = 8 * uint64_t(random.between(1, uint32_t(bytes / 8)));
    if (page >= data + before && page - before + bytes <= dataEnd)
      at = page - before;
  }
  minnow_command command =
      minnow_dma(store ? MINNOW_DMA_STORE : MINNOW_DMA_LOAD, at, place(half, span(rows, inside, rowBytes)),
                 rowBytes, rows, hostStride, inside);
  if (!store) {
    recent[half][recents++ % 8] = command.w[4];
    loadEnd[half] = command.w[4] + uint32_t(span(rows, inside, rowBytes));
  }
  return command;
}

minnow_descriptor CommandSource::descriptor(unsigned half, bool store) {
  minnow_command c = transfer(half, store);
  return minnow_make_descriptor(c.w[2] | uint64_t(c.w[3]) << 32, c.w[4], c.w[5], c.w[6], c.w[7], c.w[8],
                                store ? MINNOW_DESCRIPTOR_STORE : 0, 0);
}

// ---- Bad ones ----

/// A good command with words replaced until a check fails.
minnow_command CommandSource::broken(unsigned half) {
  for (;;) {
    minnow_command command = random.chance(60) ? compute(half) : transfer(half, random.chance(50));
    if (random.chance(12)) {
      command.w[0] = random.oneOf({MINNOW_SIGNAL, MINNOW_WAIT, MINNOW_FENCE, MINNOW_DMA_CHAIN});
      command.w[2] = command.w[2] | random.between(1, 63);
      command.w[3] = 0;
    }
    for (unsigned times = random.between(1, 3); times; --times) {
      uint32_t &word = command.w[random.between(2, 12)];
      switch (random.below(6)) {
      case 0: word = uint32_t(random.next()); break;
      case 1: word = 0; break;
      case 2: word ^= 1u << random.below(4); break;
      case 3:
        word = random.oneOf({7u, 9u, 63u, 513u, 520u, 1025u, 4097u, 65544u, 0x80000000u, 0xffffffffu});
        break;
      case 4: word += random.oneOf({0xfff8u, 0xffff8u, 0x10000u}); break;
      default: word = 0x10000 - 8 * random.below(4); break;
      }
    }
    if (random.chance(8))
      command.w[0] =
          (command.w[0] & ~0xffu) | random.oneOf({0x04u, 0x0fu, 0x11u, 0x1fu, 0x25u, 0x2fu, 0x34u, 0xffu});
    if (Evaluation::check(command))
      return command;
  }
}

minnow_command CommandSource::refusedByBus(unsigned half) {
  if (random.chance(20)) { // A fence.
    uint64_t at = random.chance(50) ? dataEnd : uint64_t(random.between(1, 0xffff)) << 44,
             value = random.next();
    return minnow_fence(at, value, random.below(2));
  }
  if (random.chance(10)) // A chain without a first descriptor.
    return minnow_dma_chain(dataEnd + 64 * random.below(4));
  minnow_command command = transfer(half, random.chance(50));
  uint64_t host = command.w[2] | uint64_t(command.w[3]) << 32;
  uint64_t bytes = span(command.w[6], command.w[7], command.w[5]);
  switch (random.below(3)) {
  case 0: host = uint64_t(random.between(1, 0xffff)) << 44; break;                    // Nowhere near.
  case 1: host = dataEnd - bytes + 8 * random.between(1, uint32_t(bytes / 8)); break; // Over the end.
  default: // The last row is missing.
    command.w[6] = std::max(command.w[6], 2u);
    command.w[7] = uint32_t((dataEnd - data) & ~uint64_t(7));
    host = data + 8 * random.below(64);
    command.w[8] = std::min(command.w[8], 4096u);
    command.w[4] = place(half, span(command.w[6], command.w[8], command.w[5]));
  }
  command.w[2] = uint32_t(host);
  command.w[3] = uint32_t(host >> 32);
  return command;
}

minnow_command CommandSource::failing(unsigned half) {
  return random.chance(65) ? broken(half) : refusedByBus(half);
}

minnow_descriptor CommandSource::failingDescriptor(unsigned half) {
  for (;;) {
    minnow_command c = failing(half);
    uint8_t opcode = uint8_t(c.w[0]);
    if (opcode != MINNOW_DMA_LOAD && opcode != MINNOW_DMA_STORE)
      continue;
    return minnow_make_descriptor(c.w[2] | uint64_t(c.w[3]) << 32, c.w[4], c.w[5], c.w[6], c.w[7], c.w[8],
                                  opcode == MINNOW_DMA_STORE ? MINNOW_DESCRIPTOR_STORE : 0, 0);
  }
}

} // namespace tapeback::stress
