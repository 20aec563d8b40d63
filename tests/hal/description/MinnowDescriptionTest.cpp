// Minnow's description against the header that drivers use (hal/minnow/driver/Commands.h): registers where
// they are, and commands that mean what was encoded.
#include "hal/description/Description.h"
#include "hal/minnow/driver/Commands.h"
#include "llvm/ADT/StringExtras.h"
#include <doctest/doctest.h>

using namespace tapeback;

namespace {

/// As it is installed.
Description minnow() {
  llvm::Expected<DescriptionText> text = loadDescriptionText("minnow");
  REQUIRE_MESSAGE(bool(text), llvm::toString(text.takeError()));
  llvm::Expected<Description> description = parseDescription(text->text, text->name);
  REQUIRE_MESSAGE(bool(description), llvm::toString(description.takeError()));
  return std::move(*description);
}

template <typename T>
llvm::ArrayRef<uint8_t> bytes(const T &entry) {
  return {reinterpret_cast<const uint8_t *>(&entry), sizeof entry};
}

std::string command(const Description &d, const minnow_command &c) {
  return formatEntry(d.layouts[d.queues[0].layout], bytes(c));
}

} // namespace

TEST_CASE("Minnow's registers are where its header says") {
  Description d = minnow();
  struct {
    const char *name;
    uint64_t offset;
  } cases[] = {{"ID", MINNOW_ID},
               {"CONTROL", MINNOW_CONTROL},
               {"STATUS", MINNOW_STATUS},
               {"IRQ_STATUS", MINNOW_IRQ_STATUS},
               {"IRQ_ENABLE", MINNOW_IRQ_ENABLE},
               {"ERR_CODE", MINNOW_ERR_CODE},
               {"ERR_ADDR_HI", MINNOW_ERR_ADDR_HI},
               {"DBG_ADDR", MINNOW_DBG_ADDR},
               {"DBG_DATA", MINNOW_DBG_DATA},
               {"TIME_HI", MINNOW_TIME_HI},
               {"CNT_CONTROL", MINNOW_CNT_CONTROL},
               {"CNT11_HI", MINNOW_CNT_HI + 8 * MINNOW_CNT_COMMANDS}};
  for (const auto &c : cases) {
    CAPTURE(c.name);
    REQUIRE(d.findByName(c.name));
    CHECK(d.findByName(c.name)->offset == c.offset);
  }
  CHECK(d.findByName("CAPS")->reset == 0x00400802);
  REQUIRE(d.queues.size() == MINNOW_QUEUES);
  for (unsigned q = 0; q < MINNOW_QUEUES; ++q) {
    auto offset = [&](unsigned reg) {
      return d.registers[reg].offset - MINNOW_QUEUE - MINNOW_QUEUE_STRIDE * q;
    };
    const QueueDescription &queue = d.queues[q];
    CHECK(queue.name == "q" + std::to_string(q));
    CHECK(offset(queue.base.value()) == MINNOW_Q_BASE_LO);
    CHECK(offset(queue.baseHigh.value()) == MINNOW_Q_BASE_HI);
    CHECK(offset(queue.size.value()) == MINNOW_Q_SIZE);
    CHECK(offset(queue.head.value()) == MINNOW_Q_HEAD);
    CHECK(offset(queue.tail.value()) == MINNOW_Q_TAIL);
    CHECK(offset(queue.doorbell) == MINNOW_Q_DOORBELL);
    CHECK(offset(queue.done.value()) == MINNOW_Q_DONE);
    CHECK(queue.rewind == std::vector<unsigned>{queue.size.value()});
    CHECK(d.layouts[queue.layout].size == MINNOW_COMMAND_SIZE);
  }
  REQUIRE(d.counters.size() == MINNOW_COUNTERS);
  CHECK(d.counters[MINNOW_CNT_READ_BYTES].name == "READ_BYTES");
  CHECK(d.counters[MINNOW_CNT_READ_BYTES].widthBits == 40);
  CHECK(d.registers[d.counters[MINNOW_CNT_READ_BYTES].high.value()].name == "CNT3_HI");
  CHECK(d.registers[d.counters[MINNOW_CNT_READ_BYTES].reg].policy == ReplayPolicy::Compare);
  CHECK(d.registers[d.counters[MINNOW_CNT_CYCLES].reg].policy == ReplayPolicy::Ignore);
  CHECK(d.findWindow("scratchpad")->size == MINNOW_SCRATCHPAD_SIZE);
  CHECK(d.idle.at(0).holds(MINNOW_STATUS_IDLE | MINNOW_STATUS_HALTED));
  CHECK(!d.idle.at(0).holds(MINNOW_STATUS_IDLE | MINNOW_STATUS_RESETTING));
  CHECK(d.resets.at(0).holds(MINNOW_CONTROL_SOFT_RESET | MINNOW_CONTROL_ENABLE));
  CHECK(!d.resets.at(0).holds(MINNOW_CONTROL_ENABLE));
}

TEST_CASE("Minnow's commands are decoded as they were encoded") {
  Description d = minnow();
  struct {
    minnow_command command;
    const char *text;
  } cases[] = {
      {minnow_nop(), "NOP"},
      {minnow_dma(MINNOW_DMA_LOAD, 0x1'0000'1000, 0x4000, 64, 8, 128, 72),
       "DMA_LOAD host=0x100001000 spad=0x4000 row_bytes=64 rows=8 host_stride=128 spad_stride=72"},
      {minnow_dma(MINNOW_DMA_STORE, 8, 0, 8, 1, 0, 0),
       "DMA_STORE host=0x8 spad=0x0 row_bytes=8 rows=1 host_stride=0 spad_stride=0"},
      {minnow_dma_chain(0xfedcba9876543240), "DMA_CHAIN first=0xfedcba9876543240"},
      {minnow_gemm(0x100, 0x200, 0x300, 8, 16, 64, 72, 24, 40, MINNOW_ACCUMULATE),
       "GEMM m=8 n=16 k=64 a=0x100 b=0x200 c=0x300 lda=72 ldb=24 ldc=40 accumulate"},
      {minnow_vadd(MINNOW_VADD32, 1, 2, 3, 4, 5, 6, 7, 8, MINNOW_BROADCAST),
       "VADD32 rows=4 cols=5 a=0x1 b=0x2 d=0x3 lda=6 ldb=7 ldd=8 broadcast"},
      {minnow_vadd(MINNOW_VADD8, 1, 2, 3, 4, 5, 6, 7, 8, 0),
       "VADD8 rows=4 cols=5 a=0x1 b=0x2 d=0x3 lda=6 ldb=7 ldd=8"},
      {minnow_relu8(1, 3, 4, 5, 6, 8), "RELU8 rows=4 cols=5 a=0x1 d=0x3 lda=6 ldd=8"},
      {minnow_requant(1, 3, 4, 5, 6, 8, 0x7fffffff, 31, -7, MINNOW_REQUANT_RELU),
       "REQUANT rows=4 cols=5 a=0x1 d=0x3 lda=6 ldd=8 multiplier=2147483647 shift=31 zero_point=-7 relu"},
      {minnow_maxpool8(1, 3, 10, 11, 16, 2, 2),
       "MAXPOOL8 height=10 width=11 channels=16 window=2 stride=2 a=0x1 d=0x3"},
      {minnow_fence(0x2000, 0xdeadbeef00000001, MINNOW_INTERRUPT),
       "FENCE host=0x2000 value=0xdeadbeef00000001 interrupt"},
      {minnow_signal(3), "SIGNAL semaphore=3"},
      {minnow_wait(3), "WAIT semaphore=3"},
      {minnow_barrier(), "BARRIER"},
      {minnow_make(0x7f, 0), "opcode 0x7f"},
  };
  for (const auto &c : cases)
    CHECK(command(d, c.command) == c.text);
  minnow_command tagged = minnow_nop();
  tagged.w[0] |= 0x1234u << 16;
  CHECK(command(d, tagged) == "NOP tag=4660");
  CHECK(formatEntry(d.layouts[0], bytes(tagged).take_front(63)) == "command, 63 of 64 bytes");
  CHECK(!d.layouts[0].formOf(bytes(tagged).take_front(63)));
}

TEST_CASE("Minnow's commands say what they move") {
  Description d = minnow();
  minnow_command load = minnow_dma(MINNOW_DMA_LOAD, 0x1000, 0x4000, 64, 8, 128, 72);
  const EntryForm *form = d.layouts[0].formOf(bytes(load));
  REQUIRE(form);
  REQUIRE(form->transfers.size() == 1);
  auto value = [&](const EntryForm &of, unsigned field, llvm::ArrayRef<uint8_t> entry) {
    return entryValue(of.fields[field], entry);
  };
  const EntryTransfer &moved = form->transfers[0];
  CHECK(moved.toDevice);
  CHECK(moved.window == "scratchpad");
  CHECK(value(*form, moved.hostAddress, bytes(load)) == 0x1000);
  CHECK(value(*form, moved.deviceAddress.value(), bytes(load)) == 0x4000);
  CHECK(value(*form, moved.rowBytes.value(), bytes(load)) == 64);
  CHECK(value(*form, moved.rows.value(), bytes(load)) == 8);
  CHECK(value(*form, moved.hostStride.value(), bytes(load)) == 128);
  CHECK(value(*form, moved.deviceStride.value(), bytes(load)) == 72);
  CHECK(!form->fence);
  CHECK(!form->chain);

  minnow_command store = minnow_dma(MINNOW_DMA_STORE, 0, 0, 8, 1, 0, 0);
  CHECK(!d.layouts[0].formOf(bytes(store))->transfers.at(0).toDevice);

  minnow_command fence = minnow_fence(0x2000, 42, 0);
  form = d.layouts[0].formOf(bytes(fence));
  REQUIRE(form->fence);
  CHECK(value(*form, form->fence->address, bytes(fence)) == 0x2000);
  CHECK(value(*form, form->fence->value, bytes(fence)) == 42);
  CHECK(form->fields[form->fence->value].width == 8);

  minnow_command list = minnow_dma_chain(0x3000);
  form = d.layouts[0].formOf(bytes(list));
  REQUIRE(form->chain);
  CHECK(value(*form, form->chain->address, bytes(list)) == 0x3000);
  CHECK(!form->chain->last);
  CHECK(form->chain->limit == MINNOW_MAX_CHAIN);
  const LayoutDescription &descriptors = d.layouts[form->chain->layout];
  minnow_descriptor element =
      minnow_make_descriptor(0x5000, 0x40, 16, 2, 32, 24, MINNOW_DESCRIPTOR_STORE, 0x3040);
  CHECK(
      formatEntry(descriptors, bytes(element)) ==
      "descriptor host=0x5000 spad=0x40 row_bytes=16 rows=2 host_stride=32 spad_stride=24 store next=0x3040");
  form = descriptors.formOf(bytes(element));
  REQUIRE(form);
  REQUIRE(form->transfers.size() == 2);
  auto holds = [&](const EntryCondition &condition) {
    return condition.holds(value(*form, condition.field, bytes(element)));
  };
  CHECK(!holds(form->transfers[0].when.value()));
  CHECK(holds(form->transfers[1].when.value()));
  CHECK(!form->transfers[1].toDevice);
  CHECK(!holds(form->chain->last.value()));
  element.flags |= MINNOW_DESCRIPTOR_LAST;
  CHECK(holds(form->chain->last.value()));
  CHECK(&d.layouts[form->chain->layout] == &descriptors);
}
