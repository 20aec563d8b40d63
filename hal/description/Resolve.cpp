// From raw::Document to Description, second half: what refers to registers. Words become enumerators, names
// become indices, and everything that Description.h promises is checked. A mistake is complained about where
// it stands, and the rest is checked on.
#include "hal/description/Checks.h"

namespace tapeback {
namespace {

class Resolver : Checks {
public:
  Resolver(const raw::Document &in, YamlComplaints &complaints, Description &out)
      : Checks(in, complaints, out) {}

  void run() {
    addWindowNames();
    addActivities();
    finishWindows();
    addInterrupts();
    addFingerprint();
    addRestore();
    addPostMortem();
    addCounters();
  }

private:
  void addWindowNames() {
    if (!within(in.windows.size(), maxWindows, "windows"))
      return;
    llvm::StringSet<> seen;
    for (const raw::Window &from : in.windows) {
      checkUnique(from.name, "window", seen);
      checkProse(from.doc, "doc", from.name.where);
      InternalWindow to;
      to.name = from.name.value;
      to.doc = from.doc;
      to.base = from.base ? from.base->value.value : 0;
      to.size = from.size.value.value;
      if (to.size == 0)
        complain(from.size.where, "a window has at least one byte");
      else if (to.base > ~uint64_t(0) - (to.size - 1))
        complain(from.size.where, "the window reaches past the end of the address space");
      to.maxTransfer = from.maxTransfer ? from.maxTransfer->value.value : to.size;
      if (to.maxTransfer == 0 || to.maxTransfer > to.size)
        complain(from.maxTransfer ? from.maxTransfer->where : from.size.where,
                 "max-transfer is between 1 and the window's size");
      if (from.reset) {
        if (from.reset->value.value > 0xff)
          complain(from.reset->where, "a window's reset value is one byte, which fills it");
        to.reset = uint8_t(from.reset->value.value);
      }
      out.windows.push_back(std::move(to));
    }
  }

  TransferDescription transfer(const raw::Transfer &from, const ActivityDescription &activity) {
    TransferDescription to;
    to.when.reg = activity.starts.reg;
    to.when.any = true;
    if (from.when) {
      to.when = condition(*from.when, Writable);
      if (to.when.reg != activity.starts.reg)
        complain(from.when->reg.where, "a transfer's condition is on the value written to " +
                                           out.registers[activity.starts.reg].name +
                                           ", which starts the activity");
    }
    to.toDevice = word(from.direction, words::directions(), "direction", true);
    to.hostAddress = reference(from.hostAddress, Writable);
    to.deviceAddress = reference(from.deviceAddress, Writable);
    to.count = reference(from.count, Writable);
    if (from.window && window(*from.window))
      to.window = from.window->value;
    return to;
  }

  void addActivities() {
    if (!within(in.activities.size(), maxActivities, "activities"))
      return;
    llvm::StringSet<> seen;
    for (const raw::Activity &from : in.activities) {
      checkUnique(from.name, "activity", seen);
      ActivityDescription to;
      to.name = from.name.value;
      to.starts = condition(from.starts, Writable);
      if (from.done.empty())
        complain(from.name.where, "an activity needs a condition by which its end is seen");
      if (!within(from.done.size(), maxPerActivity, "conditions", from.name.where) ||
          !within(from.transfers.size(), maxPerActivity, "transfers", from.name.where))
        continue;
      for (const raw::Condition &done : from.done)
        to.done.push_back(condition(done, Readable));
      for (const raw::Transfer &moved : from.transfers)
        to.transfers.push_back(transfer(moved, to));
      out.activities.push_back(std::move(to));
    }
  }

  bool moves(llvm::StringRef windowName, bool toDevice, std::optional<llvm::StringRef> activityName) const {
    return llvm::any_of(out.activities, [&](const ActivityDescription &activity) {
      return (!activityName || activity.name == *activityName) &&
             llvm::any_of(activity.transfers, [&](const TransferDescription &moved) {
               return moved.window == windowName && moved.toDevice == toDevice;
             });
    });
  }

  /// Through its port.
  bool fillable(const InternalWindow &window) const {
    return window.port && out.registers[window.port->data].access != RegisterAccess::ReadOnly &&
           out.registers[window.port->data].policy != ReplayPolicy::Forbidden;
  }

  void addPort(const raw::Port &from, InternalWindow &to) {
    InternalWindow::Port port;
    port.address = reference(from.address, Writable | MayBeWritten);
    port.data = reference(from.data, Readable);
    if (!out.registers.empty() && port.address == port.data)
      complain(from.data.where, "the port's address and its data are two registers");
    if (within(from.usable.size(), maxPerActivity, "conditions", from.address.where))
      for (const raw::Condition &usable : from.usable)
        port.usable.push_back(condition(usable, Anything));
    to.port = std::move(port);
  }

  void finishWindows() {
    for (size_t i = 0; i < out.windows.size() && i < in.windows.size(); ++i) {
      if (in.windows[i].port)
        addPort(*in.windows[i].port, out.windows[i]);
      const std::optional<raw::Text> &readBack = in.windows[i].readBack;
      if (!readBack)
        continue;
      std::vector<llvm::StringRef> names;
      for (const ActivityDescription &activity : out.activities)
        names.push_back(activity.name);
      if (!llvm::is_contained(names, readBack->value))
        complain(readBack->where, "no activity is named '" + readBack->value + "'" +
                                      words::suggestion(readBack->value, names));
      else if (!moves(out.windows[i].name, false, readBack->value))
        complain(readBack->where, "activity '" + readBack->value +
                                      "' has no from-device transfer of window '" + out.windows[i].name +
                                      "'");
      out.windows[i].readBack = readBack->value;
    }
  }

  void addInterrupts() {
    if (!within(in.interrupts.size(), maxListed, "interrupts"))
      return;
    llvm::StringSet<> seen;
    std::vector<uint32_t> vectors;
    for (const raw::Interrupt &from : in.interrupts) {
      checkUnique(from.name, "interrupt", seen);
      InterruptDescription to;
      to.name = from.name.value;
      to.vector = uint32_t(from.vector.value.value);
      if (from.vector.value.value >= maxListed)
        complain(from.vector.where, "a vector is below " + llvm::Twine(maxListed));
      else if (llvm::is_contained(vectors, to.vector))
        complain(from.vector.where, "a second interrupt with vector " + llvm::Twine(to.vector));
      vectors.push_back(to.vector);
      if (from.cause)
        to.cause = condition(*from.cause, Readable);
      out.interrupts.push_back(std::move(to));
    }
  }

  void addFingerprint() {
    if (!within(in.fingerprint.size(), maxListed, "fingerprint entries"))
      return;
    for (const raw::Fingerprint &from : in.fingerprint) {
      FingerprintEntry to;
      to.reg = reference(from.reg, Readable | HarmlessToRead);
      if (out.registers.empty())
        continue; // Already complained about.
      const RegisterDescription &reg = out.registers[to.reg];
      to.mask = from.mask ? from.mask->value.value : reg.widthMask();
      if (from.mask)
        fits(*from.mask, reg, "the mask");
      if (from.value) {
        to.value = from.value->value.value;
        if (fits(*from.value, reg, "the value") && (*to.value & ~to.mask))
          complain(from.value->where, "the value has bits outside the mask: this can never hold");
      }
      out.fingerprint.push_back(to);
    }
  }

  void addRestore() {
    out.hasRestore = in.restore.has_value();
    if (!in.restore || !within(in.restore->size(), maxRegisters, "restore steps"))
      return;
    for (const raw::Step &from : *in.restore) {
      RestoreStep to;
      if (from.reg.has_value() == from.window.has_value()) {
        complain(from.where, "a restore step has either a register or a window");
      } else if (from.reg) {
        to.reg = reference(*from.reg, Writable | MayBeWritten | HarmlessToRead);
      } else if (window(*from.window)) {
        to.kind = RestoreStep::Kind::Window;
        to.window = from.window->value;
        if (!moves(to.window, true, std::nullopt) && !fillable(*out.findWindow(to.window)))
          complain(from.window->where, "no activity has a to-device transfer that could fill window '" +
                                           to.window + "', nor has it a port that can be written");
      }
      out.restore.push_back(std::move(to));
    }
  }

  void addPostMortem() {
    if (!within(in.postMortem.size(), maxListed, "post-mortem registers"))
      return;
    for (const raw::Text &name : in.postMortem)
      out.postMortem.push_back(reference(name, Readable));
  }

  void addCounters() {
    if (!within(in.counters.size(), maxListed, "counters"))
      return;
    static constexpr words::Word<bool> classes[] = {
        {"compute", true}, {"data-movement", true}, {"synchronisation", true}, {"other", true}};
    llvm::StringSet<> seen;
    for (const raw::Counter &from : in.counters) {
      checkUnique(from.name, "counter", seen);
      CounterDescription to;
      to.name = from.name.value;
      bool inContent = from.layout && from.field && !from.reg && !from.high;
      if (!inContent && (!from.reg || from.layout || from.field))
        complain(from.name.where,
                 "a counter is in a register, or in the field of a layout that transfers bring");
      if (from.reg)
        to.reg = reference(*from.reg, Readable);
      if (from.unit && checkName(*from.unit, "unit"))
        to.unit = from.unit->value;
      wordOr<bool>(from.cls, classes, "counter class", true);
      to.cls = from.cls ? from.cls->value : "other";
      unsigned bits = out.registers.empty() || !from.reg ? 64 : 8 * out.registers[to.reg].width;
      if (from.high) {
        to.high = reference(*from.high, Readable);
        bits += out.registers.empty() ? 0 : 8 * out.registers[*to.high].width;
        if (bits > 64)
          complain(from.high->where, "a counter has at most 64 bits");
      }
      uint64_t width = from.widthBits ? from.widthBits->value.value : bits;
      if (width == 0 || width > bits)
        complain(from.widthBits ? from.widthBits->where : from.name.where,
                 "width-bits is between 1 and the register's " + llvm::Twine(bits));
      to.widthBits = unsigned(width);
      to.exact = !from.exact || from.exact->value;
      out.counters.push_back(std::move(to));
    }
  }
};

} // namespace

Description resolveDescription(const raw::Document &document, YamlComplaints &complaints) {
  Description out;
  resolveRegisters(document, complaints, out);
  if (complaints.any()) // What follows refers to registers, and would only echo.
    return out;
  Resolver(document, complaints, out).run();
  resolveQueues(document, complaints, out);
  return out;
}

} // namespace tapeback
