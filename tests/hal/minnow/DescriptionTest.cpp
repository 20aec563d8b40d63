// Minnow's description against both Minnows: what it says of registers, resets, queues, counters and the
// debug port is what the devices do.
#include "hal/description/Description.h"
#include "hal/TargetLook.h"
#include "hal/minnow/driver/Commands.h"
#include "tests/hal/Targets.h"

using namespace tapeback;
using namespace tapeback::test;

namespace {

#ifdef TAPEBACK_HAS_RTL
const char *const minnows[] = {"model:minnow", "rtl:minnow"};
#else
const char *const minnows[] = {"model:minnow"};
#endif

Description described() {
  DescriptionText text = must(loadDescriptionText("minnow"));
  return must(parseDescription(text.text, text.name));
}

/// A device that is driven by what its description says.
struct Device {
  Description d = described();
  std::unique_ptr<Target> target;
  explicit Device(const char *uri) : target(open(uri)) { must(target->reset(ResetKind::Default)); }

  unsigned reg(const char *name) const { return d.indexOf(*d.findByName(name)); }
  uint64_t read(unsigned reg) {
    const RegisterDescription &r = d.registers[reg];
    return must(target->read(target->findSpace(r.space).value(), r.offset, r.width));
  }
  void write(unsigned reg, uint64_t value) {
    const RegisterDescription &r = d.registers[reg];
    must(target->write(target->findSpace(r.space).value(), r.offset, r.width, value));
  }
  bool holds(const std::vector<RegisterCondition> &any) {
    for (const RegisterCondition &condition : any)
      if (condition.holds(read(condition.reg)))
        return true;
    return false;
  }
  void waitUntilIdle() {
    for (int i = 0; i < 1000 && !holds(d.idle); ++i)
      must(target->advance(1000));
    REQUIRE(holds(d.idle));
  }
};

} // namespace

TEST_CASE("registers after a reset are as described, and nothing is between them") {
  for (const char *uri : minnows) {
    CAPTURE(uri);
    Device device(uri);
    unsigned compared = 0;
    for (unsigned reg = 0; reg < device.d.registers.size(); ++reg) {
      const RegisterDescription &r = device.d.registers[reg];
      if (!r.reset)
        continue;
      CAPTURE(r.name);
      CHECK(device.read(reg) == *r.reset);
      ++compared;
      if (r.access != RegisterAccess::ReadOnly)
        continue;
      device.write(reg, ~uint64_t(0) & r.widthMask());
      CHECK(device.read(reg) == *r.reset);
    }
    CHECK(compared > 50);
    for (const FingerprintEntry &entry : device.d.fingerprint)
      CHECK((device.read(entry.reg) & entry.mask) == entry.value.value());
    CHECK(device.holds(device.d.idle));
    for (uint64_t offset = 0; offset < 0x400; offset += 4)
      if (!device.d.find("bar0", offset, 4)) {
        CAPTURE(offset);
        CHECK(must(device.target->read(0, offset, 4)) == 0);
      }
    CHECK(device.target->capabilities().interruptVectors == device.d.interrupts.size());
  }
}

TEST_CASE("the scratchpad's port works as described, while it is usable") {
  for (const char *uri : minnows) {
    CAPTURE(uri);
    Device device(uri);
    const InternalWindow &window = *device.d.findWindow("scratchpad");
    REQUIRE(window.port);
    REQUIRE(device.holds(window.port->usable));
    device.write(window.port->address, 0x1230);
    device.write(window.port->data, 0x01020304);
    device.write(window.port->data, 0x05060708);
    CHECK(device.read(window.port->address) == 0x1238);
    std::vector<uint8_t> seen(12);
    must(device.target->peek(window.name, 0x1230, seen));
    CHECK(seen == std::vector<uint8_t>{4, 3, 2, 1, 8, 7, 6, 5, 0, 0, 0, 0});
    device.write(window.port->address, 0x1234);
    CHECK(device.read(window.port->data) == 0x05060708);
    must(device.target->peek(window.name, window.size - 1, llvm::MutableArrayRef(seen).take_front(1)));
    CHECK(failure(device.target->peek(window.name, window.size, llvm::MutableArrayRef(seen).take_front(1)))
              .code.size());
    device.write(device.reg("CONTROL"), MINNOW_CONTROL_ENABLE);
    CHECK(!device.holds(window.port->usable));
    CHECK(device.read(window.port->data) == 0xffffffff);
    CHECK(device.read(window.port->address) == 0x1238);
  }
}

TEST_CASE("a look shows what reading gives, and leaves no trace") {
  for (const char *uri : minnows) {
    CAPTURE(uri);
    Device device(uri);
    device.waitUntilIdle();
    LookableTarget *lookable = lookableTarget(*device.target);
    REQUIRE(lookable);
    // Registers that hold something, and a scratchpad of which every part has changed.
    for (const char *name : {"IRQ_ENABLE", "Q0_BASE_LO", "Q0_BASE_HI", "Q1_BASE_LO", "Q1_SIZE", "CONTROL"})
      device.write(device.reg(name), std::string(name) == "CONTROL" ? 0 : 0x40);
    for (uint32_t at = 0; at < 0x10000; at += 0x400) {
      device.write(device.reg("DBG_ADDR"), at + (at >> 8));
      device.write(device.reg("DBG_DATA"), 0x01020304 + at);
    }
    TargetLook look;
    std::vector<unsigned> shown;
    for (unsigned reg = 0; reg < device.d.registers.size(); ++reg) {
      const RegisterDescription &r = device.d.registers[reg];
      if (r.access == RegisterAccess::WriteOnly || r.cls == RegisterClass::Fifo || r.name == "TIME_LO")
        continue; // A read does something, or gives nothing.
      look.registers.push_back(TargetOperation::read(0, r.offset, r.width));
      shown.push_back(reg);
    }
    for (uint32_t id = 0; id < device.d.counters.size(); ++id)
      look.counters.push_back(id);
    look.windows = {"scratchpad"};
    uint64_t time = must(device.target->deviceTime());
    uint64_t snapshot = must(device.target->snapshot());
    for (bool again : {false, true}) {
      must(lookable->look(look));
      CHECK(must(device.target->deviceTime()) == time);
      std::vector<uint8_t> content(0x10000);
      must(device.target->peek("scratchpad", 0, content));
      CHECK(look.contents[0] == llvm::ArrayRef<uint8_t>(content));
      std::vector<uint64_t> counters(look.counters.size());
      must(device.target->counters(look.counters, counters));
      CHECK(counters == look.counterValues);
      for (size_t i = 0; i < shown.size(); ++i) {
        CAPTURE(device.d.registers[shown[i]].name);
        CHECK(device.read(shown[i]) == look.registers[i].value);
      }
      if (!again)
        must(device.target->restore(snapshot));
    }
    // Registers whose read does something are refused.
    for (const char *name : {"DBG_DATA", "TIME_LO"}) {
      Device other(uri);
      const RegisterDescription &r = *other.d.findByName(name);
      TargetLook refused;
      refused.registers = {TargetOperation::read(0, r.offset, r.width)};
      CHECK(failure(lookableTarget(*other.target)->look(refused)).cls == FailureClass::Usage);
    }
  }
}

TEST_CASE("queues, their counters and what resets them are as described") {
  for (const char *uri : minnows) {
    CAPTURE(uri);
    Device device(uri);
    Target &target = *device.target;
    MapRequest request;
    request.size = 4096;
    const uint64_t ring = must(target.map(request)).iova;
    const std::vector<uint8_t> nops(4096);
    must(target.writeMemory(ring, nops));
    for (const QueueDescription &queue : device.d.queues) {
      device.write(queue.base.value(), ring & 0xffffffff);
      device.write(queue.baseHigh.value(), ring >> 32);
      device.write(queue.size.value(), 8);
    }
    device.write(device.reg("CONTROL"), MINNOW_CONTROL_ENABLE);
    for (const QueueDescription &queue : device.d.queues) {
      CAPTURE(queue.name);
      device.write(queue.doorbell, 3);
      device.waitUntilIdle();
      CHECK(device.read(queue.head.value()) == 3);
      CHECK(device.read(queue.tail.value()) == 3);
      CHECK(device.read(queue.done.value()) == 3);
      for (unsigned reg : queue.rewind)
        device.write(reg, 8);
      CHECK(device.read(queue.head.value()) == 0);
      CHECK(device.read(queue.tail.value()) == 0);
      CHECK(device.read(queue.done.value()) == 3);
    }
    // Counters have the target's numbers and the described registers. Nothing runs; cycles pass all the same.
    device.write(device.reg("CONTROL"), 0);
    device.write(device.reg("CNT_CONTROL"), MINNOW_CNT_SNAPSHOT);
    REQUIRE(device.d.counters.size() == MINNOW_COUNTERS);
    for (unsigned i = 0; i < device.d.counters.size(); ++i) {
      const CounterDescription &counter = device.d.counters[i];
      CAPTURE(counter.name);
      uint64_t value = device.read(counter.reg) | device.read(counter.high.value()) << 32;
      CHECK(value == must(target.counter(i)));
      CHECK((value >> counter.widthBits) == 0);
    }
    CHECK(must(target.counter(MINNOW_CNT_COMMANDS)) == 6);
    CHECK(failure(target.counter(MINNOW_COUNTERS)).cls == FailureClass::Usage);

    device.write(device.reg("IRQ_ENABLE"), 7);
    REQUIRE(device.d.resets.size() == 1);
    device.write(device.d.resets[0].reg, device.d.resets[0].value);
    device.waitUntilIdle();
    CHECK(device.read(device.reg("IRQ_ENABLE")) == 0);
    CHECK(device.read(device.d.queues[0].done.value()) == 0);
    CHECK(must(target.counter(MINNOW_CNT_COMMANDS)) == 0);
  }
}
