// Mistakes in layouts, queues, ports, idle and reset conditions: each key refuses what it cannot mean.
#include "tests/hal/description/Refused.h"

using namespace tapeback;
using namespace tapeback::test;

namespace {

const std::string sound = "tapeback-description: 1\n"
                          "name: d\n"
                          "spaces: [bar0]\n"
                          "registers:\n"
                          "  - {name: LO, offset: 0, class: address-low}\n"
                          "  - {name: HI, offset: 4, class: address-high}\n"
                          "  - {name: WIDE, offset: 8, width: 8}\n"
                          "  - {name: SIZE, offset: 0x10}\n"
                          "  - {name: BELL, offset: 0x14, access: wo}\n"
                          "  - {name: INFO, offset: 0x18, access: ro}\n"
                          "  - {name: FUSE, offset: 0x1c, policy: forbidden}\n"
                          "windows: [{name: pad, size: 64}]\n";

struct Marked {
  std::string text; ///< '@' stands before the mistake.
  const char *message;
};

void checkMarked(const std::string &before, std::initializer_list<Marked> cases) {
  for (const Marked &marked : cases) {
    size_t at = marked.text.find('@');
    REQUIRE(at != std::string::npos);
    std::string text = before + marked.text.substr(0, at) + marked.text.substr(at + 1);
    llvm::StringRef until = llvm::StringRef(text).take_front(before.size() + at);
    CAPTURE(marked.text);
    Failure failure = refused(text);
    std::string first = llvm::StringRef(failure.message).split('\n').first.str();
    CHECK(first == marked.message);
    CHECK(failure.where == "d.yaml:" + std::to_string(until.count('\n') + 1) + ":" +
                               std::to_string(until.size() - until.rfind('\n')));
    CHECK(llvm::StringRef(failure.message).contains("^"));
    CHECK(failure.code == "bad-description");
  }
}

/// A layout with these keys beside name and size.
std::string layout(const std::string &rest) {
  return "layouts: [{name: l, size: 32, " + rest + "}]\n";
}
/// The same with fields: host (an address), n, s (signed), b (bits 3:2 of a byte).
std::string form(const std::string &rest) {
  return layout("fields: [{name: host, offset: 8, width: 8, address: true}, {name: n, offset: 0}, {name: s, "
                "offset: 4, signed: true}, {name: b, offset: 16, width: 1, bits: 3:2}], " +
                rest);
}
std::string transfer(const std::string &rest) {
  return form("transfers: [{direction: to-device, " + rest + "}]");
}

const std::string queueable = sound + "layouts: [{name: l, size: 32}]\n";
std::string queue(const std::string &rest) {
  return "queues: [{name: q, " + rest + "}]\n";
}

} // namespace

TEST_CASE("the descriptions that the mistakes are added to have none") {
  for (const std::string &good :
       {sound, queueable, sound + form("fence: {address: host, value: n}"),
        sound + form("chain: {address: host, layout: l, last: {field: b, mask: 2, value: 2}, limit: 65536}"),
        sound + transfer("host-address: host, row-bytes: n, rows: n, host-stride: n, device-address: s, "
                         "device-stride: n, window: pad, when: {field: s, value: 0xffff_ffff_ffff_ffff}"),
        queueable + queue("base: LO, base-high: HI, size: SIZE, head: INFO, tail: INFO, doorbell: BELL, "
                          "done: INFO, rewind: [SIZE, LO], layout: l"),
        queueable + queue("base: WIDE, size: SIZE, doorbell: BELL, layout: l")}) {
    llvm::Expected<Description> description = parseDescription(good, "d.yaml");
    CHECK_MESSAGE(bool(description), llvm::toString(description.takeError()) << good);
  }
}

TEST_CASE("mistakes in layouts and their fields") {
  checkMarked(
      sound,
      {{"layouts: [{@size: 8}]\n", "missing required key 'name'"},
       {"layouts: [{@name: l}]\n", "missing required key 'size'"},
       {"layouts: [{name: l, size: 8, @colour: red}]\n", "unknown key 'colour'"},
       {"layouts: [{name: @a+b, size: 8}]\n", "a layout name is 1 to 64 of the characters A-Z a-z 0-9 _ . -"},
       {"layouts: [{name: l, size: 8}, {name: @l, size: 8}]\n", "a second layout named 'l'"},
       {"layouts: [{name: l, size: @0}]\n", "an entry has 1 to 4096 bytes"},
       {"layouts: [{name: l, size: @4097}]\n", "an entry has 1 to 4096 bytes"},
       {"layouts: [{name: @l, size: 8, doc: " + std::string(4097, 'x') + "}]\n",
        "doc has more than 4096 bytes"},
       {layout("fields: [{@offset: 0}]"), "missing required key 'name'"},
       {layout("fields: [{@name: f}]"), "missing required key 'offset'"},
       {layout("fields: [{name: f, offset: 0, @colour: red}]"), "unknown key 'colour'"},
       {layout("fields: [{name: f, offset: 0}, {name: @f, offset: 4}]"), "a second field named 'f'"},
       {layout("fields: [{name: f, offset: 0, width: @3}]"), "a width is 1, 2, 4 or 8 bytes"},
       {layout("fields: [{name: f, offset: @29}]"), "the field does not lie in the 32 bytes of the entry"},
       {layout("fields: [{name: f, offset: @0xffff_ffff_ffff_ffff}]"),
        "the field does not lie in the 32 bytes of the entry"},
       {layout("fields: [{name: f, offset: 0, bits: @top}]"),
        "bits are written as one number or HIGH:LOW, for example 7 or 15:8"},
       {layout("fields: [{name: f, offset: 0, bits: @3:7}]"),
        "bits are written as one number or HIGH:LOW, for example 7 or 15:8"},
       {layout("fields: [{name: f, offset: 0, width: 2, bits: @16}]"),
        "bit 16 lies outside the 16 bits of the field"},
       {layout("fields: [{name: f, offset: 0, signed: @perhaps}]"), "invalid boolean"},
       {layout("fields: [{name: f, offset: 0, hex: @perhaps}]"), "invalid boolean"},
       {layout("fields: [{name: f, offset: 0, width: 2, address: @true}]"),
        "an address is a whole field of 4 or 8 bytes, without a sign"},
       {layout("fields: [{name: f, offset: 0, signed: true, address: @true}]"),
        "an address is a whole field of 4 or 8 bytes, without a sign"},
       {layout("fields: [{name: f, offset: 0, bits: 31:6, address: @true}]"),
        "an address is a whole field of 4 or 8 bytes, without a sign"},
       {layout("fields: [{name: @f, offset: 0, doc: " + std::string(4097, 'x') + "}]"),
        "doc has more than 4096 bytes"}});
}

TEST_CASE("mistakes in opcodes and forms") {
  checkMarked(
      sound,
      {{layout("forms: [{name: @A, opcode: 0}]"), "forms need an opcode by which they are told apart"},
       {layout("opcode: {@offset: 0}"), "an opcode needs forms"},
       {layout("opcode: {@width: 1}, forms: [{name: A, opcode: 0}]"), "missing required key 'offset'"},
       {layout("opcode: {offset: @32, width: 1}, forms: [{name: A, opcode: 0}]"),
        "the field does not lie in the 32 bytes of the entry"},
       {layout("opcode: {offset: 0, width: @5}, forms: [{name: A, opcode: 0}]"),
        "a width is 1, 2, 4 or 8 bytes"},
       {layout("opcode: {offset: 0, bits: @32}, forms: [{name: A, opcode: 0}]"),
        "bit 32 lies outside the 32 bits of the field"},
       {layout("opcode: {offset: 0}, forms: [{@opcode: 0}]"), "missing required key 'name'"},
       {layout("opcode: {offset: 0}, forms: [{@name: A}]"), "missing required key 'opcode'"},
       {layout("opcode: {offset: 0, bits: 6:0}, forms: [{name: A, opcode: @0x80}]"),
        "the opcode has bits outside its field"},
       {layout("opcode: {offset: 0}, forms: [{name: A, opcode: 0}, {name: @A, opcode: 1}]"),
        "a second form named 'A'"},
       {layout("opcode: {offset: 0}, forms: [{name: A, opcode: 1}, {name: B, opcode: @1}]"),
        "a second form with this opcode"},
       {layout("opcode: {offset: 0}, fields: [{name: f, offset: 0}], "
               "forms: [{name: A, opcode: 1, fields: [{name: @f, offset: 4}]}]"),
        "a second field named 'f'"},
       {layout("opcode: {offset: 0}, forms: [{name: @A, opcode: 1, doc: " + std::string(4097, 'x') + "}]"),
        "doc has more than 4096 bytes"},
       {"layouts: [{name: @l, size: 32, opcode: {offset: 0}, fields: [{name: f, offset: 8, width: 8, "
        "address: "
        "true}], chain: {address: f, layout: l}, forms: [{name: A, opcode: 1}]}]\n",
        "a layout with an opcode has transfers, fence, chain, sync, creates and deletes in its forms, not "
        "beside them"}});
}

TEST_CASE("mistakes in what entries move, fence and chain") {
  checkMarked(
      sound,
      {{form("transfers: [{@host-address: host, row-bytes: n}]"), "missing required key 'direction'"},
       {form("transfers: [{direction: @sideways, host-address: host, row-bytes: n}]"),
        "unknown direction 'sideways' (one of: to-device, from-device)"},
       {form("transfers: [{@direction: to-device, row-bytes: n}]"), "missing required key 'host-address'"},
       {form("transfers: [{direction: to-device, host-address: @host}]"),
        "how much is moved? row-bytes is a field; plus a number of its own"},
       {transfer("host-address: @hast, row-bytes: n"), "l has no field named 'hast'; did you mean 'host'?"},
       {transfer("host-address: @n, row-bytes: n"),
        "field 'n' is used as a host address: say `address: true` there"},
       {transfer("host-address: host, row-bytes: @host"),
        "field 'host' is a host address and cannot be used here"},
       {transfer("host-address: host, row-bytes: n, rows: @n"), "rows need a host-stride"},
       {transfer("host-address: host, row-bytes: n, host-stride: @n"), "a host-stride needs rows"},
       {transfer("host-address: host, row-bytes: n, rows: @zz, host-stride: n"), "l has no field named 'zz'"},
       {transfer("host-address: host, row-bytes: n, rows: n, host-stride: @host"),
        "field 'host' is a host address and cannot be used here"},
       {transfer("host-address: host, row-bytes: n, device-address: @host"),
        "field 'host' is a host address and cannot be used here"},
       {transfer("host-address: host, row-bytes: n, device-address: n, device-stride: @n"),
        "a device-stride needs rows and a device-address"},
       {transfer("host-address: host, row-bytes: n, window: @pad"), "a window needs a device-address"},
       {transfer("host-address: host, row-bytes: n, device-address: n, window: @pod"),
        "no window is named 'pod'; did you mean 'pad'?"},
       {transfer("host-address: host, row-bytes: n, when: {@value: 1}"), "missing required key 'field'"},
       {transfer("host-address: host, row-bytes: n, when: {@field: n}"), "missing required key 'value'"},
       {transfer("host-address: host, row-bytes: n, when: {field: @zz, value: 1}"),
        "l has no field named 'zz'"},
       {transfer("host-address: host, row-bytes: n, when: {field: b, value: @4}"),
        "the value has bits outside the mask: this can never hold"},
       {transfer("host-address: host, row-bytes: n, when: {field: n, mask: 1, value: @2}"),
        "the value has bits outside the mask: this can never hold"},
       {transfer("host-address: host, row-bytes: n, when: {field: n, mask: @0, value: 0}"),
        "a mask of 0 always holds; leave the condition out"},
       {transfer("host-address: host, row-bytes: n, when: {field: b, mask: @4, value: 0}"),
        "the mask has bits outside the field"},
       {form("fence: {@value: n}"), "missing required key 'address'"},
       {form("fence: {@address: host}"), "missing required key 'value'"},
       {form("fence: {address: @n, value: n}"),
        "field 'n' is used as a host address: say `address: true` there"},
       {form("fence: {address: host, value: @host}"),
        "field 'host' is a host address and cannot be used here"},
       {form("chain: {@layout: l}"), "missing required key 'address'"},
       {form("chain: {@address: host}"), "missing required key 'layout'"},
       {form("chain: {address: @n, layout: l}"),
        "field 'n' is used as a host address: say `address: true` there"},
       {form("chain: {address: host, layout: @m}"), "no layout is named 'm'; did you mean 'l'?"},
       {form("chain: {address: host, layout: l, last: {field: @zz, value: 0}}"), "l has no field named 'zz'"},
       {form("chain: {address: host, layout: l, limit: @0}"), "a limit is between 1 and 65536 elements"},
       {form("chain: {address: host, layout: l, limit: @65537}"), "a limit is between 1 and 65536 elements"},
       {layout("fence: {address: @f, value: f}"), "l has no field named 'f'"},
       {layout("chain: {address: @f, layout: l, last: {field: f, value: 0}}"), "l has no field named 'f'"}});
}

TEST_CASE("mistakes in queues") {
  checkMarked(
      queueable,
      {{"queues: [{@base: LO, size: SIZE, doorbell: BELL, layout: l}]\n", "missing required key 'name'"},
       {"queues: [{name: @q, size: SIZE, doorbell: BELL, layout: l}]\n",
        "a queue has both base and size, or neither if a command creates it"},
       {"queues: [{name: @q, base: LO, doorbell: BELL, layout: l}]\n",
        "a queue has both base and size, or neither if a command creates it"},
       {"queues: [{@name: q, base: LO, size: SIZE, layout: l}]\n", "missing required key 'doorbell'"},
       {"queues: [{@name: q, base: LO, size: SIZE, doorbell: BELL}]\n", "missing required key 'layout'"},
       {"queues: [{name: @a+b, base: LO, size: SIZE, doorbell: BELL, layout: l}]\n",
        "a queue name is 1 to 64 of the characters A-Z a-z 0-9 _ . -"},
       {queue("base: @INFO, size: SIZE, doorbell: BELL, layout: l"), "INFO is read-only and is written here"},
       {queue("base: @LOO, size: SIZE, doorbell: BELL, layout: l"),
        "no register is named 'LOO'; did you mean 'LO'?"},
       {queue("base: LO, base-high: @INFO, size: SIZE, doorbell: BELL, layout: l"),
        "INFO is read-only and is written here"},
       {queue("base: WIDE, base-high: @HI, size: SIZE, doorbell: BELL, layout: l"),
        "WIDE has the whole address already"},
       {queue("base: LO, size: @INFO, doorbell: BELL, layout: l"), "INFO is read-only and is written here"},
       {queue("base: LO, size: SIZE, head: @BELL, doorbell: BELL, layout: l"),
        "BELL is write-only and is read here"},
       {queue("base: LO, size: SIZE, tail: @BELL, doorbell: BELL, layout: l"),
        "BELL is write-only and is read here"},
       {queue("base: LO, size: SIZE, done: @BELL, doorbell: BELL, layout: l"),
        "BELL is write-only and is read here"},
       {queue("base: LO, size: SIZE, doorbell: @INFO, layout: l"), "INFO is read-only and is written here"},
       {queue("base: LO, size: SIZE, doorbell: BELL, rewind: [@INFO], layout: l"),
        "INFO is read-only and is written here"},
       {queue("base: LO, size: SIZE, doorbell: BELL, layout: @m"),
        "no layout is named 'm'; did you mean 'l'?"},
       {queue("base: LO, size: SIZE, doorbell: BELL, layout: l, @colour: red"), "unknown key 'colour'"},
       {"queues: [{name: @q, base: LO, size: SIZE, doorbell: BELL, layout: l, doc: " +
            std::string(4097, 'x') + "}]\n",
        "doc has more than 4096 bytes"},
       {"queues: [{name: q, base: LO, size: SIZE, doorbell: BELL, layout: l}, "
        "{name: @q, base: LO, size: SIZE, doorbell: HI, layout: l}]\n",
        "a second queue named 'q'"},
       {"queues: [{name: q, base: LO, size: SIZE, doorbell: BELL, layout: l}, "
        "{name: r, base: LO, size: SIZE, doorbell: @BELL, layout: l}]\n",
        "a second queue with this doorbell"}});
}

TEST_CASE("mistakes in ports, idle and reset conditions, and halves of counters") {
  const std::string heading = sound.substr(0, sound.find("windows"));
  auto port = [](const std::string &rest) { return "windows: [{name: w, size: 64, port: " + rest + "}]\n"; };
  checkMarked(
      heading,
      {{port("{@data: SIZE}"), "missing required key 'address'"},
       {port("{@address: SIZE}"), "missing required key 'data'"},
       {port("{address: LO, data: HI, @colour: red}"), "unknown key 'colour'"},
       {port("{address: @INFO, data: HI}"), "INFO is read-only and is written here"},
       {port("{address: @FUSE, data: HI}"), "FUSE is forbidden to a replay and is written here"},
       {port("{address: LO, data: @BELL}"), "BELL is write-only and is read here"},
       {port("{address: LO, data: @LO}"), "the port's address and its data are two registers"},
       {port("{address: LO, data: HI, usable: [{@register: SIZE}]}"),
        "the condition needs a value, or `any: true`"},
       {port("{address: LO, data: HI, usable: [{register: @SIZ, value: 0}]}"),
        "no register is named 'SIZ'; did you mean 'SIZE'?"},
       {"windows: [{name: w, size: 64, port: {address: LO, data: INFO}}]\nrestore: [{window: @w}]\n",
        "no activity has a to-device transfer that could fill window 'w', nor has it a port that can be "
        "written"},
       {"windows: [{name: w, size: 64, port: {address: LO, data: FUSE}}]\nrestore: [{window: @w}]\n",
        "no activity has a to-device transfer that could fill window 'w', nor has it a port that can be "
        "written"},
       {"idle: [{register: @BELL, value: 0}]\n", "BELL is write-only and is read here"},
       {"idle: [{register: INFO, mask: 1, value: @2}]\n",
        "the value has bits outside the mask: this can never hold"},
       {"resets: [{register: @INFO, value: 0}]\n", "INFO is read-only and is written here"},
       {"hand-over: [{register: @INFO, value: 0}]\n", "INFO is read-only and is written here"},
       {"resets: [{@register: SIZE}]\n", "the condition needs a value, or `any: true`"},
       {"counters: [{name: c, register: LO, register-high: @BELL}]\n", "BELL is write-only and is read here"},
       {"counters: [{name: c, register: LO, register-high: @WIDE}]\n", "a counter has at most 64 bits"},
       {"counters: [{name: c, register: LO, register-high: HI, width-bits: @65}]\n",
        "width-bits is between 1 and the register's 64"}});
  CHECK(bool(parseDescription(
      heading + "windows: [{name: w, size: 64, port: {address: LO, data: HI}}]\nrestore: [{window: w}]\n",
      "d.yaml")));
}

TEST_CASE("layouts and queues are bounded") {
  auto list = [](const std::string &entry, size_t count) {
    std::string text;
    for (size_t i = 0; i < count; ++i) {
      std::string numbered = entry;
      for (size_t at; (at = numbered.find('#')) != std::string::npos;)
        numbered.replace(at, 1, std::to_string(i));
      text += numbered + ", ";
    }
    return "[" + text + "]";
  };
  const std::string condition = "{register: INFO, value: 0}";
  auto tooMany = [](const std::string &text, llvm::StringRef message) {
    Failure failure = refused(text);
    CHECK(llvm::StringRef(failure.message).starts_with(message));
    CHECK(failure.where == "d.yaml:1:1"); // A list as a whole has no place.
  };
  tooMany(sound + "layouts: " + list("{name: l#, size: 8}", 65), "65 layouts; at most 64 are accepted");
  tooMany(sound + "idle: " + list(condition, 65), "65 idle conditions; at most 64 are accepted");
  tooMany(sound + "resets: " + list(condition, 65), "65 reset conditions; at most 64 are accepted");
  tooMany(queueable + "queues: " + list("{name: q#, base: LO, size: SIZE, doorbell: BELL, layout: l}", 65),
          "65 queues; at most 64 are accepted");
  checkMarked(sound, {{"layouts: [{name: @l, size: 8, fields: " + list("{name: f#, offset: 0}", 65) + "}]\n",
                       "65 fields; at most 64 are accepted"},
                      {"layouts: [{name: @l, size: 8, opcode: {offset: 0}, forms: " +
                           list("{name: f#, opcode: #}", 257) + "}]\n",
                       "257 forms; at most 256 are accepted"},
                      {"layouts: [{name: @l, size: 8, transfers: " +
                           list("{direction: to-device, host-address: a, row-bytes: b}", 65) + "}]\n",
                       "65 transfers; at most 64 are accepted"}});
  checkMarked(queueable, {{"queues: [{name: @q, base: LO, size: SIZE, doorbell: BELL, layout: l, rewind: " +
                               list("LO", 65) + "}]\n",
                           "65 registers; at most 64 are accepted"}});
  // Common fields are in every form: what a small file could make large.
  std::string forms = ", opcode: {offset: 0}, fields: " + list("{name: f#, offset: 0}", 64) +
                      ", forms: " + list("{name: f#, opcode: #}", 255) + "}, ";
  CHECK(bool(parseDescription(sound + "layouts: [{name: a, size: 8" + forms + "]\n", "d.yaml")));
  CHECK(llvm::StringRef(
            refused(sound + "layouts: [{name: a, size: 8" + forms + "{name: b, size: 8" + forms + "]\n")
                .message)
            .starts_with("16448 fields of all forms together; at most 16384 are accepted"));
}

TEST_CASE("mistakes in what orders the queues") {
  for (const char *good :
       {"sync: {kind: barrier}", "sync: {kind: signal, on: n}", "sync: {kind: wait, on: b}"})
    CHECK_MESSAGE(bool(parseDescription(sound + form(good), "d.yaml")), good);
  checkMarked(
      sound,
      {{form("sync: {@on: n}"), "missing required key 'kind'"},
       {form("sync: {kind: @signall, on: n}"),
        "unknown kind of synchronisation 'signall'; did you mean 'signal'? (one of: barrier, signal, wait)"},
       {form("sync: {kind: signal, @of: n}"), "unknown key 'of'"},
       {form("sync: {kind: @signal}"), "what is signalled or waited for is named by a field: `on`"},
       {form("sync: {kind: @wait}"), "what is signalled or waited for is named by a field: `on`"},
       {form("sync: {kind: @barrier, on: n}"), "a barrier is on nothing: it is of all queues"},
       {form("sync: {kind: wait, on: @zz}"), "l has no field named 'zz'"},
       {form("sync: {kind: wait, on: @host}"), "field 'host' is a host address and cannot be used here"},
       {"layouts: [{name: @l, size: 8, opcode: {offset: 0, width: 1}, sync: {kind: barrier}, forms: [{name: "
        "A, "
        "opcode: 0}]}]\n",
        "a layout with an opcode has transfers, fence, chain, sync, creates and deletes in its forms, not "
        "beside them"}});
}

TEST_CASE("mistakes in where a value flows") {
  /// A register that has a value of each run, and layouts of one form and of two.
  auto flows = [](const std::string &into) {
    return "tapeback-description: 1\nname: d\nspaces: [bar0]\nregisters:\n"
           "  - {name: BACK, offset: 0x20}\n"
           "  - {name: VIEW, offset: 0x20, alias-of: BACK}\n"
           "  - {name: ID, offset: 0x24, access: ro, policy: substitute, flows-into: " +
           into +
           "}\n"
           "layouts:\n"
           "  - {name: l, size: 16, fields: [{name: tag, offset: 2, width: 2}, {name: host, offset: 8, "
           "width: 8, "
           "address: true}]}\n"
           "  - {name: m, size: 16, opcode: {offset: 0, width: 1}, forms: [{name: A, opcode: 0}, {name: B, "
           "opcode: 1, fields: [{name: tag, offset: 4}]}]}\n";
  };
  llvm::Expected<Description> good = parseDescription(
      flows("[{register: BACK, bits: '15:8'}, {layout: l, field: tag}, {layout: m, field: tag}]"), "d.yaml");
  REQUIRE_MESSAGE(bool(good), llvm::toString(good.takeError()));
  const RegisterDescription *id = good->findByName("ID");
  REQUIRE(id);
  REQUIRE(id->flowsInto.size() == 1);
  CHECK(id->flowsInto[0].mask() == 0xff00);
  REQUIRE(id->flowsIntoEntries.size() == 2);
  CHECK(id->flowsIntoEntries[1].layout == 1);
  CHECK(id->flowsIntoEntries[1].form == 1);
  CHECK(good->layouts[1].forms[1].fields[id->flowsIntoEntries[1].field].name == "tag");
  checkMarked(
      "", {{flows("@BACK"), "not a sequence"},
           {flows("[{register: @BACC}]"), "no register is named 'BACC'; did you mean 'BACK'?"},
           {flows("[{register: @VIEW}]"), "VIEW is an alias; name BACK here"},
           {flows("[{register: BACK, bits: @top}]"),
            "bits are written as one number or HIGH:LOW, for example 7 or 15:8"},
           {flows("[{register: BACK, bits: @32}]"), "bit 32 lies outside the 32 bits of BACK"},
           {flows("[{register: BACK, @colour: red}]"), "unknown key 'colour'"},
           {flows("[{@bits: 7}]"), "a value flows either into a register, or into a field of a layout"},
           {flows("[{@register: BACK, layout: l, field: tag}]"),
            "a value flows either into a register, or into a field of a layout"},
           {flows("[{@layout: l}]"), "a value that flows into a command needs its layout and its field"},
           {flows("[{@field: tag}]"), "a value that flows into a command needs its layout and its field"},
           {flows("[{layout: l, field: tag, bits: @7}]"), "the field says which bits it has"},
           {flows("[{layout: @n, field: tag}]"), "no layout is named 'n'; did you mean 'l'?"},
           {flows("[{layout: m, field: @tak}]"), "no form of m has a field named 'tak'"},
           {flows("[{layout: l, field: @host}]"), "field 'host' is a host address and cannot be used here"},
           {flows("[]") + "idle: [{register: @IDD, value: 0}]\n",
            "no register is named 'IDD'; did you mean 'ID'?"}});
  check(sound, {{"registers: []\n", "13:1", "duplicated mapping key 'registers'"}});
  std::string plain = flows("[{@register: BACK}]");
  plain.replace(plain.find("policy: substitute"), 18, "policy: compare");
  checkMarked("", {{plain, "flows-into needs `policy: substitute`"}});
}
