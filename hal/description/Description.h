// A device description: what registers, memory windows, transfers and interrupts mean. Pure data, no I/O.
// Grammar and every key: hal/description/README.md. Values are checked when parsed; a Description that exists
// is consistent (names unique, references resolved, fields inside their register, no overlap unless aliased).
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tapeback {

enum class RegisterClass : uint8_t {
  Stable,
  Volatile,
  Progress,
  Poll,
  Status,
  W1C,
  ReadToClear,
  Fifo,
  Counter,
  Timestamp,
  Identity,
  AddressLow,
  AddressHigh
};
enum class RegisterAccess : uint8_t { ReadWrite, ReadOnly, WriteOnly };
enum class ReplayPolicy : uint8_t {
  Compare,
  Ignore,
  Mask,
  PollUntil,
  Substitute,
  Relocate,
  SideEffect,
  MayHang,
  Forbidden
};
const char *registerClassName(RegisterClass c);
const char *replayPolicyName(ReplayPolicy p);

struct FieldDescription {
  std::string name;
  unsigned low = 0, high = 0; ///< Bit numbers, inclusive.
  std::string doc;
  uint64_t mask() const; ///< In place.
};

struct RegisterDescription {
  std::string name, space, doc;
  uint64_t offset = 0;
  unsigned width = 4; ///< Bytes.
  RegisterAccess access = RegisterAccess::ReadWrite;
  RegisterClass cls = RegisterClass::Stable;
  ReplayPolicy policy = ReplayPolicy::Compare;
  uint64_t compareMask = ~uint64_t(0); ///< Policy Mask: bits that are compared.
  /// Bits that a loop of reads may be waiting for: what the description says, otherwise those that are
  /// compared; none where a read changes something.
  uint64_t pollMask = ~uint64_t(0);
  /// Policy Substitute: where the value that was read is written or waited for again.
  struct Flow {
    unsigned reg = 0;           ///< Index into Description::registers.
    unsigned low = 0, high = 0; ///< Bits of that register, inclusive.
    uint64_t mask() const;      ///< In place.
  };
  std::vector<Flow> flowsInto;
  /// Policy Substitute: the entries in which it is handed back. One for each form that has the field.
  struct EntryFlow {
    unsigned layout = 0, form = 0, field = 0; ///< Indices into Description::layouts and so on.
  };
  std::vector<EntryFlow> flowsIntoEntries;
  std::optional<uint64_t> reset; ///< Value after reset, if defined.
  std::vector<FieldDescription> fields;
  std::string
      aliasOf; ///< Another view of bytes of that register: for people and filters; find() never returns it.
  uint64_t widthMask() const { return width >= 8 ? ~uint64_t(0) : (uint64_t(1) << (8 * width)) - 1; }
};

/// "REGISTER & mask == value"; mask defaults to all ones of the width. `any` = any write or read will do.
struct RegisterCondition {
  unsigned reg = 0; ///< Index into Description::registers.
  uint64_t mask = ~uint64_t(0), value = 0;
  bool any = false;
  bool holds(uint64_t v) const { return any || (v & mask) == value; }
};

/// What an activity moves. Each address and count is a register whose last written value is used.
struct TransferDescription {
  RegisterCondition
      when; ///< On the starting register's written value (same register as the activity's `starts`).
  bool toDevice = true;
  unsigned hostAddress = 0, deviceAddress = 0, count = 0; ///< Register indices.
  std::string window; ///< Device-internal window the device address lies in; empty if none.
};

/// Something the device does by itself after being told: from a register write until a condition is observed.
/// While one is running the device is not quiescent.
struct ActivityDescription {
  std::string name;
  RegisterCondition starts;            ///< On a write.
  std::vector<RegisterCondition> done; ///< On a read or poll: any of them ends it.
  std::vector<TransferDescription> transfers;
};

/// Memory inside the device, not directly addressable by the host.
struct InternalWindow {
  std::string name;
  uint64_t base = 0, size = 0; ///< In device addresses as used by transfers.
  /// How to read it back on a target without peek: activity to use, at most `maxTransfer` bytes each.
  std::string readBack;         ///< Activity name with a from-device transfer; empty: not visible.
  uint64_t maxTransfer = 0;     ///< Of one transfer, either way; `size` if the description does not say.
  std::optional<uint8_t> reset; ///< What every byte is after a reset, if defined.
  /// A pair of registers through which it is read and written, `width` bytes at a time, while `usable` holds
  /// of a register's shadow or value (Minnow: CONTROL.ENABLE = 0, or STATUS.HALTED = 1; any of them).
  struct Port {
    unsigned address = 0,
             data = 0; ///< Registers; the (device) address advances by the data's width at each access.
    std::vector<RegisterCondition> usable;
  };
  std::optional<Port> port;
  std::string doc;
};

/// One step of a restore recipe, in order.
struct RestoreStep {
  enum class Kind : uint8_t { Register, Window } kind = Kind::Register;
  unsigned reg = 0;   ///< Register: write its shadow value.
  std::string window; ///< Window: fill it through its activity's to-device transfer.
};

struct FingerprintEntry {
  unsigned reg = 0;
  uint64_t mask = ~uint64_t(0);
  std::optional<uint64_t> value; ///< Expected after reset; absent: recorded and compared with the tape.
};

struct InterruptDescription {
  uint32_t vector = 0;
  std::string name;
  std::optional<RegisterCondition> cause; ///< Where its cause shows.
};

/// A number in an entry that a device reads from host memory (a command or a descriptor), little-endian.
struct EntryField {
  std::string name, doc;
  unsigned offset = 0;        ///< Bytes from the entry's start; the whole field lies in the entry.
  unsigned width = 4;         ///< Bytes: 1, 2, 4 or 8.
  unsigned low = 0, high = 0; ///< Bits of it, inclusive; 0 to 8 * width - 1 if the description does not say.
  bool isSigned = false;      ///< Printed and compared as two's complement.
  bool address = false;       ///< A host address: what relocation patches.
  bool hex = false;           ///< Printed in hexadecimal; addresses are anyway.
  bool ignored = false;       ///< Policy ignore: legitimately differs from run to run, and is not compared.
  uint64_t mask() const;      ///< Of the shifted value.
};

/// "FIELD & mask == value", on a field's (shifted) value.
struct EntryCondition {
  unsigned field = 0; ///< Index into EntryForm::fields.
  uint64_t mask = ~uint64_t(0), value = 0;
  bool holds(uint64_t v) const { return (v & mask) == value; }
};

/// What an entry tells the device to move: `rows` rows of (`rowBytes` + plus) * times bytes, row r at host
/// address + r * hostStride. Fields by index; without `rows` it is one row.
struct EntryTransfer {
  std::optional<EntryCondition> when;
  bool toDevice = true;
  unsigned hostAddress = 0;
  std::optional<unsigned> rowBytes; ///< None: 0, and `plus` is all there is.
  uint64_t plus = 0, times = 1;
  std::optional<unsigned> rows, hostStride, deviceAddress, deviceStride;
  /// Memory in pages that need not be neighbours (NVMe's PRPs): the first piece is at the host address and
  /// ends with its page. What is left is at `second` if that is one page at most; otherwise a list of pages'
  /// addresses (8 bytes each) is there, whose last one in a page goes on to the next page of the list.
  struct Pages {
    unsigned second = 0; ///< Field index.
    uint64_t size = 0;   ///< Of a page; a power of two.
  };
  std::optional<Pages> pages;
  std::optional<unsigned> content; ///< Layout of what is moved; of its fields, some are not compared.
  std::string window;              ///< Internal window of the device address; empty if none.
};

/// One shape that an entry can have.
struct EntryForm {
  std::string name, doc; ///< "GEMM". A layout without an opcode has one form, named like the layout.
  uint64_t opcode = 0;
  std::vector<EntryField> fields; ///< Of this form; the layout's common fields first.
  std::vector<EntryTransfer> transfers;
  /// The device writes `value` (its field's width) to the address when everything before it in its queue is
  /// done.
  struct Fence {
    unsigned address = 0, value = 0; ///< Field indices.
  };
  std::optional<Fence> fence;
  /// The entry is, or is followed by, a list in host memory: the address of its first (next) element, what
  /// the elements look like, and by which condition on this very entry the list ends here (a descriptor's
  /// LAST).
  struct Chain {
    unsigned address = 0; ///< Field index.
    unsigned layout = 0;  ///< Index into Description::layouts.
    std::optional<EntryCondition> last;
    unsigned limit = 1024; ///< Most elements.
  };
  std::optional<Chain> chain;
  /// What orders the queues of a device. Barrier: everything before the n-th barrier of each queue is done
  /// before anything behind the n-th of any. Signal and Wait: a semaphore, named by a field's value; what
  /// comes behind the n-th wait comes behind the n-th signal.
  struct Sync {
    enum class Kind : uint8_t { Barrier, Signal, Wait } kind = Kind::Barrier;
    unsigned on = 0; ///< Field index; of Signal and Wait.
  };
  std::optional<Sync> sync;
  /// When done with success, the device has, or no longer has, a queue or a ring of completions: the one of
  /// that number.
  struct Creates {
    bool completions = false;                ///< A ring of completions; otherwise a queue.
    unsigned number = 0, base = 0, size = 0; ///< Field indices.
    uint64_t sizePlus = 0;
  };
  std::optional<Creates> creates;
  struct Deletes {
    bool completions = false;
    unsigned number = 0; ///< Field index.
  };
  std::optional<Deletes> deletes;
  const EntryField *find(llvm::StringRef name) const;
};

/// What entries of a queue or elements of a list look like in host memory.
struct LayoutDescription {
  std::string name, doc;
  unsigned size = 0;                ///< Bytes, 1 to 4096.
  std::optional<EntryField> opcode; ///< Selects the form; none: forms has one element.
  std::optional<EntryField> tag;    ///< By which a completion names an entry; in every form.
  std::vector<EntryForm> forms;
  /// Of an entry that the device writes: the entry with that tag of the queue of that number is done. The
  /// phase is 1 in the ring's first round, 0 in the second, and so on: entries are there when it changes.
  struct Completes {
    EntryField queue, tag, phase;
    std::optional<EntryCondition> success; ///< Otherwise every entry is one.
  };
  std::optional<Completes> completes;
  /// The form of these bytes (at least `size` of them), or null if the opcode is unknown.
  const EntryForm *formOf(llvm::ArrayRef<uint8_t> entry) const;
};
/// A field's value in an entry: shifted, masked, and sign-extended if the field is signed. 0 where the entry
/// is too short.
uint64_t entryValue(const EntryField &field, llvm::ArrayRef<uint8_t> entry);
/// Puts it there; nothing happens where the entry is too short.
void setEntryValue(const EntryField &field, llvm::MutableArrayRef<uint8_t> entry, uint64_t value);
/// "GEMM m=8 n=8 k=64 accumulate": form and fields, decimal, addresses in hexadecimal. A field of one bit is
/// its name, or nothing if it is 0; fields named `flags` or `tag` are left out if they are 0. "opcode 0x7f"
/// if the form is unknown.
std::string formatEntry(const LayoutDescription &layout, llvm::ArrayRef<uint8_t> entry);

/// A ring of entries in host memory. Without base and size a command creates it (EntryForm::creates).
struct RingDescription {
  std::string name, doc;
  std::optional<unsigned> base; ///< Register: address of entry 0 (its low half if baseHigh is there).
  std::optional<unsigned> baseHigh;
  std::optional<unsigned> size;        ///< Register: number of entries,
  unsigned sizeLow = 0, sizeHigh = 63; ///< in these bits of it, inclusive,
  uint64_t sizePlus = 0;               ///< less this.
  unsigned doorbell = 0;               ///< Register, written: the new tail (the host's end), modulo size.
  std::optional<uint64_t> number;      ///< By which commands and completions name it.
  unsigned layout = 0;                 ///< Index into Description::layouts.
  /// Of the size register's value.
  uint64_t entriesOf(uint64_t value) const;
};
/// One that the host fills and the device empties.
struct QueueDescription : RingDescription {
  std::optional<unsigned> head; ///< Register, read: index of the next entry to be completed.
  std::optional<unsigned> tail; ///< Register, read: index behind the last entry submitted.
  std::optional<unsigned> done; ///< Register, read: entries completed since reset, modulo 2^width.
  std::vector<unsigned> rewind; ///< Registers whose write (of any value) sets head and tail to 0.
};

/// Addresses of a space, both ends included, that a replay never writes to unless the user names the range.
struct ForbiddenRange {
  std::string name, space; ///< A register space; a lab's file may say "memory", too.
  uint64_t first = 0, last = 0;
};
/// The first range that an access of `length` bytes falls into, or null.
const ForbiddenRange *findForbidden(llvm::ArrayRef<ForbiddenRange> ranges, llvm::StringRef space,
                                    uint64_t address, uint64_t length);

struct CounterDescription {
  std::string name, unit, cls;  ///< cls: compute, data-movement, synchronisation, other.
  unsigned reg = 0;             ///< Its low part, if there is a `high` one.
  std::optional<unsigned> high; ///< Register with the bits above those of `reg`.
  unsigned widthBits = 32;
  bool exact = true; ///< Across targets; false: rate only.
  /// Not a register but a number in what transfers bring (EntryTransfer::content): read whenever it comes.
  struct Content {
    unsigned layout = 0, field = 0; ///< Of its first form.
  };
  std::optional<Content> content; ///< `reg` means nothing then.
};

struct Description {
  std::string name, version, doc;
  std::vector<std::string> spaces;
  std::vector<RegisterDescription> registers;
  std::vector<ForbiddenRange> forbidden; ///< Whatever lies there, described or not.
  std::vector<ActivityDescription> activities;
  std::vector<InternalWindow> windows;
  std::vector<RestoreStep> restore; ///< Empty: no recipe.
  bool hasRestore = false;
  std::vector<FingerprintEntry> fingerprint;
  std::vector<InterruptDescription> interrupts;
  std::vector<CounterDescription> counters;
  std::vector<LayoutDescription> layouts;
  std::vector<QueueDescription> queues;
  std::vector<RingDescription> completionQueues; ///< That the device fills and the host empties; one layout.
  std::vector<RegisterCondition> idle;           ///< On a read: everything in every queue is done.
  std::vector<RegisterCondition> resets;         ///< On a write: the device forgets all, as at a reset.
  /// On a write: host memory is handed over, and nothing else says which. What the host stored is captured.
  std::vector<RegisterCondition> handOver;
  std::vector<unsigned> postMortem; ///< Registers to read after a failure, before reset.
  std::string resetMethod;
  uint64_t dmaMask = ~uint64_t(0); ///< Host addresses the device can reach.

  /// The register that an access of `width` bytes at `offset` of `space` falls into, or null. A part access
  /// (for example the upper half of a 64-bit register) finds its register.
  const RegisterDescription *find(llvm::StringRef space, uint64_t offset, unsigned width = 1) const;
  const RegisterDescription *findByName(llvm::StringRef name) const;
  const InternalWindow *findWindow(llvm::StringRef name) const;
  /// What completions look like, or null if there are none.
  const LayoutDescription *completionLayout() const {
    return completionQueues.empty() ? nullptr : &layouts[completionQueues.front().layout];
  }
  unsigned indexOf(const RegisterDescription &reg) const { return unsigned(&reg - registers.data()); }
  /// Name of the lowest field that `bits` (in place) touches; empty if none.
  std::string fieldOf(const RegisterDescription &reg, uint64_t bits) const;

  /// Prepares the quick lookups; parseDescription has done it. Needed again only by code that changes
  /// `registers` (without it, lookups are right but linear while the number of registers differs).
  void index();

private:
  struct Place {
    uint64_t offset;
    unsigned reg;
  };
  struct SpaceIndex {
    std::string space;
    std::vector<Place> places; ///< By offset; aliases left out, so that they do not overlap.
  };
  std::vector<SpaceIndex> placesBySpace;
  std::vector<unsigned> byName;
};

/// Parses YAML. `name` (file name) is used in messages, which have line, column and caret. Class Usage.
llvm::Expected<Description> parseDescription(llvm::StringRef yaml, llvm::StringRef name);

/// Finds and reads the text of a description: a path (it has a '/' or ends in .yaml), or a name looked up in
/// the folders of the environment variable TAPEBACK_DESCRIPTIONS (separated by ':') and then in the
/// installation's (share/tapeback/descriptions beside bin/, or the build tree's). Class Usage; an unknown
/// name lists what there is.
struct DescriptionText {
  std::string text;
  std::string name;  ///< The file, for messages.
  std::string title; ///< "edu" for …/edu.yaml.
};
llvm::Expected<DescriptionText> loadDescriptionText(llvm::StringRef nameOrPath);

} // namespace tapeback
