// QEMU's qtest protocol: scripts of commands, logs of commands and replies, bug reports with either.
//
//   out{b,w,l} PORT VALUE      in{b,w,l} PORT      write{b,w,l,q} ADDR VALUE      read{b,w,l,q} ADDR
//   write ADDR N 0xHEX   read ADDR N   b64write ADDR N BASE64   b64read ADDR N   memset ADDR N VALUE
//   clock_step [NS], clock_set NS, irq_intercept_in|out QOM, set_irq_in …, endianness
//   OK[ value]   FAIL …   ERR …   IRQ raise|lower N        with "[R +t] ", "[S +t] ", "[I t] " in a log
//
// Ports are the space "io" and addresses the space "physical" of the device "machine"; blocks are memory, and
// the commands for the clock and for interrupts are writes to the space "qtest" (hal/qemu/QtestControl.h). A
// command is written when its reply comes or the next command does: a read without one is pending (nothing to
// compare). In a script all replies may come at the end (or in a second file); they become LateCompletions.
// An interrupt that was raised while a command had no answer yet comes behind it: that it did is known then.
// What would make QEMU itself abort (no argument, two blanks, a port above 0xffff …) is not understood.
#include "hal/qemu/QemuArguments.h"
#include "hal/qemu/QtestControl.h"
#include "recorder/import/Importers.h"
#include "recorder/import/QtestVerb.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Base64.h"
#include <deque>

using namespace llvm;

namespace tapeback {
namespace {

constexpr uint64_t maxBlockBytes = 64u << 20, mostBytesOfPiece = 1u << 20;
constexpr size_t maxUnanswered = 1u << 20, maxRaised = 1u << 16;

class Qtest : public Importer {
public:
  explicit Qtest(const ImporterSettings &settings)
      : waitNs(settings.waitNs), machine(settings.qemuArgs), diedName(settings.diedName),
        lastWords(settings.lastWords) {}

  LineVerdict line(const CaptureLine &line, ImportOutput &out) override {
    StringRef text = line.text;
    if (inMachine) { // The command line goes on.
      inMachine = text.ends_with("\\") && machine.size() < 65536;
      machine += "\n" + text.take_front(16384).str();
      return LineVerdict::ignored("QEMU's command line");
    }
    if (text.empty() || (isBlank(text.front()) && isBlank(text)))
      return LineVerdict::ignored("blank line");
    Scanner s(text);
    uint64_t time;
    if (s.eat("[I ") || s.eat("[I +"))
      return LineVerdict::ignored("marks of the log");
    bool command = s.eat("[R +"), reply = !command && s.eat("[S +");
    if (command || reply) {
      if (!s.seconds(time) || !s.eat("] "))
        return LineVerdict::notUnderstood(s, "the time of the log's line is wanted");
      out.at(time);
      if (!started)
        start(out, "qtest-log");
      text = s.rest();
    }
    if (reply || (!command && isReply(text)))
      return answer(text, s.column(), out);
    Scanner rest(text);
    const QtestVerb verb = qtestVerb(rest);
    if (!command && verb.kind == QtestVerb::None) {
      if (text.contains("qemu-system-") && !text.contains("qemu-system-: ") && !isMessage(text)) {
        if (machine.empty()) {
          machine = text.take_front(16384).str();
          inMachine = text.ends_with("\\");
        }
        return LineVerdict::ignored("QEMU's command line");
      }
      return other(text);
    }
    if (!started)
      start(out, "untimed");
    return execute(verb, rest, text, s.column(), out);
  }

  void end(ImportOutput &out) override {
    flush(out);
    writeRaised(out);
    if (!diedName.empty())
      out.machineDied(diedName, lastWords);
  }

private:
  /// Used again and again, so that its memory is.
  struct Operation {
    Packet packet;
    PacketExtra extra;
    std::vector<uint8_t> content;
    std::string text; ///< Of a command that names a device; goes on the tape as a Marker in front of it, too.
    std::string marker;  ///< Not an access: goes on the tape as a Marker.
    uint64_t repeat = 0; ///< memset: bytes of content.front().
    bool reads = false;

    void clear() {
      packet = {};
      extra = {};
      content.clear();
      text.clear();
      marker.clear();
      repeat = 0;
      reads = false;
    }
  };
  struct Unanswered {
    uint64_t ordinal; ///< noLink: nobody cares for its reply.
  };

  void start(ImportOutput &out, StringRef clock) {
    started = true;
    out.clock(clock);
    std::map<std::string, std::string> identity;
    if (!machine.empty()) {
      Expected<QemuCommand> parsed = parseQemuCommand(machine);
      if (parsed) {
        if (!parsed->architecture.empty())
          identity["qemu-architecture"] = parsed->architecture;
        identity["qemu-args"] = parsed->text();
      } else {
        out.warn("qemu-args-refused", toFailure(parsed.takeError()).message);
      }
    }
    device = out.device("machine", identity).value_or(0);
    ioSpace = out.space("io").value_or(0);
    physicalSpace = out.space("physical").value_or(0);
    controlSpace = out.space("qtest").value_or(0);
  }

  static bool isReply(StringRef text) {
    Scanner s(text);
    return (s.eat("OK") || s.eat("FAIL") || s.eat("ERR") || s.eat("IRQ")) && (s.atEnd() || s.peek() == ' ');
  }
  static bool hasTwoBlanks(StringRef text) {
    for (size_t at = text.find(' '); at != StringRef::npos; at = text.find(' ', at + 1))
      if (at + 1 < text.size() && text[at + 1] == ' ')
        return true;
    return false;
  }
  static bool isMessage(StringRef text) {
    size_t colon = text.find(": ");
    return text.starts_with("qemu-system-") && colon != StringRef::npos &&
           !text.take_front(colon).contains(' ');
  }
  /// QEMU's last words, and the shell's word on how it ended, are the failure that the report is about.
  bool tellsEnd(StringRef text) {
    struct End {
      const char *text, *name;
    };
    for (End end : {End{"Aborted", "SIGABRT"},
                    {"Segmentation fault", "SIGSEGV"},
                    {"Floating point exception", "SIGFPE"},
                    {"Bus error", "SIGBUS"},
                    {"Illegal instruction", "SIGILL"}})
      if (text == end.text || text == (StringRef(end.text) + " (core dumped)").str()) {
        diedName = end.name;
        return true;
      }
    bool assertion = isMessage(text) && text.contains(": Assertion `") && text.ends_with("' failed.");
    if (!assertion && !text.starts_with("ERROR:../") && !text.starts_with("qemu: hardware error: "))
      return false;
    if (diedName.empty())
      diedName = "SIGABRT";
    lastWords = (assertion ? text.split(": ").second : text).take_front(400).str();
    return true;
  }
  LineVerdict other(StringRef text) {
    if (tellsEnd(text))
      return LineVerdict::ignored("how QEMU ended");
    if (text.starts_with("#"))
      return LineVerdict::ignored("comment");
    if (text == "EOF" || text == "QEOF" || text == "END")
      return LineVerdict::ignored("end of the here-document");
    if (isMessage(text))
      return LineVerdict::ignored("QEMU's messages");
    StringRef name = text.take_until([](char c) { return c == ' '; });
    bool lower = all_of(name, [](char c) { return islower(uint8_t(c)) || isdigit(uint8_t(c)) || c == '_'; });
    if (lower && name.contains('_') && name.size() < text.size())
      return LineVerdict::ignored("QEMU's trace events");
    return LineVerdict::notUnderstood(1, "neither a command nor a reply of qtest");
  }

  //===- Commands
  //------------------------------------------------------------------------------------------===//

  LineVerdict execute(QtestVerb verb, Scanner &s, StringRef text, unsigned column, ImportOutput &out) {
    Operation &next = operations[!current];
    next.clear();
    const char *why =
        hasTwoBlanks(text) ? "two blanks in a row: QEMU would abort" : parse(verb, s, text, next, out);
    if (why)
      return LineVerdict::notUnderstood(column + s.column() - 1, why);
    flush(out);
    if (!next.text.empty()) // For people; the packets have it as numbers.
      out.marker(next.text, device);
    next.packet.device = device;
    next.packet.issueTime = out.time();
    current = !current;
    held = &next;
    return LineVerdict::imported();
  }

  /// Null, or why not.
  const char *parse(QtestVerb verb, Scanner &s, StringRef text, Operation &op, ImportOutput &out) {
    uint64_t address, value = 0;
    switch (verb.kind) {
    case QtestVerb::None: return "no command of qtest";
    case QtestVerb::Step:
    case QtestVerb::SetClock: return clock(verb, s, op, out);
    case QtestVerb::Endianness: op.marker = "endianness"; return nullptr;
    case QtestVerb::Named:
      if (const char *why = whyNoTextCommand(text))
        return why;
      op.text = text.str();
      control(op, QtestControl::Command, text.size());
      return nullptr;
    default: break;
    }
    if (!s.eat(' ') || !s.cNumber(address))
      return "the address is missing or no number: QEMU would abort";
    op.packet.address = address;
    op.reads = verb.reads;
    if (verb.kind != QtestVerb::Port && verb.kind != QtestVerb::Address)
      return block(verb, s, op);
    op.packet.kind = op.reads ? PacketKind::RegisterRead : PacketKind::RegisterWrite;
    const bool ports = verb.kind == QtestVerb::Port;
    if (ports && address > 0xffff)
      return "the port is above 0xffff: QEMU would abort";
    op.packet.width = verb.width;
    op.packet.space = ports ? ioSpace : physicalSpace;
    if (!op.reads) {
      if (!s.eat(' ') || !s.cNumber(value))
        return "the value is missing or no number: QEMU would abort";
      uint64_t fits = verb.width == 8 ? ~uint64_t(0) : (uint64_t(1) << (8 * verb.width)) - 1;
      if (value > fits)
        out.warn("value-cut", "the value is wider than the access: QEMU takes its low bits");
      op.packet.value = value & fits;
    }
    trailing(s, out);
    return nullptr;
  }

  void control(Operation &op, QtestControl what, uint64_t value) {
    op.packet.kind = PacketKind::RegisterWrite;
    op.packet.space = controlSpace;
    op.packet.width = 8;
    op.packet.address = uint64_t(what);
    op.packet.value = value;
  }

  const char *clock(QtestVerb verb, Scanner &s, Operation &op, ImportOutput &out) {
    uint64_t ns;
    bool sets = verb.kind == QtestVerb::SetClock;
    if (!sets && s.atEnd()) {
      control(op, QtestControl::StepToTimer, 0);
      return nullptr;
    }
    if (!s.eat(' ') || !s.cNumber(ns))
      return "the time is missing or no number: QEMU would abort";
    control(op, sets ? QtestControl::SetClock : QtestControl::Step, ns);
    trailing(s, out);
    return nullptr;
  }

  const char *block(QtestVerb verb, Scanner &s, Operation &op) {
    uint64_t length, value;
    if (!s.eat(' ') || !s.cNumber(length))
      return "the length is missing or no number: QEMU would abort";
    if (length == 0 || length > maxBlockBytes)
      return "the length is 0 (QEMU would abort) or above 64 MiB";
    op.extra.length = length;
    op.packet.kind = op.reads ? PacketKind::MemoryRead : PacketKind::MemoryWrite;
    if (op.reads)
      return nullptr;
    if (length > contentBudget)
      return "the capture writes more than 4 GiB of memory in all";
    contentBudget -= length;
    if (!s.eat(' '))
      return "the data is missing: QEMU would abort";
    if (verb.kind == QtestVerb::Memset) {
      if (!s.cNumber(value))
        return "the value is no number: QEMU would abort";
      op.content.assign(1, uint8_t(value));
      op.repeat = length;
      return nullptr;
    }
    StringRef data = s.word();
    if (verb.kind == QtestVerb::Base64) {
      std::vector<char> bytes;
      if (Error error = decodeBase64(data, bytes)) {
        consumeError(std::move(error)); // Said below, with the place.
        return "the data is no base64";
      }
      if (bytes.size() != length)
        return "the data has another length than it says: QEMU would write garbage";
      op.content.assign(bytes.begin(), bytes.end());
      return nullptr;
    }
    return data.consume_front("0x") && hexBytes(data, length, op.content)
               ? nullptr
               : "the data (0x…) is no hexadecimal";
  }

  /// Up to `length` bytes; what is missing is zero, and half a byte at the end is, as in QEMU.
  static bool hexBytes(StringRef digits, uint64_t length, std::vector<uint8_t> &bytes) {
    bytes.assign(length, 0);
    for (uint64_t i = 0; i < length && 2 * i + 1 < digits.size(); ++i) {
      unsigned high = hexDigitValue(digits[2 * i]), low = hexDigitValue(digits[2 * i + 1]);
      if (high > 15 || low > 15)
        return false;
      bytes[i] = uint8_t(high << 4 | low);
    }
    return true;
  }

  void trailing(Scanner &s, ImportOutput &out) {
    if (!s.atEnd())
      out.warn("trailing-words", "words behind the command, which QEMU ignores");
  }

  //===- Replies
  //-------------------------------------------------------------------------------------------===//

  LineVerdict answer(StringRef text, unsigned column, ImportOutput &out) {
    Scanner s(text);
    uint64_t number;
    if (s.eat("IRQ ")) {
      bool raise = s.eat("raise "), lower = !raise && s.eat("lower ");
      if ((!raise && !lower) || !s.decimal(number))
        return LineVerdict::notUnderstood(column + s.column() - 1, "IRQ raise N or IRQ lower N is wanted");
      if (lower)
        return LineVerdict::ignored("interrupts lowered");
      if (!started)
        start(out, "untimed");
      if (!held || raised.size() >= maxRaised)
        writeRaised(out);
      raised.push_back({number, out.time()});
      if (!held)
        writeRaised(out);
      return LineVerdict::imported();
    }
    if (held && !script) {
      const char *why = complete(text, *held, out);
      if (why)
        return LineVerdict::notUnderstood(column, why);
      write(*held, out);
      held = nullptr;
      answered = true;
      keepReply(text);
      writeRaised(out);
      return LineVerdict::imported();
    }
    if (script) { // All commands first, then all replies.
      flush(out);
      if (!unanswered.empty())
        return lateAnswer(text, column, out);
    }
    if (answered && text.take_front(256) == lastReply)
      return LineVerdict::ignored("replies printed twice");
    return LineVerdict::notUnderstood(column, "a reply to no command");
  }

  void keepReply(StringRef text) { lastReply = std::string_view(text.take_front(256)); }

  void writeRaised(ImportOutput &out) {
    for (auto [vector, time] : raised) {
      Packet packet;
      packet.kind = PacketKind::Interrupt;
      packet.device = device;
      packet.address = vector;
      packet.issueTime = time;
      PacketExtra extra;
      extra.count = 1;
      extra.deadline = waitNs;
      out.append(packet, extra);
    }
    raised.clear();
  }

  LineVerdict lateAnswer(StringRef text, unsigned column, ImportOutput &out) {
    uint64_t ordinal = unanswered.front().ordinal;
    Scanner s(text);
    Packet packet;
    packet.kind = PacketKind::LateCompletion;
    packet.device = device;
    bool refused = !s.eat("OK");
    if (refused)
      out.warn("refused", "QEMU refused a command");
    else if (ordinal != noLink && (!s.eat(" 0x") || !s.hexDigits(packet.value)))
      return LineVerdict::notUnderstood(column + s.column() - 1,
                                        "the value that was read is wanted (OK 0x…)");
    unanswered.pop_front();
    keepReply(text);
    answered = true;
    if (ordinal == noLink)
      return LineVerdict::ignored("replies that say no more than OK");
    packet.completion = refused ? Completion::Failed : Completion::Done;
    PacketExtra extra;
    extra.link = ordinal;
    out.append(packet, extra);
    return LineVerdict::imported();
  }

  /// Puts the reply into the operation; null, or why not.
  static const char *complete(StringRef reply, Operation &op, ImportOutput &out) {
    Scanner s(reply);
    op.packet.completion = Completion::Done;
    op.packet.completeTime = out.time();
    if (!s.eat("OK")) {
      op.packet.completion = Completion::Failed;
      out.warn("refused", "QEMU refused a command");
      return nullptr;
    }
    if (!op.reads)
      return nullptr;
    if (op.packet.kind == PacketKind::RegisterRead) {
      if (!s.eat(" 0x") || !s.hexDigits(op.packet.value))
        return "the value that was read is wanted (OK 0x…)";
      return op.packet.width < 8 && op.packet.value >> (8 * op.packet.width)
                 ? "the value is wider than the access"
                 : nullptr;
    }
    StringRef data = s.rest();
    if (data.consume_front(" 0x"))
      return data.size() == 2 * op.extra.length && hexBytes(data, op.extra.length, op.content)
                 ? nullptr
                 : "the reply has another length than was asked for";
    std::vector<char> bytes;
    if (!data.consume_front(" "))
      return "the content that was read is wanted";
    if (Error error = decodeBase64(data, bytes)) {
      consumeError(std::move(error)); // Said with its place by the caller.
      return "the content is neither hexadecimal nor base64";
    }
    op.content.assign(bytes.begin(), bytes.end());
    return bytes.size() == op.extra.length ? nullptr : "the reply has another length than was asked for";
  }

  /// A command that got no reply.
  void flush(ImportOutput &out) {
    if (!held)
      return;
    Operation &op = *held;
    held = nullptr;
    if (!answered)
      script = true;
    // In a script nobody knows what is read; in a log, this is what QEMU never came back from.
    bool pending = (op.reads || answered) && op.marker.empty();
    op.packet.completion = pending ? Completion::Pending : Completion::Done;
    uint64_t ordinal = write(op, out);
    if (script && unanswered.size() < maxUnanswered)
      unanswered.push_back({op.packet.kind == PacketKind::RegisterRead ? ordinal : noLink});
    writeRaised(out);
  }

  uint64_t write(Operation &op, ImportOutput &out) {
    if (!op.marker.empty()) {
      out.marker(op.marker, device);
      return noLink;
    }
    if (!op.text.empty())
      writeText(op, out);
    if (op.repeat) {
      uint64_t left = op.repeat, first = noLink;
      uint8_t value = op.content.front();
      for (uint64_t done = 0; left; left -= op.extra.length, done += op.extra.length) {
        op.extra.length = std::min(left, mostBytesOfPiece);
        op.content.assign(op.extra.length, value);
        uint64_t ordinal = out.append(op.packet, op.extra, op.content);
        first = std::min(first, ordinal);
        op.packet.address += op.extra.length;
      }
      return first;
    }
    if (!op.content.empty())
      return out.append(op.packet, op.extra, op.content);
    if (!op.extra.length)
      return out.append(op.packet);
    if (op.packet.kind == PacketKind::MemoryRead)
      op.packet.flags |= NotCaptured;
    return out.append(op.packet, op.extra);
  }

  /// What a command with names says, eight characters a write; the command itself is the write behind them.
  static void writeText(const Operation &op, ImportOutput &out) {
    for (size_t at = 0; at < op.text.size(); at += 8) {
      Packet packet = op.packet;
      packet.address = uint64_t(QtestControl::Text) + at;
      packet.value = 0;
      for (size_t i = at; i < std::min(at + 8, op.text.size()); ++i)
        packet.value |= uint64_t(uint8_t(op.text[i])) << (8 * (i - at));
      packet.completion = Completion::Done;
      packet.completeTime = packet.issueTime;
      out.append(packet);
    }
  }

  uint64_t waitNs;
  uint64_t contentBudget = uint64_t(4) << 30; ///< A short line can ask for 64 MiB.
  std::string machine;                        ///< Its command line.
  bool inMachine = false, started = false;
  bool script = false;             ///< The first command had no reply before the second came.
  bool answered = false;           ///< A reply was seen.
  std::string diedName, lastWords; ///< How QEMU ended, if the report says so.
  uint16_t device = 0, ioSpace = 0, physicalSpace = 0, controlSpace = 0;
  Operation operations[2];
  bool current = false;                              ///< The operation that was parsed last.
  Operation *held = nullptr;                         ///< One of them, if it had no answer yet.
  std::vector<std::pair<uint64_t, uint64_t>> raised; ///< Lines and times, while a command is held.
  std::deque<Unanswered> unanswered;
  std::string lastReply;
};

unsigned recogniseQtest(StringRef head) {
  static constexpr StringRef verbs[] = {
      "outb ",          "outw ",       "outl ",     "inb ",     "inw ",    "inl ",       "writeb ",
      "writew ",        "writel ",     "writeq ",   "readb ",   "readw ",  "readl ",     "readq ",
      "write 0x",       "read 0x",     "b64write ", "b64read ", "memset ", "clock_step", "clock_set ",
      "irq_intercept_", "set_irq_in ", "[R +",      "[S +",     "[I "};
  auto matches = [](StringRef line) {
    return any_of(verbs, [&](StringRef verb) { return line.starts_with(verb); });
  };
  unsigned share = shareOfLines(head, matches, [](StringRef line) {
    return line.starts_with("OK") || line.starts_with("#") || line.contains("qemu-system-");
  });
  return share;
}

} // namespace

const ImporterKind qtestKind = {"qtest",
                                "QEMU qtest: scripts, logs, bug reports",
                                "what DMA of the devices moved",
                                false,
                                recogniseQtest,
                                [](const ImporterSettings &settings) -> Expected<std::unique_ptr<Importer>> {
                                  if (!settings.qemuArgs.empty())
                                    if (Expected<QemuCommand> parsed = parseQemuCommand(settings.qemuArgs);
                                        !parsed)
                                      return parsed.takeError();
                                  return std::make_unique<Qtest>(settings);
                                }};

} // namespace tapeback
