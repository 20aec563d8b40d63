// Every kind: a small capture, and the packets it must become, field by field.
#include "Captures.h"
#include "Importing.h"
#include "format/TapeReader.h"
#include "tests/support/RunProgram.h"
#include "llvm/Support/CRC.h"
#include <doctest/doctest.h>
#include <fstream>
#include <random>

using namespace tapeback;
using namespace tapeback::test;

namespace {

using Lines = std::vector<std::string>;

void expect(const Imported &done, const Lines &wanted) {
  CHECK(done.addsUp());
  CHECK(done.tape.violation.empty());
  Lines got = done.texts();
  for (size_t i = 0; i < std::max(got.size(), wanted.size()); ++i)
    CHECK((i < got.size() ? got[i] : "nothing") == (i < wanted.size() ? wanted[i] : "nothing"));
}

} // namespace

TEST_CASE("mmiotrace") {
  Imported done;
  done.run("mmiotrace", {mmiotraceText});
  expect(done, {"marker t=0x3b9acde8 \"MAP 1.000001 1 0xf0000000 0xffffb7b187000000 0x1000 0x0 0\"",
                "open t=0x3b9ad1d0 \"03:02.0\"", "register-read bar0/4 at=0x10 val=0xdeadbeef t=0x3b9ad1d0",
                // From the first write on, the device may have read memory.
                "loss at=0x5 val=0xffffffffffffffff t=0x3b9ad5b8",
                "register-write bar0/2 at=0xffe val=0x1234 t=0x3b9ad5b8", "loss at=0x5 val=0x7 t=0x3b9ad5b8",
                "open dev=0x1 t=0x3b9add88 \"mmio\"",
                "register-read physical/1 at=0x12345 val=0xff dev=0x1 t=0x3b9add88",
                "loss at=0x5 val=0x1 t=0x3b9ae170", "marker t=0x3b9ae558 \"hello there\"",
                "marker t=0x3b9ae940 \"UNMAP 1.000008 1 0x0 0\""});
  CHECK(done.report.imported == 6);
  CHECK(done.report.lost == 2);
  CHECK(done.report.sourceLosses == 2);
  CHECK(done.report.ignored ==
        std::map<std::string, uint64_t>{{"format version", 1}, {"table of PCI devices", 1}});
  CHECK(done.tape.devices[0].identity == std::map<std::string, std::string>{{"device", "0x8139"},
                                                                            {"driver", "driver x"},
                                                                            {"vendor", "0x10ec"}});
  CHECK(done.report.lostAnything());
}

TEST_CASE("mmiotrace: what does not make sense") {
  Imported done;
  done.run("mmiotrace", {"R 4 1.0 1 0x10 0x1ffffffff 0x0 0\n"
                         "R 3 1.0 1 0x10 0x1 0x0 0\n"
                         "R 4 1.0 1 0x10 0x1 0x0\n"
                         "PCIDEV 0010 80860f31 61 b0000000 0 a0000008 0 e081 0 c0002 400000 0\n"
                         "10000000 0 8 0 20000 i915\n"
                         "R 4  2.000000 1   0x10 0x1 0x0 0\r\n"
                         "R 4 1.000000 1 0x10 0x1 0x0 0\n"});
  REQUIRE(done.report.shown.size() == 5);
  CHECK(done.report.shown[0].where == "f0:1:27");
  CHECK(done.report.shown[0].message ==
        "the value is wider than the access: 'R 4 1.0 1 0x10 0x1ffffffff 0x0 0'");
  CHECK(done.report.shown[1].where == "f0:2:4");
  CHECK(done.report.shown[2].where == "f0:3:23");
  CHECK(done.report.shown[3].message.find("is the line wrapped?") != std::string::npos);
  CHECK(done.report.carriage == 1);
  CHECK(done.report.timesBackward == 1);
  CHECK(done.report.warningCounts["aligned-by-hand"] == 1);
  // The five lines are a loss in front of what follows.
  expect(done, {"loss val=0x5 t=0x77359400", "open t=0x77359400 \"mmio\"",
                "register-read physical/4 at=0x10 val=0x1 t=0x77359400",
                "register-read physical/4 at=0x10 val=0x1 t=0x3b9aca00"});
}

TEST_CASE("vfio-trace") {
  Imported done;
  done.run("vfio-trace", {vfioTraceText});
  expect(done, {"open t=0x18c8c6c514124bd0 \"0000:09:00.0\"",
                "register-read bar0/4 at=0x100 val=0x10000000 t=0x18c8c6c514124bd0",
                "loss at=0x5 val=0xffffffffffffffff t=0x18c8c6c514124fb8",
                "register-write bar2/4 at=0x58c val=0x352414c t=0x18c8c6c514124fb8",
                "register-read config/2 at=0x4 val=0x103 t=0x18c8c6c5141253a0",
                "register-write config/2 at=0x4 val=0x107 t=0x18c8c6c514125788",
                "loss at=0x5 val=0xffffffffffffffff t=0x18c8c6c514125788",
                "interrupt at=0x3 deadline=0x3b9aca00 count=0x1 t=0x18c8c6c514125b70",
                "open dev=0x1 t=0x18c8c6c514125f58 \"0000:0a:00.1\"",
                "register-write bar0/8 at=0x8 val=0x1 dev=0x1 t=0x18c8c6c514125f58"});
  CHECK(done.report.joined == 1);
  CHECK(done.report.lost == 1);
  CHECK(done.report.notUnderstood == 0);
  CHECK(done.report.ignored ==
        std::map<std::string, uint64_t>{{"before the first event", 1}, {"set-up of regions", 1}});
}

TEST_CASE("vfio-trace: other prefixes, cut and run together") {
  Imported done;
  done.memoryIsMissing = false;
  done.run("vfio-trace",
           {"  493@15.000002:vfio_region_write  (a:region0+0x4, 0x5a5a, 2)\n"
            "vfio_region_write  (a:region0+0x6, 0x1, 1)vfio_region_read  (a:region0+0x6, 1) = 0x1\n"
            "garbage\n"
            "vfio_region_write  (a:region0+0x8, 0x100, 1)\n"
            "vfio_something_else 12\n"
            "vfio_region_wr"});
  expect(done, {"open t=0x37e11ddd0 \"a\"", "register-write bar0/2 at=0x4 val=0x5a5a t=0x37e11ddd0",
                "register-write bar0/1 at=0x6 val=0x1 t=0x37e11ddd0",
                "register-read bar0/1 at=0x6 val=0x1 t=0x37e11ddd0", "loss val=0x3 t=0x37e11ddd0"});
  CHECK(done.report.notUnderstood == 3);
  CHECK(done.report.shown[1].where == "f0:4:45");
  CHECK(done.report.shown[2].message == "the event is cut: 'vfio_region_wr'");
  CHECK(done.report.warningCounts["events-on-one-line"] == 1);
}

TEST_CASE("mali-log") {
  Imported done;
  ImporterSettings settings;
  settings.space = "gpu";
  done.run("mali-log", {maliText}, settings);
  expect(done,
         {"open \"gpu\"", "register-read gpu/4 val=0x60a00002",
          "loss at=0x5 val=0xffffffffffffffff t=0x7f328", "register-write gpu/4 at=0x4 val=0xf t=0x7f328"});
}

TEST_CASE("nvme-trace") {
  Imported done;
  done.run("nvme-trace", {nvmeText});
  expect(done, {"open t=0x36044713e8 \"nvme0\"",
                "span-begin t=0x36044713e8 \"qid=2 cmdid=7 nsid=3 nvme_cmd_read slba=0, len=7\"",
                "loss at=0x5 val=0xffffffffffffffff t=0x36044713e8",
                "submit val=0x2 length=0x40 not-captured pending t=0x36044713e8",
                "span-begin t=0x36044717d0 \"qid=2 cmdid=8 nsid=3 nvme_cmd_flush\"",
                "submit val=0x2 length=0x40 count=0x1 not-captured pending t=0x36044717d0",
                "counter-snapshot at=0x4 val=0x4f t=0x3604471bb8",
                "counter-snapshot at=0x5 val=0x50 t=0x3604471bb8",
                "late-completion val=0x54002 link=0x3 t=0x3604471fa0", "span-end link=0x1 t=0x3604471fa0",
                "loss at=0x5 val=0xc t=0x3604471fa0", "late-completion t=0x3604472770"});
  CHECK(done.report.ignored == std::map<std::string, uint64_t>{{"comment", 1}, {"other trace events", 1}});
}

TEST_CASE("nvdla-txn") {
  Imported done;
  done.run("nvdla-txn", {nvdlaTxnText}, {},
           {{"in.dat", "Data_size = 0x8\nW = 8\n0x01 0x02 0x03 0x04\n0x05 0x06 0x07 0x80\n"},
            {"out.dat",
             "dumped memory,start_address=0x80002000 size=0x4\nmemory type:dram\n====\n\n 0x0a 0x0b 0x0c "
             "0x0d\n\n====\ndump done\n"}});
  const char *poll = "poll bar0/4 at=0x402c val=0xf0a5a500 mask=0xffffffe0 expected=0xf0a5a500 "
                     "deadline=0x3b9aca00 count=0x1";
  expect(done,
         {"open \"nvdla\"", "memory-map at=0x80000000 length=0x1000",
          "memory-map at=0x80002000 length=0x1000", "memory-write at=0x80000000 length=0x8 |0102030405060780",
          "register-write bar0/4 at=0x402c val=0xf0a5a500", poll,
          // Bits outside the mask: the trace is bad, not the device.
          "register-read bar0/4 at=0xc pending", "interrupt deadline=0x3b9aca00 count=0x1",
          "acquire at=0x80002000 length=0x4 |0a0b0c0d",
          "oracle at=0x80002000 length=0x4 link=0x8 \"dump_mem out.dat\""});
  CHECK(done.report.warningCounts == std::map<std::string, uint64_t>{{"bad-trace", 1}});
  CHECK(done.report.warnings[0].where == "f0:5");
  CHECK(!done.report.lostAnything());
  REQUIRE(done.tape.windows.size() >= 1);
  CHECK(done.tape.windows[0].count == 8);
}

TEST_CASE("nvdla-txn: files that are missing, short, empty of meaning, or elsewhere") {
  Imported done;
  done.run(
      "nvdla-txn",
      {"load_mem 0x1000 0x10 gone.dat\nload_mem 0x1000 0x10 short.dat\nload_mem 0x1000 4 bad.dat\n"
       "dump_mem 0x1000 4 zero.dat\nread_reg 0xffff0001 0x0 0x0\nread_reg 0x1234 1 1\nload_mem 0x1000 0 x\n"
       "load_mem 0xffffffffffffff00 0x1000 x\n"},
      {},
      {{"short.dat", "0x01\n"},
       {"bad.dat", "0x01 0x02 0x123\n0x03\n"},
       {"zero.dat", "0x00 0x00 0x00 0x00\n"}});
  CHECK(done.addsUp());
  CHECK(done.tape.violation.empty());
  CHECK(done.report.warningCounts ==
        std::map<std::string, uint64_t>{
            {"bad-data", 1}, {"missing-file", 1}, {"short-file", 2}, {"vacuous-oracle", 2}});
  CHECK(done.report.notUnderstood == 3);
  CHECK(done.text(2) == "memory-write at=0x1000 length=0x10 not-captured");
  CHECK(done.report.lostAnything());
}

TEST_CASE("nvdla-cfg without a description") {
  Imported done;
  done.run("nvdla-cfg", {nvdlaCfgText}, {},
           {{"in.dat", "{\n{offset:0x0, size:4, payload:0x01 0x02 0x03 0x04} ,\n"
                       "{offset:0x10, size:2, payload:0xaa 0xbb},\n}\n"}});
  std::string zeros(64, '0');
  expect(done, {"open \"nvdla\"", "memory-map at=0x80000000 length=0x1000",
                "memory-map at=0x90000000 length=0x1000", "memory-write at=0x80000400 length=0x20 |" + zeros,
                "memory-write at=0x80000400 length=0x4 |01020304",
                "memory-write at=0x80000410 length=0x2 |aabb", "register-write symbolic/4 val=0x3f03fc",
                "register-read symbolic/4 at=0x4 pending", "register-read symbolic/4 val=0x3f03fc",
                "poll symbolic/4 at=0x4 val=0x1 mask=0xffffffff expected=0x1 deadline=0x3b9aca00 count=0x1",
                "marker \"intr_notify PDP_0 sync_id_0\"", "interrupt deadline=0x3b9aca00 count=0x1",
                "acquire at=0x90000000 length=0x10 not-captured",
                "oracle at=0x90000000 length=0x10 link=0xc \"check_crc sync_id_0 crc32=0x12345678\"",
                "marker \"check_nothing sync_id_0\""});
  CHECK(done.report.warningCounts == std::map<std::string, uint64_t>{{"symbolic-registers", 1}});
  CHECK(done.tape.devices[0].description.find("NVDLA_GLB.S_INTR_STATUS_0, offset: 4}") != std::string::npos);
}

TEST_CASE("nvdla-cfg with a description; oracles that say nothing") {
  ImporterSettings settings;
  settings.description = "tapeback-description: 1\nname: d\nspaces: [bar0]\nregisters:\n"
                         "  - {name: B.R, offset: 0x1004}\n";
  uint8_t data[4] = {1, 2, 3, 4}, zeros[8] = {};
  std::string text = "reg_write(B.R, 0x5);\nreg_write(B.X, 0x5);\n"
                     "check_crc(s, 1, 0x2000, 8, " +
                     std::to_string(llvm::crc32(zeros)) +
                     ");\n"
                     "mem_load(pri_mem, 0x3000, \"in.dat\");\n"
                     "check_crc(s, 1, 0x3000, 4, " +
                     std::to_string(llvm::crc32(data)) +
                     ");\n"
                     "mem_init(sec_mem, 0x4000, 0x10, RANDOM);\n"
                     "mem_load(pri_mem, 0x3000, \"../in.dat\");\n";
  Imported done;
  done.run("nvdla-cfg", {text}, settings, {{"in.dat", "0x01 0x02 0x03 0x04\n"}});
  CHECK(done.addsUp());
  CHECK(done.text(4) == "register-write bar0/4 at=0x1004 val=0x5");
  CHECK(done.report.notUnderstood == 1);
  CHECK(done.report.shown[0].where == "f0:2:1");
  CHECK(done.report.warningCounts ==
        std::map<std::string, uint64_t>{
            {"missing-file", 1}, {"second-memory", 1}, {"unknown-pattern", 1}, {"vacuous-oracle", 2}});
  CHECK(done.report.sourceLosses == 1);
}

TEST_CASE("qtest: a log") {
  Imported done;
  ImporterSettings settings;
  settings.qemuArgs = "-M q35 -qtest stdio";
  done.run("qtest", {qtestText}, settings);
  expect(done,
         {"open t=0x2710 \"machine\"", "register-write io/4 at=0xcf8 val=0x80001010 t=0x2710 done=0x2af8",
          "register-read io/2 at=0xcfc val=0x1af4 t=0x4e20 done=0x5208",
          "memory-write at=0x1000 length=0x4 t=0x7530 done=0x7918 |aabb0000",
          "memory-read at=0x1000 length=0x4 t=0x9c40 done=0xa028 |aabb0000",
          "register-write qtest/8 at=0x8 val=0x64 failed t=0xc350 done=0xc738",
          "interrupt at=0x5 deadline=0x3b9aca00 count=0x1 t=0xcb20",
          // QEMU never came back from it; "010" is eight.
          "register-write physical/8 at=0xfebf0000 val=0x8 pending t=0xea60"});
  CHECK(done.report.ignored ==
        std::map<std::string, uint64_t>{{"marks of the log", 1}, {"replies printed twice", 1}});
  CHECK(done.report.warningCounts == std::map<std::string, uint64_t>{{"refused", 1}});
  CHECK(done.tape.devices[0].identity == std::map<std::string, std::string>{{"qemu-args", "-M q35"}});
}

TEST_CASE("qtest: commands that name a device, and interrupts") {
  Imported done;
  done.run("qtest", {"[R +0.000010] irq_intercept_in ioapic\n[S +0.000011] OK\n"
                     "[R +0.000020] writel 0xe0000060 0x1\n[S +0.000021] IRQ raise 11\n[S +0.000022] OK\n"
                     "[S +0.000025] IRQ raise 12\n[S +0.000026] IRQ lower 12\n"});
  expect(done, {"open t=0x2710 \"machine\"", "marker t=0x2710 \"irq_intercept_in ioapic\"",
                "register-write qtest/8 at=0x400 val=0x65746e695f717269 t=0x2710",
                "register-write qtest/8 at=0x408 val=0x6e695f7470656372 t=0x2710",
                "register-write qtest/8 at=0x410 val=0x636970616f6920 t=0x2710",
                "register-write qtest/8 at=0x20 val=0x17 t=0x2710 done=0x2af8",
                // Raised by the write: behind it, or a replay would wait for it in vain.
                "register-write physical/4 at=0xe0000060 val=0x1 t=0x4e20 done=0x55f0",
                "interrupt at=0xb deadline=0x3b9aca00 count=0x1 t=0x5208",
                "interrupt at=0xc deadline=0x3b9aca00 count=0x1 t=0x61a8"});
  CHECK(done.report.ignored == std::map<std::string, uint64_t>{{"interrupts lowered", 1}});
  // All of a script first: the interrupts come with the replies.
  Imported script;
  script.run("qtest", {"set_irq_in /m name 3 1\nwritel 0xe0000060 0x1\nOK\nIRQ raise 7\nOK\n"});
  CHECK(script.texts().back() == "interrupt at=0x7 deadline=0x3b9aca00 count=0x1");
  CHECK(script.tape.packets[1].kind == PacketKind::Marker);
  CHECK(script.report.notUnderstood == 0);
  for (std::string bad :
       {"irq_intercept_in", "irq_intercept_in a  b", "irq_intercept_out ", "set_irq_in a b 1",
        "set_irq_in a b -1 1", "set_irq_in a b 1 x", "set_irq_in a b 99999999999 1"}) {
    CAPTURE(bad);
    Imported refused;
    refused.run("qtest", {"outb 0x80 0x1\n" + bad + "\n"});
    CHECK(refused.report.notUnderstood == 1);
  }
  Imported longest, longer;
  longest.run("qtest", {"irq_intercept_in " + std::string(1007, 'a') + "\n"});
  CHECK(longest.tape.packets.size() == 2 + 128 + 1);
  longer.run("qtest", {"irq_intercept_in " + std::string(1008, 'a') + "\n"});
  CHECK(longer.report.notUnderstood == 1);
}

TEST_CASE("qtest: a script, its replies in a second file") {
  Imported done;
  done.run("qtest",
           {"cat << EOF | qemu-system-i386 -M q35 \\\n -device e1000 -qtest stdio\noutl 0xcf8 0x80002000\n"
            "inl 0xcfc\nreadq 0xe0000000\nreadb 0xe0000001\nEOF\n",
            "OK\npci_nvme_mmio_read addr 0x0 size 4\nOK 0x101b36\nOK 0x004018200f0107ff\nFAIL no\nOK\n"});
  expect(done, {"open \"machine\"", "register-write io/4 at=0xcf8 val=0x80002000",
                "register-read io/4 at=0xcfc pending", "register-read physical/8 at=0xe0000000 pending",
                "register-read physical/1 at=0xe0000001 pending", "late-completion val=0x101b36 link=0x2",
                "late-completion val=0x4018200f0107ff link=0x3", "late-completion link=0x4 failed",
                "loss val=0x1"});
  CHECK(done.report.notUnderstood == 1); // A reply to no command.
  CHECK(done.tape.devices[0].identity ==
        std::map<std::string, std::string>{{"qemu-architecture", "i386"},
                                           {"qemu-args", "-M q35 -device e1000"}});
}

TEST_CASE("qtest: how QEMU ended, as reports say it") {
  struct Report {
    const char *text, *name, *words;
  };
  for (const Report &report :
       {Report{"qemu-system-i386: ../a.c:1: f: Assertion `x' failed.\nAborted (core dumped)\n", "SIGABRT",
               "../a.c:1: f: Assertion `x' failed."},
        {"ERROR:../b.c:7:g: code should not be reached\n", "SIGABRT",
         "ERROR:../b.c:7:g: code should not be reached"},
        {"qemu: hardware error: no\nAborted\n", "SIGABRT", "qemu: hardware error: no"},
        {"Segmentation fault\n", "SIGSEGV", ""},
        {"Floating point exception (core dumped)\n", "SIGFPE", ""},
        {"", "", ""}}) {
    CAPTURE(report.text);
    ScratchDirectory scratch;
    std::string file = scratch.path() + "/r.txt";
    std::ofstream(file) << "outl 0xcf8 0x1\n" << report.text;
    ImportOptions options;
    options.kind = "qtest";
    options.files = {file};
    options.output = scratch.path() + "/r.tape";
    options.writer.syncOnFinish = false;
    ImportReport done;
    REQUIRE(!importCapture(options, done));
    CHECK(done.notUnderstood == 0);
    std::unique_ptr<TapeReader> reader = llvm::cantFail(TapeReader::open(options.output));
    const std::optional<Signature> &signature = reader->outcome().signature;
    CHECK(signature.has_value() == (*report.name != 0));
    if (!signature)
      continue;
    CHECK(signature->oracle == "target-died");
    CHECK(signature->name == report.name);
    CHECK(signature->object == report.words);
  }
}

TEST_CASE("qtest: what would bring QEMU down is not taken") {
  for (const char *bad :
       {"outl  0xcf8 0x1", "outl 0xcf8", "outl 0x10000 0x1", "read 0x1000 0x0", "inl", "writel 0x1000",
        "write 0x1000 0x4", "write 0x1000 0x4 0xzz", "b64write 0x1000 0x8 AAAA", "irq_intercept_in",
        "read 0x1000 0xffffffffffff", "memset 0x1000 0x10", "frobnicate", "OK 0x1"}) {
    CAPTURE(bad);
    Imported done;
    done.run("qtest", {std::string("outl 0xcf8 0x1\n") + bad + "\n"});
    CHECK(done.addsUp());
    bool reply = bad[0] == 'O';
    CHECK(done.report.notUnderstood == (reply ? 0 : 1)); // The reply is that of the command before it.
  }
  Imported done;
  done.run("qtest", {"memset 0x1000 0x200001 0x5a\nb64write 0x10 0x3 AQID\nwritew 0x0 0x12345 more\n"});
  CHECK(done.report.notUnderstood == 0);
  CHECK(done.tape.extras[1].length == 1 << 20);
  CHECK(done.tape.packets[3].address == 0x201000);
  CHECK(done.tape.extras[3].length == 1);
  CHECK(done.text(4) == "memory-write at=0x10 length=0x3 |010203");
  CHECK(done.text(5) == "register-write physical/2 val=0x2345");
  CHECK(done.report.warningCounts ==
        std::map<std::string, uint64_t>{{"trailing-words", 1}, {"value-cut", 1}});
}

TEST_CASE("vcd: AXI-Lite found by name") {
  Imported done;
  done.run("vcd", {vcdText});
  CHECK(done.error.empty());
  expect(done, {"open t=0x30d40 \"s\"", "loss at=0x5 val=0xffffffffffffffff t=0x61a80",
                "register-write bar0/2 at=0x22 val=0xdead t=0x30d40 done=0x61a80",
                "register-read bar0/4 at=0x8 val=0x1 failed t=0x927c0 done=0xc3500",
                "register-read bar0/4 at=0xc val=0x1 pending t=0xf4240",
                "register-read bar0/4 at=0x10 pending t=0x155cc0"});
  CHECK(done.report.warningCounts == std::map<std::string, uint64_t>{{"unknown-data", 1}});
}

TEST_CASE("vcd: a map, bursts, wide data, a logic analyser's samples") {
  std::string text =
      "$timescale 1ns $end $scope module t $end\n"
      "$var wire 1 a v $end $var wire 1 b r $end $var wire 8 c addr $end $var wire 8 l len $end\n"
      "$var wire 1 d rv $end $var wire 1 e rr $end $var wire 128 f data $end\n"
      "$upscope $end $enddefinitions $end\n"
      "#0\n1a 1b b10000 c b1 l 0d 1e b0 f\n#1\n0a 1d b1" +
      std::string(127, '0') + " f\n#2\nb1 f\n#3\n0d\n";
  ImporterSettings settings;
  settings.signalsName = "map";
  settings.signals = "clock = *\n[mem] # the memory\narvalid = t.v\narready=t.r\naraddr=t.addr\narlen=t.len\n"
                     "rvalid=t.rv\nrready=t.rr\nrdata=t.data\n";
  Imported done;
  done.run("vcd", {text}, settings);
  CHECK(done.error.empty());
  expect(done,
         {"open \"mem\"", "memory-read at=0x10 length=0x10 done=0xf4240 |00000000000000000000000000000080",
          "memory-read at=0x20 length=0x10 done=0x1e8480 |01000000000000000000000000000000"});
  for (auto [map, code] :
       std::map<std::string, std::string>{{"clock = *\n", "bad-signal-map"},
                                          {"[a]\nfoo = b\n", "bad-signal-map"},
                                          {"[a]\nprefix = t.\n", "no-clock"},
                                          {"clock = t.x\n[a]\nprefix = t.\n", "no-clock"},
                                          {"clock = *\n[a]\nrdata = t.x\n", "unknown-signal"},
                                          {"clock = *\n[a]\nrdata = t.data\n", "bad-port"}}) {
    CAPTURE(map);
    settings.signals = map;
    Imported bad;
    bad.run("vcd", {text}, settings);
    CHECK(bad.error == code);
  }
  Imported none;
  none.run("vcd", {text});
  CHECK(none.error == "no-port");
  Imported cut;
  cut.run("vcd", {text.substr(0, 60)});
  CHECK(cut.error == "bad-waveform");
  Imported backward;
  backward.run("vcd", {std::string(vcdText) + "#5\nq1\n"});
  CHECK(backward.report.notUnderstood == 2);
}

TEST_CASE("vcd: lines in their usual form are read as all others are") {
  // Lines that end in \r\n are all taken the long way, one by one.
  const std::string ids[] = {"!",       "a",        "b",        "cc", "\"~", "abc",  "d",
                             "efghijk", "lmnopqrs", "\xe4\xe4", "h",  "i",   "noone"};
  constexpr const char *names[] = {"aclk",    "s_awvalid", "s_awready", "s_awaddr", "s_wvalid", "s_wready",
                                   "s_wdata", "s_wstrb",   "s_bvalid",  "s_bready", "s_bresp",  "other"};
  std::mt19937_64 random(5);
  auto below = [&](uint64_t most) { return random() % most; };
  size_t packets = 0;
  for (unsigned round = 0; round < 400; ++round) {
    std::string text = "$timescale 1 ns $end\n$scope module top $end\n";
    for (size_t i = 0; i < std::size(names); ++i)
      text +=
          std::string("$var wire ") + (i == 3 || i == 6 ? "64 " : "1 ") + ids[i] + " " + names[i] + " $end\n";
    text += "$upscope $end\n$enddefinitions $end\n";
    uint64_t time = below(3);
    for (unsigned i = 0; i < 600; ++i) {
      const std::string &id = ids[below(std::size(ids))];
      std::string line;
      if (below(4) == 0) {
        line = "#" + std::to_string(time += below(12) ? 1 + below(9) : 0);
      } else if (below(5) == 0) {
        line = "b";
        for (uint64_t bits = 1 + below(below(8) ? 64 : 80); bits; --bits)
          line += below(60) ? char('0' + below(2)) : 'x';
        line += " " + ids[below(2) ? 3 : 6];
      } else {
        line = (below(20) ? std::string(1, char('0' + below(2))) : "z") + id;
      }
      if (below(40) == 0) {
        static constexpr const char *odd[] = {
            "1", "",     "b a", "b01",  "b01  a", "#",  "#99999999999999999999", "0a 1b", "0a ", " 0a",
            "q", "b2 a", "\t",  "#1.5", "#7 ",    "1 a"};
        line = odd[below(std::size(odd))];
      }
      text += line + "\n";
    }
    text += "#" + std::to_string(time + 9) + "\n";
    std::string carriage;
    for (char c : text)
      carriage += c == '\n' ? std::string("\r\n") : std::string(1, c);
    Imported usual, slow;
    usual.run("vcd", {text});
    slow.run("vcd", {carriage});
    REQUIRE(usual.error.empty());
    CHECK(usual.texts() == slow.texts());
    CHECK(usual.addsUp());
    CHECK(usual.report.imported == slow.report.imported);
    CHECK(usual.report.ignored == slow.report.ignored);
    CHECK(usual.report.notUnderstood == slow.report.notUnderstood);
    CHECK(usual.report.warningCounts == slow.report.warningCounts);
    CHECK(usual.report.carriage == 0);
    packets += usual.tape.packets.size();
  }
  CHECK(packets > 1000);
}
