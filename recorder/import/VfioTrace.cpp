// QEMU's trace events of a device that is passed through with VFIO.
//
//   vfio_region_write  (DEV:regionN+0xOFF, 0xDATA, SIZE)      vfio_region_read  (DEV:regionN+0xOFF, SIZE) =
//   0xDATA vfio_pci_read_config (DEV, @0xA, len=0xL) 0xV             vfio_pci_write_config (DEV, @0xA, 0xV,
//   len=0xL) vfio_msi_interrupt (DEV) vector N 0xADDR/0xDATA
//
// In front of it nothing, "PID@SEC.USEC:" or an ISO time. Regions 0 to 5 are the spaces "bar0" to "bar5", 6
// is "rom", 7 and the config events are "config".
#include "recorder/import/Importers.h"

using namespace llvm;

namespace tapeback {
namespace {

struct Record {
  Packet packet;
  PacketExtra extra;
  StringRef device;
  unsigned region = 0;
  bool interrupt = false;
};

class VfioTrace : public Importer {
public:
  explicit VfioTrace(const ImporterSettings &settings) : waitNs(settings.waitNs) {}

  LineVerdict line(const CaptureLine &line, ImportOutput &out) override {
    StringRef text = trimmed(line.text);
    if (text.empty())
      return LineVerdict::ignored("blank line");
    if (text == "--" || text == "..." || text == "[...]") {
      if (!started)
        return LineVerdict::ignored("before the first event");
      // grep's mark, or a person's: lines were left out here.
      out.loss(LossCause::Source, unknownCount);
      return LineVerdict::lost();
    }
    Scanner s(line.text);
    bool imported = false;
    for (;;) {
      s.blanks();
      uint64_t time = 0;
      bool timed = prefix(s, time);
      if (imported && s.atEnd())
        return LineVerdict::imported();
      Record record;
      LineVerdict verdict = event(s, record, line.text);
      if (verdict.fate != LineVerdict::Imported)
        return imported ? LineVerdict::notUnderstood(s, "there is something behind the event") : verdict;
      if (!emit(record, timed, time, out))
        return LineVerdict::notUnderstood(s, "too many devices");
      if (line.unended && record.packet.kind == PacketKind::RegisterRead)
        out.warn("end-may-be-cut", "the capture ends in this event without a newline: its value may be cut");
      imported = true;
      s.blanks();
      if (s.atEnd())
        return LineVerdict::imported();
      out.warn("events-on-one-line", "two events share a line");
    }
  }

private:
  /// The time in front of an event, if there is one.
  static bool prefix(Scanner &s, uint64_t &time) {
    if (scanIsoTime(s, time)) {
      s.blanks();
      return true;
    }
    Scanner at = s;
    uint64_t pid;
    if (at.decimal(pid) && at.eat('@') && at.seconds(time) && at.eat(':')) {
      at.blanks();
      s = at;
      return true;
    }
    return false;
  }

  LineVerdict event(Scanner &s, Record &record, StringRef line) {
    if (s.eat("vfio_region_write") && s.blanks())
      return region(s, record, true, line);
    if (s.eat("vfio_region_read") && s.blanks())
      return region(s, record, false, line);
    if (s.eat("vfio_pci_write_config") && s.blanks())
      return config(s, record, true, line);
    if (s.eat("vfio_pci_read_config") && s.blanks())
      return config(s, record, false, line);
    if (s.eat("vfio_msi_interrupt") && s.blanks())
      return interrupt(s, record, line);
    if (s.rest().starts_with("vfio_")) {
      StringRef name = s.rest();
      if (!name.contains(' '))
        return LineVerdict::incomplete(s, "the event is cut");
      if (name.starts_with("vfio_region_setup "))
        return LineVerdict::ignored("set-up of regions");
      return LineVerdict::ignored("other events of VFIO");
    }
    if (!started)
      return LineVerdict::ignored("before the first event");
    return LineVerdict::notUnderstood(s, "this is no trace event of VFIO");
  }

  static LineVerdict fault(const Scanner &s, StringRef line, const char *why, StringRef lastPart) {
    // A record that is cut, or goes on in the next line.
    return line.contains(lastPart) ? LineVerdict::notUnderstood(s, why)
                                   : LineVerdict::incomplete(s, "the event is cut");
  }

  static bool widthIs(uint64_t size, uint64_t value) {
    return (size == 1 || size == 2 || size == 4 || size == 8) && (size == 8 || !(value >> (8 * size)));
  }

  LineVerdict region(Scanner &s, Record &record, bool write, StringRef line) {
    StringRef last = write ? ")" : ") = 0x";
    uint64_t region, offset, value = 0, size;
    if (!s.eat('('))
      return fault(s, line, "the device stands in brackets", last);
    if (StringRef rest = s.rest(); !lastPrefix.empty() && rest.starts_with(lastPrefix)) {
      record.device = rest.take_front(lastAlias.size());
      s.eat(lastPrefix);
    } else {
      size_t colon = rest.find(":region");
      if (colon == StringRef::npos || colon == 0 || colon > 64)
        return fault(s, line, "DEVICE:regionN+0xOFFSET is wanted", last);
      record.device = rest.take_front(colon);
      s.eat(record.device);
      s.eat(":region");
    }
    if (!s.decimal(region) || region > 7 || !s.eat('+') || !s.hex(offset) || !s.eat(", "))
      return fault(s, line, "DEVICE:regionN+0xOFFSET is wanted", last);
    if (write && (!s.hex(value) || !s.eat(", ")))
      return fault(s, line, "the value (0x…) is wanted", last);
    if (!s.decimal(size) || !s.eat(')'))
      return fault(s, line, "the size is wanted", last);
    if (!write && (!s.eat(" = ") || !s.hex(value)))
      return fault(s, line, "the value (= 0x…) is wanted", last);
    if (!widthIs(size, value))
      return LineVerdict::notUnderstood(s, "the size is not 1, 2, 4 or 8, or the value does not fit it");
    record.region = unsigned(region);
    fill(record, write, offset, value, size);
    return LineVerdict::imported();
  }

  LineVerdict config(Scanner &s, Record &record, bool write, StringRef line) {
    uint64_t offset, value = 0, size;
    if (!s.eat('(') || !s.until(',', record.device) || record.device.empty() || record.device.size() > 64 ||
        !s.eat(", @") || !s.hex(offset) || !s.eat(", "))
      return fault(s, line, "(DEVICE, @0xOFFSET is wanted", ")");
    if (write && (!s.hex(value) || !s.eat(", ")))
      return fault(s, line, "the value (0x…) is wanted", ")");
    if (!s.eat("len=") || !s.hex(size) || !s.eat(')'))
      return fault(s, line, "len=0x… is wanted", ")");
    if (!write && (!s.eat(' ') || !s.hex(value)))
      return fault(s, line, "the value (0x…) is wanted", ") 0x");
    if (!widthIs(size, value))
      return LineVerdict::notUnderstood(s, "the size is not 1, 2, 4 or 8, or the value does not fit it");
    record.region = 7;
    fill(record, write, offset, value, size);
    return LineVerdict::imported();
  }

  LineVerdict interrupt(Scanner &s, Record &record, StringRef line) {
    uint64_t vector, address, data;
    if (!s.eat('(') || !s.until(')', record.device) || record.device.empty() || record.device.size() > 64 ||
        !s.eat(") vector ") || !s.decimal(vector) || !s.eat(' ') || !s.hex(address) || !s.eat('/') ||
        !s.hex(data))
      return fault(s, line, "(DEVICE) vector N 0xADDRESS/0xDATA is wanted", "/0x");
    record.interrupt = true;
    record.packet.kind = PacketKind::Interrupt;
    record.packet.address = vector;
    record.extra.count = 1;
    record.extra.deadline = waitNs;
    return LineVerdict::imported();
  }

  static void fill(Record &record, bool write, uint64_t offset, uint64_t value, uint64_t size) {
    record.packet.kind = write ? PacketKind::RegisterWrite : PacketKind::RegisterRead;
    record.packet.address = offset;
    record.packet.value = value;
    record.packet.width = uint8_t(size);
  }

  bool emit(Record &record, bool timed, uint64_t time, ImportOutput &out) {
    if (!started) {
      out.clock(timed ? "wall" : "untimed");
      started = true;
    }
    if (timed)
      out.at(time);
    if (record.device != lastAlias) {
      std::optional<uint16_t> device = out.device(record.device, {{"pci-address", record.device.str()}});
      if (!device)
        return false;
      lastAlias = record.device.str();
      lastPrefix = record.device.contains(":region") ? std::string() : lastAlias + ":region";
      lastDevice = *device;
    }
    record.packet.device = lastDevice;
    if (!record.interrupt) {
      std::optional<uint16_t> &space = spaces[record.region];
      if (!space)
        space = out.space(record.region == 7   ? "config"
                          : record.region == 6 ? "rom"
                                               : "bar" + std::to_string(record.region));
      if (!space)
        return false;
      record.packet.space = *space;
    }
    if (record.interrupt)
      out.append(record.packet, record.extra);
    else
      out.append(record.packet);
    return true;
  }

  uint64_t waitNs;
  bool started = false;
  std::string lastAlias, lastPrefix; ///< Most lines are of the device of the line before.
  uint16_t lastDevice = 0;
  std::array<std::optional<uint16_t>, 8> spaces;
};

unsigned recogniseVfioTrace(StringRef head) {
  unsigned share = shareOfLines(
      head,
      [](StringRef line) {
        return line.contains("vfio_region_") || line.contains("vfio_pci_") || line.contains("vfio_msi_");
      },
      [](StringRef line) { return line.trim() == "--" || line.trim() == "..."; });
  // A log may begin with noise.
  return head.contains("vfio_region_read  (") || head.contains("vfio_region_write  (") ? std::max(share, 50u)
                                                                                       : share;
}

} // namespace

const ImporterKind vfioTraceKind = {
    "vfio-trace",
    "QEMU trace events of a device passed through with VFIO",
    "memory contents, accesses through direct mappings",
    true,
    recogniseVfioTrace,
    [](const ImporterSettings &settings) -> Expected<std::unique_ptr<Importer>> {
      return std::make_unique<VfioTrace>(settings);
    }};

} // namespace tapeback
