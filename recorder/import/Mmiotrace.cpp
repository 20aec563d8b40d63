// Linux mmiotrace: what a kernel driver reads from and writes to mapped registers.
//
//   VERSION 20070824
//   PCIDEV BBDF VVVVDDDD IRQ 7 x (base|flags) 7 x length DRIVER
//   R|W WIDTH SEC.USEC MAPID 0xPHYS 0xVALUE 0xPC 0
//   MAP T ID 0xPHYS 0xVIRT 0xLEN 0xPC 0     UNMAP T ID 0xPC 0     MARK T text     UNKNOWN T ID 0xPHYS …
//
// An address inside a BAR of the table becomes an access to that device's space "barN"; any other is one to
// the space "physical" of the device "mmio".
#include "recorder/import/Importers.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace tapeback {
namespace {

struct PciDevice {
  std::string alias;
  std::map<std::string, std::string> identity;
  std::array<uint64_t, 7> base{}, length{};
  std::optional<uint16_t> id; ///< On the tape, once used.
};

class Mmiotrace : public Importer {
public:
  LineVerdict line(const CaptureLine &line, ImportOutput &out) override {
    if (!started) {
      out.clock("kernel-trace");
      started = true;
    }
    Scanner s(line.text);
    uneven = false;
    switch (s.peek()) {
    case 'R':
    case 'W': return access(s, out);
    case 'P': return pciDevice(s, out);
    case 'M': return line.text.starts_with("MARK ") ? mark(s, out) : mapping(s, out, "MAP ");
    case 'U': return line.text.starts_with("UNKNOWN ") ? unknown(s, out) : mapping(s, out, "UNMAP ");
    case 'V':
      if (!s.eat("VERSION "))
        break;
      if (s.rest().trim() != "20070824")
        out.warn("version", "this is another version of mmiotrace's format than 20070824");
      return LineVerdict::ignored("format version");
    case '#': return LineVerdict::ignored("comment");
    default:
      if (isBlank(line.text))
        return LineVerdict::ignored("blank line");
    }
    return LineVerdict::notUnderstood(1, "no mmiotrace event begins like this");
  }

private:
  /// Fields are separated by one blank; more is what people do to align them.
  bool gap(Scanner &s) {
    if (!s.eat(' '))
      return false;
    uneven |= s.blanks();
    return true;
  }
  void noteSpacing(ImportOutput &out) {
    if (uneven)
      out.warn("aligned-by-hand", "columns are aligned by hand; blanks were taken as one");
  }

  LineVerdict access(Scanner &s, ImportOutput &out) {
    Packet packet;
    packet.kind = s.peek() == 'R' ? PacketKind::RegisterRead : PacketKind::RegisterWrite;
    uint64_t width, time, map, address, value, pc;
    s.eat(s.peek());
    if (!gap(s) || !s.decimal(width))
      return LineVerdict::notUnderstood(s, "an access needs its width");
    if (width != 1 && width != 2 && width != 4 && width != 8)
      return LineVerdict::notUnderstood(s, "an access is 1, 2, 4 or 8 bytes wide");
    if (!gap(s) || !s.seconds(time))
      return LineVerdict::notUnderstood(s, "an access needs its time");
    if (!gap(s) || !s.decimal(map))
      return LineVerdict::notUnderstood(s, "an access needs the number of its mapping");
    if (!gap(s) || !s.hex(address))
      return LineVerdict::notUnderstood(s, "an access needs its address (0x…)");
    if (!gap(s) || !s.hex(value))
      return LineVerdict::notUnderstood(s, "an access needs its value (0x…)");
    if (width < 8 && value >> (8 * width))
      return LineVerdict::notUnderstood(s, "the value is wider than the access");
    if (!gap(s) || !s.hex(pc) || !gap(s) || !s.eat('0'))
      return LineVerdict::notUnderstood(s, "an access ends in a program counter and 0 (is the line cut?)");
    s.blanks();
    if (!s.atEnd())
      return LineVerdict::notUnderstood(s, "there is something behind the end of the access");
    packet.address = address;
    packet.value = value;
    packet.width = uint8_t(width);
    out.at(time);
    if (!place(packet, out))
      return LineVerdict::notUnderstood(s, "too many devices");
    noteSpacing(out);
    out.append(packet);
    return LineVerdict::imported();
  }

  /// From a physical address to a device's space.
  bool place(Packet &packet, ImportOutput &out) {
    if (!(lastLength && packet.address - lastBase < lastLength)) {
      lastLength = 0;
      for (PciDevice &device : devices)
        for (unsigned bar = 0; bar < 7 && !lastLength; ++bar)
          if (device.length[bar] && packet.address - device.base[bar] < device.length[bar]) {
            if (!device.id)
              device.id = out.device(device.alias, device.identity);
            std::optional<uint16_t> space = out.space(bar == 6 ? "rom" : "bar" + std::to_string(bar));
            if (!device.id || !space)
              return false;
            lastBase = device.base[bar], lastLength = device.length[bar];
            lastDevice = *device.id, lastSpace = *space;
          }
    }
    if (lastLength) {
      packet.address -= lastBase;
      packet.device = lastDevice;
      packet.space = lastSpace;
      return true;
    }
    if (!unknownDevice) {
      unknownDevice = out.device("mmio");
      unknownSpace = out.space("physical");
      if (!unknownDevice || !unknownSpace)
        return false;
      out.warn("unknown-device", "the address is in no BAR of a PCIDEV row: space \"physical\"");
    }
    packet.device = *unknownDevice;
    packet.space = *unknownSpace;
    return true;
  }

  LineVerdict pciDevice(Scanner &s, ImportOutput &out) {
    uint64_t bdf, ids, irq, number;
    if (!s.eat("PCIDEV"))
      return LineVerdict::notUnderstood(1, "no mmiotrace event begins like this");
    if (!gap(s) || !s.hexDigits(bdf) || bdf > 0xffff || !gap(s) || !s.hexDigits(ids) || ids > 0xffffffff ||
        !gap(s) || !s.hexDigits(irq))
      return LineVerdict::notUnderstood(s, "a PCIDEV row begins with bus and function, ids, and interrupt");
    PciDevice device;
    for (unsigned i = 0; i < 14; ++i) {
      if (!gap(s) || !s.hexDigits(number))
        return LineVerdict::notUnderstood(s, "a PCIDEV row has 7 bases and 7 lengths (is the line wrapped?)");
      (i < 7 ? device.base[i] : device.length[i - 7]) = number;
    }
    for (unsigned i = 0; i < 7; ++i) {
      if (device.base[i] & 1 && i < 6) // Ports, which mmiotrace does not see.
        device.length[i] = 0;
      device.base[i] &= ~uint64_t(15);
    }
    s.blanks();
    if (devices.size() == 512)
      return LineVerdict::notUnderstood(s, "too many PCIDEV rows");
    std::string bus = hexText(bdf >> 8, 2), slot = hexText(bdf >> 3 & 31, 2);
    device.alias = bus + ":" + slot + "." + std::to_string(bdf & 7);
    device.identity = {{"vendor", "0x" + hexText(ids >> 16, 4)}, {"device", "0x" + hexText(ids & 0xffff, 4)}};
    StringRef driver = s.rest().rtrim();
    if (!driver.empty())
      device.identity["driver"] = driver.take_front(64).str();
    devices.push_back(std::move(device));
    noteSpacing(out);
    return LineVerdict::ignored("table of PCI devices");
  }

  LineVerdict mapping(Scanner &s, ImportOutput &out, StringRef word) {
    StringRef text = s.rest();
    uint64_t time, number;
    if (!s.eat(word))
      return LineVerdict::notUnderstood(1, "no mmiotrace event begins like this");
    uneven |= s.blanks();
    if (!s.seconds(time))
      return LineVerdict::notUnderstood(s, "a mapping needs its time");
    if (!gap(s) || !s.decimal(number))
      return LineVerdict::notUnderstood(s, "a mapping needs its number");
    for (unsigned fields = word == "MAP " ? 4 : 1; fields; --fields)
      if (!gap(s) || !s.hex(number))
        return LineVerdict::notUnderstood(s, "a mapping's addresses and lengths are 0x… (is the line cut?)");
    if (!gap(s) || !s.eat('0'))
      return LineVerdict::notUnderstood(s, "a mapping ends in 0");
    noteSpacing(out);
    out.at(time);
    out.marker(text);
    return LineVerdict::imported();
  }

  LineVerdict mark(Scanner &s, ImportOutput &out) {
    uint64_t time, count;
    s.eat("MARK ");
    if (!s.seconds(time) || !gap(s))
      return LineVerdict::notUnderstood(s, "a mark needs its time and a text");
    StringRef text = s.rest();
    // Written when the reader finds out, with time 0: the loss is somewhere before.
    if (s.eat("Lost ") && s.decimal(count) && s.eat(" events")) {
      out.loss(LossCause::Source, count);
      return LineVerdict::lost();
    }
    out.at(time);
    out.marker(text.take_front(4096));
    return LineVerdict::imported();
  }

  /// An access by an instruction that the tracer could not decode: it happened, and what it was is lost.
  LineVerdict unknown(Scanner &s, ImportOutput &out) {
    uint64_t time, map, address;
    s.eat("UNKNOWN ");
    if (!s.seconds(time) || !gap(s) || !s.decimal(map) || !gap(s) || !s.hex(address))
      return LineVerdict::notUnderstood(s, "an unknown access has a time, a mapping and an address");
    out.at(time);
    out.loss(LossCause::Source, 1);
    return LineVerdict::lost();
  }

  bool started = false, uneven = false;
  std::vector<PciDevice> devices;
  uint64_t lastBase = 0, lastLength = 0;
  uint16_t lastDevice = 0, lastSpace = 0;
  std::optional<uint16_t> unknownDevice, unknownSpace;
};

unsigned recogniseMmiotrace(StringRef head) {
  auto matches = [](StringRef line) {
    for (StringRef word : {"VERSION 2007", "PCIDEV ", "MAP ", "UNMAP ", "MARK ", "UNKNOWN "})
      if (line.starts_with(word))
        return true;
    Scanner s(line);
    uint64_t width, time;
    return (s.eat("R ") || s.eat("W ")) && s.decimal(width) && s.eat(' ') && s.seconds(time) && s.eat(' ');
  };
  return shareOfLines(head, matches, [](StringRef line) { return line.starts_with("#"); });
}

} // namespace

const ImporterKind mmiotraceKind = {"mmiotrace",
                                    "Linux mmiotrace of a kernel driver",
                                    "memory contents, interrupts, port and configuration accesses",
                                    true,
                                    recogniseMmiotrace,
                                    [](const ImporterSettings &) -> Expected<std::unique_ptr<Importer>> {
                                      return std::make_unique<Mmiotrace>();
                                    }};

} // namespace tapeback
