// vfio-trace: regions, configuration space and MSI, with the time in front if the tape has one.
#include "tools/export/CaptureWriter.h"
#include "llvm/ADT/StringExtras.h"
#include <ctime>

using namespace llvm;

namespace tapeback {
namespace {

class ToVfioTrace final : public CaptureWriter {
public:
  using CaptureWriter::CaptureWriter;

private:
  Error write(const Packet &packet, const PacketExtra &extra) override;
  void triggerPoint(const Packet &packet, StringRef text) override;
  std::string prefix(const Packet &packet) const;
  std::string device(uint16_t number) const;

  bool started = false;
};

std::string isoTime(uint64_t nanoseconds) {
  time_t seconds = time_t(nanoseconds / 1'000'000'000);
  tm parts{};
  char text[32];
  if (!::gmtime_r(&seconds, &parts) || !std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts))
    return {};
  std::string fraction = secondsText(nanoseconds);
  return text + fraction.substr(fraction.find('.')) + "Z";
}

std::string ToVfioTrace::prefix(const Packet &packet) const {
  StringRef clock = clockName(packet);
  if (clock == "untimed")
    return {};
  return clock == "wall" ? isoTime(packet.issueTime) + " " : "1@" + secondsText(packet.issueTime) + ":";
}

/// What stands for the device in brackets: its alias, if it cannot be taken for something else.
std::string ToVfioTrace::device(uint16_t number) const {
  StringRef name = alias(number);
  bool fits = !name.empty() && name.size() <= 64 && !name.contains(":region") &&
              all_of(name, [](char c) { return c > ' ' && c < 0x7f && c != ',' && c != ')' && c != '('; });
  return fits ? name.str() : "device" + std::to_string(number);
}

/// The format has no marks: one more event of VFIO, which readers of the others pass over.
void ToVfioTrace::triggerPoint(const Packet &packet, StringRef text) {
  os << prefix(packet) << "vfio_trigger_point (" << device(packet.device) << ") " << text << "\n";
}

Error ToVfioTrace::write(const Packet &packet, const PacketExtra &) {
  bool write = packet.kind == PacketKind::RegisterWrite;
  switch (packet.kind) {
  case PacketKind::Open: return Error::success(); // Comes with the first access.
  case PacketKind::Loss:
    if (!started) { // Before the first event, "--" is noise.
      leaveOut(packet);
      return Error::success();
    }
    if (packet.value != unknownCount || packet.address != uint64_t(LossCause::Source))
      change("loss: its number or cause");
    os << "--\n";
    written();
    return Error::success();
  case PacketKind::Interrupt:
    if (packet.completion != Completion::Done)
      break;
    os << prefix(packet) << "vfio_msi_interrupt (" << device(packet.device) << ") vector " << packet.address
       << " 0x0/0x0\n";
    started = true;
    written();
    return Error::success();
  case PacketKind::Poll: change("poll: its last read"); break;
  case PacketKind::RegisterRead:
  case PacketKind::RegisterWrite: break;
  default: leaveOut(packet); return Error::success();
  }
  std::optional<unsigned> region = bar(packet);
  bool config = space(packet) == "config";
  bool access = packet.kind != PacketKind::Interrupt && (region || config);
  if (!access || packet.completion == Completion::Pending || packet.completion == Completion::Failed) {
    leaveOut(access ? "access that did not come back" : "access to another space than a BAR");
    return Error::success();
  }
  std::string name = device(packet.device), offset = hexNumber(packet.address),
              value = hexNumber(packet.value);
  os << prefix(packet);
  if (config && write)
    os << "vfio_pci_write_config (" << name << ", @" << offset << ", " << value << ", len=0x"
       << unsigned(packet.width) << ")";
  else if (config)
    os << "vfio_pci_read_config (" << name << ", @" << offset << ", len=0x" << unsigned(packet.width) << ") "
       << value;
  else if (write)
    os << "vfio_region_write  (" << name << ":region" << *region << "+" << offset << ", " << value << ", "
       << unsigned(packet.width) << ")";
  else
    os << "vfio_region_read  (" << name << ":region" << *region << "+" << offset << ", "
       << unsigned(packet.width) << ") = " << value;
  os << "\n";
  started = true;
  written();
  return Error::success();
}

} // namespace

Expected<CaptureReport> writeVfioTrace(TapeSource &source, raw_ostream &os) {
  return ToVfioTrace(source, os).run();
}

} // namespace tapeback
