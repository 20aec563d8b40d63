#include "tools/export/CaptureWriter.h"
#include "format/Failure.h"
#include "recorder/import/Importer.h"
#include "replayer/PacketRoles.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace tapeback {

constexpr CaptureFormat formats[] = {
    {"qtest", writeQtest}, {"mmiotrace", writeMmiotrace}, {"vfio-trace", writeVfioTrace}};

ArrayRef<CaptureFormat> captureFormats() {
  return formats;
}

const CaptureFormat *findCaptureFormat(StringRef name) {
  for (const CaptureFormat &format : formats)
    if (name == format.name)
      return &format;
  return nullptr;
}

std::string secondsText(uint64_t nanoseconds) {
  constexpr uint64_t second = 1'000'000'000;
  std::string digits = std::to_string(second + nanoseconds % second).substr(1);
  if (nanoseconds % 1000 == 0)
    digits.resize(6);
  return std::to_string(nanoseconds / second) + "." + digits;
}

std::string hexNumber(uint64_t value) {
  return "0x" + utohexstr(value, /*LowerCase=*/true);
}

/// A capture without memory gets this from its importer, in front of the first write.
static bool saysThatMemoryIsMissing(const Packet &loss) {
  return loss.kind == PacketKind::Loss && loss.value == unknownCount &&
         loss.address == uint64_t(LossCause::Source);
}

Expected<std::multimap<uint64_t, std::string>> triggerPointsOf(TapeReader &reader) {
  Expected<std::vector<TapeReader::TriggerRecord>> marks = reader.triggers();
  if (!marks)
    return marks.takeError();
  std::multimap<uint64_t, std::string> points;
  for (TapeReader::TriggerRecord &mark : *marks)
    points.emplace(mark.packet, std::move(mark.text));
  return points;
}

/// What would break a line is a blank there.
static void toOneLine(std::string &text) {
  for (char &c : text)
    if (c == '\n' || c == '\r' || c == '\0')
      c = ' ';
}

Expected<CaptureReport> CaptureWriter::run() {
  Expected<std::multimap<uint64_t, std::string>> points = triggerPointsOf(source.reader());
  if (!points)
    return points.takeError();
  for (auto &[packet, text] : *points)
    toOneLine(text);
  if (Error error = begin())
    return error;
  const ImporterKind *kind = findImporter(importedFrom());
  bool automatic = kind && kind->lacksMemory && !source.reader().manifest().facts.count("x-import-assumes");
  std::optional<Packet> held; // The last packet, if it may be such a loss.
  auto one = [&](const Packet &packet, const PacketExtra &extra) -> Error {
    bool changes = packet.kind == PacketKind::RegisterWrite || packet.kind == PacketKind::Submit;
    if (held && !(automatic && changes))
      if (Error error = write(*held, {}))
        return error;
    held.reset();
    automatic &= !changes;
    if (automatic && saysThatMemoryIsMissing(packet)) {
      held = packet;
      return Error::success();
    }
    if (isEvidence(packet)) {
      leaveOut("the recorder's own look");
      return Error::success();
    }
    return write(packet, extra);
  };
  Error failed =
      source.eachBlock(std::nullopt, [&](const PacketBatch &batch, size_t count) -> Expected<bool> {
        for (size_t i = 0; i < count; ++i) {
          ordinal = batch.firstOrdinal + i;
          for (auto [at, last] = points->equal_range(ordinal); at != last; ++at, ++report.triggerPoints)
            triggerPoint(batch.packets[i], at->second);
          if (Error error = one(batch.packets[i], batch.extra(batch.packets[i])))
            return error;
        }
        return true;
      });
  if (!failed && held)
    failed = write(*held, {});
  if (!failed)
    failed = end();
  if (failed)
    return failed;
  if (!report.events)
    return failUsage("nothing-to-export", "no packet of this tape could be written in this form", {},
                     "`tapeback dump` shows what is on it");
  return std::move(report);
}

std::string CaptureWriter::importedFrom() const {
  const std::map<std::string, std::string> &facts = source.reader().manifest().facts;
  auto kind = facts.find("x-import-kind");
  return kind == facts.end() ? std::string() : kind->second;
}

void CaptureWriter::leaveOut(const Packet &packet) {
  const char *name = packetKindName(packet.kind);
  ++report.leftOut[name ? name : "unknown"];
}

Expected<std::string> CaptureWriter::line(BlobId id) {
  constexpr size_t longest = 4096;
  if (!id)
    return std::string();
  Expected<ArrayRef<uint8_t>> content = source.content(id);
  if (!content)
    return content.takeError();
  std::string text(content->begin(), content->begin() + std::min(content->size(), longest));
  toOneLine(text);
  return text;
}

StringRef CaptureWriter::alias(uint16_t device) const {
  ArrayRef<DeviceRecord> devices = source.reader().devices();
  return device < devices.size() ? StringRef(devices[device].alias) : StringRef();
}

std::string CaptureWriter::identity(uint16_t device, StringRef key) const {
  ArrayRef<DeviceRecord> devices = source.reader().devices();
  if (device >= devices.size())
    return {};
  auto found = devices[device].identity.find(key.str());
  return found == devices[device].identity.end() ? std::string() : found->second;
}

std::optional<unsigned> CaptureWriter::bar(const Packet &packet) const {
  std::string name = space(packet);
  if (name == "rom")
    return 6;
  if (name.size() == 4 && StringRef(name).starts_with("bar") && name[3] >= '0' && name[3] <= '5')
    return unsigned(name[3] - '0');
  return std::nullopt;
}

StringRef CaptureWriter::clockName(const Packet &packet) const {
  ArrayRef<TapeClock> clocks = source.reader().clocks();
  return packet.clock < clocks.size() ? StringRef(clocks[packet.clock].name) : StringRef();
}

} // namespace tapeback
