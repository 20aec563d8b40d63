// Captures that are written from tapes and read back: the same packets, as far as the format can carry them.
#include "Captures.h"
#include "format/TapeReader.h"
#include "recorder/import/Import.h"
#include "tests/support/RunProgram.h"
#include "tools/export/Captures.h"
#include "llvm/ADT/StringExtras.h"
#include <doctest/doctest.h>
#include <fstream>
#include <random>

using namespace tapeback;
using namespace tapeback::test;

namespace {

struct RoundTrip {
  ScratchDirectory scratch;
  std::string capture = scratch.path() + "/a.txt", tape = scratch.path() + "/a.tape";
  CaptureReport report;
  std::string exported;
  bool registersOnly = false;
  bool whole = true; ///< Every line of the last capture was understood.

  bool import(llvm::StringRef kind, const std::string &text) {
    std::ofstream(capture, std::ios::binary) << text;
    ImportOptions options;
    options.kind = kind.str();
    options.files = {capture};
    options.output = tape;
    options.registersOnly = registersOnly;
    options.writer.syncOnFinish = false;
    ImportReport done;
    llvm::Error failed = importCapture(options, done);
    whole = !done.notUnderstood;
    if (!failed)
      return true;
    std::string message = toFailure(std::move(failed)).message;
    CHECK_MESSAGE(false, message);
    return false;
  }
  bool write(llvm::StringRef kind) {
    std::unique_ptr<TapeSource> source = llvm::cantFail(TapeSource::open(tape));
    exported.clear();
    llvm::raw_string_ostream os(exported);
    llvm::Expected<CaptureReport> written = findCaptureFormat(kind)->write(*source, os);
    if (!written) {
      std::string message = toFailure(written.takeError()).message;
      CHECK_MESSAGE(false, message);
      return false;
    }
    report = *written;
    return true;
  }
  /// All that is on the tape, a line a packet.
  std::vector<std::string> content() {
    std::unique_ptr<TapeReader> reader = llvm::cantFail(TapeReader::open(tape));
    std::vector<std::string> lines;
    for (const DeviceRecord &device : reader->devices()) {
      lines.push_back("device " + device.alias);
      for (const auto &[key, value] : device.identity)
        lines.back() += " " + key + "=" + value;
    }
    PacketBatch batch;
    llvm::cantFail(reader->readPackets(0, reader->summary().packets, batch));
    for (const Packet &p : batch.packets) {
      const PacketExtra &e = batch.extra(p);
      std::string line = packetKindName(p.kind);
      line += " " + reader->clocks()[p.clock].name + " " + reader->spaces()[p.space];
      for (uint64_t number : {p.issueTime, p.completeTime, p.address, p.value, uint64_t(p.device),
                              uint64_t(p.width), uint64_t(p.completion), uint64_t(p.flags), e.mask,
                              e.expected, e.deadline, e.length, e.link, e.count})
        line += " " + llvm::utohexstr(number);
      if (e.payload)
        line += " |" + llvm::toHex(llvm::cantFail(reader->blob(e.payload)));
      lines.push_back(std::move(line));
    }
    return lines;
  }
  /// import, export, import again: the same? And export again: the same text?
  void same(llvm::StringRef kind, const std::string &text) {
    CAPTURE(text);
    REQUIRE(import(kind, text));
    std::vector<std::string> before = content();
    REQUIRE(write(kind));
    CAPTURE(exported);
    std::string first = exported;
    REQUIRE(import(kind, first));
    CHECK(whole);
    std::vector<std::string> after = content();
    REQUIRE(before.size() == after.size());
    for (size_t i = 0; i < before.size(); ++i)
      CHECK(after[i] == before[i]);
    REQUIRE(write(kind));
    CHECK(exported == first);
  }
};

std::string hexText(uint64_t value) {
  return "0x" + llvm::utohexstr(value, true);
}

/// Captures of every form of a kind's lines, by chance.
class Chance {
public:
  explicit Chance(uint32_t seed) : random(seed) {}

  std::string capture(llvm::StringRef kind) {
    std::string text;
    if (kind == "qtest")
      qtest(text);
    else
      for (unsigned lines = 1 + below(30); lines; --lines)
        kind == "mmiotrace" ? mmiotrace(text) : vfioTrace(text);
    return text;
  }

private:
  uint64_t below(uint64_t bound) { return random() % bound; }
  uint64_t number(unsigned bytes) {
    uint64_t high = random(), low = random();
    return (high << 32 | low) >> (64 - 8 * bytes) >> (below(2) ? 0 : below(8 * bytes));
  }
  std::string seconds() {
    now += below(3) * 1000 + (below(4) ? 0 : below(1000));
    std::string digits = std::to_string(1'000'000'000 + now % 1'000'000'000).substr(1);
    return std::to_string(now / 1'000'000'000) + "." + digits;
  }
  unsigned width() { return 1u << below(4); }

  void mmiotrace(std::string &text) {
    if (text.empty()) {
      text = "VERSION 20070824\n";
      text += "PCIDEV 0310 10ec8139 1f f0000004 0 c001 0 0 0 fe000000 1000 0 100 0 0 0 10000 driver x\n";
      text += "PCIDEV 0409 80861234 0 d0000000 0 0 0 0 0 0 100000 0 0 0 0 0 0 \n";
    }
    unsigned bytes = width();
    const uint64_t bases[] = {0xf0000000, 0xd0000000, 0x12345000};
    uint64_t address = bases[below(3)] + below(0xff0), value = number(bytes), kind = below(12);
    std::string time = seconds();
    if (kind == 0)
      text += "MARK " + time + " word " + std::to_string(below(9)) + "\n";
    else if (kind == 1)
      text += "MARK 0.000000 Lost " + std::to_string(1 + below(9)) + " events.\n";
    else if (kind == 2)
      text += "UNKNOWN " + time + " 1 0xf0000020 f3,a4,90 0x0 0\n";
    else if (kind == 3)
      text += "MAP " + time + " 1 0xf0000000 0xffffb7b187000000 0x1000 0x0 0\n";
    else
      text += (below(2) ? "R " : "W ") + std::to_string(bytes) + " " + time + " 1 " + hexText(address) + " " +
              hexText(value) + " 0x0 0\n";
  }

  void vfioTrace(std::string &text) {
    if (text.empty())
      style = unsigned(below(3));
    unsigned bytes = width();
    std::string prefix = style == 0   ? ""
                         : style == 1 ? "77@" + seconds() + ":"
                                      : "2026-08-05T23:59:5" + seconds() + "Z ";
    std::string device = below(2) ? "0000:09:00.0" : "0000:0a:00.1", value = hexText(number(bytes)),
                offset = hexText(below(0x10000)), size = std::to_string(bytes);
    uint64_t kind = below(10);
    if (kind == 0)
      text += "--\n";
    else if (kind == 1)
      text += prefix + "vfio_msi_interrupt (" + device + ") vector " + std::to_string(below(8)) +
              " 0xfee00000/0x1\n";
    else if (kind == 2)
      text += prefix + "vfio_pci_read_config (" + device + ", @" + offset + ", len=0x" + size + ") " + value +
              "\n";
    else if (kind == 3)
      text += prefix + "vfio_pci_write_config (" + device + ", @" + offset + ", " + value + ", len=0x" +
              size + ")\n";
    else if (kind < 7)
      text += prefix + "vfio_region_read  (" + device + ":region" + std::to_string(below(7)) + "+" + offset +
              ", " + size + ") = " + value + "\n";
    else
      text += prefix + "vfio_region_write  (" + device + ":region" + std::to_string(below(7)) + "+" + offset +
              ", " + value + ", " + size + ")\n";
  }

  std::string bytes(uint64_t length) {
    std::string text = "0x";
    for (; length; --length)
      text += llvm::utohexstr(256 + below(256), true).substr(1);
    return text;
  }
  /// A command, and what its answer is if it is not refused.
  std::string command(std::string &answer) {
    answer = "OK";
    unsigned size = width();
    const char letter = "bwlq"[size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3];
    switch (below(11)) {
    case 0: return "clock_step";
    case 1: return "clock_step " + std::to_string(below(1000));
    case 2: return "clock_set " + std::to_string(below(1000));
    case 3: return "irq_intercept_in ioapic" + std::to_string(below(9));
    case 4: return "set_irq_in /machine/x name " + std::to_string(below(9)) + " 1";
    case 5: {
      uint64_t length = 1 + below(40);
      return "write " + hexText(number(8)) + " " + hexText(length) + " " + bytes(length);
    }
    case 6: {
      uint64_t length = 1 + below(40);
      answer = "OK " + bytes(length);
      return "read " + hexText(number(8)) + " " + hexText(length);
    }
    case 7: return "memset " + hexText(number(4)) + " " + hexText(1 + below(64)) + " 0x5a";
    case 8: {
      bool in = below(2);
      size = std::min(size, 4u);
      std::string verb = (in ? "in" : "out") + std::string(1, size == 4 ? 'l' : size == 2 ? 'w' : 'b');
      std::string port = " " + hexText(below(0x10000));
      std::string value = hexText(number(size));
      answer = in ? "OK " + value : "OK";
      return verb + port + (in ? "" : " " + value);
    }
    case 9:
      answer = "OK " + hexText(number(size));
      return std::string("read") + letter + " " + hexText(number(8));
    default: return std::string("write") + letter + " " + hexText(number(8)) + " " + hexText(number(size));
    }
  }
  void qtest(std::string &text) {
    style = unsigned(below(4)); // Script, log, answers without times, script with answers behind it.
    if (below(2))
      text = "qemu-system-i386 -M q35 -device e1000 -qtest stdio\n";
    std::string replies, answer;
    for (unsigned left = 1 + unsigned(below(20)), first = 1; left; --left, first = 0) {
      std::string line = command(answer);
      bool refused = !below(8), raised = style && style < 3 && !first && !below(8);
      if (refused)
        answer = "FAIL no";
      std::string raise = "IRQ raise " + std::to_string(below(16)) + "\n";
      if (style == 1) {
        text += "[R +" + seconds() + "] " + line + "\n";
        text += "[S +" + seconds() + "] " + answer + "\n";
        text += raised ? "[S +" + seconds() + "] " + raise : "";
      } else {
        text += line + "\n";
        text += style == 2 ? answer + "\n" + (raised ? raise : "") : "";
        replies += answer + "\n";
      }
    }
    if (style == 3)
      text += replies;
    if (style == 1 && below(2))
      text += "[R +" + seconds() + "] writel 0xfebf0000 0x1\n"; // QEMU never came back from it.
  }

  std::mt19937 random;
  uint64_t now = 1'000'000'000;
  unsigned style = 0;
};

} // namespace

TEST_CASE("exported captures import to the same packets") {
  RoundTrip trip;
  trip.same("qtest", qtestText);
  trip.same("mmiotrace", mmiotraceText);
  trip.same("vfio-trace", vfioTraceText);
  trip.registersOnly = true;
  trip.same("mmiotrace", mmiotraceText);
}

TEST_CASE("exported captures: random differential") {
  RoundTrip trip;
  for (const char *kind : {"qtest", "mmiotrace", "vfio-trace"})
    for (uint32_t seed = 1; seed <= 60; ++seed) {
      CAPTURE(kind);
      CAPTURE(seed);
      std::string text = Chance(seed).capture(kind);
      trip.same(kind, text);
    }
}

TEST_CASE("an export that changes a packet is noticed") {
  RoundTrip trip;
  REQUIRE(trip.import("vfio-trace", vfioTraceText));
  std::vector<std::string> before = trip.content();
  REQUIRE(trip.write("vfio-trace"));
  for (auto [right, wrong] :
       {std::pair("0x352414c", "0x352414d"), {"region0+0x100", "region0+0x104"}, {"--\n", ""}}) {
    std::string other = trip.exported;
    REQUIRE(other.find(right) != std::string::npos);
    other.replace(other.find(right), std::string(right).size(), wrong);
    REQUIRE(trip.import("vfio-trace", other));
    CHECK(trip.content() != before);
  }
}

TEST_CASE("export says what a format cannot carry") {
  RoundTrip trip;
  REQUIRE(trip.import("qtest", "outl 0xcf8 0x1\nOK\nIRQ raise 5\nwrite 0x0 0x1 0x1\nOK\ninl 0xcfc\nOK 0x1\n"
                               "readl 0x1000\nOK 0x1\n"));
  REQUIRE(trip.write("mmiotrace")); // Addresses of a machine are physical ones there, too.
  CHECK(trip.report.leftOut["memory-write"] == 1);
  CHECK(trip.report.leftOut["interrupt"] == 1);
  CHECK(trip.report.leftOut["access to another space than a BAR"] >= 2); // Ports.
  std::unique_ptr<TapeSource> source = llvm::cantFail(TapeSource::open(trip.tape));
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::Expected<CaptureReport> none = findCaptureFormat("vfio-trace")->write(*source, os);
  REQUIRE(bool(none)); // Its interrupt is all that is left.
  CHECK(none->events == 1);
  REQUIRE(trip.import("mali-log", maliText));
  source = llvm::cantFail(TapeSource::open(trip.tape));
  llvm::Expected<CaptureReport> empty = findCaptureFormat("qtest")->write(*source, os);
  REQUIRE(!empty);
  CHECK(toFailure(empty.takeError()).code == "nothing-to-export");
  // By the command: a script that runs as it is.
  std::string out = trip.scratch.path() + "/out";
  REQUIRE(trip.import("qtest", "qemu-system-i386 -M q35 -qtest stdio\noutl 0xcf8 0x1\n"));
  CHECK(runProgram({tapebackProgram(), "export", trip.tape, "--to", "qtest", "-o", out}).exited(0));
  std::ifstream file(out);
  std::string script((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  CHECK(script == "cat << EOF | qemu-system-i386 -M q35 -display none -qtest stdio\noutl 0xcf8 0x1\nEOF\n");
  CHECK(
      runProgram({tapebackProgram(), "export", trip.tape, "--to", "vfio-trace", "-o", out + "2"}).exited(2));
  CHECK(runProgram({tapebackProgram(), "export", trip.tape, "--to", "vcd", "-o", out + "2"}).exited(2));
}
