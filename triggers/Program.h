// A trigger file, compiled: flat tables without a loop in them, so that what a packet costs has a bound that
// is known before the first one. Made by compileTriggers(), carried out by Evaluator.
#pragma once

#include "format/Packet.h"
#include "hal/description/Description.h"
#include "triggers/Diagnostic.h"
#include <optional>
#include <string>
#include <vector>

namespace tapeback::triggers {

/// A place that is not there (state, rule, device …).
constexpr uint32_t noIndex = ~uint32_t(0);

/// Fields of a packet that an expression can name. In the order of `packetFields` (PacketFields.cpp).
enum class PacketField : uint8_t {
  Value,
  Address,
  Width,
  Thread,
  Issue,
  Complete,
  Duration,
  Length,
  Mask,
  Expected,
  Deadline,
  Count,
  Link,
  Packet,
  PayloadSize,
  Queue,
  Vector,
  Completion,
  Origin,
  Failed,
  Concurrent,
  Truncated,
  NotCaptured,
  ToDevice,
  FromDevice,
  DeviceOwned,
  Expired
};
constexpr unsigned packetFieldCount = 27;

enum class NodeOp : uint8_t {
  Constant, ///< imm
  // Yes or no. Operands a, b.
  And,
  Or,
  Not,
  Equal, ///< (a ^ b) & imm == 0
  NotEqual,
  Less,
  LessEqual,
  In,      ///< a in sets[b … b + imm)
  KindIs,  ///< bit of the packet's kind in imm
  PlaceIs, ///< kind as above, and places[a … a + b)
  NameIs,  ///< kind as above, and the payload is texts[a]
  NameStarts,
  FormIs,  ///< the entry at hand has forms[a]
  Raised,  ///< event a
  Changed, ///< slot a, bits imm: this packet changed them
  Rose,
  Fell,
  Wrapped,
  Regressed,
  Running, ///< timer a
  Has,     ///< table a, key b
  Mapped,  ///< [a, a + b) is mapped
  // Numbers.
  Add,
  Subtract,
  Multiply,
  Divide,
  Modulo,
  BitAnd,
  BitOr,
  BitXor,
  ShiftLeft,
  ShiftRight,
  BitNot,
  Negate,
  Field,      ///< PacketField a
  Payload,    ///< b bytes at offset a of the content
  EntryField, ///< entryFields[a] of the entry at hand
  Slot,       ///< slot a, shifted right by b, masked by imm
  Previous,
  Delta,    ///< of slot a, modulo its width
  Interval, ///< nanoseconds between the last two sights of slot a
  Variable, ///< variables[a]
  Elapsed,  ///< of timer a
  Lookup,   ///< table a, key b
  Age,      ///< nanoseconds since key b came into table a
  Size,     ///< of table a
  Quantile, ///< of statistic a, imm per 10,000
  Mean,
  Minimum,
  Maximum,
  Samples
};

struct Node {
  NodeOp op = NodeOp::Constant;
  bool isSigned = false; ///< Comparisons, division, shifts to the right.
  bool isBool = false;
  uint32_t a = 0, b = 0;
  uint64_t imm = 0;
  SourceRange where;
};

/// (v & mask) == first, or first <= v <= last.
struct SetRange {
  bool pattern = false, isSigned = false;
  uint64_t first = 0, last = 0, mask = ~uint64_t(0);
};

/// Bytes of a register space; `space` is an index into Program::spaces.
struct RegisterPlace {
  uint32_t space = 0;
  uint64_t offset = 0;
  unsigned width = 0; ///< 0: an access that begins at `offset`, however wide.
};

/// A register or counter whose last sight is kept because something asks for it.
struct SlotDescription {
  uint16_t device = 0;
  bool isCounter = false;
  RegisterPlace place;     ///< Of a register.
  bool keepsWrites = true; ///< What is written is what it then holds (false: W1C, counters …).
  uint64_t counter = 0;    ///< Id of a counter.
  unsigned widthBits = 64;
  std::string name;
};

struct FormReference {
  const LayoutDescription *layout = nullptr;
  const EntryForm *form = nullptr;
};
struct EntryFieldReference {
  FormReference form;
  const EntryField *field = nullptr;
};

/// How much, in which unit, is wanted around a trigger point.
enum class CaptureUnit : uint8_t { Packets, Nanoseconds, Windows, Bytes };
struct CaptureAmount {
  CaptureUnit unit = CaptureUnit::Packets;
  uint64_t amount = 0;
};

enum class ActionOp : uint8_t {
  // Inside the evaluator.
  Assign, ///< variables[a] = node
  Put,    ///< tables[a][key] = node
  Remove,
  ClearTable,
  ClearStatistic,
  StartTimer,
  StopTimer,
  Record, ///< statistics[a] gets node
  Unless, ///< skips `skip` actions unless node
  Skip,
  Arm, ///< trigger a
  Disarm,
  Rearm,
  Raise, ///< event a; also an output
  // Outputs.
  Fire,
  Capture,
  Marker,
  Stop,
  Snapshot,
  Exec
};
struct Action {
  ActionOp op = ActionOp::Fire;
  uint32_t a = 0; ///< Slot, trigger, event or text.
  uint32_t node = noIndex, key = noIndex;
  uint32_t skip = 0;
  uint32_t firstValue = 0, valueCount = 0; ///< Fire: Program::fireValues.
  CaptureAmount pre, post;
  SourceRange where;
};

struct Range {
  uint32_t first = 0, count = 0;
};

enum class Clock : uint8_t { Packets, Host, Device };

struct Rule {
  enum class Kind : uint8_t {
    When,       ///< condition
    After,      ///< `amount` of `clock` since the state was entered
    AfterTimer, ///< … since timer `of` was started
    AfterTable  ///< … since the oldest entry of table `of` came: it is taken out, and is `expired`
  } kind = Kind::When;
  Clock clock = Clock::Host;
  uint32_t condition = noIndex, of = 0;
  uint64_t amount = 0;
  uint64_t count = 0;              ///< 0: fires each time.
  uint32_t rate = 0, rateSlot = 0; ///< 0: no rate.
  Clock rateClock = Clock::Host;
  uint64_t rateAmount = 0;
  Clock holdoffClock = Clock::Host;
  uint64_t holdoff = 0; ///< 0: none.
  Range actions;
  uint32_t next = noIndex; ///< State; noIndex: stays.
  SourceRange where;
};

struct State {
  std::string name;
  Range rules, entry; ///< Program::rules, Program::actions.
  SourceRange where;
};

/// Packets that may matter: of these kinds (a bit each), and, of register accesses and counters, at this
/// place.
struct Interest {
  uint64_t kinds = 0;
  uint32_t place = noIndex; ///< Program::places; noIndex: anywhere.
  uint32_t counter = noIndex;
  bool hasValue = false; ///< Only with this value.
  uint64_t value = 0;
};

struct Trigger {
  std::string name, text;
  uint16_t device = 0;
  bool armed = true;
  uint32_t keep = noIndex; ///< Node; noIndex: everything is kept.
  Range states, always;    ///< The first state is where it begins.
  std::vector<Interest> interests;
  unsigned cost = 0; ///< Nodes and actions that one packet can cost, at most.
};

struct Program {
  std::string source; ///< Source ranges refer to it.
  std::vector<Trigger> triggers;
  std::vector<State> states;
  std::vector<Rule> rules;
  std::vector<Action> actions;
  std::vector<Node> nodes;
  std::vector<SetRange> sets;
  std::vector<uint32_t> fireValues; ///< Nodes.
  std::vector<std::string> texts, events, spaces;
  std::vector<RegisterPlace> places;
  std::vector<SlotDescription> slots;
  std::vector<FormReference> forms;
  std::vector<EntryFieldReference> entryFields;
  std::vector<const Description *> devices; ///< As given to the compiler; must outlive the program.

  struct VariableDescription {
    std::string name;
    uint32_t trigger = 0;
    uint64_t initial = 0, limit = ~uint64_t(0); ///< Counters stop at `limit`.
  };
  struct NamedSize {
    std::string name;
    uint32_t trigger = 0, size = 0;
  };
  std::vector<VariableDescription> variables;
  std::vector<NamedSize> timers, tables, statistics;
  bool usesEntries = false, usesMappings = false;
  uint64_t cost = 0;        ///< Sum over the triggers.
  uint64_t memoryBytes = 0; ///< What an evaluator needs for tables, statistics and rates.

  llvm::StringRef sourceOf(SourceRange where) const {
    return llvm::StringRef(source).substr(where.offset, where.length);
  }
};

/// What names may mean. Descriptions may be null and must outlive the program; an empty alias matches any.
struct CompileOptions {
  struct Device {
    std::string alias;
    const Description *description = nullptr;
  };
  std::vector<Device> devices;
  bool allowExec = false; ///< `exec` is refused otherwise.
};

struct Compilation {
  std::optional<Program> program; ///< There is none if there was an error.
  std::vector<Diagnostic> diagnostics;
};

/// Limits: what a program may cost at most (one file, all triggers).
constexpr size_t maxSourceBytes = 1 << 20;
constexpr uint64_t maxTriggerCost = 4096;
constexpr uint64_t maxProgramMemory = 64 << 20;
constexpr size_t maxDeadlines = 4096; ///< `after` rules.

Compilation compileTriggers(llvm::StringRef text, const CompileOptions &options);
/// The same, errors as a failure "bad-trigger" that names `name`, line and column. Warnings are dropped.
llvm::Expected<Program> compileTriggersOrFail(llvm::StringRef text, llvm::StringRef name,
                                              const CompileOptions &options);

/// "value", "not-captured" … and the field's name in it.
struct PacketFieldName {
  const char *name;
  PacketField field;
  bool isBool;
  unsigned bits; ///< Most that it has.
};
llvm::ArrayRef<PacketFieldName> packetFields();

} // namespace tapeback::triggers
