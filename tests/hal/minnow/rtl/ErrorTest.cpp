// Errors: code, address, order of checks, the halt, and how it is resumed.
#include "tests/hal/minnow/rtl/Device.h"

using namespace tapeback;
using namespace tapeback::test;

namespace {

struct Wrong {
  const char *what;
  minnow_command command;
  uint32_t code;
  uint64_t address;
};

minnow_command with(minnow_command command, std::initializer_list<std::pair<int, uint32_t>> words) {
  for (auto [word, value] : words)
    command.w[word] = value;
  return command;
}

const minnow_command load = minnow_dma(MINNOW_DMA_LOAD, Device::data, 0, 64, 2, 64, 64);
const minnow_command gemm = minnow_gemm(0, 0x1000, 0x2000, 8, 8, 8, 8, 8, 32, 0);
const minnow_command vadd32 = minnow_vadd(MINNOW_VADD32, 0, 0x1000, 0x2000, 4, 4, 16, 16, 16, 0);
const minnow_command vadd8 = minnow_vadd(MINNOW_VADD8, 0, 0x1000, 0x2000, 4, 4, 8, 8, 8, 0);
const minnow_command relu = minnow_relu8(0, 0x1000, 4, 4, 8, 8);
const minnow_command quant = minnow_requant(0, 0x1000, 4, 4, 16, 8, 1, 0, 0, 0);
const minnow_command pool = minnow_maxpool8(0, 0x1000, 8, 8, 8, 2, 2);

std::vector<Wrong> wrongs() {
  std::vector<Wrong> all = {
      {"row bytes 0", with(load, {{5, 0}}), 2, 0},
      {"row bytes 65544", with(load, {{5, 65544}}), 2, 65544},
      {"rows 0", with(load, {{6, 0}}), 2, 0},
      {"rows 4097", with(load, {{6, 4097}}), 2, 4097},
      {"host misaligned", with(load, {{2, 0x1020004}, {3, 0x12}}), 3, 0x1201020004},
      {"scratchpad misaligned", with(load, {{4, 4}}), 3, 4},
      {"row bytes misaligned", with(load, {{5, 12}}), 3, 12},
      {"host stride misaligned", with(load, {{7, 1}}), 3, 1},
      {"scratchpad stride misaligned", with(load, {{8, 0x80000002}}), 3, 0x80000002},
      {"beyond the scratchpad", with(load, {{4, 0xff88}}), 4, 0xff88},
      {"stride beyond", with(load, {{8, 0xfffffff8}}), 4, 0},
      {"address beyond", with(load, {{4, 0xfffffff8}}), 4, 0xfffffff8},
      {"store beyond", with(minnow_dma(MINNOW_DMA_STORE, Device::data, 0xffc8, 64, 1, 0, 0), {}), 4, 0xffc8},
      {"range before alignment", with(load, {{4, 4}, {6, 0}}), 2, 0},
      {"alignment before extent", with(load, {{4, 0x20000}, {8, 4}}), 3, 4},
      {"chain misaligned", minnow_dma_chain(Device::data + 8), 3, Device::data + 8},
      {"m 0", with(gemm, {{5, 0}}), 2, 0},
      {"n 1025", with(gemm, {{6, 1025}}), 2, 1025},
      {"k huge", with(gemm, {{7, 0xffffffff}}), 2, 0xffffffff},
      {"first of several", with(gemm, {{7, 0}, {6, 2000}}), 2, 2000},
      {"A misaligned", with(gemm, {{2, 4}}), 3, 4},
      {"B misaligned", with(gemm, {{3, 0x1001}}), 3, 0x1001},
      {"C misaligned", with(gemm, {{4, 0x2004}}), 3, 0x2004},
      {"lda misaligned", with(gemm, {{8, 9}}), 3, 9},
      {"ldb misaligned", with(gemm, {{9, 10}}), 3, 10},
      {"ldc misaligned", with(gemm, {{10, 36}}), 3, 36},
      {"A beyond", with(gemm, {{2, 0xffc8}}), 4, 0xffc8},
      {"B beyond", with(gemm, {{3, 0xffc8}}), 4, 0xffc8},
      {"C beyond", with(gemm, {{4, 0xff08}}), 4, 0xff08},
      {"a row is rounded up", with(gemm, {{2, 0xfff8}, {5, 1}, {7, 9}}), 4, 0xfff8},
      {"rows 0 of VADD32", with(vadd32, {{5, 0}}), 2, 0},
      {"cols 4097", with(vadd32, {{6, 4097}}), 2, 4097},
      {"ldb misaligned without BROADCAST", with(vadd32, {{8, 4}}), 3, 4},
      {"VADD8 has no BROADCAST", with(vadd8, {{0, 0x121}, {8, 4}}), 3, 4},
      {"b beyond", with(vadd8, {{3, 0xfff0}}), 4, 0xfff0},
      {"d beyond", with(vadd32, {{4, 0xffc8}}), 4, 0xffc8},
      {"RELU8 d misaligned", with(relu, {{4, 1}}), 3, 1},
      {"RELU8 beyond", with(relu, {{2, 0x10000}}), 4, 0x10000},
      {"multiplier 0", with(quant, {{10, 0}}), 2, 0},
      {"multiplier negative", with(quant, {{10, 0x80000000}}), 2, 0x80000000},
      {"shift 63", with(quant, {{11, 63}}), 2, 63},
      {"REQUANT a beyond", with(quant, {{2, 0xffc8}}), 4, 0xffc8},
      {"REQUANT ldd misaligned", with(quant, {{9, 4}}), 3, 4},
      {"height 257", with(pool, {{5, 257}}), 2, 257},
      {"width 0", with(pool, {{6, 0}}), 2, 0},
      {"channels 520", with(pool, {{7, 520}}), 2, 520},
      {"channels 4", with(pool, {{7, 4}}), 2, 4},
      {"channels 20, and a window that is too large", with(pool, {{7, 20}, {8, 9}}), 2, 20},
      {"window 0", with(pool, {{8, 0}}), 2, 0},
      {"window 9", with(pool, {{5, 20}, {6, 20}, {8, 9}}), 2, 9},
      {"window higher than the image", with(pool, {{5, 3}, {8, 4}}), 2, 4},
      {"window wider than the image", with(pool, {{6, 3}, {8, 4}}), 2, 4},
      {"stride 0", with(pool, {{9, 0}}), 2, 0},
      {"stride 9", with(pool, {{9, 9}}), 2, 9},
      {"image beyond", with(pool, {{2, 0xfe08}}), 4, 0xfe08},
      {"output beyond", with(pool, {{4, 0xff88}}), 4, 0xff88},
      {"huge image", with(pool, {{5, 256}, {6, 256}, {7, 512}}), 4, 0},
      {"fence misaligned", minnow_fence(Device::data + 4, 1, 1), 3, Device::data + 4},
      {"fence on the bus", minnow_fence(0x5000000000, 1, 1), 5, 0x5000000000},
      {"load on the bus", with(load, {{2, 0x2000}, {3, 1}}), 5, 0x100002000},
      {"SIGNAL 8", minnow_signal(8), 2, 8},
      {"WAIT 0xffffffff", minnow_wait(0xffffffff), 2, 0xffffffff},
  };
  for (uint32_t opcode = 0; opcode < 256; ++opcode)
    if (!(opcode <= 3 || opcode == 0x10 || (opcode >= 0x20 && opcode <= 0x24) ||
          (opcode >= 0x30 && opcode <= 0x33)))
      all.push_back({"opcode", minnow_make(opcode, 0xab), 1, 0});
  return all;
}

} // namespace

TEST_CASE("every error has its code and address, has no effect, and can be resumed") {
  RTL_OR_SKIP();
  Device minnow("", 16);
  Bytes pad = noise(0x10000, 1);
  minnow.load(0, pad);
  minnow.write(MINNOW_IRQ_ENABLE, MINNOW_IRQ_ERROR);
  unsigned q = 0;
  uint32_t done[2] = {1, 0};
  for (const Wrong &wrong : wrongs()) {
    CAPTURE(wrong.what);
    minnow_command command = wrong.command;
    command.w[0] |= 0xbeef0000; // The tag is reported with it.
    uint32_t index = minnow.tail[q];
    minnow.submit(q, {command, minnow_fence(Device::data, done[q] + 2, 0)});
    REQUIRE(must(minnow.target->waitInterrupt(0, 1000000)).count == 1);
    minnow.settle();
    CHECK(minnow.read(MINNOW_STATUS) ==
          (MINNOW_STATUS_ENABLED | MINNOW_STATUS_HALTED | (MINNOW_STATUS_Q0_BUSY << q)));
    CHECK(minnow.read(MINNOW_IRQ_STATUS) == MINNOW_IRQ_ERROR);
    CHECK(minnow.read(MINNOW_ERR_CODE) == wrong.code);
    CHECK(minnow.read(MINNOW_ERR_QUEUE) == q);
    CHECK(minnow.read(MINNOW_ERR_INDEX) == index);
    CHECK(minnow.read(MINNOW_ERR_OPCODE) == command.w[0]);
    CHECK((minnow.read(MINNOW_ERR_ADDR_LO) | uint64_t(minnow.read(MINNOW_ERR_ADDR_HI)) << 32) ==
          wrong.address);
    CHECK(minnow.queue(q, MINNOW_Q_HEAD) == index);
    CHECK(minnow.queue(q, MINNOW_Q_DONE) == done[q]);
    minnow.write(MINNOW_IRQ_STATUS, MINNOW_IRQ_ERROR);
    minnow.write(MINNOW_CONTROL, MINNOW_CONTROL_ENABLE | MINNOW_CONTROL_RESUME);
    CHECK(minnow.settle() == (MINNOW_STATUS_ENABLED | MINNOW_STATUS_IDLE));
    for (uint64_t offset = MINNOW_ERR_CODE; offset <= MINNOW_ERR_ADDR_HI; offset += 4)
      CHECK(minnow.read(offset) == 0);
    done[q] += 2;
    CHECK(minnow.queue(q, MINNOW_Q_DONE) == done[q]);
    CHECK(minnow.word(Device::data) == done[q]);
    q = 1 - q;
  }
  CHECK(minnow.scratchpad() == pad);
}

TEST_CASE("operands may end exactly at the end of the scratchpad") {
  RTL_OR_SKIP();
  Device minnow;
  minnow.run({with(load, {{4, 0xff80}}), with(gemm, {{2, 0xffc0}, {3, 0xffc0}}), with(gemm, {{4, 0xff00}}),
              with(vadd32, {{2, 0xffc0}, {3, 0xffc0}, {4, 0xffc0}}), with(pool, {{2, 0xfe00}}),
              with(pool, {{4, 0xff80}}), with(load, {{6, 1}, {8, 0xfffffff8}}),
              minnow_dma(MINNOW_DMA_LOAD, Device::data, 0, 65536, 1, 0, 0),
              with(vadd32, {{0, 0x120}, {3, 0xfff0}, {8, 3}})});
  CHECK(minnow.queue(0, MINNOW_Q_DONE) == 9);
}

TEST_CASE("semaphore overflow") {
  RTL_OR_SKIP();
  Device minnow("", 512);
  minnow.submit(0, std::vector<minnow_command>(256, minnow_signal(5)));
  CHECK((minnow.settle() & MINNOW_STATUS_HALTED) != 0);
  CHECK(minnow.read(MINNOW_ERR_CODE) == MINNOW_SEMAPHORE_OVERFLOW);
  CHECK(minnow.read(MINNOW_ERR_ADDR_LO) == 5);
  CHECK(minnow.read(MINNOW_ERR_INDEX) == 255);
}

TEST_CASE("a transfer that fails has moved what comes before, and counts it") {
  RTL_OR_SKIP();
  for (const char *options : {"", "jitter=60&seed=5"}) {
    Device minnow(options);
    Bytes pad = noise(0x10000, 2);
    minnow.load(0, pad);
    uint64_t end = Device::base + Device::size, from = end - 3 * 64 - 8;
    minnow.put(from, pad.data() + 0x4000, 3 * 64 + 8);
    uint64_t bytes = minnow.counter(MINNOW_CNT_READ_BYTES), bursts = minnow.counter(MINNOW_CNT_READ_BURSTS);
    // The fourth burst has one byte word inside: it is refused as a whole.
    minnow.submit(0, {minnow_dma(MINNOW_DMA_LOAD, from, 0, 512, 2, 0, 512)});
    CHECK((minnow.settle() & MINNOW_STATUS_HALTED) != 0);
    CHECK(minnow.read(MINNOW_ERR_CODE) == MINNOW_BUS_ERROR);
    CHECK(minnow.read(MINNOW_ERR_ADDR_LO) == from + 192);
    Bytes expected = pad;
    std::memcpy(expected.data(), pad.data() + 0x4000, 192);
    CHECK(minnow.scratchpad() == expected);
    CHECK(minnow.counter(MINNOW_CNT_READ_BYTES) == bytes + 192);
    CHECK(minnow.counter(MINNOW_CNT_READ_BURSTS) == bursts + 3);
    minnow.write(MINNOW_CONTROL, MINNOW_CONTROL_ENABLE | MINNOW_CONTROL_RESUME);

    // The second row is refused, and the third, which would not be, is not moved.
    Bytes before(minnow.memory.host, minnow.memory.host + Device::size);
    minnow.submit(0, {minnow_dma(MINNOW_DMA_STORE, end - 128, 0, 128, 2, 64, 128)});
    CHECK((minnow.settle() & MINNOW_STATUS_HALTED) != 0);
    CHECK(minnow.read(MINNOW_ERR_ADDR_LO) == end);
    CHECK(minnow.read(MINNOW_ERR_OPCODE) == 2);
    std::memcpy(before.data() + Device::size - 128, expected.data(), 128);
    std::memcpy(before.data() + Device::size - 64, expected.data() + 128, 64);
    CHECK(std::memcmp(minnow.at(Device::data), before.data() + 0x20000, Device::size - 0x20000) == 0);
    CHECK(minnow.counter(MINNOW_CNT_WRITE_BYTES) == 192);
    CHECK(minnow.counter(MINNOW_CNT_WRITE_BURSTS) == 3);
  }
}

TEST_CASE("a refused fetch reports opcode 0 and the entry's address") {
  RTL_OR_SKIP();
  Device minnow;
  minnow.write(Device::queueRegister(1, MINNOW_Q_BASE_HI), 0x77);
  minnow.write(Device::queueRegister(1, MINNOW_Q_SIZE), 8);
  minnow.write(Device::queueRegister(1, MINNOW_Q_DOORBELL), 2);
  CHECK((minnow.settle() & MINNOW_STATUS_HALTED) != 0);
  CHECK(minnow.read(MINNOW_ERR_CODE) == MINNOW_BUS_ERROR);
  CHECK(minnow.read(MINNOW_ERR_QUEUE) == 1);
  CHECK(minnow.read(MINNOW_ERR_OPCODE) == 0);
  CHECK(minnow.read(MINNOW_ERR_ADDR_LO) == Device::ring(1));
  CHECK(minnow.read(MINNOW_ERR_ADDR_HI) == 0x77);
  minnow.write(MINNOW_CONTROL, MINNOW_CONTROL_ENABLE | MINNOW_CONTROL_RESUME);
  minnow.settle();
  CHECK(minnow.read(MINNOW_ERR_INDEX) == 1);
  CHECK(minnow.read(MINNOW_ERR_ADDR_LO) == Device::ring(1) + 64);
}

TEST_CASE("errors in a chain: what earlier descriptors did stays done") {
  RTL_OR_SKIP();
  Device minnow;
  uint64_t at = Device::data + 0x1000;
  Bytes source = noise(64, 9);
  minnow.put(Device::data, source.data(), 64);
  struct {
    minnow_descriptor second;
    uint64_t next;
    uint32_t code;
    uint64_t address;
  } cases[] = {
      {minnow_make_descriptor(Device::data, 0xfff8, 16, 1, 0, 0, MINNOW_DESCRIPTOR_LAST, 0), at + 64, 4,
       0xfff8},
      {minnow_make_descriptor(Device::data, 0, 16, 0, 0, 0, MINNOW_DESCRIPTOR_LAST, 0), at + 64, 2, 0},
      {minnow_make_descriptor(Device::data, 0, 17, 1, 0, 0, MINNOW_DESCRIPTOR_LAST, 0), at + 64, 3, 17},
      {minnow_make_descriptor(Device::data + 1, 0, 16, 1, 0, 0, MINNOW_DESCRIPTOR_LAST, 0), at + 64, 3,
       Device::data + 1},
      {minnow_make_descriptor(0x40, 0, 16, 1, 0, 0, MINNOW_DESCRIPTOR_STORE | MINNOW_DESCRIPTOR_LAST, 0),
       at + 64, 5, 0x40},
      {minnow_make_descriptor(0, 0, 0, 0, 0, 0, 0, 0), 0x40, 5, 0x40},
      {minnow_make_descriptor(0, 0, 0, 0, 0, 0, 0, 0), at + 72, 3, at + 72},
  };
  for (uint32_t i = 0; i < std::size(cases); ++i) {
    minnow_descriptor first =
        minnow_make_descriptor(Device::data, 0x100 * (i + 1), 64, 1, 0, 0, 0, cases[i].next);
    minnow.put(at, &first, 64);
    minnow.put(at + 64, &cases[i].second, 64);
    minnow.submit(0, {minnow_dma_chain(at)});
    CHECK((minnow.settle() & MINNOW_STATUS_HALTED) != 0);
    CHECK(minnow.read(MINNOW_ERR_CODE) == cases[i].code);
    CHECK(minnow.read(MINNOW_ERR_ADDR_LO) == cases[i].address);
    CHECK(minnow.read(MINNOW_ERR_OPCODE) == MINNOW_DMA_CHAIN);
    CHECK(minnow.scratchpad(0x100 * (i + 1), 64) == source);
    CHECK(minnow.counter(MINNOW_CNT_READ_BYTES) == 64 * (i + 1));
    minnow.write(MINNOW_CONTROL, MINNOW_CONTROL_ENABLE | MINNOW_CONTROL_RESUME);
  }
}

TEST_CASE("the other queue's running command ends before the halt, and no other begins") {
  RTL_OR_SKIP();
  Device minnow;
  minnow.submit(1, {minnow_gemm(0, 0, 0x8000, 64, 64, 64, 64, 64, 256, 0), minnow_fence(Device::data, 7, 0)});
  minnow.submit(0, {minnow_nop(), minnow_make(0x99, 0)});
  must(minnow.target->advance(1000));
  // The error is there, the halt is not.
  CHECK(minnow.read(MINNOW_ERR_CODE) == MINNOW_BAD_OPCODE);
  CHECK(minnow.read(MINNOW_IRQ_STATUS) == MINNOW_IRQ_ERROR);
  CHECK((minnow.read(MINNOW_STATUS) & MINNOW_STATUS_HALTED) == 0);
  minnow.write(MINNOW_CONTROL, MINNOW_CONTROL_ENABLE | MINNOW_CONTROL_RESUME); // Too early: nothing.
  CHECK(minnow.read(MINNOW_ERR_CODE) == MINNOW_BAD_OPCODE);
  CHECK((minnow.settle() & MINNOW_STATUS_HALTED) != 0);
  CHECK(minnow.counter(MINNOW_CNT_MACS) == 64 * 64 * 64);
  CHECK(minnow.queue(1, MINNOW_Q_DONE) == 1);
  CHECK(minnow.word(Device::data) == 0);
  minnow.write(MINNOW_CONTROL, MINNOW_CONTROL_ENABLE | MINNOW_CONTROL_RESUME);
  CHECK((minnow.settle() & MINNOW_STATUS_IDLE) != 0);
  CHECK(minnow.word(Device::data) == 7);
}

TEST_CASE("of two errors the first is kept; the other's command is executed again after RESUME") {
  RTL_OR_SKIP();
  Device minnow;
  // Queue 1 is in a long transfer that fails at its end.
  minnow.submit(1, {minnow_dma(MINNOW_DMA_LOAD, Device::base + Device::size - 0x4000, 0, 0x4008, 1, 0, 0)});
  minnow.submit(0, {minnow_make(0x98, 0)});
  CHECK((minnow.settle() & MINNOW_STATUS_HALTED) != 0);
  CHECK(minnow.read(MINNOW_ERR_CODE) == MINNOW_BAD_OPCODE);
  CHECK(minnow.read(MINNOW_ERR_QUEUE) == 0);
  CHECK(minnow.queue(1, MINNOW_Q_HEAD) == 0);
  uint64_t bytes = minnow.counter(MINNOW_CNT_READ_BYTES);
  CHECK(bytes == 0x4000);
  minnow.write(MINNOW_CONTROL, MINNOW_CONTROL_ENABLE | MINNOW_CONTROL_RESUME);
  CHECK((minnow.settle() & MINNOW_STATUS_HALTED) != 0);
  CHECK(minnow.read(MINNOW_ERR_CODE) == MINNOW_BUS_ERROR);
  CHECK(minnow.read(MINNOW_ERR_QUEUE) == 1);
  CHECK(minnow.read(MINNOW_ERR_ADDR_LO) == Device::base + Device::size);
  CHECK(minnow.counter(MINNOW_CNT_READ_BYTES) == 2 * bytes);
}

TEST_CASE("a queue blocked in WAIT or BARRIER does not delay the halt, and stays blocked") {
  RTL_OR_SKIP();
  for (const minnow_command &block : {minnow_wait(0), minnow_barrier()}) {
    Device minnow;
    minnow.submit(1, {block, minnow_fence(Device::data, 1, 0)});
    minnow.settle();
    minnow.submit(0, {minnow_make(0x97, 0), block.w[0] == MINNOW_WAIT ? minnow_signal(0) : block});
    CHECK((minnow.settle() & MINNOW_STATUS_HALTED) != 0);
    CHECK(minnow.queue(1, MINNOW_Q_DONE) == 0);
    minnow.write(MINNOW_CONTROL, MINNOW_CONTROL_ENABLE | MINNOW_CONTROL_RESUME);
    CHECK((minnow.settle() & MINNOW_STATUS_IDLE) != 0);
    CHECK(minnow.word(Device::data) == 1);
    CHECK(minnow.counter(MINNOW_CNT_COMMANDS) == 3); // The one that was skipped was not completed.
  }
}
