// mmiotrace: accesses at physical addresses, and a table that says which device is where. The tape does not
// know where its BARs were: they are put beyond what any machine has.
#include "format/Failure.h"
#include "tools/export/CaptureWriter.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

using namespace llvm;

namespace tapeback {
namespace {

constexpr uint64_t firstBase = uint64_t(1) << 63, barBytes = uint64_t(1) << 36;
constexpr unsigned barsOfDevice = 8;

class ToMmiotrace final : public CaptureWriter {
public:
  using CaptureWriter::CaptureWriter;

private:
  Error begin() override;
  Error write(const Packet &packet, const PacketExtra &extra) override;
  void access(const Packet &packet);
  void triggerPoint(const Packet &packet, StringRef text) override;
  Error marker(const Packet &packet, const PacketExtra &extra);
  void loss(const Packet &packet);

  static uint64_t base(uint16_t device, unsigned bar) {
    return firstBase + (uint64_t(device) * barsOfDevice + bar) * barBytes;
  }
};

Error ToMmiotrace::begin() {
  os << "VERSION 20070824\n";
  ArrayRef<DeviceRecord> devices = source.reader().devices();
  if (devices.size() > 512)
    return failUsage("too-many-devices", "a trace names 512 devices at most");
  for (size_t i = 0; i < devices.size(); ++i) {
    uint16_t device = uint16_t(i);
    if (devices[i].alias == "mmio")
      continue; // Of addresses in no BAR.
    // "03:02.0"; who is called otherwise gets a place of its own, on a bus that has none.
    unsigned bus = 0, slot = 0, function = 0;
    auto [busText, rest] = StringRef(devices[i].alias).split(':');
    auto [slotText, functionText] = rest.split('.');
    if (busText.getAsInteger(16, bus) || slotText.getAsInteger(16, slot) ||
        functionText.getAsInteger(10, function) || bus > 255 || slot > 31 || function > 7) {
      bus = 0xf0 + unsigned(i) / 32 % 16, slot = unsigned(i) % 32, function = 0;
      change("device: its name");
    }
    uint64_t vendor = 0, id = 0;
    auto number = [&](const char *key, uint64_t &value) {
      std::string text = identity(device, key);
      if (!text.empty() && (StringRef(text).getAsInteger(0, value) || value > 0xffff))
        value = 0;
    };
    number("vendor", vendor);
    number("device", id);
    os << "PCIDEV " << format_hex_no_prefix(bus << 8 | slot << 3 | function, 4) << " "
       << format_hex_no_prefix(vendor << 16 | id, 8) << " 0";
    for (unsigned bar = 0; bar < 7; ++bar)
      os << " " << format_hex_no_prefix(base(device, bar), 1);
    for (unsigned bar = 0; bar < 7; ++bar)
      os << " " << format_hex_no_prefix(barBytes, 1);
    os << " " << identity(device, "driver") << "\n";
  }
  return Error::success();
}

void ToMmiotrace::access(const Packet &packet) {
  uint64_t address = packet.address;
  std::optional<unsigned> number = bar(packet);
  bool fits = number ? address < barBytes : space(packet) == "physical" && address < firstBase;
  if (!fits)
    return leaveOut("access to another space than a BAR");
  if (packet.completion == Completion::Pending || packet.completion == Completion::Failed)
    return leaveOut("access that did not come back");
  if (number)
    address += base(packet.device, *number);
  os << (packet.kind == PacketKind::RegisterWrite ? "W " : "R ") << unsigned(packet.width) << " "
     << secondsText(packet.issueTime) << " 1 " << hexNumber(address) << " " << hexNumber(packet.value)
     << " 0x0 0\n";
  written();
}

void ToMmiotrace::triggerPoint(const Packet &packet, StringRef text) {
  os << "MARK " << secondsText(packet.issueTime) << " trigger point: " << text << "\n";
}

Error ToMmiotrace::marker(const Packet &packet, const PacketExtra &extra) {
  Expected<std::string> text = line(extra.payload);
  if (!text)
    return text.takeError();
  StringRef trimmed = StringRef(*text).ltrim(" \t");
  if (trimmed.starts_with("Lost "))
    leaveOut("marker that would be taken for a loss");
  else if (importedFrom() == "mmiotrace" &&
           (StringRef(*text).starts_with("MAP ") || StringRef(*text).starts_with("UNMAP ")))
    os << *text << "\n", written();
  else
    os << "MARK " << secondsText(packet.issueTime) << " " << trimmed << "\n", written();
  return Error::success();
}

void ToMmiotrace::loss(const Packet &packet) {
  if (packet.value == unknownCount)
    return leaveOut(packet); // Nothing says "some".
  if (packet.address != uint64_t(LossCause::Source))
    change("loss: its cause");
  // One: an access that the tracer could not decode, which has its time.
  if (packet.value == 1)
    os << "UNKNOWN " << secondsText(packet.issueTime) << " 1 0x0 0,0,0 0x0 0\n";
  else
    os << "MARK 0.000000 Lost " << packet.value << " events.\n";
  written();
}

Error ToMmiotrace::write(const Packet &packet, const PacketExtra &extra) {
  switch (packet.kind) {
  case PacketKind::Open: return Error::success(); // Comes with the first access.
  case PacketKind::Poll: change("poll: its last read"); [[fallthrough]];
  case PacketKind::RegisterRead:
  case PacketKind::RegisterWrite: access(packet); break;
  case PacketKind::Marker: return marker(packet, extra);
  case PacketKind::Loss: loss(packet); break;
  default: leaveOut(packet);
  }
  return Error::success();
}

} // namespace

Expected<CaptureReport> writeMmiotrace(TapeSource &source, raw_ostream &os) {
  return ToMmiotrace(source, os).run();
}

} // namespace tapeback
