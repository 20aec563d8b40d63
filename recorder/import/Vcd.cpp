// Waveforms (VCD): AXI and AXI-Lite handshakes become accesses.
//
// Which wires make a port is told by a signal map (--signals), or found by name: wires of one scope that are
// called PREFIXarvalid, PREFIXarready … with the clock PREFIXaclk, aclk, clk or clock beside them. The map:
//
//   # comment
//   clock = top.aclk            "clock = *" for a logic analyser that samples once per time step
//   [csr]                       a port; its name is the device's alias
//   prefix = top.csr_           all wires called so; single ones can be named, too:
//   araddr = top.csr_araddr
//
// Times are femtoseconds. Wires are taken as they were just before the clock's rising edge.
#include "recorder/import/AxiPort.h"
#include "recorder/import/Importers.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringExtras.h"
#include <bit>

using namespace llvm;

namespace tapeback {
namespace {

constexpr size_t maxVariables = 1u << 17, maxScopes = 64, maxNameBytes = 512, maxPorts = 64;

struct MapEntry {
  std::string key, value;
  unsigned line;
};
struct MapPort {
  std::string name;
  std::vector<MapEntry> entries;
};
struct SignalMap {
  std::vector<MapEntry> clocks;
  std::vector<MapPort> ports;
};

Expected<SignalMap> parseSignalMap(StringRef text, StringRef name) {
  SignalMap map;
  unsigned number = 0;
  if (text.size() > 1u << 20)
    return failUsage("bad-signal-map", "the signal map is longer than 1 MiB", name.str());
  while (!text.empty()) {
    auto [line, rest] = text.split('\n');
    text = rest;
    ++number;
    line = line.take_until([](char c) { return c == '#'; }).trim();
    if (line.empty())
      continue;
    std::string where = name.str() + ":" + std::to_string(number) + ":1";
    if (line.consume_front("[")) {
      if (!line.consume_back("]") || line.trim().empty() || map.ports.size() == maxPorts)
        return failUsage("bad-signal-map", "a port is [NAME]; at most 64", where);
      map.ports.push_back({line.trim().str(), {}});
      continue;
    }
    auto [key, value] = line.split('=');
    key = key.trim(), value = value.trim();
    bool known = key == "clock" || key == "prefix";
    for (unsigned wire = 0; wire < axiWireCount; ++wire)
      known |= key == axiWireName(AxiWire(wire));
    if (!known || value.empty())
      return failUsage("bad-signal-map",
                       "KEY = SIGNAL is wanted; keys are clock, prefix, and AXI's names of wires", where,
                       "see recorder/import/README.md");
    if (key == "clock") {
      map.clocks.push_back({key.str(), value.str(), number});
      continue;
    }
    if (map.ports.empty())
      map.ports.push_back({"axi", {}});
    map.ports.back().entries.push_back({key.str(), value.str(), number});
  }
  if (map.ports.empty())
    return failUsage("bad-signal-map", "the signal map names no port", name.str());
  if (map.clocks.size() > 1)
    return failUsage("bad-signal-map", "the signal map names two clocks",
                     name.str() + ":" + std::to_string(map.clocks[1].line) + ":1");
  return map;
}

struct Variable {
  std::string name; ///< With its scopes: "top.dut.araddr".
  std::string id;
  unsigned bits;
};

class Vcd : public Importer {
public:
  Vcd(const ImporterSettings &settings, std::optional<SignalMap> map)
      : spaceName(settings.space.empty() ? "bar0" : settings.space), mapName(settings.signalsName),
        map(std::move(map)) {}

  LineVerdict line(const CaptureLine &line, ImportOutput &out) override {
    if (broken)
      return LineVerdict::ignored("behind the failure");
    Scanner s(line.text);
    bool declares = inHeader, used = false, any = false;
    for (s.blanks(); !s.atEnd(); s.blanks()) {
      any = true;
      unsigned column = s.column();
      StringRef word = s.word();
      const char *why = nullptr;
      if (section != Section::None)
        why = inSection(word, out);
      else if (word.starts_with("$"))
        why = keyword(word);
      else
        why = inHeader ? "only declarations may come before $enddefinitions" : change(word, s, out, used);
      if (why)
        return LineVerdict::notUnderstood(column, why);
    }
    if (used)
      return LineVerdict::imported();
    return LineVerdict::ignored(!any ? "blank line" : declares ? "declarations" : notWatched);
  }

  bool takesMany() const override { return true; }
  LinesTaken take(LineReader &lines, ImportOutput &out) override {
    LinesTaken taken;
    taken.rule = notWatched;
    if (broken || inHeader || section != Section::None)
      return taken;
    const StringRef ahead = lines.ahead();
    const char *at = ahead.begin();
    uint64_t count = 0;
    for (; count < LinesTaken::most && size_t(ahead.end() - at) >= quickBytes; ++count) {
      const Fate fate = quick(at, lines.lineNumber() + count + 1, out);
      if (fate == Fate::Unsure)
        break;
      ++(fate == Fate::Used ? taken.imported : taken.ignored);
    }
    lines.took(size_t(at - ahead.begin()), count);
    return taken;
  }

  void end(ImportOutput &out) override {
    if (broken || out.failed())
      return;
    if (inHeader)
      return out.fail(failUsage("bad-waveform", "the waveform ends in its declarations", out.where()));
    step(out);
    for (AxiPort &port : ports)
      port.end(out, spaceName);
  }

private:
  /// Of a line in its usual form.
  enum class Fate : uint8_t { Used, NotWatched, Unsure };
  static constexpr const char *notWatched = "other signals and times";
  enum class Section { None, Skip, Timescale, Scope, Var, EndDefinitions };

  //===- Declarations
  //--------------------------------------------------------------------------------------===//

  const char *keyword(StringRef word) {
    words.clear();
    if (word == "$end" || word == "$dumpvars" || word == "$dumpall" || word == "$dumpon" ||
        word == "$dumpoff")
      return nullptr; // Around values.
    section = word == "$timescale"        ? Section::Timescale
              : word == "$scope"          ? Section::Scope
              : word == "$var"            ? Section::Var
              : word == "$enddefinitions" ? Section::EndDefinitions
                                          : Section::Skip;
    if (word == "$upscope") {
      if (!scopes.empty())
        scopes.pop_back();
      else if (deeper)
        --deeper;
    }
    return nullptr;
  }

  const char *inSection(StringRef word, ImportOutput &out) {
    if (word != "$end") {
      if (section != Section::Skip && words.size() < 8)
        words.push_back(word.take_front(maxNameBytes).str());
      return nullptr;
    }
    Section ended = section;
    section = Section::None;
    switch (ended) {
    case Section::Timescale: return timescale();
    case Section::Scope:
      if (words.size() < 2)
        return "$scope KIND NAME $end is wanted";
      if (scopes.size() < maxScopes)
        scopes.push_back(words[1]);
      else
        ++deeper;
      return nullptr;
    case Section::Var: return variable();
    case Section::EndDefinitions:
      if (!inHeader)
        return "$enddefinitions comes twice";
      inHeader = false;
      out.clock("waveform", 1'000'000'000'000'000);
      if (Error error = bind(out)) {
        broken = true;
        out.fail(std::move(error));
      }
      return nullptr;
    default: return nullptr;
    }
  }

  const char *timescale() {
    std::string text;
    for (const std::string &word : words)
      text += word;
    Scanner s(text);
    uint64_t number;
    constexpr std::pair<StringRef, uint64_t> units[] = {{"fs", 1},
                                                        {"ps", 1'000},
                                                        {"ns", 1'000'000},
                                                        {"us", 1'000'000'000},
                                                        {"ms", 1'000'000'000'000},
                                                        {"s", 1'000'000'000'000'000}};
    if (s.decimal(number) && (number == 1 || number == 10 || number == 100))
      for (auto [unit, femtoseconds] : units)
        if (s.rest() == unit) {
          scale = number * femtoseconds;
          quickTicks = ~uint64_t(0) / scale;
          return nullptr;
        }
    return "$timescale 1|10|100 s|ms|us|ns|ps|fs $end is wanted";
  }

  const char *variable() {
    uint64_t bits;
    if (words.size() < 4 || !Scanner(words[1]).decimal(bits) || bits == 0 || bits > 1u << 20)
      return "$var KIND BITS ID NAME $end is wanted";
    if (variables.size() == maxVariables)
      return "more than 131072 signals are declared";
    std::string name;
    for (const std::string &scope : scopes)
      name += scope + ".";
    name += words[3];
    if (name.size() > 4 * maxNameBytes)
      return "the signal's name is too long";
    variables.push_back({std::move(name), words[2], unsigned(bits)});
    return nullptr;
  }

  //===- Ports
  //---------------------------------------------------------------------------------------------===//

  const Variable *find(StringRef name) const {
    auto known = byName.find(name);
    return known == byName.end() ? nullptr : &variables[known->second];
  }

  int watch(const Variable &variable) {
    auto [entry, isNew] = watched.try_emplace(variable.id, unsigned(values.size()));
    if (isNew) {
      if (const uint64_t key = packedId(variable.id))
        (key < shortIds.size() ? shortIds[key] : longIds[key]) = int(entry->second);
      values.emplace_back();
      before.emplace_back();
    }
    return int(entry->second);
  }
  void attach(AxiPort &port, AxiWire wire, const Variable &variable) {
    port.wires[unsigned(wire)] = watch(variable);
    port.bits[unsigned(wire)] = variable.bits;
  }

  Error bind(ImportOutput &out) {
    for (size_t i = 0; i < variables.size(); ++i)
      byName.try_emplace(variables[i].name, i);
    Error error = map ? bindMap() : bindByName();
    if (error)
      return error;
    for (AxiPort &port : ports) {
      std::string why;
      if (!port.usable(why))
        return failUsage("bad-port", "port '" + port.name + "' " + why,
                         mapName.empty() ? out.where() : mapName,
                         "name its wires in a signal map (--signals)");
      unsigned wide = std::max(port.bits[unsigned(AxiWire::RData)], port.bits[unsigned(AxiWire::WData)]);
      if (wide > 1024 || wide % 8)
        return failUsage("bad-port", "the data of port '" + port.name + "' is not 8 to 1024 bits wide",
                         out.where());
    }
    variables.clear();
    byName.clear();
    return Error::success();
  }

  Error bindMap() {
    std::string clock = map->clocks.empty() ? "" : map->clocks[0].value;
    for (const MapPort &entry : map->ports) {
      AxiPort port;
      port.name = entry.name;
      for (const MapEntry &e : entry.entries) {
        std::string where = mapName + ":" + std::to_string(e.line) + ":1";
        if (e.key == "prefix") {
          for (unsigned wire = 0; wire < axiWireCount; ++wire)
            if (const Variable *found = find(e.value + axiWireName(AxiWire(wire))))
              attach(port, AxiWire(wire), *found);
          continue;
        }
        const Variable *found = find(e.value);
        if (!found)
          return failUsage("unknown-signal", "the waveform has no signal '" + e.value + "'", where);
        for (unsigned wire = 0; wire < axiWireCount; ++wire)
          if (e.key == axiWireName(AxiWire(wire)))
            attach(port, AxiWire(wire), *found);
      }
      ports.push_back(std::move(port));
    }
    if (clock == "*") {
      everyStep = true;
      return Error::success();
    }
    const Variable *found = clock.empty() ? nullptr : find(clock);
    if (!found)
      return failUsage("no-clock",
                       clock.empty() ? "the signal map names no clock"
                                     : "the waveform has no signal '" + clock + "'",
                       mapName, "clock = SIGNAL, or clock = * to sample at every time step");
    clockIndex = watch(*found);
    return Error::success();
  }

  Error bindByName() {
    std::map<std::string, AxiPort> found; // By the wire that makes it the same port: its valid's identifier.
    std::string clock;
    for (const Variable &variable : variables)
      for (StringRef valid : {"arvalid", "awvalid"}) {
        StringRef prefix = variable.name;
        if (!prefix.lower().ends_with(valid.str()) || found.size() > maxPorts)
          continue;
        bool upper = prefix.back() == 'D';
        prefix = prefix.drop_back(valid.size());
        AxiPort port;
        for (unsigned wire = 0; wire < axiWireCount; ++wire) {
          std::string name = axiWireName(AxiWire(wire));
          if (const Variable *v = find((prefix + (upper ? StringRef(name).upper() : name)).str()))
            attach(port, AxiWire(wire), *v);
        }
        std::string ignored;
        if (!port.usable(ignored))
          continue;
        StringRef scope = prefix.take_front(prefix.rfind('.') == StringRef::npos ? 0 : prefix.rfind('.') + 1);
        port.name = prefix.drop_front(scope.size()).rtrim('_').str();
        if (port.name.empty())
          port.name = scope.rtrim('.').str();
        const Variable *itsClock = nullptr;
        for (const std::string &name : {prefix.str() + "aclk", scope.str() + "aclk", scope.str() + "clk",
                                        scope.str() + "clock", prefix.str() + "ACLK", scope.str() + "ACLK"})
          if (!itsClock)
            itsClock = find(name);
        if (!itsClock)
          continue;
        std::string key = std::to_string(port.wires[unsigned(AxiWire::ArValid)]) + " " +
                          std::to_string(port.wires[unsigned(AxiWire::AwValid)]);
        if (found.try_emplace(key, std::move(port)).second) {
          candidates += (candidates.empty() ? "" : ", ") + prefix.str();
          clock = itsClock->id;
          clockIndex = watch(*itsClock);
        }
      }
    if (found.empty())
      return failUsage("no-port", "no AXI port with a clock beside it was found by name", "waveform",
                       "say which signals make a port with --signals MAP");
    if (found.size() > 1)
      return failUsage("ambiguous-port", "several AXI ports were found: " + candidates.substr(0, 1024),
                       "waveform", "say which with --signals MAP (prefix = …)");
    ports.push_back(std::move(found.begin()->second));
    return Error::success();
  }

  //===- Values
  //--------------------------------------------------------------------------------------------===//

  /// No line that quick() takes is longer: a letter, 64 digits, a blank, an identifier, and it looks at
  /// words.
  static constexpr size_t quickBytes = 96;

  static uint64_t wordAt(const char *at) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    return word;
  }

  /// The index behind an identifier of at most seven characters that ends the line (-1: not watched); `at`
  /// becomes the next line. False, and nothing done, if there is none.
  bool quickId(const char *&at, int &index) const {
    constexpr uint64_t ones = 0x0101010101010101, tops = 0x8080808080808080;
    const uint64_t word = wordAt(at), unlike = word ^ 0x0a * ones;
    const uint64_t newline = (unlike - ones) & ~unlike & tops; // Its lowest bit is right.
    if (!newline)
      return false;
    const uint64_t inside = ((newline & -newline) - 1) >> 7;
    const uint64_t id = word & inside, filled = id | ~inside;
    // Blanks, and whatever else is not printed, take a closer look; so does an empty one.
    if (!id || ((filled - 0x21 * ones) & ~filled & tops))
      return false;
    index = indexOf(id);
    at += (std::countr_zero(newline) >> 3) + 1;
    return true;
  }

  /// Binary digits into a number, up to something else: eight at a time. False if there is none, or more
  /// than 64.
  static bool quickBits(const char *&at, uint64_t &number) {
    constexpr uint64_t ones = 0x0101010101010101;
    const char *const first = at;
    number = 0;
    for (;;) {
      const uint64_t digits = wordAt(at) ^ 0x30 * ones; // 0 or 1 each, if they are digits.
      const uint64_t other = digits & ~ones;
      const unsigned count = other ? unsigned(std::countr_zero(other)) >> 3 : 8;
      if (count) // The first becomes the highest bit.
        number = number << count | (digits << (64 - 8 * count)) * 0x8040201008040201 >> 56;
      at += count;
      if (other || at - first > 64)
        return at != first && at - first <= 64;
    }
  }

  /// A single change or time, which is at least quickBytes from the end; `at` becomes the next line. Unsure,
  /// and nothing done, if it takes a closer look.
  Fate quick(const char *&at, uint64_t lineNumber, ImportOutput &out) {
    const char *from = at + 1;
    int index = -1;
    switch (*at) {
    case '0':
    case '1':
      if (!quickId(from, index))
        return Fate::Unsure;
      if (index >= 0)
        values[size_t(index)].set(*at == '1', true);
      break;
    case 'b': {
      uint64_t number;
      if (!quickBits(from, number) || *from != ' ')
        return Fate::Unsure;
      ++from;
      if (!quickId(from, index))
        return Fate::Unsure;
      if (index >= 0)
        values[size_t(index)].set(number, true);
      break;
    }
    case '#': {
      uint64_t ticks = 0;
      unsigned digit;
      for (; (digit = unsigned(*from - '0')) < 10 && from - at <= 18; ++from)
        ticks = ticks * 10 + digit;
      // Without digits, no ticks: they are not later.
      if (*from != '\n' || ticks > quickTicks || ticks * scale <= now)
        return Fate::Unsure;
      out.atLine(lineNumber);
      step(out);
      now = ticks * scale;
      timed = true;
      at = from + 1;
      return Fate::NotWatched;
    }
    default: return Fate::Unsure;
    }
    at = from;
    if (index < 0)
      return Fate::NotWatched;
    changed.push_back(unsigned(index));
    return Fate::Used;
  }

  const char *change(StringRef word, Scanner &s, ImportOutput &out, bool &used) {
    char c = word.front();
    switch (c) {
    case '#': return time(word.drop_front(), out);
    case '0':
    case '1':
    case 'x':
    case 'X':
    case 'z':
    case 'Z':
    case 'u':
    case 'U':
    case '-':
    case 'h':
    case 'l': {
      int index = indexOf(word.drop_front());
      if (word.size() == 1)
        return "a value needs its signal";
      if (index >= 0) {
        used = true;
        values[size_t(index)].set(c == '1', c == '0' || c == '1');
        changed.push_back(unsigned(index));
      }
      return nullptr;
    }
    case 'b':
    case 'B':
    case 'r':
    case 'R':
    case 's':
    case 'S': {
      s.blanks();
      StringRef id = s.word();
      if (id.empty())
        return "a value needs its signal";
      int index = indexOf(id);
      if (index < 0)
        return nullptr;
      used = true;
      changed.push_back(unsigned(index));
      if (c != 'b' && c != 'B') {
        values[size_t(index)].unknown = true;
        return nullptr;
      }
      return binary(word.drop_front(), values[size_t(index)]);
    }
    default: return "a change of value, a time or a keyword is wanted";
    }
  }

  /// An identifier of up to seven characters as a number, the first lowest; 0 for others.
  static uint64_t packedId(StringRef id) {
    if (id.empty() || id.size() > 7 || id.contains('\0'))
      return 0;
    uint64_t key = 0;
    std::memcpy(&key, id.data(), id.size());
    return key;
  }
  int indexOf(uint64_t packed) const {
    if (packed < shortIds.size())
      return shortIds[packed];
    auto known = longIds.find(packed);
    return known == longIds.end() ? -1 : known->second;
  }
  int indexOf(StringRef id) const {
    if (const uint64_t packed = packedId(id))
      return indexOf(packed);
    auto known = watched.find(id);
    return known == watched.end() ? -1 : int(known->second);
  }

  static const char *binary(StringRef bits, WireValue &value) {
    if (bits.empty() || bits.size() > 1024)
      return "a value has 1 to 1024 bits";
    value.set(bits);
    return nullptr;
  }

  const char *time(StringRef text, ImportOutput &out) {
    Scanner s(text);
    uint64_t ticks, femtoseconds;
    if (!scale)
      return "there was no $timescale before the first time";
    if (!s.decimal(ticks) || ticks > ~uint64_t(0) / scale)
      return "a time is a number that fits 64 bits of femtoseconds";
    femtoseconds = ticks * scale;
    if (s.eat('.')) { // Not in the standard, and written by some all the same.
      uint64_t unit = scale;
      for (char c = s.peek(); !s.atEnd(); c = s.peek()) {
        if (c < '0' || c > '9')
          return "a time is a number";
        if (unit % 10 && c != '0')
          out.warn("time-rounded", "a time below a femtosecond was cut");
        unit /= 10;
        femtoseconds += unit * uint64_t(c - '0');
        s.eat(c);
      }
    }
    if (!s.atEnd())
      return "a time is a number";
    if (timed && femtoseconds < now)
      return "time runs backward";
    if (timed && femtoseconds == now)
      return nullptr;
    step(out);
    now = femtoseconds;
    timed = true;
    return nullptr;
  }

  /// All that happens at one time has happened.
  void step(ImportOutput &out) {
    if (everyStep
            ? timed
            : clockIndex >= 0 && values[size_t(clockIndex)].isHigh() && risesFrom(before[size_t(clockIndex)]))
      for (AxiPort &port : ports)
        port.edge(everyStep ? values : before, now, out, spaceName);
    for (unsigned index : changed)
      before[index].set(values[index]);
    changed.clear();
  }
  static bool risesFrom(const WireValue &value) { return !value.unknown && !value.isHigh(); }

  std::string spaceName, mapName;
  std::optional<SignalMap> map;
  Section section = Section::None;
  std::vector<std::string> words, scopes;
  unsigned deeper = 0;
  bool inHeader = true, broken = false, everyStep = false, timed = false;
  std::vector<Variable> variables;
  StringMap<size_t> byName;
  std::string candidates;
  StringMap<unsigned> watched;                               ///< By identifier, to the index of its value.
  std::vector<int> shortIds = std::vector<int>(1 << 16, -1); ///< The same by packedId().
  DenseMap<uint64_t, int> longIds;
  std::vector<WireValue> values, before;
  std::vector<unsigned> changed;
  int clockIndex = -1;
  std::vector<AxiPort> ports;
  uint64_t scale = 0, now = 0;
  uint64_t quickTicks = 0; ///< No more than these are 64 bits of femtoseconds.
};

unsigned recogniseVcd(StringRef head) {
  return (head.contains("$enddefinitions") ? 60 : 0) + (head.contains("$var ") ? 30 : 0) +
         (head.ltrim().starts_with("$") ? 10 : 0);
}

} // namespace

const ImporterKind vcdKind = {"vcd",
                              "Waveform with an AXI or AXI-Lite port",
                              "memory contents, interrupts, what other ports did",
                              true,
                              recogniseVcd,
                              [](const ImporterSettings &settings) -> Expected<std::unique_ptr<Importer>> {
                                std::optional<SignalMap> map;
                                if (!settings.signals.empty()) {
                                  Expected<SignalMap> parsed =
                                      parseSignalMap(settings.signals, settings.signalsName);
                                  if (!parsed)
                                    return parsed.takeError();
                                  map = std::move(*parsed);
                                }
                                return std::make_unique<Vcd>(settings, std::move(map));
                              }};

} // namespace tapeback
