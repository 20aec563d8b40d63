// tapeback dump: a tape's packets, filtered, as text, as lines of JSON, or (bounded) as one JSON object.
#include "format/TapeReader.h"
#include "tools/CommandLine.h"
#include "tools/PacketFilter.h"
#include "tools/PacketPrinter.h"
#include "tools/Progress.h"
#include "tools/Range.h"
#include "tools/Report.h"
#include "tools/Verb.h"
#include <map>
#include <unistd.h>

using namespace llvm;

namespace tapeback {
namespace {

constexpr VerbHelp dumpHelp = {
    "dump",
    "List a tape's packets",
    "TAPE [--range RANGE] [--kind KINDS] [--register NAMES] [--command NAMES] [--device D] [--thread N] …",
    "One packet a line, with register and field names from the description that the tape carries. All\n"
    "filters must let a packet through. Memory use does not depend on the length of the tape.\n"
    "\n"
    "RANGE is one place or two with \"..\" between them, both included:\n"
    "  w120            window 120              w100..w140      41 windows\n"
    "  p5000..end      from packet 5000 on     start..p99      the first 100 packets\n"
    "  @NAME           from the first marker of that name up to the next marker\n"
    "  @NAME#3         the same for its third occurrence\n"
    "  @\"a..b\"#2       a name with \"..\", \"#\" or a quote in it (your shell wants '…' around it)\n"
    "\n"
    "Three forms of output: text; --format jsonl, a first line about the tape and then one JSON object a\n"
    "line, as long as it takes; --json, one object with at most --limit packets (10000 unless given) and,\n"
    "if there are more, \"next\": where to go on.\n"
    "\n"
    "Of a damaged tape everything that can be read is listed; what had to be left out is said.\n",
    "  tapeback dump run.tape --range w3\n"
    "  tapeback dump run.tape --register STATUS,DMA_CMD --kind register-write\n"
    "  tapeback dump run.tape --command GEMM,REQUANT --json | jq '.packets[].operands'\n"
    "  tapeback dump run.tape --range @dma#2 --payload hex\n"
    "  tapeback dump run.tape --format jsonl | jq 'select(.kind == \"oracle\")'\n",
    "  0  done (also if nothing passed the filters, or the reader of the output went away)\n"
    "  2  bad usage: no such window, marker, register or device\n"
    "  3  the tape is damaged; what could be read has been listed\n"
    "  5  standard output could not be written\n"};

/// Packets of a damaged tape that could not be listed.
class LeftOut {
public:
  struct Stretch {
    uint64_t first, count;
    Failure failure; ///< Of its first packet.
  };

  /// Takes damage of the tape; gives anything else back.
  Error add(uint64_t first, uint64_t count, Error error) {
    Failure failure = toFailure(std::move(error));
    if (failure.cls != FailureClass::Tape)
      return make_error<Failure>(std::move(failure));
    packets += count;
    if (!stretches.empty() && stretches.back().first + stretches.back().count == first)
      stretches.back().count += count;
    else if (stretches.size() < keptStretches)
      stretches.push_back({first, count, std::move(failure)});
    else
      ++more;
    return Error::success();
  }

  bool empty() const { return stretches.empty(); }
  uint64_t count() const { return packets; }

  void warn(Report &report) const {
    for (const Stretch &stretch : stretches)
      report.warn("left out p" + std::to_string(stretch.first) + "..p" +
                  std::to_string(stretch.first + stretch.count - 1) + ": " + stretch.failure.message +
                  (stretch.failure.where.empty() ? "" : " (" + stretch.failure.where + ")"));
    if (more)
      report.warn("and packets at " + std::to_string(more) + " more places");
  }

  void writeJson(json::OStream &os) const {
    os.attribute("left_out", packets);
    os.attributeArray("left_out_at", [&] {
      for (const Stretch &stretch : stretches)
        os.object([&] {
          os.attribute("packet", stretch.first);
          os.attribute("count", stretch.count);
          os.attribute("code", json::fixUTF8(stretch.failure.code));
          os.attribute("message", json::fixUTF8(stretch.failure.message));
          os.attribute("where", json::fixUTF8(stretch.failure.where));
        });
    });
  }

  Failure failure() const {
    const Failure &first = stretches.front().failure;
    return Failure(FailureClass::Tape, first.code,
                   "the tape is damaged: " + std::to_string(packets) +
                       (packets == 1 ? " packet was" : " packets were") +
                       " left out; the first because: " + first.message,
                   first.where, "`tapeback recover` makes a tape of what is whole");
  }

private:
  static constexpr size_t keptStretches = 20;
  std::vector<Stretch> stretches;
  uint64_t packets = 0, more = 0;
};

/// Passes the packets of a range that a filter lets through to `show`, which says whether to go on. Goes past
/// what is damaged, as long as the index says where.
Error forEachPacket(
    TapeReader &reader, const TapeRange &range, PacketFilter &filter, PacketPrinter &printer,
    LeftOut &leftOut,
    function_ref<Expected<bool>(uint64_t ordinal, uint64_t window, const Packet &, const PacketExtra &)>
        show) {
  // A listing on the terminal shows by itself how far it is.
  std::optional<Progress> progress;
  if (!isatty(STDOUT_FILENO))
    progress.emplace("reading", range.packetCount);
  PacketBatch batch;
  uint64_t window = range.firstWindow, windowEnd = 0;
  const uint64_t end = range.firstPacket + range.packetCount;
  for (uint64_t next = range.firstPacket; next < end;) {
    if (Error error = reader.readBlockFrom(next, batch)) {
      Expected<uint64_t> behind = reader.blockEnd(next);
      if (!behind) {
        consumeError(behind.takeError());
        return error; // The index, too: there is no way on.
      }
      uint64_t from = next;
      next = std::min(*behind, end);
      if (Error other = leftOut.add(from, next - from, std::move(error)))
        return other;
      continue;
    }
    if (batch.packets.empty())
      break;
    for (size_t i = 0; i < batch.packets.size() && next < end; ++i, ++next) {
      if (progress)
        progress->update(next - range.firstPacket);
      const Packet &packet = batch.packets[i];
      Expected<bool> passes = filter.passes(packet, batch.extra(packet), printer);
      if (!passes) {
        if (Error other = leftOut.add(next, 1, passes.takeError()))
          return other;
        continue;
      }
      if (!*passes)
        continue;
      if (next >= windowEnd) {
        Expected<uint64_t> found = reader.windowOfPacket(next);
        if (!found)
          return found.takeError();
        window = *found;
        Expected<WindowInfo> info = reader.window(window);
        if (!info)
          return info.takeError();
        windowEnd = info->firstPacket + info->packetCount;
      }
      Expected<bool> goOn = show(next, window, packet, batch.extra(packet));
      if (!goOn) {
        if (Error other = leftOut.add(next, 1, goOn.takeError()))
          return other;
      } else if (!*goOn) {
        return Error::success();
      }
    }
  }
  return Error::success();
}

/// Trigger points within a range, by packet; at most as many as a listing can show.
using TriggerPoints = std::multimap<uint64_t, std::string>;
Expected<TriggerPoints> triggersIn(TapeReader &reader, const TapeRange &range) {
  constexpr size_t most = 10'000;
  Expected<std::vector<TapeReader::TriggerRecord>> all = reader.triggers();
  if (!all)
    return all.takeError();
  TriggerPoints points;
  for (const TapeReader::TriggerRecord &one : *all)
    if (one.packet >= range.firstPacket && one.packet - range.firstPacket < range.packetCount &&
        points.size() < most)
      points.emplace(one.packet, one.text);
  return points;
}

void writeTriggerPoints(json::OStream &os, const TriggerPoints &points) {
  os.attributeArray("triggers", [&] {
    for (const auto &[packet, text] : points)
      os.object([&] {
        os.attribute("packet", packet);
        os.attribute("text", json::fixUTF8(text));
      });
  });
}

/// One object with a bounded array. Its size is bounded, too: payloads in full may be long.
int dumpObject(Report &report, TapeReader &reader, const TapeRange &range, PacketFilter &filter,
               PacketPrinter &printer, const TriggerPoints &triggers, uint64_t limit, StringRef path) {
  constexpr uint64_t maxBytes = 64u << 20;
  json::OStream &os = report.object();
  os.attribute("tape", json::fixUTF8(path));
  os.attribute("root", toHex(reader.summary().root));
  std::optional<uint64_t> next;
  uint64_t shown = 0;
  std::optional<Failure> failure;
  LeftOut leftOut;
  writeTriggerPoints(os, triggers);
  os.attributeArray("packets", [&] {
    Error error = forEachPacket(reader, range, filter, printer, leftOut,
                                [&](uint64_t ordinal, uint64_t window, const Packet &packet,
                                    const PacketExtra &extra) -> Expected<bool> {
                                  if (shown == limit || report.objectBytes() > maxBytes) {
                                    next = ordinal;
                                    return false;
                                  }
                                  if (Error bad = printer.writeJson(os, ordinal, window, packet, extra))
                                    return bad;
                                  ++shown;
                                  return true;
                                });
    if (error)
      failure = toFailure(std::move(error));
  });
  if (failure)
    return report.fail(*failure);
  os.attribute("count", shown);
  os.attribute("truncated", next.has_value());
  os.attribute("next", next ? json::Value("p" + std::to_string(*next)) : json::Value(nullptr));
  leftOut.writeJson(os);
  leftOut.warn(report);
  if (leftOut.empty()) {
    report.verdict(0);
    return report.finish(0);
  }
  report.verdict(3);
  report.error(leftOut.failure());
  return report.finish(3);
}

} // namespace

int runDump(ArrayRef<const char *> args) {
  cl::opt<std::string> path(cl::Positional, cl::Required, cl::desc("TAPE"));
  cl::opt<std::string> range("range", cl::desc("Only this part of the tape (see above)"),
                             cl::value_desc("RANGE"));
  cl::list<std::string> kinds("kind",
                              cl::desc("Only these kinds of packet (register-read,poll …; or unknown)"),
                              cl::value_desc("KINDS"), cl::CommaSeparated);
  cl::list<std::string> registers("register",
                                  cl::desc("Only accesses to these registers, by name or as space+offset"),
                                  cl::value_desc("NAMES"), cl::CommaSeparated);
  cl::list<std::string> commands(
      "command", cl::desc("Only commands submitted with these names (GEMM,FENCE …; or unknown)"),
      cl::value_desc("NAMES"), cl::CommaSeparated);
  cl::opt<std::string> device(
      "device", cl::desc("Only this device, by number or by the program's name for it"), cl::value_desc("D"));
  NumberOption thread("thread", cl::desc("Only this thread of the program"), cl::value_desc("N"));
  NumberOption limit("limit", cl::desc("Stop after N packets (--json: 10000 unless given)"),
                     cl::value_desc("N"));
  cl::opt<std::string> form("format", cl::desc("text or jsonl (default: text)"), cl::value_desc("FORM"),
                            cl::init("text"));
  cl::opt<std::string> payload(
      "payload",
      cl::desc("Contents of memory: none, preview (first 16 bytes; the default) or hex (all of it)"),
      cl::value_desc("HOW"), cl::init("preview"));
  CommandLine line(dumpHelp);
  if (std::optional<int> exit = line.parse(args))
    return *exit;
  Report report("dump", line.json());
  auto usage = [&](const char *code, const std::string &message, const char *where, const char *hint) {
    return report.fail(Failure(FailureClass::Usage, code, message, where, hint));
  };
  if (form != "text" && form != "jsonl")
    return usage("bad-option-value", "there is no format '" + form + "'", "--format", "use text or jsonl");
  if (line.json() && form.getNumOccurrences())
    return usage("bad-usage", "--json writes one object and --format says otherwise", "--format",
                 "use --format jsonl for one object a line");
  if (payload != "none" && payload != "preview" && payload != "hex")
    return usage("bad-option-value", "there is no way '" + payload + "' to show payloads", "--payload",
                 "use none, preview or hex");
  auto how = payload == "none"      ? PacketPrinter::Payload::None
             : payload == "preview" ? PacketPrinter::Payload::Preview
                                    : PacketPrinter::Payload::Whole;

  Expected<std::unique_ptr<TapeReader>> opened = TapeReader::open(path);
  if (!opened)
    return report.fail(opened.takeError());
  TapeReader &reader = **opened;
  PacketPrinter printer(reader, how);
  FilterOptions wanted;
  wanted.kinds = kinds;
  wanted.registers = registers;
  wanted.commands = commands;
  if (device.getNumOccurrences())
    wanted.device = device;
  if (thread.getNumOccurrences())
    wanted.thread = uint64_t(thread);
  Expected<PacketFilter> filter = PacketFilter::make(wanted, reader, printer);
  if (!filter)
    return report.fail(filter.takeError());
  TapeRange part = wholeTape(reader);
  if (range.getNumOccurrences()) {
    Expected<TapeRange> resolved = resolveRange(range, reader);
    if (!resolved)
      return report.fail(resolved.takeError());
    part = *resolved;
  }
  TriggerPoints triggers;
  if (Expected<TriggerPoints> found = triggersIn(reader, part))
    triggers = std::move(*found);
  else // Packets can be listed without them.
    report.warn("trigger points could not be read: " + toFailure(found.takeError()).message);
  uint64_t most = limit.getNumOccurrences() ? uint64_t(limit) : line.json() ? 10000 : ~uint64_t(0);
  if (line.json())
    return dumpObject(report, reader, part, *filter, printer, triggers, most, path);

  uint64_t shown = 0;
  if (form == "jsonl") {
    json::OStream head(outs());
    head.object([&] {
      head.attribute("schema", "tapeback.dump.lines/1");
      head.attribute("tape", json::fixUTF8(path));
      head.attribute("root", toHex(reader.summary().root));
      head.attribute("packets", reader.summary().packets);
      head.attribute("windows", reader.summary().windows);
      writeTriggerPoints(head, triggers);
    });
    head.flush();
    outs() << "\n";
  }
  LeftOut leftOut;
  Error error = forEachPacket(
      reader, part, *filter, printer, leftOut,
      [&](uint64_t ordinal, uint64_t window, const Packet &packet,
          const PacketExtra &extra) -> Expected<bool> {
        if (shown == most || standardOutputGone())
          return false;
        if (Error bad = form == "text" ? printer.writeText(outs(), ordinal, window, packet, extra)
                                       : printer.writeJsonLine(outs(), ordinal, window, packet, extra))
          return bad;
        ++shown;
        if (form == "text")
          for (auto [at, end] = triggers.equal_range(ordinal); at != end; ++at)
            outs() << "          ^ trigger " << quoteUntrusted(at->second) << "\n";
        return true;
      });
  for (const std::string &warning : printer.takeWarnings())
    report.warn(warning);
  outs().flush();
  leftOut.warn(report);
  if (error) {
    // What was listed so far stays listed.
    Failure failure = toFailure(std::move(error));
    report.error(failure);
    return report.finish(exitCodeOf(failure));
  }
  if (!leftOut.empty()) {
    Failure failure = leftOut.failure();
    report.error(failure);
    return report.finish(exitCodeOf(failure));
  }
  if (!shown && form == "text" && reader.summary().packets)
    report.warn("no packet passes the filters");
  return report.finish(0);
}

} // namespace tapeback
