// Each erratum does what ERRATA.md says, and nothing of it happens without it.
#include "tests/hal/minnow/rtl/Device.h"

using namespace tapeback;
using namespace tapeback::test;

namespace {

std::string with(const char *erratum, const std::string &more = "") {
  return std::string(erratum).empty() ? more
                                      : std::string("errata=") + erratum + (more.empty() ? "" : "&" + more);
}

} // namespace

TEST_CASE("dma-4k-last-beat: a burst across 4 KiB loses its last beat, both ways") {
  RTL_OR_SKIP();
  for (bool wrong : {false, true}) {
    Device minnow(with(wrong ? "dma-4k-last-beat" : ""));
    Bytes source = noise(0x2000, 1);
    for (uint32_t offset = 0xf80; offset <= 0x1008; offset += 8) {
      minnow.load(0, Bytes(64, 0x11));
      minnow.put(Device::data, source.data(), source.size());
      minnow.run({minnow_dma(MINNOW_DMA_LOAD, Device::data + offset, 0, 64, 1, 0, 0)});
      bool crosses = offset > 0xfc0 && offset < 0x1000;
      Bytes expected(source.begin() + offset, source.begin() + offset + 64);
      if (wrong && crosses)
        std::fill(expected.end() - 8, expected.end(), 0x11);
      CHECK(minnow.scratchpad(0, 64) == expected);

      minnow.load(64, source.data(), 64);
      std::memset(minnow.at(Device::data), 0x22, 0x2000);
      minnow.run({minnow_dma(MINNOW_DMA_STORE, Device::data + offset, 64, 64, 1, 0, 0)});
      expected.assign(source.begin(), source.begin() + 64);
      if (wrong && crosses)
        std::fill(expected.end() - 8, expected.end(), 0x22);
      CHECK(Bytes(minnow.at(Device::data + offset), minnow.at(Device::data + offset) + 64) == expected);
    }
    // The counters do not show it.
    CHECK(minnow.counter(MINNOW_CNT_WRITE_BYTES) == 18 * 64);
    CHECK(minnow.counter(MINNOW_CNT_WRITE_BURSTS) == 18);
  }
}

TEST_CASE("requant-wrap: 127 rounded up to 128 becomes -128, nothing else does") {
  RTL_OR_SKIP();
  for (bool wrong : {false, true}) {
    Device minnow(with(wrong ? "requant-wrap" : ""));
    std::vector<int32_t> in;
    for (int32_t a = -300; a < 300; ++a)
      in.push_back(a);
    minnow.load(0, in.data(), in.size() * 4);
    for (uint32_t relu : {0u, 1u}) {
      minnow.run({minnow_requant(0, 0x8000, 1, uint32_t(in.size()), 0, 0, 1, 1, 0, relu)});
      Bytes out = minnow.scratchpad(0x8000, in.size());
      for (size_t i = 0; i < in.size(); ++i) {
        int value = (in[i] + 1) >> 1; // 255 is 127.5: the corner. 256 is 128 before rounding: saturated.
        int right = std::min(127, std::max(relu ? 0 : -128, value));
        CHECK(int8_t(out[i]) == (wrong && in[i] == 255 ? -128 : right));
      }
    }
  }
}

TEST_CASE("fence-overtake: never without jitter, sometimes with it, decided by the seed") {
  RTL_OR_SKIP();
  auto overtaken = [](const std::string &options, int rounds) {
    Device minnow(options);
    minnow.write(MINNOW_IRQ_ENABLE, 1);
    std::vector<int> which;
    for (int i = 1; i <= rounds; ++i) {
      Bytes content = noise(128, uint32_t(i));
      minnow.load(0, content);
      minnow.submit(0, {minnow_dma(MINNOW_DMA_STORE, Device::data, 0, 128, 1, 0, 0),
                        minnow_fence(Device::data + 256, uint64_t(i), MINNOW_INTERRUPT)});
      REQUIRE(must(minnow.target->waitInterrupt(0, 1000000)).fired);
      CHECK(minnow.word(Device::data + 256) == uint64_t(i));
      CHECK(std::memcmp(minnow.at(Device::data), content.data(), 64) == 0); // Only the last burst is late.
      if (std::memcmp(minnow.at(Device::data), content.data(), 128) != 0)
        which.push_back(i);
      minnow.settle();
      CHECK(std::memcmp(minnow.at(Device::data), content.data(), 128) == 0); // Late, not lost.
      minnow.write(MINNOW_IRQ_STATUS, 1);
    }
    uint64_t bytes = minnow.counter(MINNOW_CNT_WRITE_BYTES);
    CHECK(bytes == 128 * uint64_t(rounds));
    return which;
  };
  for (const char *latency : {"", "latency=1", "latency=100"})
    CHECK(overtaken(with("fence-overtake", latency), 40).empty());
  CHECK(overtaken("jitter=200&seed=5", 60).empty());
  std::vector<int> first = overtaken(with("fence-overtake", "jitter=200&seed=5"), 100);
  CHECK(first.size() > 0);
  CHECK(first.size() < 70);
  CHECK(first == overtaken(with("fence-overtake", "jitter=200&seed=5"), 100));
  CHECK(first != overtaken(with("fence-overtake", "jitter=200&seed=6"), 100));
  for (int jitter : {16, 32, 64, 128, 256}) {
    size_t rate = overtaken(with("fence-overtake", "seed=1&jitter=" + std::to_string(jitter)), 200).size();
    MESSAGE("jitter " << jitter << ": " << rate << " of 200 overtaken");
    CHECK(rate < 100);
    if (jitter >= 64)
      CHECK(rate > 0);
  }
}

TEST_CASE("stale-scratchpad: a use right behind a load sees the line as it was before") {
  RTL_OR_SKIP();
  for (bool wrong : {false, true}) {
    Device minnow(with(wrong ? "stale-scratchpad" : ""));
    Bytes old = noise(128, 1), fresh = noise(128, 2), zero(128, 0);
    minnow.load(0x200, zero);
    auto use = [&](const std::vector<minnow_command> &between) {
      minnow.load(0, old);
      minnow.load(0x400, zero); // The line of the last load is another now.
      minnow.put(Device::data, fresh.data(), fresh.size());
      std::vector<minnow_command> commands = {minnow_dma(MINNOW_DMA_LOAD, Device::data, 0, 128, 1, 0, 0)};
      commands.insert(commands.end(), between.begin(), between.end());
      commands.push_back(minnow_vadd(MINNOW_VADD8, 0, 0x200, 0x300, 1, 128, 0, 0, 0, 0));
      minnow.run(commands);
      CHECK(minnow.scratchpad(0, 128) == fresh); // What is stored is right.
      return minnow.scratchpad(0x300, 128);
    };
    Bytes expected = fresh;
    if (wrong)
      std::copy(old.end() - 8, old.end(), expected.end() - 8);
    CHECK(use({}) == expected);
    CHECK(use(std::vector<minnow_command>(10, minnow_nop())) == fresh); // Long enough in between.
  }
}

TEST_CASE("counter-stall: READ_BYTES misses beats that waited for the scratchpad") {
  RTL_OR_SKIP();
  for (bool wrong : {false, true}) {
    Device minnow(with(wrong ? "counter-stall" : ""));
    minnow_command load = minnow_dma(MINNOW_DMA_LOAD, Device::data, 0xc000, 4096, 4, 4096, 4096);
    minnow.run({load});
    CHECK(minnow.counter(MINNOW_CNT_READ_BYTES) == 0x4000); // Alone nothing waits.
    minnow.submit(0,
                  std::vector<minnow_command>(4, minnow_gemm(0, 0x2000, 0x4000, 64, 64, 64, 64, 64, 256, 0)));
    minnow.submit(1, std::vector<minnow_command>(4, load));
    CHECK((minnow.settle() & MINNOW_STATUS_IDLE) != 0);
    CHECK(minnow.counter(MINNOW_CNT_WAIT_SCRATCHPAD) > 0);
    CHECK((minnow.counter(MINNOW_CNT_READ_BYTES) < 5 * 0x4000) == wrong);
    CHECK(minnow.counter(MINNOW_CNT_READ_BURSTS) == 5 * 256);
  }
}

TEST_CASE("wrap-full-hang: a queue that wraps while the other is full stands until a reset") {
  RTL_OR_SKIP();
  for (bool wrong : {false, true}) {
    Device minnow(with(wrong ? "wrap-full-hang" : ""), 8);
    auto wrap = [&](uint32_t inOther) {
      // The other queue waits at its first command, with `inOther` outstanding.
      std::vector<minnow_command> other(inOther, minnow_nop());
      other[0] = minnow_wait(0);
      minnow.submit(1, other);
      minnow.settle();
      minnow.submit(0, std::vector<minnow_command>(7, minnow_nop()));
      minnow.settle();
      minnow.submit(0, {minnow_nop(), minnow_nop(), minnow_signal(0)});
      return (minnow.settle() & MINNOW_STATUS_IDLE) != 0;
    };
    CHECK(wrap(6)); // Not quite full.
    if (wrong) {
      must(minnow.target->reset(ResetKind::Default));
      minnow.start(8);
      CHECK(!wrap(7));
      CHECK(minnow.queue(0, MINNOW_Q_HEAD) == 0); // It has wrapped, and stands.
      CHECK(minnow.queue(0, MINNOW_Q_TAIL) == 2);
      minnow.write(Device::queueRegister(0, MINNOW_Q_DOORBELL), 2);
      CHECK((minnow.settle() & MINNOW_STATUS_IDLE) == 0);
      minnow.write(MINNOW_CONTROL, MINNOW_CONTROL_SOFT_RESET);
      must(minnow.target->advance(100000));
      minnow.start(8);
      minnow.run({minnow_nop()});
    } else {
      must(minnow.target->reset(ResetKind::Default));
      minnow.start(8);
      CHECK(wrap(7));
    }
  }
}

TEST_CASE("chain-prefetch: the next descriptor is read too early, and one behind the last") {
  RTL_OR_SKIP();
  for (bool wrong : {false, true}) {
    Device minnow(with(wrong ? "chain-prefetch" : ""));
    uint64_t at = Device::data, out = Device::data + 0x1000, value = 0x1122334455667788;
    // Behind the last: a legal pointer does no harm, another is a bus error.
    auto lastPointsTo = [&](uint64_t next) {
      minnow_descriptor d =
          minnow_make_descriptor(Device::data + 0x800, 0, 64, 1, 0, 0, MINNOW_DESCRIPTOR_LAST, next);
      minnow.put(at, &d, 64);
      minnow.submit(0, {minnow_dma_chain(at)});
      bool halted = minnow.settle() & MINNOW_STATUS_HALTED;
      if (halted) {
        CHECK(minnow.read(MINNOW_ERR_CODE) == MINNOW_BUS_ERROR);
        CHECK(minnow.read(MINNOW_ERR_ADDR_LO) == next);
        minnow.write(MINNOW_CONTROL, MINNOW_CONTROL_ENABLE | MINNOW_CONTROL_RESUME);
      }
      return !halted;
    };
    CHECK(lastPointsTo(at));
    CHECK(lastPointsTo(0) == !wrong);

    // Too early: a chain that writes its own next descriptor goes by the old one.
    minnow_descriptor last =
        minnow_make_descriptor(out, 0x200, 8, 1, 0, 0, MINNOW_DESCRIPTOR_STORE | MINNOW_DESCRIPTOR_LAST, at);
    minnow.load(0x100, &last, 64);
    minnow.load(0x200, &value, 8);
    minnow_descriptor first =
        minnow_make_descriptor(at + 64, 0x100, 64, 1, 0, 0, MINNOW_DESCRIPTOR_STORE, at + 64);
    minnow_descriptor stale = last;
    stale.host_address = out + 64;
    minnow.put(at, &first, 64);
    minnow.put(at + 64, &stale, 64);
    minnow.run({minnow_dma_chain(at)});
    CHECK(minnow.word(wrong ? out + 64 : out) == value);
    CHECK(minnow.word(wrong ? out : out + 64) == 0);
  }
}

TEST_CASE("reset-head: a soft reset forgets HEAD of queue 1") {
  RTL_OR_SKIP();
  for (bool wrong : {false, true}) {
    Device minnow(with(wrong ? "reset-head" : ""), 8);
    for (unsigned q = 0; q < 2; ++q)
      minnow.run({minnow_nop(), minnow_nop(), minnow_nop()}, q);
    minnow.write(MINNOW_CONTROL, MINNOW_CONTROL_SOFT_RESET);
    must(minnow.target->advance(100000));
    CHECK(minnow.queue(0, MINNOW_Q_HEAD) == 0);
    CHECK(minnow.queue(1, MINNOW_Q_HEAD) == (wrong ? 3 : 0));
    CHECK(minnow.read(MINNOW_STATUS) == (wrong ? MINNOW_STATUS_Q1_BUSY : MINNOW_STATUS_IDLE));
    // SIZE can be written only while the queue is empty, which it does not look.
    minnow.start(8);
    CHECK(minnow.queue(1, MINNOW_Q_SIZE) == (wrong ? 0 : 8));
    // A reset from outside helps; and so does running queue 1 until its HEAD is 0 before a soft one.
    if (wrong) {
      must(minnow.target->reset(ResetKind::Default));
      CHECK(minnow.queue(1, MINNOW_Q_HEAD) == 0);
      minnow.start(8);
      minnow.run(std::vector<minnow_command>(7, minnow_nop()), 1);
      minnow.run({minnow_nop()}, 1);
      minnow.write(MINNOW_CONTROL, MINNOW_CONTROL_SOFT_RESET);
      must(minnow.target->advance(100000));
      CHECK(minnow.read(MINNOW_STATUS) == MINNOW_STATUS_IDLE);
    }
  }
}
