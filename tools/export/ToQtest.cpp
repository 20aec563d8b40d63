// qtest: a script if nothing on the tape was answered, otherwise commands with their replies; with times if
// the tape is of a log. QEMU's command line stands in front, so that the result runs as it is.
#include "hal/qemu/QtestControl.h"
#include "recorder/import/Importer.h"
#include "tools/export/CaptureWriter.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace tapeback {
namespace {

constexpr uint64_t pieceBytes = 1 << 20; ///< Lines beyond 4 MiB are not read back.

class ToQtest final : public CaptureWriter {
public:
  using CaptureWriter::CaptureWriter;

private:
  Error begin() override;
  Error write(const Packet &packet, const PacketExtra &extra) override;
  Error end() override;
  void command(const Packet &packet, StringRef text, StringRef value = {});
  void access(const Packet &packet);
  Error block(const Packet &packet, const PacketExtra &extra);
  void triggerPoint(const Packet &packet, StringRef text) override;
  Error marker(const Packet &packet, const PacketExtra &extra);
  bool isLastWord(const Packet &packet) const {
    return ordinal == deadly && packet.completion == Completion::Failed;
  }
  void asked(const Packet &packet, StringRef text);
  void noteOfOld(const Packet *next);
  void control(const Packet &packet);
  void reply(const Packet &packet, StringRef text);

  bool answered = false; ///< Some reply is known.
  bool late = false;     ///< All replies came behind all commands.
  bool log = false;
  std::optional<uint64_t> opened;       ///< When; until the first command.
  std::string noted;                    ///< A command that names a device, as its marker says it.
  Packet note;                          ///< That marker.
  std::string text;                     ///< As the writes say it.
  std::vector<std::string> replies;     ///< If they come late.
  DenseMap<uint64_t, size_t> commandOf; ///< By packet, of reads; if replies come late.
  uint64_t deadly = noLink;
  bool runs = false; ///< Is a here-document to QEMU.
  size_t lastAnswered = 0;
};

Error ToQtest::begin() {
  std::string machine;
  for (const DeviceRecord &device : source.reader().devices()) {
    auto arguments = device.identity.find("qemu-args");
    if (arguments == device.identity.end() || !machine.empty())
      continue;
    auto architecture = device.identity.find("qemu-architecture");
    if (architecture == device.identity.end())
      leaveOut("machine without an architecture");
    else
      machine =
          "qemu-system-" + architecture->second + " " + arguments->second + " -display none -qtest stdio";
  }
  // The command that QEMU died of has no answer, whatever the tape says became of it.
  const Outcome &outcome = source.reader().outcome();
  if (outcome.signature && outcome.signature->oracle == "target-died" && source.reader().summary().packets)
    deadly = source.reader().summary().packets - 1;
  // What is known decides the form, so it is looked at first.
  bool any = false;
  Error failed =
      source.eachBlock(std::nullopt, [&](const PacketBatch &batch, size_t count) -> Expected<bool> {
        for (size_t i = 0; i < count; ++i) {
          const Packet &packet = batch.packets[i];
          bool reads = packet.kind == PacketKind::RegisterRead || packet.kind == PacketKind::Poll ||
                       packet.kind == PacketKind::MemoryRead;
          if (!any && packet.kind != PacketKind::Open && packet.kind != PacketKind::Loss) {
            log = clockName(packet) != "untimed";
            any = true;
          }
          late |= packet.kind == PacketKind::LateCompletion;
          bool refused = packet.completion == Completion::Failed && batch.firstOrdinal + i != deadly;
          answered |= refused || (reads && packet.completion == Completion::Done);
        }
        return true;
      });
  answered |= log;
  // What `reduce` leaves of a script is a script again: what this machine answered on the way is no part of
  // it.
  if (deadly != noLink && !log && StringRef(source.reader().manifest().derivation).starts_with("reduce")) {
    if (answered)
      change("answers: left out of a reduced script");
    answered = false;
  }
  // A script runs as it is; what has answers in it is for reading.
  runs = !machine.empty() && !answered && !late;
  if (!machine.empty())
    os << (runs ? "cat << EOF | " : "") << machine << "\n";
  return failed;
}

/// A command, and its answer where that is known.
void ToQtest::command(const Packet &packet, StringRef text, StringRef value) {
  written();
  opened.reset();
  if (log)
    os << "[R +" << secondsText(packet.issueTime) << "] ";
  os << text << "\n";
  if (late) {
    replies.push_back(packet.completion == Completion::Pending ? std::string() : "OK");
    return;
  }
  if (!answered || packet.completion == Completion::Pending || isLastWord(packet))
    return;
  if (log)
    os << "[S +" << secondsText(packet.completeTime) << "] ";
  os << (packet.completion == Completion::Failed ? "FAIL" : "OK") << value << "\n";
}

void ToQtest::access(const Packet &packet) {
  std::string name = space(packet);
  bool ports = name == "io";
  if (!ports && name != "physical") {
    leaveOut("access to another space than \"io\" and \"physical\"");
    return;
  }
  const char letter = packet.width == 1 ? 'b' : packet.width == 2 ? 'w' : packet.width == 4 ? 'l' : 'q';
  bool write = packet.kind == PacketKind::RegisterWrite;
  std::string text = ports ? write ? "out" : "in" : write ? "write" : "read";
  text += letter + std::string(" ") + hexNumber(packet.address);
  std::string value;
  if (write)
    text += " " + hexNumber(packet.value);
  else if (packet.completion == Completion::Done)
    value = " 0x" + hexText(packet.value, ports ? 4 : 16);
  if (late)
    commandOf[ordinal] = replies.size();
  command(packet, text, value);
}

Error ToQtest::block(const Packet &packet, const PacketExtra &extra) {
  bool write = packet.kind == PacketKind::MemoryWrite;
  bool known = extra.payload && !(packet.flags & (NotCaptured | Truncated));
  if (extra.count > 1 || !extra.length || (write && !known)) {
    leaveOut(write && !known ? "content that was not captured" : "block in rows");
    return Error::success();
  }
  std::vector<uint8_t> content;
  if (known) {
    Expected<ArrayRef<uint8_t>> bytes = source.content(extra.payload);
    if (!bytes)
      return bytes.takeError();
    content = bytes->vec();
    content.resize(extra.length);
  }
  uint64_t piece = known ? pieceBytes : extra.length;
  if (known && extra.length > pieceBytes)
    change("block: in pieces of 1 MiB");
  for (uint64_t done = 0; done < extra.length; done += piece) {
    uint64_t size = std::min(piece, extra.length - done);
    std::string text =
        (write ? "write " : "read ") + hexNumber(packet.address + done) + " " + hexNumber(size);
    std::string data = known
                           ? " 0x" + toHex(ArrayRef<uint8_t>(content).slice(size_t(done), size_t(size)), true)
                           : std::string();
    command(packet, write ? text + data : text, write ? std::string() : data);
  }
  return Error::success();
}

void ToQtest::triggerPoint(const Packet &, StringRef text) {
  os << "# trigger point: " << text << "\n";
}

Error ToQtest::marker(const Packet &packet, const PacketExtra &extra) {
  Expected<std::string> text = line(extra.payload);
  if (!text)
    return text.takeError();
  if (!whyNoTextCommand(*text)) {
    noted = *text;
    note = packet;
    return Error::success();
  }
  if (*text == "endianness")
    asked(packet, *text);
  else
    os << "# " << *text << "\n", change("marker: a comment");
  return Error::success();
}

/// The marker has the time of the answer; that of the question is known if it opened the capture.
void ToQtest::asked(const Packet &packet, StringRef text) {
  Packet question = packet;
  if (opened)
    question.issueTime = std::min(*opened, packet.issueTime);
  command(question, text, text == "endianness" ? " little" : "");
}

/// Tapes of before there were such writes have the marker alone.
void ToQtest::noteOfOld(const Packet *next) {
  const bool told = next && next->kind == PacketKind::RegisterWrite && space(*next) == "qtest" &&
                    next->address >= uint64_t(QtestControl::SetIrq);
  if (noted.empty() || told)
    return;
  if (StringRef(noted).starts_with("set_irq_in"))
    leaveOut("set_irq_in without its write");
  else
    asked(note, noted);
  noted.clear();
}

void ToQtest::control(const Packet &packet) {
  if (packet.address >= uint64_t(QtestControl::Text)) {
    const uint64_t at = packet.address - uint64_t(QtestControl::Text);
    if (at >= qtestTextBytes)
      return leaveOut("unknown control of qtest");
    text.resize(std::max<size_t>(text.size(), size_t(at) + 8), '\0');
    for (unsigned i = 0; i < 8; ++i)
      text[size_t(at) + i] = char(packet.value >> (8 * i));
    return;
  }
  switch (QtestControl(packet.address)) {
  case QtestControl::StepToTimer: return command(packet, "clock_step");
  case QtestControl::Step: return command(packet, "clock_step " + std::to_string(packet.value));
  case QtestControl::SetClock: return command(packet, "clock_set " + std::to_string(packet.value));
  case QtestControl::SetIrq:
    if (noted.empty())
      return leaveOut("set_irq_in without its names");
    command(packet, noted);
    noted.clear();
    return;
  case QtestControl::Command:
    noted.clear();
    if (packet.value > text.size() || whyNoTextCommand(StringRef(text).take_front(packet.value)))
      return leaveOut("command without its text");
    return command(packet, StringRef(text).take_front(packet.value));
  case QtestControl::Text: break; // Above.
  }
  leaveOut("unknown control of qtest");
}

void ToQtest::reply(const Packet &packet, StringRef text) {
  if (log)
    os << "[S +" << secondsText(packet.issueTime) << "] ";
  os << text << "\n";
  written();
}

Error ToQtest::write(const Packet &packet, const PacketExtra &extra) {
  Error failed = Error::success();
  noteOfOld(&packet);
  switch (packet.kind) {
  case PacketKind::Open: opened = packet.issueTime; break;
  case PacketKind::RegisterRead:
  case PacketKind::RegisterWrite:
    if (packet.kind == PacketKind::RegisterWrite && space(packet) == "qtest")
      control(packet);
    else
      access(packet);
    break;
  case PacketKind::Poll:
    change("poll: its last read");
    access(packet);
    break;
  case PacketKind::MemoryWrite:
  case PacketKind::MemoryRead: failed = block(packet, extra); break;
  case PacketKind::Interrupt:
    if (packet.completion == Completion::Done)
      reply(packet, "IRQ raise " + std::to_string(packet.address));
    else
      leaveOut(packet);
    break;
  case PacketKind::LateCompletion: {
    auto command = commandOf.find(extra.link);
    if (command == commandOf.end()) {
      leaveOut(packet);
      break;
    }
    replies[command->second] =
        packet.completion == Completion::Failed ? "FAIL" : "OK " + hexNumber(packet.value);
    lastAnswered = command->second + 1;
    written();
    break;
  }
  case PacketKind::Marker: failed = marker(packet, extra); break;
  default: leaveOut(packet);
  }
  return failed;
}

Error ToQtest::end() {
  noteOfOld(nullptr);
  // A read of memory that nobody answered, in front of one that was: what it brought is not known.
  for (size_t i = 0; i < lastAnswered; ++i)
    os << (replies[i].empty() ? "OK" : replies[i]) << "\n";
  if (runs)
    os << "EOF\n";
  return Error::success();
}

} // namespace

Expected<CaptureReport> writeQtest(TapeSource &source, raw_ostream &os) {
  if (isForQemuScript(source))
    return writeQemuScript(source, os);
  return ToQtest(source, os).run();
}

} // namespace tapeback
