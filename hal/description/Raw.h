// A description as it was written: words and numbers with their places in the text, nothing resolved or
// checked. Between Parse.cpp, which fills it, and Resolve.cpp, which makes a Description of it. Inside this
// folder only.
#pragma once

#include "format/Text.h"
#include "hal/description/Description.h"
#include "llvm/Support/SMLoc.h"
#include <optional>
#include <string>
#include <vector>

namespace tapeback::raw {

/// A value and where it stands.
template <typename T>
struct Located {
  T value{};
  llvm::SMRange where;
};
/// A number in the forms that parseNumber takes.
struct Numeral {
  uint64_t value = 0;
};

using Text = Located<std::string>;
using Number = Located<Numeral>;
using Flag = Located<bool>;

struct Field {
  Text name, bits;
  std::string doc;
};
struct Condition {
  llvm::SMRange where;
  Text reg;
  std::optional<Number> mask, value;
  std::optional<Flag> any;
};
struct Flow {
  llvm::SMRange where;
  std::optional<Text> reg, bits, layout, field;
};
struct Register {
  Text name;
  std::optional<Text> space, access, cls, policy, aliasOf;
  Number offset;
  std::optional<Number> width, compareMask, pollMask, reset;
  std::vector<Flow> flowsInto;
  std::vector<Field> fields;
  std::string doc;
};
struct Transfer {
  std::optional<Condition> when;
  Text direction, hostAddress, deviceAddress, count;
  std::optional<Text> window;
};
struct Activity {
  Text name;
  Condition starts;
  std::vector<Condition> done;
  std::vector<Transfer> transfers;
};
struct Port {
  Text address, data;
  std::vector<Condition> usable;
};
struct Window {
  Text name;
  std::optional<Number> base, maxTransfer, reset;
  Number size;
  std::optional<Text> readBack;
  std::optional<Port> port;
  std::string doc;
};
struct Step {
  llvm::SMRange where;
  std::optional<Text> reg, window;
};
struct Fingerprint {
  Text reg;
  std::optional<Number> mask, value;
};
struct Interrupt {
  Number vector;
  Text name;
  std::optional<Condition> cause;
};
struct Range {
  Text name;
  std::optional<Text> space;
  Number first, last;
};
struct Counter {
  Text name;
  std::optional<Text> reg, high, unit, cls, layout, field;
  std::optional<Number> widthBits;
  std::optional<Flag> exact;
};
struct EntryField {
  Text name;
  Number offset;
  std::optional<Number> width;
  std::optional<Text> bits;
  std::optional<Flag> isSigned, address, hex;
  std::optional<Text> policy;
  std::string doc;
};
/// An opcode's place: a field whose name is known.
struct Opcode {
  llvm::SMRange where;
  Number offset;
  std::optional<Number> width;
  std::optional<Text> bits;
};
struct EntryCondition {
  Text field;
  std::optional<Number> mask;
  Number value;
};
struct Pages {
  Text second;
  Number size;
};
struct EntryTransfer {
  std::optional<EntryCondition> when;
  Text direction, hostAddress;
  std::optional<Text> rowBytes, rows, hostStride, deviceAddress, deviceStride, window, content;
  std::optional<Number> plus, times;
  std::optional<Pages> pages;
};
struct Fence {
  Text address, value;
};
struct Chain {
  Text address, layout;
  std::optional<EntryCondition> last;
  std::optional<Number> limit;
};
struct Sync {
  Text kind;
  std::optional<Text> on;
};
struct Creates {
  Text kind, number, base, size;
  std::optional<Number> sizePlus;
};
struct Deletes {
  Text kind, number;
};
struct Completes {
  Text queue, tag, phase;
  std::optional<EntryCondition> success;
};
/// What an entry does: of a form, or of a layout that has only one.
struct EntryMeaning {
  std::vector<EntryField> fields;
  std::vector<EntryTransfer> transfers;
  std::optional<Fence> fence;
  std::optional<Chain> chain;
  std::optional<Sync> sync;
  std::optional<Creates> creates;
  std::optional<Deletes> deletes;
};
struct Form {
  Text name;
  Number opcode;
  EntryMeaning meaning;
  std::string doc;
};
struct Layout {
  Text name;
  Number size;
  std::optional<Opcode> opcode;
  std::optional<Text> tag;
  std::optional<Completes> completes;
  EntryMeaning meaning; ///< Its fields are those of all forms.
  std::vector<Form> forms;
  std::string doc;
};
/// What queues and rings of completions have in common.
struct Ring {
  Text name, doorbell, layout;
  std::optional<Text> base, baseHigh, size, sizeBits;
  std::optional<Number> sizePlus, number;
  std::string doc;
};
struct Queue {
  Ring ring;
  std::optional<Text> head, tail, done;
  std::vector<Text> rewind;
};
struct Document {
  Number grammar;
  Text name;
  std::string version, doc;
  std::vector<Text> spaces;
  std::optional<Number> dmaMask;
  std::optional<Text> resetMethod;
  std::vector<Register> registers;
  std::vector<Range> forbidden;
  std::vector<Window> windows;
  std::vector<Activity> activities;
  std::vector<Interrupt> interrupts;
  std::vector<Fingerprint> fingerprint;
  std::optional<std::vector<Step>> restore;
  std::vector<Text> postMortem;
  std::vector<Counter> counters;
  std::vector<Layout> layouts;
  std::vector<Queue> queues;
  std::vector<Ring> completionQueues;
  std::vector<Condition> idle, resets, handOver;
};

} // namespace tapeback::raw

namespace tapeback {
/// Checks a document and makes the description of it; what is wrong goes to `complaints`, and then the result
/// means nothing.
Description resolveDescription(const raw::Document &document, YamlComplaints &complaints);
} // namespace tapeback
