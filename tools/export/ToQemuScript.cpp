// A tape of a device that qemu: drives as a qtest script for a QEMU of one's own: the set-up that the target
// makes, the memory, the accesses, with what they are expected to bring; and, as comments, the few lines of
// shell that run it and compare.
//
// The comments ("#sh …") are the reason that no other program is needed: QEMU's processor has to be kept from
// running a firmware, which would set the bus up by itself, and a script on standard input cannot wait.
#include "hal/qemu/GuestMemory.h"
#include "hal/qemu/PciSetup.h"
#include "hal/qemu/QemuMachine.h"
#include "hal/qemu/QtestLine.h"
#include "recorder/import/Importer.h"
#include "replayer/AccessRules.h"
#include "replayer/Rows.h"
#include "replayer/StartState.h"
#include "tools/export/CaptureWriter.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace llvm;

namespace tapeback {
namespace {

constexpr uint64_t longestPiece = 1 << 20;                           ///< Of one line.
constexpr uint64_t leastRam = 64 << 20, mostRam = uint64_t(2) << 30; ///< Beyond lies no RAM in one piece.
constexpr uint64_t holeStart = 0xa0000, holeEnd = 0x100000;          ///< Not RAM on a PC.
constexpr uint64_t mostRows = 4096;
/// Before what was waited for is looked at. edu's transfers take 0.1 s; a disk of a machine's own takes next
/// to nothing. The rest is for a busy machine.
const char *waitSeconds(const QemuDevice &device) {
  return device.medium == QemuMedium::Disk ? "0.1" : "0.3";
}
/// What the device that ends QEMU makes of the 0x21 written to it: an exit code that QEMU has for nothing
/// else.
constexpr const char *endOfRun = "outb 0xf4 0x21";
constexpr const char *endOfRunCode = "67";

const QemuDevice *qemuDeviceOf(const TapeSource &source) {
  const Description *description = source.deviceCount() == 1 ? source.description(0) : nullptr;
  return description ? findQemuDevice(description->name) : nullptr;
}

class ToQemuScript final : public CaptureWriter {
public:
  ToQemuScript(TapeSource &source, raw_ostream &os, const QemuDevice &device, PciLayout layout)
      : CaptureWriter(source, os), device(device), layout(std::move(layout)),
        rules(source.description(0), source.spaceNames(), {}) {}

private:
  Error begin() override;
  Error write(const Packet &packet, const PacketExtra &extra) override;
  void triggerPoint(const Packet &, StringRef text) override { os << "# trigger point: " << text << "\n"; }

  Expected<uint64_t> ramNeeded();
  std::string commandLine(uint64_t ram) const;
  void head(uint64_t ram);
  void runner(uint64_t ram);
  Error setUp();
  void command(const QtestCommand &command) { os << command.line(); }
  void expect(const Twine &reply) { os << "# expect " << reply << "\n"; }
  void wait() { os << "# wait " << waitSeconds(device) << "\n"; }
  bool isRam(uint64_t address, uint64_t length) const {
    return length && address < ram && length <= ram - address &&
           (address + length <= holeStart || address >= holeEnd);
  }
  void access(const Packet &packet, const PacketExtra &extra);
  void memoryWait(const Packet &packet);
  void interrupt(const Packet &packet);
  Error block(const Packet &packet, const PacketExtra &extra, bool stores);
  Error oracle(const Packet &packet, const PacketExtra &extra);

  const QemuDevice &device;
  PciLayout layout;
  AccessRules rules;
  std::vector<PciBar> bars;
  uint64_t ram = 0;
  bool works = false; ///< Something was handed over, so that something may be waited for.
  bool begun = false; ///< A packet was written that a reset would undo.
};

/// Whole 64 MiB, to have the tape's highest address.
Expected<uint64_t> ToQemuScript::ramNeeded() {
  uint64_t highest = leastRam;
  if (Error error =
          source.eachBlock(std::nullopt, [&](const PacketBatch &batch, size_t count) -> Expected<bool> {
            for (size_t i = 0; i < count; ++i) {
              const Packet &packet = batch.packets[i];
              if (packet.kind != PacketKind::MemoryMap || packet.address >= mostRam)
                continue;
              const uint64_t length = batch.extra(packet).length;
              highest = std::max(highest, packet.address + std::min(length, mostRam - packet.address));
            }
            return true;
          }))
    return error;
  return alignTo(highest, leastRam);
}

/// What anybody may run, and our own importer does: nothing in it opens a file.
std::string ToQemuScript::commandLine(uint64_t ram) const {
  return "qemu-system-x86_64 -nodefaults -display none -machine " +
         qemuMachineText(QemuOptions::Machine::Q35) + " -m " + std::to_string(ram >> 20) + "M -device " +
         device.argument;
}

void ToQemuScript::head(uint64_t ram) {
  const bool disk = device.medium == QemuMedium::Disk;
  os << "# Made from a tape by `tapeback export --to qtest`. Root " << toHex(source.reader().summary().root)
     << "\n";
  const Manifest &manifest = source.reader().manifest();
  if (!manifest.derivation.empty()) {
    os << "# The tape is itself made from another: ";
    for (char c : StringRef(manifest.derivation).take_front(400))
      os << (c >= ' ' && c <= '~' ? c : '?');
    os << "\n";
  }
  if (disk)
    os << "# " << commandLine(ram)
       << " -drive if=none,id=medium,file=null-co://,file.size=" << MediumOptions().bytes
       << ",file.read-zeroes=on,format=raw\n";
  else
    os << "# " << commandLine(ram) << "\n";
  os << "#\n# Run it, where QEMU 7.2 or later is installed:   sed -n 's/^#sh //p' THIS | sh -s THIS"
     << (disk ? " [DISK]" : "") << "\n"
     << "# It exits 0 if every answer is the expected one and 1 if one is not, after saying which; with 128 "
        "and "
        "the\n# signal's number if QEMU dies of one (134: aborted), and with 2 if it could not be run.\n";
  if (disk)
    os << "# DISK is an image of what the namespace holds, and is written to; without it all of it is "
          "zero.\n";
  os << "# What is waited for is looked at once, after \"# wait\" seconds. A bit that was expected by a "
        "condition only\n# is expected as it was recorded.\n";
}

void ToQemuScript::runner(uint64_t ram) {
  const bool disk = device.medium == QemuMedium::Disk;
  auto octal = [](uint8_t byte) {
    return std::string("\\") + char('0' + (byte >> 6)) + char('0' + (byte >> 3 & 7)) + char('0' + (byte & 7));
  };
  std::string park;
  for (uint8_t byte : parkedCode())
    park += octal(byte);
  const size_t after = 16 - parkedCode().size();
  os << "#sh script=$1 dir=$(mktemp -d) || exit 2\n"
     << "#sh trap 'rm -rf \"$dir\"' EXIT\n"
     << "#sh { head -c " << parkedRomBytes - 16 << " /dev/zero | tr '\\000' '\\364'; printf '" << park
     << "'; head -c " << after << " /dev/zero; } > \"$dir/rom\"\n";
  if (disk)
    os << "#sh disk=${2:-$dir/disk}\n#sh [ $# -gt 1 ] || head -c " << MediumOptions().bytes
       << " /dev/zero > \"$disk\"\n";
  // A wait begins when QEMU has answered what was sent, which it need not even have begun with.
  os << "#sh : > \"$dir/replies\"\n"
     << "#sh settle() { tries=0; until [ \"$(grep -c '^[OFE]' \"$dir/replies\")\" -ge $sent ] || [ -e "
        "\"$dir/status\" ] ||\n"
     << "#sh   [ $((tries += 1)) -gt 500 ]; do sleep 0.02; done; sleep \"$1\"; }\n"
     << "#sh { sent=0; while IFS= read -r line; do case $line in\n"
     << "#sh   '# wait '*) settle \"${line#\\# wait }\" ;;\n"
     << "#sh   [a-z]*) printf '%s\\n' \"$line\"; sent=$((sent + 1)) ;;\n"
     << "#sh   esac; done < \"$script\"; settle " << waitSeconds(device) << "; echo '" << endOfRun
     << "'; } 2> /dev/null | {\n"
     << "#sh   " << commandLine(ram)
     << " -device isa-debug-exit,iobase=0xf4,iosize=4 -accel tcg -bios \"$dir/rom\" ";
  if (disk)
    os << "-drive if=none,id=medium,format=raw,file=\"$disk\" ";
  os << "-qtest-log none -qtest stdio > \"$dir/replies\" 2> \"$dir/errors\"; echo $? > \"$dir/status\"; }\n"
     << "#sh status=$(cat \"$dir/status\")\n"
     // The answers lie in the order of the commands; the last is to the write that ends QEMU.
     << "#sh awk 'FNR == NR { if (/^[a-z]/) c[++n] = $0; else if (sub(/^# expect /, \"\")) e[n] = $0; next "
        "}\n"
     << "#sh   /^(OK|FAIL|ERR)/ { ++r; if (r <= n && (!/^OK/ || (r in e && e[r] != $0))) {\n"
     << "#sh     bad = 1; print c[r] \": expected \" (r in e ? e[r] : \"OK\") \", answered \" $0 } }\n"
     << "#sh   END { print r + 0 \" answers to \" n \" commands\"; exit bad }' \"$script\" \"$dir/replies\"\n"
     << "#sh differs=$?\n"
     << "#sh [ $status -eq " << endOfRunCode << " ] && exit $differs\n"
     << "#sh head -n 5 \"$dir/errors\" >&2\n"
     << "#sh [ $status -gt 128 ] && { echo \"QEMU died of signal $((status - 128))\"; exit $status; }\n"
     << "#sh exit 2\n";
}

Error ToQemuScript::setUp() {
  Expected<PciSetupPlan> plan = planPciSetup(layout, {GuestMemory::interruptPage, interruptMessageData});
  if (!plan)
    return plan.takeError();
  os << "# The device is given its addresses and switched on.\n";
  for (PciWrite write : plan->writes) {
    const PciPortWrites ports = portWritesOf(layout, write);
    command(QtestCommand::portOut(ports.addressPort, ports.address));
    command(QtestCommand::portOut(ports.dataPort, ports.data));
  }
  bars = std::move(plan->bars);
  os << "# What was recorded.\n";
  return Error::success();
}

Error ToQemuScript::begin() {
  Expected<StartState> start = findStartState(source, /*fromReset=*/false);
  if (!start)
    return start.takeError();
  if (!start->keyframes.empty())
    return failUsage("starts-in-the-middle", "the tape begins with a state that a script cannot restore", {},
                     "export the whole tape, or reduce it");
  Expected<uint64_t> needed = ramNeeded();
  if (!needed)
    return needed.takeError();
  ram = *needed;
  head(ram);
  runner(ram);
  return setUp();
}

void ToQemuScript::access(const Packet &packet, const PacketExtra &extra) {
  const std::optional<unsigned> index = bar(packet);
  const auto at = find_if(bars, [&](const PciBar &candidate) { return index == candidate.index; });
  const bool plain = packet.width && packet.width <= 8 && isPowerOf2_32(packet.width);
  if (at == bars.end() || !plain || packet.address >= at->size || packet.width > at->size - packet.address ||
      packet.address % packet.width)
    return leaveOut("access that is no register of the device");
  const uint64_t address = at->address + packet.address;
  const AccessRule &rule = rules.find(packet.space, packet.address, packet.width);
  written();
  if (packet.kind == PacketKind::RegisterWrite) {
    works |= rule.startsWork;
    begun = true;
    return command(QtestCommand::write(packet.width, address, packet.value));
  }
  const bool polls = packet.kind == PacketKind::Poll;
  const Description &description = *source.description(0);
  const bool waited =
      polls || (works && packet.completion == Completion::Done && rule.reg && !rule.readsChange &&
                (bitsThatTellDone(description, rule, packet.value) ||
                 bitsThatTellCause(description, rule, packet.value)));
  if (polls)
    change("poll: one read, after a wait");
  if (waited)
    wait();
  command(QtestCommand::read(packet.width, address));
  const bool whole = polls ? (extra.mask & widthMask(packet.width)) != 0
                           : (rule.compareMask & widthMask(packet.width)) == widthMask(packet.width);
  if (packet.completion == Completion::Done && !rule.ignore && !rule.substitute && !rule.progress && whole)
    expect("OK 0x" + Twine(hexText(packet.value, 16)));
}

void ToQemuScript::memoryWait(const Packet &packet) {
  if (!isPowerOf2_32(packet.width) || packet.width > 8 || !isRam(packet.address, packet.width))
    return leaveOut("memory where the machine has none");
  written();
  wait();
  command(QtestCommand::read(packet.width, packet.address));
  if (packet.completion == Completion::Done)
    expect("OK 0x" + Twine(hexText(packet.value, 16)));
}

/// A message writes a word to memory, which is taken from there.
void ToQemuScript::interrupt(const Packet &packet) {
  if (device.interrupts != QemuInterrupts::Msi || packet.address != 0)
    return leaveOut(packet);
  written();
  wait();
  command(QtestCommand::read(4, GuestMemory::interruptPage));
  expect("OK 0x" + Twine(hexText(packet.completion == Completion::Done ? interruptMessageData : 0, 16)));
  command(QtestCommand::write(4, GuestMemory::interruptPage, 0));
}

Error ToQemuScript::block(const Packet &packet, const PacketExtra &extra, bool stores) {
  PacketExtra shape = extra;
  if (packet.kind == PacketKind::Submit)
    shape.count = 0; // Of commands, not of rows.
  Expected<Rows> rows = Rows::of(packet, shape);
  if (!rows)
    return rows.takeError();
  const bool known = extra.payload && !(packet.flags & (NotCaptured | Truncated));
  if (!known || !rows->length() || rows->count > mostRows) {
    leaveOut("content that was not captured");
    return Error::success();
  }
  Expected<ArrayRef<uint8_t>> content = source.content(extra.payload);
  if (!content)
    return content.takeError();
  if (content->size() < rows->length()) {
    leaveOut("content that was not captured");
    return Error::success();
  }
  for (uint64_t row = 0; row < rows->count; ++row)
    if (!isRam(rows->rowAddress(row), rows->rowBytes)) {
      leaveOut("memory where the machine has none");
      return Error::success();
    }
  for (uint64_t row = 0; row < rows->count; ++row)
    for (uint64_t done = 0; done < rows->rowBytes; done += longestPiece) {
      const uint64_t size = std::min(longestPiece, rows->rowBytes - done);
      const std::string data =
          "0x" + toHex(content->slice(size_t(row * rows->rowBytes + done), size_t(size)), true);
      const std::string place = hexNumber(rows->rowAddress(row) + done) + " " + hexNumber(size);
      if (stores) {
        os << "write " << place << " " << data << "\n";
      } else {
        os << "read " << place << "\n";
        expect("OK " + Twine(data));
      }
    }
  written();
  return Error::success();
}

Error ToQemuScript::oracle(const Packet &packet, const PacketExtra &extra) {
  Expected<std::string> name = line(extra.payload);
  if (!name)
    return name.takeError();
  os << "# check '" << *name << "', which " << (packet.flags & Failed ? "did not hold" : "held")
     << " in the recording\n";
  change("check: a comment");
  return Error::success();
}

Error ToQemuScript::write(const Packet &packet, const PacketExtra &extra) {
  if (packet.completion == Completion::Pending && packet.kind != PacketKind::RegisterWrite) {
    leaveOut(packet);
    return Error::success();
  }
  switch (packet.kind) {
  case PacketKind::RegisterRead:
  case PacketKind::RegisterWrite:
  case PacketKind::Poll: access(packet, extra); return Error::success();
  case PacketKind::MemoryWait: memoryWait(packet); return Error::success();
  case PacketKind::Interrupt: interrupt(packet); return Error::success();
  case PacketKind::MemoryWrite:
  case PacketKind::Submit: return block(packet, extra, /*stores=*/true);
  case PacketKind::CommandDone: wait(); [[fallthrough]];
  case PacketKind::DmaCompletion:
  case PacketKind::MemoryRead:
  case PacketKind::Acquire:
    // Of a transfer to the device nothing is to be seen in memory.
    return extra.payload ? block(packet, extra, /*stores=*/false) : Error::success();
  case PacketKind::Oracle: return oracle(packet, extra);
  case PacketKind::Marker: {
    Expected<std::string> text = line(extra.payload);
    if (!text)
      return text.takeError();
    os << "# marker: " << *text << "\n";
    change("marker: a comment");
    return Error::success();
  }
  case PacketKind::Reset:
    // QEMU is as after one when it starts; later, nothing less than a start makes its devices forget.
    if (begun)
      return failUsage("reset-in-between",
                       "the tape resets the device at packet " + std::to_string(ordinal) +
                           ", and a script cannot start QEMU again",
                       {}, "cut or reduce the tape to what follows the reset");
    return Error::success();
  case PacketKind::Open:
  case PacketKind::Close:
  case PacketKind::MemoryMap:
  case PacketKind::MemoryUnmap:
  case PacketKind::DmaDescriptor:
  case PacketKind::Expectation:
  case PacketKind::SpanBegin:
  case PacketKind::SpanEnd: return Error::success(); // Nothing that a device sees.
  default: leaveOut(packet); return Error::success();
  }
}

} // namespace

bool isForQemuScript(const TapeSource &source) {
  const QemuDevice *device = qemuDeviceOf(source);
  return device && knownPciLayout(*device);
}

Expected<CaptureReport> writeQemuScript(TapeSource &source, raw_ostream &os) {
  const QemuDevice *device = qemuDeviceOf(source);
  std::optional<PciLayout> layout = device ? knownPciLayout(*device) : std::nullopt;
  if (!layout)
    return failUsage("no-qemu-device", "the tape is not of one device that qemu: drives");
  return ToQemuScript(source, os, *device, std::move(*layout)).run();
}

} // namespace tapeback
