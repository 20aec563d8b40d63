// Descriptions that are in order: everything of the grammar comes out as it was written, and lookups find it.
#include "hal/description/Description.h"
#include <doctest/doctest.h>
#include <fstream>
#include <iterator>

using namespace tapeback;

namespace {

Description parsed(llvm::StringRef yaml) {
  llvm::Expected<Description> description = parseDescription(yaml, "d.yaml");
  if (!description)
    FAIL(llvm::toString(description.takeError()));
  return std::move(*description);
}

std::string fileText(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

const char *everything = R"(
tapeback-description: 1
name: all.of-it_1
version: "2.7 beta"
doc: |
  Everything that the grammar has.
spaces: [bar0, config]
dma-mask: 0xffff_ffff
reset-method: function
registers:
  - {name: WIDE, space: bar0, offset: 0x100, width: 8, class: stable, reset: 0xffffffffffffffff, doc: eight bytes}
  - name: WIDE_HIGH
    space: bar0
    offset: 0x104
    alias-of: WIDE
  - {name: BYTE, space: config, offset: 0, width: 1, access: ro, class: identity, reset: 0b1010_0101}
  - {name: WORD, space: config, offset: 2, width: 2, access: wo, class: w1c, policy: forbidden}
  - name: MASKED
    space: bar0
    offset: 8
    policy: mask
    compare-mask: 0xf0
    fields:
      - {name: TOP, bits: "31:28", doc: the upper four}
      - name: LOW
        bits: 3:0
      - {name: BIT, bits: 7}
  - {name: VOLATILE, space: bar0, offset: 0x10, class: volatile}
  - {name: PROGRESS, space: bar0, offset: 0x14, class: progress}
  - {name: POLL, space: bar0, offset: 0x18, class: poll}
  - {name: STATUS, space: bar0, offset: 0x1c, class: status, policy: substitute}
  - {name: RTC, space: bar0, offset: 0x20, class: read-to-clear, policy: side-effect}
  - {name: FIFO, space: bar0, offset: 0x24, class: fifo, policy: may-hang}
  - {name: COUNT, space: bar0, offset: 0x28, class: counter}
  - {name: TIME, space: bar0, offset: 0x2c, class: timestamp}
  - {name: LOW, space: bar0, offset: 0x30, class: address-low}
  - {name: HIGH, space: bar0, offset: 0x34, class: address-high}
  - {name: LENGTH, space: bar0, offset: 0x38, policy: compare}
  - {name: LAST, space: config, offset: 0xfffffffffffffff8, width: 8, policy: ignore}
windows:
  - {name: scratch, base: 0x40000, size: 4096, read-back: copy, max-transfer: 1024, reset: 0xa5, doc: the scratchpad}
  - {name: other, size: 0x10}
activities:
  - name: copy
    starts: {register: MASKED, mask: 0x3, value: 0x1}
    done:
      - {register: POLL, mask: 0x1, value: 0}
      - {register: STATUS, any: true}
    transfers:
      - direction: to-device
        host-address: LOW
        device-address: HIGH
        count: LENGTH
        window: scratch
      - when: {register: MASKED, value: 0x11}
        direction: from-device
        host-address: HIGH
        device-address: LOW
        count: LENGTH
        window: scratch
  - name: plain
    starts: {register: WORD, any: true}
    done: [{register: STATUS, value: 7}]
interrupts:
  - {vector: 0, name: done, cause: {register: STATUS, mask: 0x4, value: 0x4}}
  - {vector: 31, name: error}
fingerprint:
  - {register: BYTE, mask: 0xf0, value: 0xa0}
  - {register: STATUS}
restore:
  - {window: scratch}
  - {register: MASKED}
post-mortem: [STATUS, RTC]
counters:
  - {name: cycles, register: COUNT, unit: cycles, class: compute, width-bits: 24, exact: false}
  - {name: ticks, register: TIME}
)";

} // namespace

TEST_CASE("everything that the grammar has comes out as it was written") {
  Description d = parsed(everything);
  CHECK(d.name == "all.of-it_1");
  CHECK(d.version == "2.7 beta");
  CHECK(d.doc == "Everything that the grammar has.\n");
  CHECK(d.spaces == std::vector<std::string>{"bar0", "config"});
  CHECK(d.dmaMask == 0xffffffff);
  CHECK(d.resetMethod == "function");
  REQUIRE(d.registers.size() == 17);

  const RegisterDescription &wide = d.registers[0];
  CHECK(wide.name == "WIDE");
  CHECK(wide.space == "bar0");
  CHECK(wide.offset == 0x100);
  CHECK(wide.width == 8);
  CHECK(wide.widthMask() == ~uint64_t(0));
  CHECK(wide.access == RegisterAccess::ReadWrite);
  CHECK(wide.cls == RegisterClass::Stable);
  CHECK(wide.policy == ReplayPolicy::Compare);
  CHECK(wide.reset == ~uint64_t(0));
  CHECK(wide.doc == "eight bytes");
  CHECK(d.registers[1].aliasOf == "WIDE");
  CHECK(d.registers[1].width == 4);
  CHECK(d.registers[2].access == RegisterAccess::ReadOnly);
  CHECK(d.registers[2].cls == RegisterClass::Identity);
  CHECK(d.registers[2].reset == 0xa5);
  CHECK(d.registers[3].access == RegisterAccess::WriteOnly);
  CHECK(d.registers[3].cls == RegisterClass::W1C);
  CHECK(d.registers[3].policy == ReplayPolicy::Forbidden);
  CHECK(!d.registers[3].reset);

  const RegisterDescription &masked = d.registers[4];
  CHECK(masked.policy == ReplayPolicy::Mask);
  CHECK(masked.compareMask == 0xf0);
  REQUIRE(masked.fields.size() == 3);
  CHECK(masked.fields[0].mask() == 0xf0000000);
  CHECK(masked.fields[0].doc == "the upper four");
  CHECK(masked.fields[1].mask() == 0xf);
  CHECK(masked.fields[2].mask() == 0x80);
}

TEST_CASE("a policy that is not given follows from the class") {
  Description d = parsed(everything);
  auto policy = [&](const char *name) { return d.findByName(name)->policy; };
  CHECK(policy("VOLATILE") == ReplayPolicy::Ignore);
  CHECK(policy("PROGRESS") == ReplayPolicy::Ignore);
  CHECK(policy("COUNT") == ReplayPolicy::Ignore);
  CHECK(policy("TIME") == ReplayPolicy::Ignore);
  CHECK(policy("POLL") == ReplayPolicy::PollUntil);
  CHECK(policy("LOW") == ReplayPolicy::Relocate);
  CHECK(policy("HIGH") == ReplayPolicy::Relocate);
  CHECK(policy("BYTE") == ReplayPolicy::Compare);
  CHECK(policy("STATUS") == ReplayPolicy::Substitute);
  CHECK(policy("RTC") == ReplayPolicy::SideEffect);
  CHECK(policy("FIFO") == ReplayPolicy::MayHang);
  CHECK(policy("LAST") == ReplayPolicy::Ignore);
  CHECK(std::string(registerClassName(d.findByName("RTC")->cls)) == "read-to-clear");
  CHECK(std::string(replayPolicyName(policy("FIFO"))) == "may-hang");
  CHECK(std::string(registerClassName(RegisterClass(99))) == "unknown");
}

TEST_CASE("activities, windows and the rest refer to registers by index") {
  Description d = parsed(everything);
  auto index = [&](const char *name) { return d.indexOf(*d.findByName(name)); };
  REQUIRE(d.activities.size() == 2);
  const ActivityDescription &copy = d.activities[0];
  CHECK(copy.name == "copy");
  CHECK(copy.starts.reg == index("MASKED"));
  CHECK(copy.starts.holds(0xfffffffd));
  CHECK(!copy.starts.holds(0x3));
  REQUIRE(copy.done.size() == 2);
  CHECK(copy.done[0].reg == index("POLL"));
  CHECK(copy.done[1].any);
  CHECK(copy.done[1].mask == 0xffffffff);
  REQUIRE(copy.transfers.size() == 2);
  CHECK(copy.transfers[0].toDevice);
  CHECK(copy.transfers[0].when.any);
  CHECK(copy.transfers[0].when.reg == copy.starts.reg);
  CHECK(copy.transfers[0].hostAddress == index("LOW"));
  CHECK(copy.transfers[0].deviceAddress == index("HIGH"));
  CHECK(copy.transfers[0].count == index("LENGTH"));
  CHECK(copy.transfers[0].window == "scratch");
  CHECK(!copy.transfers[1].toDevice);
  CHECK(copy.transfers[1].when.value == 0x11);
  CHECK(copy.transfers[1].when.mask == 0xffffffff);
  CHECK(d.activities[1].transfers.empty());

  REQUIRE(d.windows.size() == 2);
  CHECK(d.windows[0].base == 0x40000);
  CHECK(d.windows[0].size == 4096);
  CHECK(d.windows[0].readBack == "copy");
  CHECK(d.windows[0].maxTransfer == 1024);
  CHECK(d.windows[0].reset == 0xa5);
  CHECK(d.windows[0].doc == "the scratchpad");
  CHECK(d.windows[1].base == 0);
  CHECK(d.windows[1].maxTransfer == 16);
  CHECK(d.windows[1].readBack.empty());
  CHECK(!d.windows[1].reset);
  CHECK(d.findWindow("other") == &d.windows[1]);
  CHECK(d.findWindow("none") == nullptr);

  REQUIRE(d.interrupts.size() == 2);
  CHECK(d.interrupts[0].cause->mask == 4);
  CHECK(d.interrupts[1].vector == 31);
  CHECK(!d.interrupts[1].cause);
  REQUIRE(d.fingerprint.size() == 2);
  CHECK(d.fingerprint[0].mask == 0xf0);
  CHECK(d.fingerprint[0].value == 0xa0);
  CHECK(d.fingerprint[1].mask == 0xffffffff);
  CHECK(!d.fingerprint[1].value);
  CHECK(d.hasRestore);
  REQUIRE(d.restore.size() == 2);
  CHECK(d.restore[0].kind == RestoreStep::Kind::Window);
  CHECK(d.restore[0].window == "scratch");
  CHECK(d.restore[1].kind == RestoreStep::Kind::Register);
  CHECK(d.restore[1].reg == index("MASKED"));
  CHECK(d.postMortem == std::vector<unsigned>{index("STATUS"), index("RTC")});
  REQUIRE(d.counters.size() == 2);
  CHECK(d.counters[0].unit == "cycles");
  CHECK(d.counters[0].cls == "compute");
  CHECK(d.counters[0].widthBits == 24);
  CHECK(!d.counters[0].exact);
  CHECK(d.counters[0].reg == index("COUNT"));
  CHECK(d.counters[1].cls == "other");
  CHECK(d.counters[1].widthBits == 32);
  CHECK(d.counters[1].exact);
}

TEST_CASE("a description may be nearly empty") {
  Description d = parsed("tapeback-description: 1\nname: bare\n");
  CHECK(d.registers.empty());
  CHECK(!d.hasRestore);
  CHECK(d.dmaMask == ~uint64_t(0));
  CHECK(d.find("bar0", 0) == nullptr);
  CHECK(d.findByName("X") == nullptr);
  // A recipe without steps says that there is no state; none says that nobody knows.
  CHECK(parsed("tapeback-description: 1\nname: bare\nrestore: []\n").hasRestore);
  // With one space, registers need not name it.
  d = parsed("{tapeback-description: 1, name: x, spaces: [s], registers: [{name: R, offset: 4}]}");
  CHECK(d.registers[0].space == "s");
}

TEST_CASE("find gives the register that an access falls into") {
  Description d = parsed(everything);
  auto name = [&](const char *space, uint64_t offset, unsigned width = 1) {
    const RegisterDescription *reg = d.find(space, offset, width);
    return reg ? reg->name : "-";
  };
  for (bool indexed : {true, false}) {
    CAPTURE(indexed);
    if (!indexed) { // Changed by hand, without index(): found slowly but rightly.
      d.registers.push_back(d.registers.front());
      d.registers.back().name = "EXTRA";
      d.registers.back().space = "extra";
      CHECK(name("extra", 0x107) == "EXTRA");
      CHECK(d.findByName("EXTRA") == &d.registers.back());
      CHECK(d.findByName("WIDE") == &d.registers.front());
    }
    CHECK(name("bar0", 0x100, 8) == "WIDE");
    CHECK(name("bar0", 0x104, 4) == "WIDE"); // Not the alias.
    CHECK(name("bar0", 0x107) == "WIDE");
    CHECK(name("bar0", 0x108) == "-");
    CHECK(name("bar0", 0xff, 1) == "-");
    CHECK(name("bar0", 0xff, 2) == "WIDE"); // The lowest that the access touches.
    CHECK(name("bar0", 0x10, 8) == "VOLATILE");
    CHECK(name("bar0", 0x13, 2) == "VOLATILE");
    CHECK(name("bar0", 0) == "-");
    CHECK(name("bar0", 4, 8) == "MASKED");
    CHECK(name("config", 0) == "BYTE");
    CHECK(name("config", 1) == "-");
    CHECK(name("config", ~uint64_t(0)) == "LAST");
    CHECK(name("config", ~uint64_t(0), 8) == "LAST");
    CHECK(name("bar0", ~uint64_t(0), 8) == "-"); // Nothing wraps around.
    CHECK(name("bar9", 0x100) == "-");
    CHECK(name("", 0) == "-");
  }
  d.index();
  CHECK(name("extra", 0x100) == "EXTRA");
  CHECK(d.findByName("WIDE_HIGH")->aliasOf == "WIDE");
}

TEST_CASE("fieldOf names the lowest field that is touched") {
  Description d = parsed(everything);
  const RegisterDescription &masked = *d.findByName("MASKED");
  CHECK(d.fieldOf(masked, 0x80) == "BIT");
  CHECK(d.fieldOf(masked, 0xf0000008) == "LOW");
  CHECK(d.fieldOf(masked, 0x80000000) == "TOP");
  CHECK(d.fieldOf(masked, 0x40) == "");
  CHECK(d.fieldOf(masked, 0) == "");
  CHECK(FieldDescription{"all", 0, 63, ""}.mask() == ~uint64_t(0));
  CHECK(FieldDescription{"bad", 4, 3, ""}.mask() == 0);
  CHECK(FieldDescription{"bad", 0, 64, ""}.mask() == 0);
}

TEST_CASE("the description of edu") {
  Description d = parsed(fileText(TAPEBACK_SOURCE_DIR "/hal/edu/edu.yaml"));
  CHECK(d.name == "edu");
  CHECK(d.registers.size() == 11);
  CHECK(d.find("bar0", 0x9c, 4)->name == "DMA_CMD");
  CHECK(d.findWindow("buffer")->size == 4095);
  CHECK(d.findWindow("buffer")->reset == 0);
  CHECK(d.activities.size() == 2);
  CHECK(d.restore.size() == 5);
}

TEST_CASE("the largest description that is accepted is parsed in reasonable time") {
  std::string yaml = "tapeback-description: 1\nname: large\nspaces: [bar0]\nregisters:\n";
  for (unsigned i = 0; i < 65536; ++i)
    yaml += "  - {name: R" + std::to_string(i) + ", space: bar0, offset: " + std::to_string(8 * (65535 - i)) +
            ", width: 8, class: stable, policy: compare, reset: 0}\n";
  Description d = parsed(yaml);
  REQUIRE(d.registers.size() == 65536);
  for (unsigned i = 0; i < 65536; i += 117) {
    CHECK(d.find("bar0", 8 * uint64_t(65535 - i) + 5) == &d.registers[i]);
    CHECK(d.findByName("R" + std::to_string(i)) == &d.registers[i]);
  }
}
