#include "tools/export/CProgram.h"
#include "format/Failure.h"
#include "replayer/AccessRules.h"
#include "replayer/PacketRoles.h"
#include "replayer/Rows.h"
#include "replayer/StartState.h"
#include "tools/export/Captures.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

using namespace llvm;

namespace tapeback {
namespace {

constexpr uint64_t maxPackets = 100'000, maxContent = 16 << 20;
/// What the recorder's own waits use where a tape has no deadline.
constexpr uint64_t defaultDeadlineNs = 1'000'000'000;
/// As long as a replay waits for a command of a queue.
constexpr uint64_t commandDeadlineNs = 10 * defaultDeadlineNs;

constexpr char head[] = R"(#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tapeback.h>

static int failures;

/* The target failed, or is another: what follows would mean nothing. */
static void must(int code, const char *what) {
  if (code >= 0)
    return;
  fprintf(stderr, "%s: %s\n", what, tb_error());
  exit(3);
}
/* A wait that ends in time or not: the next packets show what came of it. */
static void wait_for(int code, const char *what) {
  if (code != TB_E_TIMEOUT)
    must(code, what);
}
/* Addresses are literal: registers and descriptors have them. The lowest free one is handed out; what else lay below in
 * the recording, and is no part of this program, is taken and not used. */
static void place(tb_device *device, uint64_t size, uint64_t wanted) {
  uint64_t iova = 0, below = 0;
  int tries;
  for (tries = 0; tries < 4096; ++tries) {
    must(tb_alloc(device, size, 0, &iova, NULL), "memory");
    if (iova == wanted)
      return;
    if (iova > wanted || (wanted - iova) % 4096)
      break;
    must(tb_free(device, iova), "memory");
    must(tb_alloc(device, wanted - iova < size ? wanted - iova : size, 0, &below, NULL), "memory");
  }
  fprintf(stderr, "memory lies at 0x%llx, but the tape has it at 0x%llx: use a target of the same kind\n",
          (unsigned long long)iova, (unsigned long long)wanted);
  exit(3);
}
static void holds(int outcome, const char *what) {
  must(outcome, what);
  if (outcome)
    return;
  fprintf(stderr, "check '%s' does not hold\n", what);
  ++failures;
}

)";

class Exporting {
public:
  Exporting(TapeSource &source, raw_ostream &os) : source(source), os(os) {}

  Expected<CProgramReport> run();

private:
  Error add(uint64_t ordinal, const Packet &packet, const PacketExtra &extra);
  Error oracle(const Packet &packet, const PacketExtra &extra);
  std::string waitBefore(const Packet &packet);
  Error memoryWrite(const Packet &packet, const PacketExtra &extra);
  Error commandDone(const Packet &packet, const PacketExtra &extra);
  Expected<std::string> bytes(BlobId id, uint64_t offset, uint64_t length);
  std::string space(const Packet &packet) const { return quoted(source.spaceName(packet.space)); }
  static std::string number(uint64_t value) { return "UINT64_C(0x" + utohexstr(value, true) + ")"; }
  static std::string quoted(StringRef text);
  static std::string comment(StringRef text);
  static uint64_t deadline(const PacketExtra &extra) {
    return extra.deadline ? extra.deadline : defaultDeadlineNs;
  }
  void leaveOut(const Packet &packet) {
    const char *name = packetKindName(packet.kind);
    ++report.leftOut[name ? name : "unknown"];
  }

  TapeSource &source;
  raw_ostream &os;
  CProgramReport report;
  std::string body, arrays;
  std::map<uint64_t, unsigned> read;                          ///< Packets whose value a variable has.
  std::map<std::pair<uint64_t, uint64_t>, std::string> named; ///< Contents that are arrays already.
  std::multimap<uint64_t, std::string> points;                ///< Trigger points by packet.
  uint64_t content = 0;
  std::optional<AccessRules> rules;
  bool works = false;      ///< Something was handed over since the reset.
  bool justMapped = false; ///< What follows fills fresh memory, as tb_alloc does.
  std::optional<BlobId> expectation;
};

std::string Exporting::quoted(StringRef text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      result += std::string("\\") + c;
    else if (c >= ' ' && c <= '~' && c != '?') // "??" begins a trigraph.
      result += c;
    else
      result += "\\" + std::string(1, char('0' + ((uint8_t(c) >> 6) & 7))) +
                char('0' + ((uint8_t(c) >> 3) & 7)) + char('0' + (uint8_t(c) & 7));
  }
  return result + "\"";
}

/// What may stand between the ends of a comment.
std::string Exporting::comment(StringRef text) {
  std::string result = quoted(text.take_front(400));
  for (size_t i = 0; i < result.size(); ++i)
    if (result[i] == '*')
      result[i] = '+';
  return result;
}

/// An expression for part of a content.
Expected<std::string> Exporting::bytes(BlobId id, uint64_t offset, uint64_t length) {
  Expected<ArrayRef<uint8_t>> whole = source.reader().blob(id);
  if (!whole)
    return whole.takeError();
  if (offset > whole->size() || length > whole->size() - offset)
    return failTape("short-content", "a content is shorter than its packet says");
  std::string &name = named[{id.hi, id.lo}];
  if (name.empty()) {
    content += whole->size();
    if (content > maxContent)
      return failUsage("tape-too-large", "the tape has more than 16 MiB of contents", {}, "reduce it first");
    name = "bytes" + std::to_string(named.size() - 1);
    raw_string_ostream out(arrays);
    out << "static const uint8_t " << name << "[" << whole->size() << "] = {";
    // Zeroes at the end need no words.
    size_t last = whole->size();
    while (last > 1 && !(*whole)[last - 1])
      --last;
    for (size_t i = 0; i < last; ++i)
      out << (i % 16 ? "" : "\n    ") << format("0x%02x,", unsigned((*whole)[i]));
    out << "\n};\n";
  }
  return offset ? name + " + " + std::to_string(offset) : name;
}

Error Exporting::memoryWrite(const Packet &packet, const PacketExtra &extra) {
  Expected<Rows> rows = Rows::of(packet, extra);
  if (!rows)
    return rows.takeError();
  if (!extra.payload || (packet.flags & NotCaptured)) {
    leaveOut(packet);
    return Error::success();
  }
  raw_string_ostream out(body);
  for (uint64_t row = 0; row < rows->count; ++row) {
    Expected<std::string> part = bytes(extra.payload, row * rows->rowBytes, rows->rowBytes);
    if (!part)
      return part.takeError();
    out << "  must(tb_mem_write(device, " << number(rows->rowAddress(row)) << ", " << *part << ", "
        << rows->rowBytes << "), \"memory\");\n";
  }
  ++report.calls;
  return Error::success();
}

/// Waits until the device has said something at that place of its ring: with the phase that was found there.
Error Exporting::commandDone(const Packet &packet, const PacketExtra &extra) {
  const Description *description = source.description(packet.device);
  const LayoutDescription *layout = description ? description->completionLayout() : nullptr;
  if (!layout || !extra.payload || extra.length != layout->size) {
    leaveOut(packet);
    return Error::success();
  }
  Expected<ArrayRef<uint8_t>> said = source.reader().blob(extra.payload);
  if (!said)
    return said.takeError();
  const EntryField &phase = layout->completes->phase;
  const uint64_t mask = phase.mask() << phase.low;
  raw_string_ostream out(body);
  out << "  wait_for(tb_wait_mem(device, " << number(packet.address + phase.offset) << ", " << phase.width
      << ", " << number(mask) << ", " << number(entryValue(phase, *said) << phase.low) << ", "
      << commandDeadlineNs << "u, NULL), \"completion\");\n  must(tb_acquire(device, "
      << number(packet.address) << ", " << extra.length << "), \"acquire\");\n";
  report.calls += 2;
  return Error::success();
}

/// A read that showed something as done, or why an interrupt came, is waited for in a replay, since the host
/// had waited in some way; so it is here.
std::string Exporting::waitBefore(const Packet &packet) {
  const Description *description = source.description(packet.device);
  if (!description || !works || packet.completion != Completion::Done)
    return {};
  const AccessRule &rule = rules->find(packet.space, packet.address, packet.width);
  if (!rule.reg || rule.readsChange)
    return {};
  const uint64_t bits = bitsThatTellDone(*description, rule, packet.value) |
                        bitsThatTellCause(*description, rule, packet.value);
  if (!bits)
    return {};
  return "  wait_for(tb_poll(device, " + space(packet) + ", " + number(packet.address) + ", " +
         std::to_string(packet.width) + ", " + number(bits) + ", " + number(packet.value & bits) + ", " +
         std::to_string(defaultDeadlineNs) + "u, NULL), \"wait\");\n";
}

Error Exporting::oracle(const Packet &packet, const PacketExtra &extra) {
  Expected<std::string> name = source.name(extra.payload);
  if (!name)
    return name.takeError();
  raw_string_ostream out(body);
  if (extra.length && expectation) {
    Expected<std::string> wanted = bytes(*expectation, 0, extra.length);
    if (!wanted)
      return wanted.takeError();
    out << "  holds(tb_check_memory(device, " << quoted(*name) << ", " << number(packet.address) << ", "
        << *wanted << ", " << extra.length << "), " << quoted(*name) << ");\n";
  } else if (auto found = read.find(extra.link); extra.mask && !extra.length && found != read.end()) {
    out << "  holds(tb_check_equal(device, " << quoted(*name) << ", " << number(extra.expected & extra.mask)
        << ", v" << found->second << " & " << number(extra.mask) << "), " << quoted(*name) << ");\n";
  } else {
    leaveOut(packet);
    return Error::success();
  }
  ++report.checks;
  ++report.calls;
  return Error::success();
}

Error Exporting::add(uint64_t ordinal, const Packet &packet, const PacketExtra &extra) {
  for (auto [at, end] = points.equal_range(ordinal); at != end; ++at) {
    body += "  /* trigger point, at packet " + std::to_string(ordinal) +
            " of the tape: " + comment(at->second) + " */\n";
    ++report.triggerPoints;
  }
  bool fills = justMapped && packet.kind == PacketKind::MemoryWrite;
  justMapped = packet.kind == PacketKind::MemoryMap || fills;
  if (fills)
    return Error::success();
  if (isEvidence(packet)) {
    leaveOut(packet);
    return Error::success();
  }
  raw_string_ostream out(body);
  unsigned bits = 8 * packet.width;
  auto declare = [&](const char *type) {
    unsigned variable = unsigned(read.size());
    read[ordinal] = variable;
    out << "  " << type << " v" << variable << " = 0;\n";
    return "v" + std::to_string(variable);
  };
  auto isExpectation = packet.kind == PacketKind::Expectation;
  ++report.calls;
  switch (packet.kind) {
  case PacketKind::RegisterRead: {
    std::string type = "uint" + std::to_string(bits) + "_t", variable = declare(type.c_str());
    out << waitBefore(packet) << "  must(tb_read" << bits << "(device, " << space(packet) << ", "
        << number(packet.address) << ", &" << variable << "), \"read\");\n";
    break;
  }
  case PacketKind::RegisterWrite:
    works |= rules && rules->find(packet.space, packet.address, packet.width).startsWork;
    out << "  must(tb_write" << bits << "(device, " << space(packet) << ", " << number(packet.address)
        << ", (uint" << bits << "_t)" << number(packet.value) << "), \"write\");\n";
    break;
  case PacketKind::Poll: {
    std::string variable = declare("uint64_t");
    out << "  wait_for(tb_poll(device, " << space(packet) << ", " << number(packet.address) << ", "
        << unsigned(packet.width) << ", " << number(extra.mask) << ", " << number(extra.expected & extra.mask)
        << ", " << deadline(extra) << "u, &" << variable << "), \"poll\");\n";
    break;
  }
  case PacketKind::MemoryWait: {
    std::string variable = declare("uint64_t");
    out << "  wait_for(tb_wait_mem(device, " << number(packet.address) << ", " << unsigned(packet.width)
        << ", " << number(extra.mask) << ", " << number(extra.expected & extra.mask) << ", "
        << deadline(extra) << "u, &" << variable << "), \"wait\");\n";
    break;
  }
  case PacketKind::Interrupt:
    out << "  wait_for(tb_wait_irq(device, " << packet.address << ", " << deadline(extra)
        << "u, NULL), \"interrupt\");\n";
    break;
  case PacketKind::MemoryMap:
    out << "  place(device, " << extra.length << ", " << number(packet.address) << ");\n";
    break;
  case PacketKind::MemoryUnmap:
    out << "  must(tb_free(device, " << number(packet.address) << "), \"memory\");\n";
    break;
  case PacketKind::MemoryRead:
  case PacketKind::Acquire:
    out << "  must(tb_acquire(device, " << number(packet.address) << ", " << extra.length
        << "), \"acquire\");\n";
    break;
  case PacketKind::Marker: {
    Expected<std::string> name = source.name(extra.payload);
    if (!name)
      return name.takeError();
    out << "  must(tb_mark(device, " << quoted(*name) << "), \"mark\");\n";
    break;
  }
  case PacketKind::Reset:
    // The first one is part of opening.
    works = false;
    if (packet.origin == Origin::Program)
      out << "  must(tb_reset(device), \"reset\");\n";
    break;
  case PacketKind::MemoryWrite:
  case PacketKind::Submit: {
    --report.calls;
    out.flush();
    PacketExtra stored = extra;
    if (packet.kind == PacketKind::Submit)
      stored.count = 0; // Of commands, not of rows.
    return memoryWrite(packet, stored);
  }
  case PacketKind::Oracle: --report.calls; return oracle(packet, extra);
  case PacketKind::CommandDone: --report.calls; return commandDone(packet, extra);
  case PacketKind::Expectation: expectation = extra.payload; [[fallthrough]];
  default:
    --report.calls;
    if (!isExpectation)
      leaveOut(packet);
    break;
  }
  return Error::success();
}

Expected<CProgramReport> Exporting::run() {
  TapeReader &reader = source.reader();
  uint64_t count = reader.summary().packets;
  if (count > maxPackets)
    return failUsage("tape-too-large",
                     "the tape has " + std::to_string(count) + " packets; a program has at most " +
                         std::to_string(maxPackets),
                     {}, "cut or reduce it first");
  if (source.deviceCount() != 1)
    return failUsage("several-devices", "the tape has " + std::to_string(source.deviceCount()) +
                                            " devices; a program drives one");
  Expected<StartState> start = findStartState(source, /*fromReset=*/false);
  if (!start)
    return start.takeError();
  if (!start->keyframes.empty())
    return failUsage("starts-in-the-middle", "the tape begins with a state that the C API cannot restore", {},
                     "reduce the whole tape instead of a part of it");
  rules.emplace(source.description(0), source.spaceNames(), std::vector<std::string>());
  if (Error error = triggerPointsOf(reader).moveInto(points))
    return error;
  PacketBatch batch;
  for (uint64_t at = 0; at < count; at += batch.packets.size()) {
    if (Error error = reader.readBlockFrom(at, batch))
      return error;
    if (batch.packets.empty())
      return failTape("short-tape", "the tape ends before its last packet", "packet " + std::to_string(at));
    for (size_t i = 0; i < batch.packets.size(); ++i)
      if (Error error = add(at + i, batch.packets[i], batch.extra(batch.packets[i])))
        return error;
  }
  os << "/* Made from a tape by `tapeback export --to c`. Root " << toHex(reader.summary().root) << "\n";
  if (!reader.manifest().derivation.empty())
    os << " * The tape is itself made from another: " << comment(reader.manifest().derivation) << "\n";
  os << " *\n * Build: cc THIS.c -ltapeback    Run: TAPEBACK_TARGET=URI ./a.out\n"
     << " * Exits 0 if every check holds, 1 if one does not, 3 if the target fails.\n */\n";
  os << head << arrays << "\nint main(void) {\n  tb_device *device = NULL;\n"
     << "  (void)wait_for, (void)place, (void)holds; /* Not every program needs them. */\n"
     << "  must(tb_open(NULL, &device), \"open\");\n"
     << body << "  must(tb_close(device), \"close\");\n  return failures ? 1 : 0;\n}\n";
  return report;
}

} // namespace

Expected<CProgramReport> exportCProgram(TapeSource &source, raw_ostream &os) {
  return Exporting(source, os).run();
}

} // namespace tapeback
