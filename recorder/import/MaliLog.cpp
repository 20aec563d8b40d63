// Register logs of a Mali GPU as GPUReplay writes them: DELTA_US,R|W,0xOFFSET,HEXVALUE
#include "recorder/import/Importers.h"

using namespace llvm;

namespace tapeback {
namespace {

class MaliLog : public Importer {
public:
  explicit MaliLog(const ImporterSettings &settings)
      : spaceName(settings.space.empty() ? "bar0" : settings.space) {}

  LineVerdict line(const CaptureLine &line, ImportOutput &out) override {
    Scanner s(line.text);
    uint64_t delta, offset, value;
    if (s.peek() == '#')
      return LineVerdict::ignored("comment");
    if (unsigned(s.peek() - '0') > 9 && isBlank(line.text))
      return LineVerdict::ignored("blank line");
    if (!s.decimal(delta) || delta > ~uint64_t(0) / 2000 || !s.eat(','))
      return LineVerdict::notUnderstood(s, "a line begins with the microseconds since the one before");
    Packet packet;
    packet.kind = s.peek() == 'R' ? PacketKind::RegisterRead : PacketKind::RegisterWrite;
    if (!(s.eat('R') || s.eat('W')) || !s.eat(','))
      return LineVerdict::notUnderstood(s, "an access is R or W");
    if (!s.hex(offset) || !s.eat(','))
      return LineVerdict::notUnderstood(s, "an access needs its offset (0x…)");
    if (!s.hexDigits(value) || value > 0xffffffff || !s.atEnd())
      return LineVerdict::notUnderstood(s, "a value is at most eight hexadecimal digits");
    uint64_t now = out.time() + delta * 1000;
    if (now < out.time())
      return LineVerdict::notUnderstood(1, "the times add up to more than 64 bits");
    if (!started) {
      out.clock("log");
      out.at(delta * 1000);
      device = out.device("gpu");
      space = out.space(spaceName);
      started = true;
    }
    if (!device || !space)
      return LineVerdict::notUnderstood(1, "too many devices");
    packet.device = *device;
    packet.space = *space;
    packet.width = 4;
    packet.address = offset;
    packet.value = value;
    out.at(now);
    out.append(packet);
    return LineVerdict::imported();
  }

private:
  std::string spaceName;
  bool started = false;
  std::optional<uint16_t> device, space;
};

unsigned recogniseMaliLog(StringRef head) {
  return shareOfLines(
      head,
      [](StringRef line) {
        Scanner s(line);
        uint64_t number;
        return s.decimal(number) && (s.eat(",R,0x") || s.eat(",W,0x"));
      },
      [](StringRef line) { return line.starts_with("#"); });
}

} // namespace

const ImporterKind maliLogKind = {
    "mali-log",
    "Register log of a Mali GPU (GPUReplay)",
    "memory contents, interrupts",
    true,
    recogniseMaliLog,
    [](const ImporterSettings &settings) -> Expected<std::unique_ptr<Importer>> {
      return std::make_unique<MaliLog>(settings);
    }};

} // namespace tapeback
