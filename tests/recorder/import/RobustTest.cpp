// What importers do with captures that are broken, and which kind a capture is taken for.
#include "Captures.h"
#include "Importing.h"
#include "hal/qemu/QemuArguments.h"
#include <doctest/doctest.h>
#include <fcntl.h>
#include <random>
#include <unistd.h>

using namespace tapeback;
using namespace tapeback::test;

namespace {

struct Sample {
  const char *kind, *text;
};
constexpr Sample samples[] = {{"qtest", qtestText},          {"mmiotrace", mmiotraceText},
                              {"vfio-trace", vfioTraceText}, {"nvdla-txn", nvdlaTxnText},
                              {"nvdla-cfg", nvdlaCfgText},   {"mali-log", maliText},
                              {"nvme-trace", nvmeText},      {"vcd", vcdText}};

std::vector<std::string> splitLines(const std::string &text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

/// Whatever the text, lines add up and the tape is one that verifies.
void holds(const char *kind, const std::string &text) {
  Imported done;
  done.maxLine = 4096;
  done.run(kind, {text});
  CHECK(done.addsUp());
  CHECK(done.tape.violation.empty());
}

} // namespace

TEST_CASE("malformed variants of every kind") {
  for (const Sample &sample : samples) {
    CAPTURE(sample.kind);
    std::string text = sample.text;
    for (size_t cut = 0; cut < text.size(); ++cut)
      holds(sample.kind, text.substr(0, cut));
    std::vector<std::string> lines = splitLines(text);
    std::string reversed, doubled, shuffled, carriage;
    for (size_t i = 0; i < lines.size(); ++i) {
      reversed += lines[lines.size() - 1 - i] + "\n";
      doubled += lines[i] + "\n" + lines[i] + "\n";
      shuffled += lines[i * 7 % lines.size()] + "\n";
      carriage += lines[i] + "\r\n";
    }
    holds(sample.kind, reversed);
    holds(sample.kind, doubled);
    holds(sample.kind, shuffled);
    for (size_t i = 0; i < text.size(); i += 3)
      for (char c : {'\0', '\xff', ' ', '9', '\n'}) {
        std::string other = text;
        other[i] = c;
        holds(sample.kind, other);
      }
    // The same capture with other line ends is the same tape.
    Imported plain, windows;
    plain.run(sample.kind, {text});
    windows.run(sample.kind, {carriage});
    CHECK(plain.texts() == windows.texts());
    CHECK(windows.report.carriage == lines.size());
    // A line of a megabyte where 4 KiB are allowed.
    Imported longLine;
    longLine.maxLine = 4096;
    longLine.run(sample.kind, {text + std::string(1 << 20, 'R') + "\n" + lines.back() + "\n"});
    CHECK(longLine.addsUp());
    CHECK(longLine.report.lines == lines.size() + 2);
    CHECK(longLine.report.notUnderstood >= 1);
    // Lines of a megabyte that are allowed, and begin as they should.
    for (char c : {'R', '0', ' ', '\xff', ','}) {
      Imported allowed;
      allowed.run(sample.kind, {text + lines[lines.size() / 2] + std::string(1 << 20, c) + "\n"});
      CHECK(allowed.addsUp());
      CHECK(allowed.tape.violation.empty());
    }
    // Nothing but bytes; and a capture with bytes in it.
    std::string bytes;
    std::mt19937 random(1);
    for (unsigned i = 0; i < 20000; ++i)
      bytes += char(random());
    holds(sample.kind, bytes);
    holds(sample.kind, text.substr(0, text.size() / 2) + bytes + text.substr(text.size() / 2));
    // The same capture wrapped at 60 columns, as mailers do.
    std::string wrapped;
    for (const std::string &line : lines)
      for (size_t at = 0; at == 0 || at < line.size(); at += 60)
        wrapped += line.substr(at, 60) + "\n";
    holds(sample.kind, wrapped);
  }
}

TEST_CASE("a full disk ends the import with its own error") {
  for (const Sample &sample : samples) {
    CAPTURE(sample.kind);
    Imported done;
    done.tape.failAfter = 1;
    done.run(sample.kind, {sample.text});
    CHECK(!done.error.empty());
    CHECK(done.tape.packets.size() <= 1);
  }
}

TEST_CASE("short lines that ask for much do not get it for ever") {
  std::string fills, sets;
  for (unsigned i = 0; i < 5; ++i)
    fills += "mem_init(pri_mem, 0x0, 0x40000000, ALL_ZERO);\n";
  for (unsigned i = 0; i < 65; ++i)
    sets += "memset 0x0 0x4000000 0x0\n";
  Imported nvdla, qtest;
  nvdla.run("nvdla-cfg", {fills});
  CHECK(nvdla.report.warningCounts["too-much-memory"] == 1);
  CHECK(nvdla.tape.blobs.size() <= 3);
  qtest.run("qtest", {sets});
  CHECK(qtest.report.notUnderstood == 1);
}

TEST_CASE("kinds are recognised") {
  for (const Sample &sample : samples) {
    CAPTURE(sample.kind);
    llvm::Expected<const ImporterKind *> kind = recogniseCapture(sample.text, "x");
    REQUIRE(bool(kind));
    CHECK(std::string((*kind)->name) == sample.kind);
  }
  for (const char *other : {"", "hello\nworld\n", "\x7f\x45LF\0\0", "{\"a\": 1}\n", "R\nW\nOK\n"}) {
    llvm::Expected<const ImporterKind *> kind = recogniseCapture(other, "x");
    REQUIRE(!kind);
    CHECK(toFailure(kind.takeError()).code == "unknown-capture");
  }
  CHECK(findImporter("mmio") == nullptr);
  CHECK(importerKinds().size() == 8);
}

TEST_CASE("lines of any length, from files and from memory") {
  char path[] = "/tmp/tapeback-lines-XXXXXX";
  int fd = mkstemp(path);
  REQUIRE(fd >= 0);
  std::string text = "first\r\n\n" + std::string((4u << 20) + 5, 'x') + "\nlast";
  REQUIRE(write(fd, text.data(), text.size()) == ssize_t(text.size()));
  close(fd);
  std::unique_ptr<LineReader> fromFile = llvm::cantFail(LineReader::open(path));
  std::unique_ptr<LineReader> fromText = LineReader::ofText(text);
  CHECK(llvm::cantFail(fromFile->head()).size() == 65536);
  for (LineReader *reader : {fromFile.get(), fromText.get()}) {
    CaptureLine line;
    REQUIRE(llvm::cantFail(reader->next(line)));
    CHECK(line.text == "first");
    CHECK(line.carriage);
    REQUIRE(llvm::cantFail(reader->next(line)));
    CHECK(line.text.empty());
    REQUIRE(llvm::cantFail(reader->next(line)));
    CHECK(line.tooLong);
    CHECK(line.text == std::string(256, 'x'));
    CHECK(line.number == 3);
    REQUIRE(llvm::cantFail(reader->next(line)));
    CHECK(line.text == "last");
    CHECK(line.unended);
    CHECK(!line.tooLong);
    CHECK(!llvm::cantFail(reader->next(line)));
    CHECK(reader->position() == text.size());
  }
  unlink(path);
  for (const char *bad : {"/", "/nonexistent/capture"}) {
    llvm::Expected<std::unique_ptr<LineReader>> reader = LineReader::open(bad);
    REQUIRE(!reader);
    CHECK(toFailure(reader.takeError()).code == "unreadable");
  }
}

TEST_CASE("numbers and times") {
  uint64_t value = 1;
  CHECK(!Scanner("18446744073709551616").decimal(value));
  CHECK(Scanner("18446744073709551615").decimal(value));
  CHECK(value == ~uint64_t(0));
  CHECK(!Scanner("0x10000000000000000").hex(value));
  CHECK(!Scanner("0x").hex(value));
  CHECK(Scanner("010").cNumber(value));
  CHECK(value == 8);
  CHECK(!Scanner("07777777777777777777777777").cNumber(value));
  CHECK(Scanner("1.5").seconds(value));
  CHECK(value == 1'500'000'000);
  CHECK(!Scanner("1.").seconds(value));
  CHECK(!Scanner("99999999999999999999.5").seconds(value));
  Scanner leap("2024-02-29T23:59:59.25Z rest");
  REQUIRE(scanIsoTime(leap, value));
  CHECK(value == 1709251199'250000000);
  CHECK(leap.rest() == " rest");
  for (const char *bad :
       {"2024-13-01T00:00:00Z", "2024-01-01T24:00:00Z", "2024-01-01T00:00:00", "2024-01-01 00:00:00Z"}) {
    Scanner s(bad);
    CHECK(!scanIsoTime(s, value));
    CHECK(s.column() == 1);
  }
}

TEST_CASE("QEMU's command line: what is on the list") {
  auto parsed = [](const char *text) {
    llvm::Expected<QemuCommand> command = parseQemuCommand(text);
    return command ? command->architecture + "|" + command->text()
                   : "refused: " + toFailure(command.takeError()).message;
  };
  CHECK(parsed("cat << EOF | ./qemu-system-i386 -M pc,accel=qtest -nographic -device 'e1000,netdev=n' \\\n"
               "-netdev user,id=n -drive file=null-co://,if=none,id=d,format=raw -qtest stdio -S 2>&1 > x") ==
        "i386|-M pc,accel=qtest -device e1000,netdev=n -netdev user,id=n -drive "
        "file=null-co://,if=none,id=d,format=raw");
  CHECK(parsed("-serial stdio -parallel none -monitor none") == "|-serial null -parallel none");
  CHECK(parsed("-m 512M -nodefaults --device \"a b\"") == "|-m 512M -nodefaults -device 'a b'");
  for (const char *bad : {"-kernel x",
                          "-drive file=/etc/passwd",
                          "-drive if=none,file.filename=/x",
                          "-blockdev driver=file,filename=/x",
                          "-netdev tap,id=a",
                          "-netdev user,id=a,hostfwd=tcp::1-:2",
                          "-device vfio-pci,host=01:00.0",
                          "-device loader,file=/x",
                          "-device e1000,romfile=/x",
                          "-device virtio-9p-pci,fsdev=a",
                          "-chardev socket,path=/x",
                          "-object memory-backend-file,mem-path=/x",
                          "-global e1000.romfile=/x",
                          "-machine pc,firmware=/x",
                          "-hda x",
                          "-device `id`",
                          "-device $(id)",
                          "-device 'open",
                          "-device",
                          "qemu-system- -M pc",
                          "-chroot /",
                          "-monitor"})
    CHECK_MESSAGE(parsed(bad).find("refused: ") == 0, std::string(bad));
}
