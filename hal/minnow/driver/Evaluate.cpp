#include "hal/minnow/driver/Evaluate.h"
#include <algorithm>
#include <cstring>

namespace tapeback::stress {

uint64_t Exact::of(unsigned counter) const {
  switch (counter) {
  case MINNOW_CNT_MACS: return macs & 0xffffffffffff;
  case MINNOW_CNT_READ_BYTES: return readBytes & 0xffffffffff;
  case MINNOW_CNT_WRITE_BYTES: return writeBytes & 0xffffffffff;
  case MINNOW_CNT_READ_BURSTS: return readBursts & 0xffff;
  case MINNOW_CNT_WRITE_BURSTS: return writeBursts & 0xffffffff;
  case MINNOW_CNT_COMMANDS: return commands & 0xffffffff;
  default: return 0;
  }
}

namespace {

uint64_t wide(const minnow_command &command, unsigned low) {
  return command.w[low] | uint64_t(command.w[low + 1]) << 32;
}

uint8_t opcodeOf(const minnow_command &command) {
  return uint8_t(command.w[0]);
}

bool flagOf(const minnow_command &command) {
  return command.w[0] & 0x100;
}

/// An operand in the scratchpad.
struct Operand {
  uint32_t at, rows, stride;
  uint64_t rowBytes;
  bool writes;

  uint64_t end() const { return at + uint64_t(rows - 1) * stride + (rowBytes + 7) / 8 * 8; }
};

/// What an opcode's words are: section 4, as data.
struct Limit {
  unsigned word;
  uint32_t least, most;
};
struct Shape {
  uint8_t opcode;
  std::vector<Limit> limits;
  std::vector<unsigned> aligned; ///< Words that are multiples of 8, in their order.
};

const Shape *shapeOf(uint8_t opcode) {
  static const std::vector<Shape> shapes = {
      {MINNOW_NOP, {}, {}},
      {MINNOW_DMA_LOAD, {{5, 8, 65536}, {6, 1, 4096}}, {2, 4, 5, 7, 8}},
      {MINNOW_DMA_STORE, {{5, 8, 65536}, {6, 1, 4096}}, {2, 4, 5, 7, 8}},
      {MINNOW_DMA_CHAIN, {}, {}},
      {MINNOW_GEMM, {{5, 1, 1024}, {6, 1, 1024}, {7, 1, 1024}}, {2, 3, 4, 8, 9, 10}},
      {MINNOW_VADD32, {{5, 1, 4096}, {6, 1, 4096}}, {2, 3, 4, 7, 8, 9}},
      {MINNOW_VADD8, {{5, 1, 4096}, {6, 1, 4096}}, {2, 3, 4, 7, 8, 9}},
      {MINNOW_RELU8, {{5, 1, 4096}, {6, 1, 4096}}, {2, 4, 7, 9}},
      {MINNOW_REQUANT, {{5, 1, 4096}, {6, 1, 4096}, {10, 1, 0x7fffffff}, {11, 0, 62}}, {2, 4, 7, 9}},
      {MINNOW_MAXPOOL8, {{5, 1, 256}, {6, 1, 256}, {7, 8, 512}, {8, 1, 8}, {9, 1, 8}}, {2, 4}},
      {MINNOW_FENCE, {}, {2}},
      {MINNOW_SIGNAL, {{2, 0, 7}}, {}},
      {MINNOW_WAIT, {{2, 0, 7}}, {}},
      {MINNOW_BARRIER, {}, {}},
  };
  for (const Shape &shape : shapes)
    if (shape.opcode == opcode)
      return &shape;
  return nullptr;
}

bool isHostAddress(uint8_t opcode, unsigned word) {
  return word == 2 && (opcode == MINNOW_DMA_LOAD || opcode == MINNOW_DMA_STORE || opcode == MINNOW_FENCE);
}

/// Of a command within its limits.
std::vector<Operand> operandsOf(const minnow_command &command) {
  const uint32_t *w = command.w;
  switch (opcodeOf(command)) {
  case MINNOW_DMA_LOAD: return {{w[4], w[6], w[8], w[5], true}};
  case MINNOW_DMA_STORE: return {{w[4], w[6], w[8], w[5], false}};
  case MINNOW_GEMM:
    return {{w[2], w[5], w[8], w[7], false},
            {w[3], w[7], w[9], w[6], false},
            {w[4], w[5], w[10], uint64_t(w[6]) * 4, true}};
  case MINNOW_VADD32: {
    uint64_t bytes = uint64_t(w[6]) * 4;
    Operand b = flagOf(command) ? Operand{w[3], 1, 0, bytes, false} : Operand{w[3], w[5], w[8], bytes, false};
    return {{w[2], w[5], w[7], bytes, false}, b, {w[4], w[5], w[9], bytes, true}};
  }
  case MINNOW_VADD8:
    return {{w[2], w[5], w[7], w[6], false}, {w[3], w[5], w[8], w[6], false}, {w[4], w[5], w[9], w[6], true}};
  case MINNOW_RELU8: return {{w[2], w[5], w[7], w[6], false}, {w[4], w[5], w[9], w[6], true}};
  case MINNOW_REQUANT: return {{w[2], w[5], w[7], uint64_t(w[6]) * 4, false}, {w[4], w[5], w[9], w[6], true}};
  case MINNOW_MAXPOOL8: {
    uint64_t height = (w[5] - w[8]) / w[9] + 1, width = (w[6] - w[8]) / w[9] + 1;
    return {{w[2], 1, 0, uint64_t(w[5]) * w[6] * w[7], false}, {w[4], 1, 0, height * width * w[7], true}};
  }
  default: return {};
  }
}

/// The bytes of an operand, to be compared with those of others.
class Bytes {
public:
  /// False: a row of it overlaps what was added before.
  bool add(const Operand &operand, bool rowsMayOverlap) {
    bool disjoint = true;
    for (uint32_t row = 0; row < operand.rows; ++row)
      for (uint64_t i = 0; i < operand.rowBytes; ++i) {
        bool &byte = taken[operand.at + uint64_t(row) * operand.stride + i];
        disjoint = disjoint && (rowsMayOverlap || !byte);
        byte = true;
      }
    return disjoint;
  }

private:
  std::array<bool, MINNOW_SCRATCHPAD_SIZE> taken{};
};

int8_t saturated(int64_t value, int64_t least = -128) {
  return int8_t(std::clamp<int64_t>(value, least, 127));
}

int8_t requantised(int32_t value, const minnow_command &command) {
  __int128 product = __int128(value) * int32_t(command.w[10]);
  unsigned shift = command.w[11];
  if (shift)
    product = (product + (__int128(1) << (shift - 1))) >> shift;
  __int128 sum = product + int32_t(command.w[12]);
  int64_t least = flagOf(command) ? 0 : -128;
  return sum > 127 ? int8_t(127) : sum < least ? int8_t(least) : int8_t(sum);
}

} // namespace

// ---- Checks ----

Verdict Evaluation::check(const minnow_command &command) {
  const uint32_t *w = command.w;
  uint8_t opcode = opcodeOf(command);
  const Shape *shape = shapeOf(opcode);
  if (!shape)
    return {MINNOW_BAD_OPCODE, 0};
  for (const Limit &limit : shape->limits) {
    uint32_t value = w[limit.word];
    bool good = value >= limit.least && value <= limit.most;
    if (opcode == MINNOW_MAXPOOL8 && limit.word == 7)
      good = good && value % 8 == 0;
    if (opcode == MINNOW_MAXPOOL8 && limit.word == 8)
      good = good && value <= w[5] && value <= w[6];
    if (!good)
      return {MINNOW_BAD_ARGUMENT, value};
  }
  if (opcode == MINNOW_DMA_CHAIN && w[2] % 64)
    return {MINNOW_MISALIGNED, wide(command, 2)};
  for (unsigned word : shape->aligned) {
    if (opcode == MINNOW_VADD32 && word == 8 && flagOf(command))
      continue;
    if (w[word] % 8)
      return {MINNOW_MISALIGNED, isHostAddress(opcode, word) ? wide(command, word) : w[word]};
  }
  for (const Operand &operand : operandsOf(command))
    if (operand.end() > MINNOW_SCRATCHPAD_SIZE)
      return {MINNOW_OUT_OF_RANGE, operand.at};
  return {};
}

Verdict Evaluation::check(const Rows &rows) {
  return check(minnow_dma(rows.store ? MINNOW_DMA_STORE : MINNOW_DMA_LOAD, rows.host, rows.scratchpad,
                          rows.rowBytes, rows.rows, rows.hostStride, rows.scratchpadStride));
}

Verdict Evaluation::check(const minnow_descriptor &descriptor) {
  return check(rowsOf(descriptor));
}

bool Evaluation::isDefined(const minnow_command &command) {
  uint8_t opcode = opcodeOf(command);
  std::vector<Operand> operands = operandsOf(command);
  if (opcode < MINNOW_GEMM || operands.empty())
    return true; // DMA moves rows in ascending order, whatever they overlap.
  const Operand &result = operands.back();
  bool mayBeSource = opcode == MINNOW_VADD32 || opcode == MINNOW_VADD8 || opcode == MINNOW_RELU8;
  Bytes bytes;
  for (size_t i = 0; i + 1 < operands.size(); ++i) {
    const Operand &source = operands[i];
    bool broadcast = opcode == MINNOW_VADD32 && flagOf(command) && i == 1;
    bool same = source.at == result.at && source.stride == result.stride && mayBeSource && !broadcast;
    bool inPlace = opcode == MINNOW_REQUANT && source.at == result.at && result.stride <= source.stride;
    if (!same && !inPlace)
      bytes.add(source, true);
  }
  return bytes.add(result, false);
}

// ---- Rows, chains ----

Evaluation::Rows Evaluation::rowsOf(const minnow_command &command) {
  const uint32_t *w = command.w;
  return {wide(command, 2), w[4], w[5], w[6], w[7], w[8], opcodeOf(command) == MINNOW_DMA_STORE};
}

Evaluation::Rows Evaluation::rowsOf(const minnow_descriptor &d) {
  return {d.host_address, d.scratchpad_address, d.row_bytes,      d.rows,
          d.host_stride,  d.scratchpad_stride,  bool(d.flags & 1)};
}

Verdict Evaluation::move(const Rows &rows) {
  for (uint32_t row = 0; row < rows.rows; ++row)
    for (uint32_t at = 0; at < rows.rowBytes; at += 64) {
      uint32_t bytes = std::min<uint32_t>(64, rows.rowBytes - at);
      uint64_t host = rows.host + uint64_t(row) * rows.hostStride + at;
      uint32_t inside = rows.scratchpad + row * rows.scratchpadStride + at;
      if (!isMapped(host, bytes))
        return {MINNOW_BUS_ERROR, host};
      uint8_t *outside = memory.data() + (host - arena);
      if (rows.store)
        std::memcpy(outside, scratchpad.data() + inside, bytes);
      else
        std::memcpy(scratchpad.data() + inside, outside, bytes);
      if (counting) {
        (rows.store ? exact.writeBytes : exact.readBytes) += bytes;
        ++(rows.store ? exact.writeBursts : exact.readBursts);
      }
    }
  return {};
}

Verdict Evaluation::chain(uint64_t address) {
  for (unsigned ordinal = 1;; ++ordinal) {
    if (address % 64)
      return {MINNOW_MISALIGNED, address};
    if (!isMapped(address, 64))
      return {MINNOW_BUS_ERROR, address};
    minnow_descriptor descriptor;
    std::memcpy(&descriptor, memory.data() + (address - arena), sizeof descriptor);
    bool last = descriptor.flags & MINNOW_DESCRIPTOR_LAST;
    if (Verdict verdict = check(descriptor))
      return verdict;
    if (ordinal == MINNOW_MAX_CHAIN && !last)
      return {MINNOW_CHAIN_TOO_LONG, address};
    if (Verdict verdict = move(rowsOf(descriptor)))
      return verdict;
    if (last)
      return {};
    address = descriptor.next;
  }
}

void Evaluation::addExtents(std::vector<Extent> &extents, const Rows &rows) const {
  extents.push_back({false, !rows.store, rows.scratchpad, rows.rows, rows.rowBytes, rows.scratchpadStride});
  for (uint32_t row = 0; row < rows.rows; ++row) {
    uint64_t host = rows.host + uint64_t(row) * rows.hostStride;
    if (host < arena || host - arena >= memory.size())
      return;
    uint64_t at = host - arena;
    extents.push_back({true, rows.store, at, 1, std::min<uint64_t>(rows.rowBytes, memory.size() - at), 0});
  }
}

std::vector<Extent> Evaluation::extents(const minnow_command &command) const {
  std::vector<Extent> extents;
  if (check(command))
    return extents;
  uint8_t opcode = opcodeOf(command);
  if (opcode == MINNOW_DMA_LOAD || opcode == MINNOW_DMA_STORE) {
    addExtents(extents, rowsOf(command));
  } else if (opcode == MINNOW_DMA_CHAIN) {
    uint64_t address = wide(command, 2);
    for (unsigned ordinal = 1; ordinal <= MINNOW_MAX_CHAIN && address % 64 == 0 && isMapped(address, 64);
         ++ordinal) {
      minnow_descriptor descriptor;
      std::memcpy(&descriptor, memory.data() + (address - arena), sizeof descriptor);
      extents.push_back({true, false, address - arena, 1, 64, 0});
      if (check(descriptor))
        break;
      addExtents(extents, rowsOf(descriptor));
      if (descriptor.flags & MINNOW_DESCRIPTOR_LAST)
        break;
      address = descriptor.next;
    }
  } else if (opcode == MINNOW_FENCE) {
    if (isMapped(wide(command, 2), 8))
      extents.push_back({true, true, wide(command, 2) - arena, 1, 8, 0});
  } else {
    for (const Operand &operand : operandsOf(command))
      extents.push_back({false, operand.writes, operand.at, operand.rows, operand.rowBytes, operand.stride});
    if (opcode == MINNOW_GEMM && flagOf(command)) { // It adds to C.
      extents.push_back(extents.back());
      extents.back().writes = false;
    }
  }
  return extents;
}

// ---- Execution ----

int32_t Evaluation::wordAt(uint32_t address) const {
  int32_t value;
  std::memcpy(&value, scratchpad.data() + address, 4);
  return value;
}

void Evaluation::setWord(uint32_t address, int32_t value) {
  std::memcpy(scratchpad.data() + address, &value, 4);
}

void Evaluation::compute(const minnow_command &command) {
  const uint32_t *w = command.w;
  bool flag = flagOf(command);
  auto plus = [](int32_t a, int32_t b) { return int32_t(uint32_t(a) + uint32_t(b)); };
  auto each = [&](auto element) {
    for (uint32_t i = 0; i < w[5]; ++i)
      for (uint32_t j = 0; j < w[6]; ++j)
        element(i, j);
  };
  switch (opcodeOf(command)) {
  case MINNOW_GEMM:
    each([&](uint32_t i, uint32_t j) {
      uint32_t to = w[4] + i * w[10] + 4 * j;
      int32_t sum = flag ? wordAt(to) : 0;
      for (uint32_t l = 0; l < w[7]; ++l)
        sum = plus(sum, byteAt(w[2] + i * w[8] + l) * byteAt(w[3] + l * w[9] + j));
      setWord(to, sum);
    });
    exact.macs += counting ? uint64_t(w[5]) * w[6] * w[7] : 0;
    break;
  case MINNOW_VADD32:
    each([&](uint32_t i, uint32_t j) {
      int32_t b = wordAt(w[3] + (flag ? 0 : i * w[8]) + 4 * j);
      setWord(w[4] + i * w[9] + 4 * j, plus(wordAt(w[2] + i * w[7] + 4 * j), b));
    });
    break;
  case MINNOW_VADD8:
    each([&](uint32_t i, uint32_t j) {
      byteAt(w[4] + i * w[9] + j) = saturated(byteAt(w[2] + i * w[7] + j) + byteAt(w[3] + i * w[8] + j));
    });
    break;
  case MINNOW_RELU8:
    each([&](uint32_t i, uint32_t j) {
      byteAt(w[4] + i * w[9] + j) = std::max<int8_t>(byteAt(w[2] + i * w[7] + j), 0);
    });
    break;
  case MINNOW_REQUANT:
    each([&](uint32_t i, uint32_t j) {
      byteAt(w[4] + i * w[9] + j) = requantised(wordAt(w[2] + i * w[7] + 4 * j), command);
    });
    break;
  case MINNOW_MAXPOOL8: {
    uint32_t height = (w[5] - w[8]) / w[9] + 1, width = (w[6] - w[8]) / w[9] + 1, channels = w[7];
    for (uint32_t y = 0; y < height; ++y)
      for (uint32_t x = 0; x < width; ++x)
        for (uint32_t c = 0; c < channels; ++c) {
          int8_t most = -128;
          for (uint32_t dy = 0; dy < w[8]; ++dy)
            for (uint32_t dx = 0; dx < w[8]; ++dx)
              most = std::max(most, byteAt(w[2] + ((y * w[9] + dy) * w[6] + x * w[9] + dx) * channels + c));
          byteAt(w[4] + (y * width + x) * channels + c) = most;
        }
    break;
  }
  default: break;
  }
}

Verdict Evaluation::execute(const minnow_command &command) {
  Verdict verdict = check(command);
  if (verdict)
    return verdict;
  switch (opcodeOf(command)) {
  case MINNOW_DMA_LOAD:
  case MINNOW_DMA_STORE: verdict = move(rowsOf(command)); break;
  case MINNOW_DMA_CHAIN: verdict = chain(wide(command, 2)); break;
  case MINNOW_FENCE:
    if (!isMapped(wide(command, 2), 8))
      verdict = {MINNOW_BUS_ERROR, wide(command, 2)};
    else
      std::memcpy(memory.data() + (wide(command, 2) - arena), command.w + 4, 8);
    break;
  default: compute(command);
  }
  exact.commands += counting && !verdict;
  return verdict;
}

void Evaluation::reset() {
  scratchpad.fill(0);
  exact = Exact();
}

} // namespace tapeback::stress
