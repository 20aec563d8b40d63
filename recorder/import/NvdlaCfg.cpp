// NVDLA's newer traces (NAME.cfg). A script: values are what is expected.
//
//   reg_write(BLOCK.REG, V);  reg_read_check(BLOCK.REG, V);  reg_read(BLOCK.REG);  poll_reg_equal(BLOCK.REG,
//   V); sync_notify|sync_wait(BLOCK, ID);  intr_notify([INTR,] ID);  mem_init(MEM, ADDR, SIZE, PATTERN);
//   mem_load(MEM, ADDR, "file");  check_crc(ID, MEM, ADDR, SIZE, CRC);  check_file(ID, MEM, ADDR, SIZE,
//   "file"); check_nothing(ID);  // comments
//
// Registers are names. With a device description they get its offsets. Without one nobody here knows them:
// they get numbers in the order of their appearance in a space "symbolic", which no target has, with a
// description made of the names, so that a tape can be looked at and is refused by a replay.
#include "hal/description/Description.h"
#include "recorder/import/Importers.h"
#include "recorder/import/NvdlaMemory.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace tapeback {
namespace {

constexpr size_t maxNames = 4096;

struct Statement {
  StringRef verb;
  SmallVector<StringRef, 6> arguments;
  bool ofRegister = false;
};

bool isRegisterCommand(StringRef verb) {
  return verb == "reg_write" || verb == "reg_read" || verb == "reg_read_check" || verb == "poll_reg_equal";
}

/// "verb(a, b, …);" and a comment. Null, or why not, with `s` at the place.
const char *parse(Scanner &s, Statement &statement) {
  s.blanks();
  StringRef verb, arguments;
  if (!s.until('(', verb))
    return "COMMAND(…); is wanted";
  s.eat('(');
  if (!s.until(')', arguments))
    return "the closing bracket is missing";
  s.eat(')');
  s.blanks();
  s.eat(';');
  s.blanks();
  if (!s.atEnd() && !s.rest().starts_with("//"))
    return "there is something behind the command";
  statement.verb = trimmed(verb);
  statement.ofRegister = isRegisterCommand(statement.verb);
  for (size_t comma; (comma = arguments.find(',')) != StringRef::npos;
       arguments = arguments.drop_front(comma + 1))
    statement.arguments.push_back(trimmed(arguments.take_front(comma)));
  statement.arguments.push_back(trimmed(arguments));
  return nullptr;
}

bool number(StringRef text, uint64_t &value) {
  Scanner s(text);
  return s.cNumber(value) && s.atEnd();
}

bool isName(StringRef text) {
  return !text.empty() && text.size() <= 64 &&
         all_of(text, [](char c) { return isAlnum(c) || c == '_' || c == '.' || c == '-'; });
}

class NvdlaCfg : public Importer {
public:
  NvdlaCfg(const ImporterSettings &settings, std::optional<Description> given)
      : waitNs(settings.waitNs), memory(settings.openCompanion) {
    if (!given)
      return;
    described = true;
    for (const RegisterDescription &reg : given->registers)
      registers[reg.name] = {reg.offset, uint8_t(reg.width), reg.space, {}};
  }

  bool wantsSurvey() const override { return true; }
  void survey(const CaptureLine &line) override {
    Scanner s(line.text);
    Statement statement;
    if (parse(s, statement))
      return;
    ArrayRef<StringRef> args = statement.arguments;
    uint64_t address, length;
    if (statement.ofRegister) {
      if (described || registers.count(args[0]) || registers.size() >= maxNames || !isName(args[0]))
        return;
      registers[args[0]] = {order.size() * 4, 4, "symbolic", {}};
      order.push_back(args[0].str());
    } else if (statement.verb == "mem_init" && args.size() == 4 && number(args[1], address) &&
               number(args[2], length)) {
      memory.uses(address, length);
    } else if ((statement.verb == "check_crc" || statement.verb == "check_file") && args.size() == 5 &&
               number(args[2], address) && number(args[3], length)) {
      memory.uses(address, length);
    }
  }

  LineVerdict line(const CaptureLine &line, ImportOutput &out) override {
    StringRef text = trimmed(line.text);
    if (text.empty() || text.starts_with("//"))
      return LineVerdict::ignored(text.empty() ? "blank line" : "comment");
    Scanner s(line.text);
    Statement statement;
    if (const char *why = parse(s, statement))
      return LineVerdict::notUnderstood(s, why);
    start(out);
    const char *why = statement.ofRegister                   ? access(statement, out)
                      : statement.verb.starts_with("mem_")   ? memoryCommand(statement, out)
                      : statement.verb.starts_with("check_") ? check(statement, out)
                                                             : synchronise(statement, out);
    return why ? LineVerdict::notUnderstood(1, why) : LineVerdict::imported();
  }

private:
  struct Place {
    uint64_t offset;
    uint8_t width;
    std::string space;
    std::optional<uint16_t> tapeSpace; ///< Once it was used.
  };

  void start(ImportOutput &out) {
    if (started)
      return;
    started = true;
    out.clock("untimed");
    if (!described) {
      std::string text = "tapeback-description: 1\nname: nvdla-names\n"
                         "doc: Names of a trace. The offsets are the order of appearance, not the device's.\n"
                         "spaces: [symbolic]\nregisters:\n";
      for (size_t i = 0; i < order.size(); ++i)
        text += "  - {name: " + order[i] + ", offset: " + std::to_string(4 * i) + "}\n";
      if (!order.empty()) {
        out.describeIfNone(text, "nvdla-names");
        out.warn("symbolic-registers",
                 "register offsets are not known without --description: space \"symbolic\"");
      }
    }
    device = out.device("nvdla").value_or(0);
    memory.mapAll(out, device);
  }

  const char *access(const Statement &statement, ImportOutput &out) {
    ArrayRef<StringRef> args = statement.arguments;
    auto known = registers.find(args[0]);
    if (known == registers.end())
      return described ? "the description has no register of this name" : "this is no register's name";
    Packet packet;
    packet.device = device;
    packet.address = known->second.offset;
    packet.width = known->second.width;
    std::optional<uint16_t> &space = known->second.tapeSpace;
    if (!space)
      space = out.space(known->second.space);
    if (!space)
      return "too many spaces";
    packet.space = *space;
    if (statement.verb == "reg_read") { // Says nothing of what comes.
      packet.kind = PacketKind::RegisterRead;
      packet.completion = Completion::Pending;
      out.append(packet);
      return nullptr;
    }
    if (args.size() != 2 || !number(args[1], packet.value) ||
        (packet.width < 8 && packet.value >> (8 * packet.width)))
      return "(REGISTER, VALUE) is wanted";
    packet.kind = statement.verb == "reg_write" ? PacketKind::RegisterWrite : PacketKind::RegisterRead;
    if (statement.verb != "poll_reg_equal") {
      out.append(packet);
    } else {
      packet.kind = PacketKind::Poll;
      PacketExtra extra;
      extra.mask = packet.width == 8 ? ~uint64_t(0) : (uint64_t(1) << (8 * packet.width)) - 1;
      extra.expected = packet.value;
      extra.deadline = waitNs;
      extra.count = 1;
      out.append(packet, extra);
    }
    return nullptr;
  }

  void noteMemory(StringRef name, ImportOutput &out) {
    if (name != "pri_mem" && name != "0" && name != "1")
      out.warn("second-memory", "the trace uses more than one memory; all addresses are taken as of one");
  }

  const char *memoryCommand(const Statement &statement, ImportOutput &out) {
    ArrayRef<StringRef> args = statement.arguments;
    uint64_t address, length;
    if (args.size() < 3 || !number(args[1], address))
      return "(MEMORY, ADDRESS, …) is wanted";
    noteMemory(args[0], out);
    StringRef file = args[2];
    bool named = file.size() > 2 && file.consume_front("\"") && file.consume_back("\"");
    if (statement.verb == "mem_load") {
      if (args.size() != 3 || !named)
        return "(MEMORY, ADDRESS, \"file\") is wanted";
      memory.load(out, device, address, 0, file);
      return nullptr;
    }
    if (statement.verb != "mem_init" || args.size() != 4)
      return "no command of an NVDLA trace";
    if (named) {
      memory.load(out, device, address, 0, file);
      return nullptr;
    }
    if (!number(args[2], length) || !length || length > NvdlaMemory::maxBytes || address + length < address)
      return "(MEMORY, ADDRESS, SIZE, PATTERN) with at most 1 GiB is wanted";
    if (args[3] == "ALL_ZERO" || args[3] == "ALL_ONE") {
      memory.fill(out, device, address, length, args[3] == "ALL_ZERO" ? 0 : 0xff);
    } else {
      out.warn("unknown-pattern", "what this pattern is the trace does not say: the content is not captured");
      memory.notTold(out, device, address, length);
    }
    return nullptr;
  }

  const char *check(const Statement &statement, ImportOutput &out) {
    ArrayRef<StringRef> args = statement.arguments;
    uint64_t address, length, crc;
    std::string name = (statement.verb + " " + args[0].take_front(80)).str();
    if (statement.verb == "check_nothing") {
      out.marker(name, device);
      return nullptr;
    }
    if (args.size() != 5 || !number(args[2], address) || !number(args[3], length) || !length ||
        length > NvdlaMemory::maxBytes || address + length < address)
      return "(SYNC, MEMORY, ADDRESS, SIZE, …) with at most 1 GiB is wanted";
    noteMemory(args[1], out);
    StringRef file = args[4];
    if (statement.verb == "check_crc") {
      if (!number(args[4], crc) || crc > 0xffffffff)
        return "a CRC of 32 bits is wanted";
      memory.checkCrc(out, device, address, length, uint32_t(crc), name);
      return nullptr;
    }
    if (statement.verb != "check_file" || file.size() < 3 || !file.consume_front("\"") ||
        !file.consume_back("\""))
      return "no command of an NVDLA trace, or no \"file\"";
    memory.checkFile(out, device, address, length, file, name + " " + file.take_front(80).str());
    return nullptr;
  }

  const char *synchronise(const Statement &statement, ImportOutput &out) {
    ArrayRef<StringRef> args = statement.arguments;
    bool interrupt = statement.verb == "intr_notify";
    if (!interrupt && statement.verb != "sync_notify" && statement.verb != "sync_wait")
      return "no command of an NVDLA trace";
    if (args.size() > 2 || args[0].empty())
      return "one or two names are wanted";
    std::string text = statement.verb.str();
    for (StringRef argument : args)
      text += " " + argument.take_front(80).str();
    out.marker(text, device);
    if (interrupt) {
      Packet packet;
      packet.kind = PacketKind::Interrupt;
      packet.device = device;
      PacketExtra extra;
      extra.count = 1;
      extra.deadline = waitNs;
      out.append(packet, extra);
      out.endWindow();
    }
    return nullptr;
  }

  uint64_t waitNs;
  NvdlaMemory memory;
  bool described = false, started = false;
  StringMap<Place> registers;
  std::vector<std::string> order;
  uint16_t device = 0;
};

unsigned recogniseNvdlaCfg(StringRef head) {
  return shareOfLines(
      head,
      [](StringRef line) {
        line = line.ltrim();
        for (StringRef verb : {"reg_write(", "reg_read", "poll_reg_equal(", "sync_", "intr_notify(",
                               "mem_init(", "mem_load(", "check_"})
          if (line.starts_with(verb))
            return line.contains('(');
        return false;
      },
      [](StringRef line) { return line.ltrim().starts_with("//"); });
}

} // namespace

const ImporterKind nvdlaCfgKind = {
    "nvdla-cfg",
    "NVDLA trace, newer form (NAME.cfg)",
    "times; register offsets; interrupts other than waits",
    false,
    recogniseNvdlaCfg,
    [](const ImporterSettings &settings) -> Expected<std::unique_ptr<Importer>> {
      std::optional<Description> given;
      if (!settings.description.empty()) {
        Expected<Description> parsed = parseDescription(settings.description, settings.descriptionName);
        if (!parsed)
          return parsed.takeError();
        given = std::move(*parsed);
      }
      return std::make_unique<NvdlaCfg>(settings, std::move(given));
    }};

} // namespace tapeback
