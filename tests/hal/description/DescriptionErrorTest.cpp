// Descriptions that are not in order: each mistake with its message and its place.
#include "tests/hal/description/Refused.h"

using namespace tapeback;
using namespace tapeback::test;

namespace {

/// A sound description of seven lines before whatever is added to it. Lines added count from 9.
const std::string base = "tapeback-description: 1\n"
                         "name: d\n"
                         "spaces: [bar0, bar1]\n"
                         "registers:\n"
                         "  - {name: CMD, space: bar0, offset: 0, fields: [{name: GO, bits: 0}]}\n"
                         "  - {name: ADDR, space: bar0, offset: 8, width: 8}\n"
                         "  - {name: INFO, space: bar0, offset: 0x10, access: ro}\n"
                         "  - {name: KICK, space: bar0, offset: 0x14, access: wo}\n";

} // namespace

TEST_CASE("the description that the mistakes are added to has none") {
  CHECK(bool(parseDescription(base, "d.yaml")));
}

TEST_CASE("the caret points at the mistake and a near name is suggested") {
  Failure failure = refused(base + "post-mortem: [INFO, KICC]\n");
  CHECK(failure.message == "no register is named 'KICC'; did you mean 'KICK'?\n"
                           "  post-mortem: [INFO, KICC]\n"
                           "                      ^~~~");
  CHECK(failure.where == "d.yaml:9:21");
}

TEST_CASE("several mistakes are reported at once, the first five of them") {
  Failure failure = refused(base + "post-mortem: [A1, B2, C3, D4, E5, F6, G7]\n");
  llvm::StringRef message = failure.message;
  CHECK(message.count("no register is named") == 5);
  CHECK(message.contains("\nd.yaml:9:19: no register is named 'B2'"));
  CHECK(message.ends_with("and 2 more"));
}

TEST_CASE("mistakes of shape") {
  check("", {{"name: d\n", "1:1", "missing required key 'tapeback-description'"},
             {"tapeback-description: 1\n", "1:1", "missing required key 'name'"},
             {"tapeback-description: 2\nname: d\n", "1:23",
              "this is version 2 of the grammar; this tapeback reads version 1"},
             {"tapeback-description: one\nname: d\n", "1:23",
              "'one' is not a number: write decimal, 0x, 0b or 0o, for example 4096 or 0x1000"},
             {"tapeback-description: 1\nname: [d]\n", "2:8", "unexpected scalar"},
             {"- a\n", "1:1", "not a mapping"},
             {"tapeback-description: 1\nname: d\nregisters: {}\n", "3:13", "not a sequence"}});
  check(
      base,
      {{"colour: red\n", "9:1", "unknown key 'colour'"},
       {"name: e\n", "9:1", "duplicated mapping key 'name'"},
       {"  - {name: A}\n", "9:6", "missing required key 'offset'"},
       {"  - {offset: 4}\n", "9:6", "missing required key 'name'"},
       {"  - {name: A, space: bar1, offset: 010}\n", "9:36",
        "'010' starts with a zero, which half the world reads as octal: leave the zero out, or write 0o for "
        "octal or 0x for hexadecimal"},
       {"  - {name: A, space: bar1, offset: 0x1_0000_0000_0000_0000}\n", "9:36",
        "'0x1_0000_0000_0000_0000' does not fit into 64 bits"},
       {"restore: &anchor []\n", "9:11", "anchors (&name) are not accepted"}});
}

TEST_CASE("mistakes of the heading") {
  const std::string start = "tapeback-description: 1\n";
  check(start,
        {{"name: a b\n", "2:7", "a device name is 1 to 64 of the characters A-Z a-z 0-9 _ . -"},
         {"name: ''\n", "2:7", "a device name is 1 to 64 of the characters A-Z a-z 0-9 _ . -"},
         {"name: d\nspaces: [memory]\n", "3:10", "'memory' is device-visible memory and no register space"},
         {"name: d\nspaces: [a, a]\n", "3:13", "a second space named 'a'"},
         {"name: d\nspaces: [a/b]\n", "3:10", "a space name is 1 to 64 of the characters A-Z a-z 0-9 _ . -"},
         {"name: d\nreset-method: prayer\n", "3:15",
          "unknown reset method 'prayer'; did you mean 'power'? (one of: default, function, bus, power)"},
         {"name: d\ndma-mask: all\n", "3:11",
          "'all' is not a number: write decimal, 0x, 0b or 0o, for example 4096 or 0x1000"}});
  CHECK(llvm::StringRef(refused(start + "name: " + std::string(65, 'a')).message)
            .starts_with("a device name is 1 to 64 of the characters"));
  CHECK(llvm::StringRef(refused(start + "name: a\ndoc: " + std::string(4097, 'a')).message)
            .starts_with("doc has more than 4096 bytes"));
  CHECK(llvm::StringRef(refused(start + "name: a\nversion: " + std::string(4097, 'a')).message)
            .starts_with("version has more than 4096 bytes"));
}

TEST_CASE("mistakes in registers") {
  check(
      base,
      {{"  - {name: CMD, space: bar1, offset: 0}\n", "9:12", "a second register named 'CMD'"},
       {"  - {name: a+b, space: bar1, offset: 0}\n", "9:12",
        "a register name is 1 to 64 of the characters A-Z a-z 0-9 _ . -"},
       {"  - {name: A, space: bar2, offset: 0}\n", "9:22", "no space is named 'bar2'; did you mean 'bar0'?"},
       {"  - {name: A, offset: 0x20}\n", "9:12",
        "the register needs a space: the description does not have exactly one"},
       {"  - {name: A, space: bar1, offset: 0, width: 3}\n", "9:46", "a width is 1, 2, 4 or 8 bytes"},
       {"  - {name: A, space: bar1, offset: 0, width: 0x100000004}\n", "9:46",
        "a width is 1, 2, 4 or 8 bytes"},
       {"  - {name: A, space: bar1, offset: 0xffff_ffff_ffff_fffd}\n", "9:36",
        "the register reaches past the end of the address space"},
       {"  - {name: A, space: bar1, offset: 0, access: read}\n", "9:47",
        "unknown access 'read' (one of: rw, ro, wo)"},
       {"  - {name: A, space: bar1, offset: 0, class: w1s}\n", "9:46",
        "unknown class 'w1s'; did you mean 'w1c'? (one of: stable, volatile, progress, poll, status, w1c, "
        "read-to-clear, fifo, counter, timestamp, identity, address-low, address-high)"},
       {"  - {name: A, space: bar1, offset: 0, policy: compair}\n", "9:47",
        "unknown policy 'compair'; did you mean 'compare'? (one of: compare, ignore, mask, poll-until, "
        "substitute, relocate, side-effect, may-hang, forbidden)"},
       {"  - {name: A, space: bar1, offset: 0, policy: mask}\n", "9:47",
        "`policy: mask` needs a compare-mask"},
       {"  - {name: A, space: bar1, offset: 0, compare-mask: 1}\n", "9:53",
        "a compare-mask needs `policy: mask`"},
       {"  - {name: A, space: bar1, offset: 0, policy: mask, compare-mask: 0x1_0000_0000}\n", "9:67",
        "the compare-mask has bits outside the 32 bits of A"},
       {"  - {name: A, space: bar1, offset: 0, width: 1, reset: 256}\n", "9:56",
        "the reset value has bits outside the 8 bits of A"},
       {"  - {name: A, space: bar0, offset: 2}\n", "9:36",
        "A overlaps CMD; if it is another view of it, say `alias-of: CMD`"},
       {"  - {name: A, space: bar0, offset: 4, width: 8}\n", "6:39",
        "ADDR overlaps A; if it is another view of it, say `alias-of: A`"},
       {"  - {name: A, space: bar0, offset: 8, alias-of: ADR}\n", "9:49",
        "no register is named 'ADR'; did you mean 'ADDR'?"},
       {"  - {name: A, space: bar0, offset: 6, alias-of: ADDR}\n", "9:49", "A does not lie within ADDR"},
       {"  - {name: A, space: bar0, offset: 14, alias-of: ADDR}\n", "9:50", "A does not lie within ADDR"},
       {"  - {name: A, space: bar1, offset: 8, alias-of: ADDR}\n", "9:49", "A does not lie within ADDR"},
       {"  - {name: A, space: bar0, offset: 0, width: 8, alias-of: CMD}\n", "9:59",
        "A does not lie within CMD"},
       {"  - {name: A, space: bar0, offset: 0, alias-of: A}\n", "9:49", "A is an alias; name A here"},
       {"  - {name: A, space: bar0, offset: 0, alias-of: CMD}\npost-mortem: [A]\n", "10:15",
        "A is an alias; name CMD here"}});
}

TEST_CASE("mistakes in fields") {
  const std::string start = base + "  - {name: A, space: bar1, offset: 0, fields: [{name: F, bits: 7:4}, ";
  check(start, {{"{name: F, bits: 0}]}\n", "9:77", "a second field named 'F'"},
                {"{name: 'F F', bits: 0}]}\n", "9:77",
                 "a field name is 1 to 64 of the characters A-Z a-z 0-9 _ . -"},
                {"{name: G, bits: 4}]}\n", "9:86", "the field overlaps another one of A"},
                {"{name: G, bits: 32}]}\n", "9:86", "bit 32 lies outside the 32 bits of A"},
                {"{name: G, bits: 8:9}]}\n", "9:86",
                 "bits are written as one number or HIGH:LOW, for example 7 or 15:8"},
                {"{name: G, bits: '8:'}]}\n", "9:86",
                 "bits are written as one number or HIGH:LOW, for example 7 or 15:8"},
                {"{name: G, bits: -1}]}\n", "9:86",
                 "bits are written as one number or HIGH:LOW, for example 7 or 15:8"},
                {"{name: G, bits: 99999999999}]}\n", "9:86",
                 "bits are written as one number or HIGH:LOW, for example 7 or 15:8"},
                {"{name: G}]}\n", "9:71", "missing required key 'bits'"}});
  std::string many = "  - {name: A, space: bar1, offset: 0, fields: [";
  for (int i = 0; i < 65; ++i)
    many += "{name: F, bits: 0}, ";
  CHECK(llvm::StringRef(refused(base + many + "]}").message)
            .starts_with("65 fields; at most 64 are accepted\n"));
}

TEST_CASE("mistakes in conditions") {
  auto starts = [](const char *condition) {
    return "activities: [{name: a, done: [{register: INFO, value: 0}], starts: " + std::string(condition) +
           "}]\n";
  };
  struct {
    const char *condition, *where, *message;
  } cases[] = {
      {"{register: CMD}", "9:69", "the condition needs a value, or `any: true`"},
      {"{register: CMD, any: false}", "9:69", "the condition needs a value, or `any: true`"},
      {"{register: CMD, any: true, value: 1}", "9:102", "`any: true` and a value contradict each other"},
      {"{register: CMD, mask: 0, value: 0}", "9:90", "a mask of 0 always holds; write `any: true`"},
      {"{register: CMD, mask: 2, value: 1}", "9:100",
       "the value has bits outside the mask: this can never hold"},
      {"{register: CMD, mask: 0x1_0000_0000, value: 0}", "9:90",
       "the mask has bits outside the 32 bits of CMD"},
      {"{register: CMD, value: 0x1_0000_0000}", "9:91", "the value has bits outside the 32 bits of CMD"},
      {"{register: COMMAND, any: true}", "9:79", "no register is named 'COMMAND'"},
      {"{register: INFO, any: true}", "9:79", "INFO is read-only and is written here"},
      {"{mask: 1, value: 0}", "9:69", "missing required key 'register'"},
      {"{register: CMD, any: maybe}", "9:89", "invalid boolean"},
  };
  for (const auto &c : cases)
    check(base, {{starts(c.condition).c_str(), c.where, c.message}});
}

TEST_CASE("mistakes in activities") {
  check(
      base,
      {{"activities: [{name: a, starts: {register: CMD, any: true}, done: []}]\n", "9:21",
        "an activity needs a condition by which its end is seen"},
       {"activities: [{name: a, starts: {register: CMD, any: true}}]\n", "9:15",
        "missing required key 'done'"},
       {"activities: [{name: a, starts: {register: CMD, any: true}, done: [{register: KICK, value: 0}]}]\n",
        "9:78", "KICK is write-only and is read here"},
       {"activities:\n  - {name: a, starts: {register: CMD, any: true}, done: [{register: CMD, value: 0}]}\n"
        "  - {name: a, starts: {register: CMD, any: true}, done: [{register: CMD, value: 0}]}\n",
        "11:12", "a second activity named 'a'"}});
  const std::string start = base + "windows: [{name: w, size: 16}]\n"
                                   "activities:\n"
                                   "  - name: a\n"
                                   "    starts: {register: CMD, mask: 1, value: 1}\n"
                                   "    done: [{register: CMD, mask: 1, value: 0}]\n";
  const std::string rest = ", host-address: ADDR, device-address: ADDR, count: CMD";
  struct {
    std::string transfer;
    const char *where, *message;
  } cases[] = {
      {"{direction: up" + rest + "}", "14:29", "unknown direction 'up' (one of: to-device, from-device)"},
      {"{direction: to-device" + rest + ", window: v}", "14:102",
       "no window is named 'v'; did you mean 'w'?"},
      {"{direction: to-device" + rest + ", when: {register: ADDR, value: 0}}", "14:111",
       "a transfer's condition is on the value written to CMD, which starts the activity"},
      {"{direction: to-device, host-address: INFO, device-address: ADDR, count: CMD}", "14:54",
       "INFO is read-only and is written here"},
      {"{direction: to-device, host-address: ADDR, device-address: INFO, count: CMD}", "14:76",
       "INFO is read-only and is written here"},
      {"{direction: to-device, host-address: ADDR, device-address: ADDR, count: INFO}", "14:89",
       "INFO is read-only and is written here"},
      {"{direction: to-device, host-address: ADDR, device-address: ADDR}", "14:18",
       "missing required key 'count'"},
  };
  for (const auto &c : cases)
    check(start, {{("    transfers: [" + c.transfer + "]\n").c_str(), c.where, c.message}});
  std::string many = "activities: [{name: a, starts: {register: CMD, any: true}, done: [";
  for (int i = 0; i < 65; ++i)
    many += "{register: CMD, value: 0}, ";
  check(base, {{(many + "]}]").c_str(), "9:21", "65 conditions; at most 64 are accepted"}});
  many = "    transfers: [";
  for (int i = 0; i < 65; ++i)
    many += "{direction: to-device" + rest + "}, ";
  check(start, {{(many + "]").c_str(), "11:11", "65 transfers; at most 64 are accepted"}});
}

TEST_CASE("mistakes in windows") {
  check(base,
        {{"windows: [{name: w, size: 0}]\n", "9:27", "a window has at least one byte"},
         {"windows: [{name: w}]\n", "9:12", "missing required key 'size'"},
         {"windows: [{name: w, size: 2, base: 0xffff_ffff_ffff_ffff}]\n", "9:27",
          "the window reaches past the end of the address space"},
         {"windows: [{name: w, size: 2, max-transfer: 3}]\n", "9:44",
          "max-transfer is between 1 and the window's size"},
         {"windows: [{name: w, size: 2, max-transfer: 0}]\n", "9:44",
          "max-transfer is between 1 and the window's size"},
         {"windows: [{name: w, size: 2, reset: 256}]\n", "9:37",
          "a window's reset value is one byte, which fills it"},
         {"windows: [{name: w, size: 2}, {name: w, size: 2}]\n", "9:38", "a second window named 'w'"},
         {"windows: [{name: w, size: 2, read-back: a}]\n", "9:41", "no activity is named 'a'"},
         {"activities: [{name: a, starts: {register: CMD, any: true}, done: [{register: CMD, value: 0}]}]\n"
          "windows: [{name: w, size: 2, read-back: a}]\n",
          "10:41", "activity 'a' has no from-device transfer of window 'w'"}});
  CHECK(llvm::StringRef(
            refused(base + "windows: [{name: w, size: 2, doc: " + std::string(5000, 'a') + "}]").message)
            .starts_with("doc has more than 4096 bytes"));
}

TEST_CASE("mistakes in the other lists") {
  check(base, {{"interrupts: [{vector: 4096, name: i}]\n", "9:23", "a vector is below 4096"},
               {"interrupts: [{vector: 0x1_0000_0000, name: i}]\n", "9:23", "a vector is below 4096"},
               {"interrupts: [{vector: 1, name: i}, {vector: 1, name: j}]\n", "9:45",
                "a second interrupt with vector 1"},
               {"interrupts: [{vector: 1, name: i}, {vector: 2, name: i}]\n", "9:54",
                "a second interrupt named 'i'"},
               {"interrupts: [{vector: 1, name: i, cause: {register: KICK, any: true}}]\n", "9:53",
                "KICK is write-only and is read here"},
               {"fingerprint: [{register: KICK}]\n", "9:26", "KICK is write-only and is read here"},
               {"fingerprint: [{register: CMD, mask: 1, value: 2}]\n", "9:47",
                "the value has bits outside the mask: this can never hold"},
               {"fingerprint: [{register: CMD, mask: 0x1_0000_0000}]\n", "9:37",
                "the mask has bits outside the 32 bits of CMD"},
               {"fingerprint: [{register: CMD, value: 0x1_0000_0000}]\n", "9:38",
                "the value has bits outside the 32 bits of CMD"},
               {"  - {name: F, space: bar1, offset: 0, class: fifo}\nfingerprint: [{register: F}]\n", "10:26",
                "F changes when it is read and may not be read here"},
               {"  - {name: F, space: bar1, offset: 0, class: read-to-clear}\nfingerprint: [{register: F}]\n",
                "10:26", "F changes when it is read and may not be read here"},
               {"restore: [{register: CMD, window: w}]\n", "9:12",
                "a restore step has either a register or a window"},
               {"restore: [{}]\n", "9:12", "a restore step has either a register or a window"},
               {"restore: [{register: INFO}]\n", "9:22", "INFO is read-only and is written here"},
               {"restore: [{window: w}]\n", "9:20", "no window is named 'w'"},
               {"windows: [{name: w, size: 1}]\nrestore: [{window: w}]\n", "10:20",
                "no activity has a to-device transfer that could fill window 'w', nor has it a port that can "
                "be written"},
               {"  - {name: F, space: bar1, offset: 0, policy: forbidden}\nrestore: [{register: F}]\n",
                "10:22", "F is forbidden to a replay and is written here"},
               {"post-mortem: [KICK]\n", "9:15", "KICK is write-only and is read here"},
               {"counters: [{name: c, register: KICK}]\n", "9:32", "KICK is write-only and is read here"},
               {"counters: [{name: c, register: CMD, class: fun}]\n", "9:44",
                "unknown counter class 'fun' (one of: compute, data-movement, synchronisation, other)"},
               {"counters: [{name: c, register: CMD, width-bits: 33}]\n", "9:49",
                "width-bits is between 1 and the register's 32"},
               {"counters: [{name: c, register: CMD, width-bits: 0}]\n", "9:49",
                "width-bits is between 1 and the register's 32"},
               {"counters: [{name: c, register: CMD, unit: 'a b'}]\n", "9:43",
                "a unit name is 1 to 64 of the characters A-Z a-z 0-9 _ . -"},
               {"counters: [{name: c, register: CMD}, {name: c, register: CMD}]\n", "9:45",
                "a second counter named 'c'"}});
  // References into a description that has no registers at all.
  check("tapeback-description: 1\nname: d\n",
        {{"post-mortem: [A]\n", "3:15", "no register is named 'A'"},
         {"restore: [{register: A}]\n", "3:22", "no register is named 'A'"},
         {"fingerprint: [{register: A, mask: 1}]\n", "3:26", "no register is named 'A'"},
         {"counters: [{name: c, register: A}]\n", "3:32", "no register is named 'A'"},
         {"interrupts: [{vector: 0, name: i, cause: {register: A, value: 0}}]\n", "3:53",
          "no register is named 'A'"},
         {"activities: [{name: a, starts: {register: A, any: true}, done: [{register: A, value: 0}],\n"
          " transfers: [{when: {register: A, value: 0}, direction: to-device, host-address: A, "
          "device-address: A,\n"
          " count: A}]}]\n",
          "3:43", "no register is named 'A'"}});
}

TEST_CASE("lists are bounded") {
  auto list = [](const char *key, const char *entry, size_t count) {
    std::string text = std::string(key) + ": [";
    for (size_t i = 0; i < count; ++i)
      text += entry + std::string(", ");
    return text + "]\n";
  };
  struct {
    const char *key, *entry;
    size_t count;
    const char *message;
  } cases[] = {
      {"windows", "{name: w, size: 1}", 1025, "1025 windows; at most 1024 are accepted"},
      {"activities", "{name: a, starts: {register: CMD, any: true}, done: []}", 1025,
       "1025 activities; at most 1024 are accepted"},
      {"interrupts", "{vector: 0, name: i}", 4097, "4097 interrupts; at most 4096 are accepted"},
      {"fingerprint", "{register: CMD}", 4097, "4097 fingerprint entries; at most 4096 are accepted"},
      {"post-mortem", "CMD", 4097, "4097 post-mortem registers; at most 4096 are accepted"},
      {"counters", "{name: c, register: CMD}", 4097, "4097 counters; at most 4096 are accepted"},
      {"restore", "{register: CMD}", 65537, "65537 restore steps; at most 65536 are accepted"},
  };
  for (const auto &c : cases)
    check(base, {{list(c.key, c.entry, c.count).c_str(), "1:1", c.message}});
  check("tapeback-description: 1\nname: d\n",
        {{list("spaces", "s", 65).c_str(), "1:1", "65 spaces; at most 64 are accepted"},
         {list("registers", "{name: R, offset: 0}", 65537).c_str(), "1:1",
          "65537 registers; at most 65536 are accepted"}});
  // And many mistakes in a large description stay cheap: only the first get suggestions.
  std::string many = base;
  for (int i = 0; i < 20000; ++i)
    many += "  - {name: R" + std::to_string(i) + ", space: bar1, offset: " + std::to_string(4 * i) + "}\n";
  CHECK(llvm::StringRef(refused(many + list("restore", "{register: Q1}", 60000)).message)
            .ends_with("59995 more"));
}

TEST_CASE("what is no YAML is refused with its own code") {
  CHECK(refused("\xff").code == "text-not-utf8");
  CHECK(refused(std::string(17u << 20, 'a')).code == "text-too-large");
  CHECK(refused("").code == "bad-description");
}

TEST_CASE("mistakes in what a loop may wait for") {
  const std::string start = base + "  - {name: A, space: bar1, offset: 0, ";
  llvm::Expected<Description> good = parseDescription(start + "poll-mask: 0x6}\n", "d.yaml");
  REQUIRE(bool(good));
  CHECK(good->findByName("A")->pollMask == 6);
  constexpr const char *never =
      "A is never polled: its class or policy says that a read changes something or "
      "that its value is of one run only";
  check(start, {{"poll-mask: 0x1_0000_0000}\n", "9:50", "the poll-mask has bits outside the 32 bits of A"},
                {"poll-mask: some}\n", "9:50",
                 "'some' is not a number: write decimal, 0x, 0b or 0o, for example 4096 or 0x1000"},
                {"class: fifo, poll-mask: 1}\n", "9:63", never},
                {"class: read-to-clear, poll-mask: 1}\n", "9:72", never},
                {"class: timestamp, poll-mask: 1}\n", "9:68", never},
                {"access: wo, poll-mask: 1}\n", "9:62", never},
                {"policy: side-effect, poll-mask: 1}\n", "9:71", never},
                {"policy: may-hang, poll-mask: 1}\n", "9:68", never},
                {"policy: substitute, poll-mask: 1}\n", "9:70", never}});
}

TEST_CASE("mistakes in forbidden ranges") {
  llvm::Expected<Description> good = parseDescription(
      base + "forbidden: [{name: flash, space: bar1, first: 0x100, last: 0x1ff}, {name: pll, space: bar0, "
             "first: 0x40, last: 0x40}]\n",
      "d.yaml");
  REQUIRE(bool(good));
  REQUIRE(good->forbidden.size() == 2);
  CHECK(findForbidden(good->forbidden, "bar1", 0xfd, 4) == &good->forbidden[0]);
  CHECK(findForbidden(good->forbidden, "bar1", 0xfc, 4) == nullptr);
  CHECK(findForbidden(good->forbidden, "bar1", 0x200, 4) == nullptr);
  CHECK(findForbidden(good->forbidden, "bar0", 0x100, 4) == nullptr);
  CHECK(findForbidden(good->forbidden, "bar0", 0, ~uint64_t(0)) == &good->forbidden[1]);
  check(base,
        {{"forbidden: {}\n", "9:13", "not a sequence"},
         {"forbidden: [{space: bar0, first: 0, last: 1}]\n", "9:14", "missing required key 'name'"},
         {"forbidden: [{name: f, space: bar0, last: 1}]\n", "9:14", "missing required key 'first'"},
         {"forbidden: [{name: f, space: bar0, first: 1}]\n", "9:14", "missing required key 'last'"},
         {"forbidden: [{name: f, space: bar0, first: 2, last: 1}]\n", "9:52",
          "the range ends before it begins"},
         {"forbidden: [{name: f, space: bar2, first: 0, last: 1}]\n", "9:30",
          "no space is named 'bar2'; did you mean 'bar0'?"},
         {"forbidden: [{name: f, space: memory, first: 0, last: 1}]\n", "9:30", "no space is named 'memory'"},
         {"forbidden: [{name: f, first: 0, last: 1}]\n", "9:20",
          "the range needs a space: the description does not have exactly one"},
         {"forbidden: [{name: CMD, space: bar0, first: 0, last: 1}]\n", "9:20",
          "a register has this name already"},
         {"forbidden: [{name: f, space: bar0, first: 0x80, last: 0x80}, {name: f, space: bar0, first: 0x90, "
          "last: "
          "0x90}]\n",
          "9:69", "a second range named 'f'"},
         {"forbidden: [{name: f, space: bar0, first: 11, last: 11}]\nrestore: [{register: ADDR}]\n", "10:22",
          "ADDR lies in 'f', which is forbidden to a replay, and is written here"}});
  std::string many = base + "forbidden: [";
  for (int i = 0; i < 65; ++i)
    many += "{name: f" + std::to_string(i) + ", space: bar0, first: 0x80, last: 0x80}, ";
  CHECK(llvm::StringRef(refused(many + "]\n").message).starts_with("65 forbidden ranges; at most 64"));
}
