// The in-process target library's table: plain C, and errors as values whatever happens behind it.
#include "hal/backend/tapeback_backend.h"
#include <cstring>
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <map>
#include <string>
#include <thread>

namespace {

const tapeback_backend *backend() {
  static const tapeback_backend *table = []() -> const tapeback_backend * {
    void *library = dlopen(TAPEBACK_BINARY_DIR "/lib/tapeback/libtapeback-backend.so", RTLD_NOW | RTLD_LOCAL);
    REQUIRE_MESSAGE(library, dlerror());
    auto entry =
        reinterpret_cast<const tapeback_backend *(*)(uint32_t)>(dlsym(library, "tapeback_backend_entry"));
    REQUIRE(bool(entry));
    CHECK(entry(TAPEBACK_BACKEND_ABI + 1) == nullptr);
    CHECK(entry(0) == nullptr);
    return entry(TAPEBACK_BACKEND_ABI);
  }();
  REQUIRE(table);
  return table;
}

struct Opened {
  explicit Opened(const char *uri) { status = backend()->open(uri, &target, &failure); }
  ~Opened() {
    if (target)
      backend()->close(target);
  }
  tapeback_backend_target *target = nullptr;
  tapeback_backend_failure failure = {};
  int status;
};

} // namespace

TEST_CASE("the table knows its size and version") {
  CHECK(backend()->struct_size == sizeof(tapeback_backend));
  CHECK(backend()->abi == TAPEBACK_BACKEND_ABI);
}

TEST_CASE("a bad URI is a usage error with a code and a sentence") {
  for (const char *uri :
       {"", "nonsense", "nonsense:x", "model:edu?no-such-option=1", "model:edu?fault=nonsense"}) {
    CAPTURE(uri);
    Opened opened(uri);
    CHECK(opened.status == TAPEBACK_BACKEND_E_USAGE);
    CHECK(opened.target == nullptr);
    CHECK(opened.failure.code[0]);
    CHECK(opened.failure.message[0]);
  }
}

TEST_CASE("registers, memory, interrupts and time of a model, through the table") {
  const tapeback_backend *b = backend();
  Opened opened("model:edu");
  REQUIRE_MESSAGE(opened.status == 0, opened.failure.message);
  tapeback_backend_target *t = opened.target;
  tapeback_backend_failure failure;
  CHECK((b->capabilities(t) & TAPEBACK_BACKEND_CAP_MEMORY));
  CHECK((b->capabilities(t) & TAPEBACK_BACKEND_CAP_INTERRUPTS));
  CHECK((b->capabilities(t) & TAPEBACK_BACKEND_CAP_RESET));
  uint64_t size = 0, value = 0;
  REQUIRE(b->space_count(t) >= 1);
  CHECK(std::string(b->space(t, 0, &size)) == "bar0");
  CHECK(size > 0x98);
  CHECK(b->space(t, 99, &size) == nullptr);
  std::map<std::string, std::string> identity;
  const char *text = nullptr;
  for (uint32_t i = 0; const char *key = b->identity(t, i, &text); ++i)
    identity[key] = text;
  CHECK(identity["kind"] == "model");
  CHECK(identity["name"] == "edu");
  CHECK(identity["vendor"] == "0x1234");
  REQUIRE(b->write(t, 0, 4, 4, 0x1234, &failure) == 0);
  REQUIRE(b->read(t, 0, 4, 4, &value, &failure) == 0);
  CHECK(value == 0xffffedcb);
  tapeback_backend_region region = {};
  REQUIRE(b->map(t, 5000, 4096, &region, &failure) == 0);
  CHECK(region.size == 8192);
  CHECK(b->write_memory(t, region.iova + 10, "hello", 5, &failure) == 0);
  char out[5];
  CHECK(b->read_memory(t, region.iova + 10, out, 5, &failure) == 0);
  CHECK(std::memcmp(out, "hello", 5) == 0);
  if (region.host)
    CHECK(std::memcmp(static_cast<char *>(region.host) + 10, "hello", 5) == 0);
  REQUIRE(b->write(t, 0, 0x60, 4, 2, &failure) == 0);
  CHECK(b->wait_interrupt(t, 0, 1000000, &value, &failure) == 0);
  CHECK(value == 1);
  CHECK(b->wait_interrupt(t, 0, 1000000, &value, &failure) == 0);
  CHECK(value == 0);
  CHECK(b->advance(t, 1000, &failure) == 0);
  CHECK(b->flush(t, &failure) == 0);
  CHECK(b->reset(t, 0, &failure) == 0);
  CHECK(b->unmap(t, region.iova, &failure) == 0);
}

TEST_CASE("bad requests are usage errors, and what a target cannot do is unsupported") {
  const tapeback_backend *b = backend();
  Opened opened("model:edu");
  REQUIRE(opened.status == 0);
  tapeback_backend_target *t = opened.target;
  tapeback_backend_failure failure;
  tapeback_backend_counter counter;
  uint64_t value = 0;
  CHECK(b->read(t, 99, 0, 4, &value, &failure) == TAPEBACK_BACKEND_E_USAGE);
  CHECK(b->read(t, 0, uint64_t(1) << 40, 4, &value, &failure) == TAPEBACK_BACKEND_E_USAGE);
  CHECK(b->write(t, 0, 0, 3, 0, &failure) == TAPEBACK_BACKEND_E_USAGE);
  CHECK(b->unmap(t, 0x1234, &failure) == TAPEBACK_BACKEND_E_USAGE);
  CHECK(b->read_memory(t, 0x10, &value, 8, &failure) == TAPEBACK_BACKEND_E_USAGE);
  const uint32_t first = 0;
  CHECK(b->counters(t, &first, &value, 1, &failure) < 0); // edu has none.
  CHECK(b->find_counter(t, nullptr, "none", &counter, &failure) == TAPEBACK_BACKEND_E_USAGE);
  CHECK(b->find_counter(t, "no-such-description", "none", &counter, &failure) == TAPEBACK_BACKEND_E_USAGE);
  CHECK(failure.message[0]);
}

TEST_CASE("a target outlives the thread that opened it, and the one that reset it") {
  tapeback_backend_target *target = nullptr;
  tapeback_backend_failure failure;
  uint64_t value = 0;
  std::thread([&] { REQUIRE(backend()->open("model:edu", &target, &failure) == 0); }).join();
  std::thread([&] { REQUIRE(backend()->reset(target, 0, &failure) == 0); }).join();
  CHECK(backend()->read(target, 0, 0, 4, &value, &failure) == 0);
  CHECK(value == 0x010000ed);
  backend()->close(target);
}

TEST_CASE("a long message is cut, not written past its end") {
  std::string uri = "model:" + std::string(3000, 'x');
  Opened opened(uri.c_str());
  CHECK(opened.status == TAPEBACK_BACKEND_E_USAGE);
  CHECK(std::strlen(opened.failure.message) < sizeof(opened.failure.message));
}
