// Resets, snapshots, determinism, options, waveforms.
#include "hal/model/tapeback_model.h"
#include "tests/hal/minnow/rtl/Device.h"
#include <dlfcn.h>
#include <sys/stat.h>

using namespace tapeback;
using namespace tapeback::test;

namespace {

/// A workload for both queues that touches everything; deterministic for a seed.
void workload(Device &minnow, uint32_t seed) {
  std::mt19937 random(seed);
  auto pick = [&](uint32_t count) { return uint32_t(random() % count); };
  std::vector<minnow_command> commands[2];
  for (unsigned q = 0; q < 2; ++q) {
    uint32_t pad = 0x8000 * q;
    uint64_t host = Device::data + 0x40000 * q;
    for (int i = 0; i < 12; ++i)
      switch (pick(6)) {
      case 0:
        commands[q].push_back(minnow_dma(MINNOW_DMA_LOAD, host + 8 * pick(512), pad + 8 * pick(256),
                                         8 + 8 * pick(40), 1 + pick(8), 8 * pick(100), 8 * pick(32)));
        break;
      case 1:
        commands[q].push_back(minnow_dma(MINNOW_DMA_STORE, host + 0x20000 + 8 * pick(512),
                                         pad + 8 * pick(256), 8 + 8 * pick(40), 1 + pick(8), 8 * pick(100),
                                         8 * pick(32)));
        break;
      case 2: {
        uint32_t n = 1 + pick(24), k = 1 + pick(32);
        commands[q].push_back(minnow_gemm(pad + 8 * pick(64), pad + 0x1000 + 8 * pick(64), pad + 0x2000,
                                          1 + pick(20), n, k, (k + 7) & ~7u, (n + 7) & ~7u, (4 * n + 7) & ~7u,
                                          pick(2)));
        break;
      }
      case 3:
        commands[q].push_back(minnow_requant(pad + 0x2000, pad + 0x4000, 1 + pick(8), 1 + pick(20), 80, 24,
                                             1 + pick(1000), pick(20), 3, pick(2)));
        break;
      case 4:
        commands[q].push_back(minnow_maxpool8(pad, pad + 0x5000, 8, 8, 16, 1 + pick(3), 1 + pick(2)));
        break;
      default: commands[q].push_back(minnow_fence(host + 0x3f000, random(), pick(2)));
      }
    commands[q].push_back(minnow_barrier());
  }
  minnow.submit(0, commands[0]);
  minnow.submit(1, commands[1]);
}

/// Everything that can be seen of a device, times included.
Bytes look(Device &minnow) {
  Bytes all = minnow.scratchpad();
  all.insert(all.end(), minnow.memory.host, minnow.memory.host + Device::size);
  auto add = [&](uint64_t value) {
    for (int i = 0; i < 8; ++i)
      all.push_back(uint8_t(value >> 8 * i));
  };
  add(minnow.time());
  for (uint32_t id = 0; id < MINNOW_COUNTERS; ++id)
    add(minnow.counter(id));
  for (uint64_t offset = 0; offset < 0x180; offset += 4)
    if (offset != MINNOW_DBG_DATA)
      add(minnow.read(offset));
  return all;
}

void fill(Device &minnow) {
  Bytes content = noise(0x80000, 77);
  minnow.put(Device::data, content.data(), content.size());
}

} // namespace

TEST_CASE("the same seed gives the same run, cycle by cycle; other seeds and latencies the same results") {
  RTL_OR_SKIP();
  auto run = [](const std::string &options, Bytes &results) {
    Device minnow(options);
    fill(minnow);
    for (uint32_t seed = 0; seed < 6; ++seed) {
      workload(minnow, seed);
      CHECK((minnow.settle() & MINNOW_STATUS_IDLE) != 0);
    }
    results.assign(minnow.memory.host, minnow.memory.host + Device::size);
    Bytes pad = minnow.scratchpad();
    results.insert(results.end(), pad.begin(), pad.end());
    for (uint32_t id : {MINNOW_CNT_MACS, MINNOW_CNT_READ_BYTES, MINNOW_CNT_WRITE_BYTES,
                        MINNOW_CNT_READ_BURSTS, MINNOW_CNT_WRITE_BURSTS, MINNOW_CNT_COMMANDS})
      for (int i = 0; i < 8; ++i)
        results.push_back(uint8_t(minnow.counter(id) >> 8 * i));
    return look(minnow);
  };
  Bytes plain, same, results[4];
  plain = run("jitter=30&seed=1", results[0]);
  same = run("jitter=30&seed=1", results[1]);
  CHECK(plain == same);
  Bytes other = run("jitter=30&seed=2", results[2]);
  CHECK(plain != other); // Its times are.
  run("latency=100", results[3]);
  CHECK(results[0] == results[2]);
  CHECK(results[0] == results[3]);
}

TEST_CASE("a snapshot holds everything: what follows it is the same again") {
  RTL_OR_SKIP();
  Device minnow("jitter=40&seed=8");
  fill(minnow);
  for (uint32_t step = 0; step < 8; ++step) {
    workload(minnow, step);
    must(minnow.target->advance(700 + 1303 * step)); // In the middle of things.
    uint64_t kept = must(minnow.target->snapshot());
    uint32_t tails[2] = {minnow.tail[0], minnow.tail[1]};
    auto goOn = [&] {
      minnow.settle();
      workload(minnow, 100 + step);
      minnow.settle();
      return look(minnow);
    };
    Bytes first = goOn();
    std::copy(tails, tails + 2, minnow.tail);
    must(minnow.target->restore(kept));
    Bytes second = goOn();
    REQUIRE(first == second);
    must(minnow.target->releaseSnapshot(kept));
  }
}

TEST_CASE("a soft reset in the middle of things puts everything into the reset state in 1000 cycles") {
  RTL_OR_SKIP();
  for (const char *options : {"", "latency=256&jitter=256&seed=3"})
    for (uint32_t step = 0; step < 12; ++step) {
      Device minnow(options);
      fill(minnow);
      minnow.write(MINNOW_IRQ_ENABLE, 7);
      minnow.write(MINNOW_DBG_ADDR, 0x100);
      workload(minnow, step);
      must(minnow.target->advance(500 + 997 * step));
      minnow.write(MINNOW_CNT_CONTROL, MINNOW_CNT_SNAPSHOT | MINNOW_CNT_FREEZE);
      uint64_t start = minnow.time();
      minnow.write(MINNOW_CONTROL, MINNOW_CONTROL_SOFT_RESET | MINNOW_CONTROL_ENABLE);
      CHECK((minnow.read(MINNOW_STATUS) & MINNOW_STATUS_RESETTING) != 0);
      while (minnow.read(MINNOW_STATUS) & MINNOW_STATUS_RESETTING)
        REQUIRE(minnow.time() - start < 10000);
      CHECK(minnow.read(MINNOW_STATUS) == MINNOW_STATUS_IDLE);
      for (uint64_t offset = 0x00c; offset < 0x2a0; offset += 4)
        if (offset != MINNOW_STATUS && offset != MINNOW_TIME_LO && offset != MINNOW_DBG_DATA)
          CHECK_MESSAGE(minnow.read(offset) == 0, offset);
      for (uint32_t id = 0; id < MINNOW_COUNTERS; ++id)
        CHECK(minnow.counter(id) == 0);
      CHECK(minnow.scratchpad() == Bytes(0x10000, 0));
      // Nothing comes late, and it works again.
      Bytes host(minnow.memory.host, minnow.memory.host + Device::size);
      must(minnow.target->advance(100000));
      CHECK(std::memcmp(host.data(), minnow.memory.host, Device::size) == 0);
      minnow.start();
      workload(minnow, step + 1);
      CHECK((minnow.settle() & MINNOW_STATUS_IDLE) != 0);
    }
}

TEST_CASE("semaphores are reset, too") {
  RTL_OR_SKIP();
  Device minnow;
  minnow.run({minnow_signal(4)});
  must(minnow.target->reset(ResetKind::Default));
  minnow.start();
  minnow.submit(0, {minnow_wait(4)});
  CHECK((minnow.settle() & MINNOW_STATUS_Q0_BUSY) != 0);
}

TEST_CASE("resets from outside: the timestamp runs on unless power was off") {
  RTL_OR_SKIP();
  Device minnow;
  minnow.run({minnow_dma(MINNOW_DMA_LOAD, Device::data, 0, 8, 4096, 0, 8)});
  uint32_t before = minnow.read(MINNOW_TIME_LO);
  must(minnow.target->reset(ResetKind::Function));
  CHECK(minnow.read(MINNOW_STATUS) == MINNOW_STATUS_IDLE);
  CHECK(minnow.scratchpad() == Bytes(0x10000, 0));
  CHECK(minnow.read(MINNOW_TIME_LO) > before);
  must(minnow.target->reset(ResetKind::Power));
  CHECK(minnow.read(MINNOW_STATUS) == MINNOW_STATUS_IDLE);
  CHECK(minnow.read(MINNOW_TIME_LO) < 1000);
}

TEST_CASE("options that are unknown or out of range are refused with a list") {
  RTL_OR_SKIP();
  for (const char *options :
       {"speed=1", "latency=0", "latency=257", "jitter=-1", "seed=x", "errata=", "errata=none",
        "errata=requant-wrap+", "errata=requant-wrap,reset-head", "latency="}) {
    Failure refused = failure(openTarget(std::string("rtl:minnow?") + options));
    CHECK_MESSAGE(refused.code == "bad-model-option", options);
    CHECK(refused.cls == FailureClass::Usage);
  }
  CHECK(contains(failure(openTarget("rtl:minnow?speed=1")).message,
                 "latency=CYCLES, jitter=CYCLES, seed=N, errata=NAME"));
  CHECK(contains(failure(openTarget("rtl:minnow?errata=x")).message,
                 "dma-4k-last-beat, requant-wrap, fence-overtake"));
  CHECK(contains(failure(openTarget("rtl:trout")).hint, "minnow"));
  Device all("latency=1&jitter=256&seed=0xffffffffffffffff&errata=reset-head+chain-prefetch");
  CHECK(all.read(MINNOW_ID) == MINNOW_ID_VALUE);
}

TEST_CASE("simulation speed") {
  RTL_OR_SKIP();
  Device minnow;
  uint64_t start = minnow.time();
  std::vector<minnow_command> gemms(12, minnow_gemm(0, 0x4000, 0x8000, 64, 64, 128, 128, 64, 256, 0));
  double ms = milliseconds([&] { minnow.run(gemms); });
  double cycles = double(minnow.time() - start) / 10;
  MESSAGE("GEMM: " << cycles / ms / 1000 << " million cycles a second");
  start = minnow.time();
  ms = milliseconds([&] { minnow.run({12, minnow_dma(MINNOW_DMA_LOAD, Device::data, 0, 0x8000, 1, 0, 0)}); });
  MESSAGE("DMA: " << double(minnow.time() - start) / 10 / ms / 1000 << " million cycles a second, "
                  << 12 * 0x8000 / (double(minnow.time() - start) / 10) << " bytes a cycle");
  CHECK(cycles > 10000);
}

namespace {

/// The plugin's table, without a process between: a waveform is asked for through the ABI only.
struct Plugin {
  Plugin() {
    std::string path = std::string(TAPEBACK_BINARY_DIR) + "/lib/tapeback/tapeback-rtl-minnow.so";
    library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    REQUIRE_MESSAGE(library != nullptr, ::dlerror());
    auto entry =
        reinterpret_cast<const tapeback_model *(*)(uint32_t)>(::dlsym(library, "tapeback_model_entry"));
    REQUIRE(bool(entry));
    CHECK(entry(TAPEBACK_MODEL_ABI_MAJOR + 1) == nullptr);
    table = entry(TAPEBACK_MODEL_ABI_MAJOR);
    REQUIRE(table != nullptr);
    char error[256];
    REQUIRE(table->create(&host, nullptr, 0, &instance, error, sizeof error) == 0);
  }
  ~Plugin() { table->destroy(instance); }

  tapeback_model_host host = {
      sizeof host,
      TAPEBACK_MODEL_ABI_MINOR,
      nullptr,
      [](void *, uint64_t, void *, uint64_t) -> int { return TAPEBACK_MODEL_E_BUS; },
      [](void *, uint64_t, const void *, uint64_t) -> int { return TAPEBACK_MODEL_E_BUS; },
      [](void *, uint32_t) -> int { return 0; },
      [](void *, int, const char *) {}};
  void *library = nullptr, *instance = nullptr;
  const tapeback_model *table = nullptr;
};

off_t fileSize(const std::string &path) {
  struct stat status;
  return ::stat(path.c_str(), &status) == 0 ? status.st_size : -1;
}

} // namespace

TEST_CASE("a waveform of a range, more than one, and only one at a time") {
  RTL_OR_SKIP();
  Plugin plugin;
  const tapeback_model &table = *plugin.table;
  char directory[] = "/tmp/minnow-trace-XXXXXX";
  REQUIRE(::mkdtemp(directory));
  std::string paths[] = {std::string(directory) + "/a.fst", std::string(directory) + "/b.fst"};
  uint64_t value;
  for (const std::string &path : paths) {
    REQUIRE(table.trace_begin(plugin.instance, path.c_str()) == 0);
    CHECK(table.trace_begin(plugin.instance, path.c_str()) == TAPEBACK_MODEL_E_USAGE);
    CHECK(contains(table.last_error(plugin.instance), "already"));
    for (int i = 0; i < 20; ++i)
      CHECK(table.write(plugin.instance, 0, MINNOW_IRQ_ENABLE, 4, i) == 0);
    REQUIRE(table.trace_end(plugin.instance) == 0);
    CHECK(fileSize(path) > 1000);
    off_t size = fileSize(path);
    CHECK(table.read(plugin.instance, 0, MINNOW_ID, 4, &value) == 0);
    CHECK(fileSize(path) == size);
  }
  CHECK(table.trace_begin(plugin.instance, "/nonexistent/x.fst") == TAPEBACK_MODEL_E_USAGE);
  CHECK(contains(table.last_error(plugin.instance), "/nonexistent/x.fst"));
  CHECK(table.trace_end(plugin.instance) == 0);
  for (const std::string &path : paths)
    ::unlink(path.c_str());
  ::rmdir(directory);
}

TEST_CASE("a waveform through the target: takes no device time") {
  RTL_OR_SKIP();
  Device minnow;
  char directory[] = "/tmp/minnow-trace-XXXXXX";
  REQUIRE(::mkdtemp(directory));
  std::string path = std::string(directory) + "/window.fst";
  CHECK(minnow.target->capabilities().trace);
  uint64_t before = minnow.time();
  must(minnow.target->beginTrace(path));
  CHECK(minnow.time() == before);
  CHECK(failure(minnow.target->beginTrace(path)).code == "refused-by-model");
  minnow.run({minnow_gemm(0, 0x1000, 0x2000, 8, 8, 8, 8, 8, 32, 0)});
  uint64_t after = minnow.time();
  must(minnow.target->endTrace());
  CHECK(minnow.time() == after);
  CHECK(fileSize(path) > 5000);
  CHECK(failure(minnow.target->beginTrace("/nonexistent/x.fst")).cls == FailureClass::Usage);
  CHECK(failure(minnow.target->beginTrace("")).code == "bad-trace-path");
  CHECK(failure(open("null:")->beginTrace(path)).code == "unsupported");
  ::unlink(path.c_str());
  ::rmdir(directory);
}

TEST_CASE("a snapshot that is damaged or foreign is refused, and nothing changes") {
  RTL_OR_SKIP();
  Plugin plugin;
  const tapeback_model &table = *plugin.table;
  uint64_t size = 0, value = 0;
  REQUIRE(table.snapshot_size(plugin.instance, &size) == 0);
  Bytes kept(size);
  REQUIRE(table.snapshot_save(plugin.instance, kept.data(), size) == 0);
  CHECK(table.snapshot_save(plugin.instance, kept.data(), size - 1) == TAPEBACK_MODEL_E_USAGE);
  CHECK(table.write(plugin.instance, 0, MINNOW_IRQ_ENABLE, 4, 5) == 0);
  for (size_t at = 0; at < size; at += at < 2000 ? 97 : size / 50) {
    Bytes damaged = kept;
    damaged[at] ^= 0x40;
    // What follows from the head alone may be legal; what the RTL would read never is.
    int status = table.snapshot_load(plugin.instance, damaged.data(), size);
    if (at > 2000)
      CHECK(status == TAPEBACK_MODEL_E_USAGE);
    else if (status == 0)
      CHECK(table.write(plugin.instance, 0, MINNOW_IRQ_ENABLE, 4, 5) == 0);
  }
  CHECK(table.snapshot_load(plugin.instance, kept.data(), size - 8) == TAPEBACK_MODEL_E_USAGE);
  CHECK(table.read(plugin.instance, 0, MINNOW_IRQ_ENABLE, 4, &value) == 0);
  CHECK(value == 5);
  CHECK(table.snapshot_load(plugin.instance, kept.data(), size) == 0);
  CHECK(table.read(plugin.instance, 0, MINNOW_IRQ_ENABLE, 4, &value) == 0);
  CHECK(value == 0);
}
