// tapeback device: checks a device description, or shows what it says.
#include "format/Failure.h"
#include "hal/description/Description.h"
#include "tools/CommandLine.h"
#include "tools/Report.h"
#include "tools/Verb.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

using namespace llvm;

namespace tapeback {
namespace {

constexpr VerbHelp deviceHelp = {
    "device",
    "Check or show a device description",
    "check|show DESCRIPTION [--register NAME] [--json]",
    "DESCRIPTION is a YAML file, or the name of an installed description (edu, minnow). `check` parses it "
    "and says\n"
    "where it is wrong, with line and column. `show` lists registers, fields, activities, queues and their\n"
    "commands, memory windows and what a replay does with each register. hal/description/README.md has every "
    "key.\n",
    "  tapeback device check my-npu.yaml\n"
    "  tapeback device show edu\n"
    "  tapeback device show edu --register DMA_CMD\n",
    "  0  the description is good\n"
    "  2  bad usage, no such description, or it is wrong\n"};

const char *accessName(RegisterAccess access) {
  switch (access) {
  case RegisterAccess::ReadWrite: return "rw";
  case RegisterAccess::ReadOnly: return "ro";
  case RegisterAccess::WriteOnly: return "wo";
  }
  return "rw";
}

std::string conditionText(const Description &description, const RegisterCondition &condition) {
  std::string text = description.registers[condition.reg].name;
  if (condition.any)
    return text + " is accessed";
  return text + " & " + hex(condition.mask) + " == " + hex(condition.value);
}

void showRegister(raw_ostream &os, const RegisterDescription &reg) {
  os << "  " << left_justify(reg.name, 16) << " " << left_justify(reg.space + "+" + hex(reg.offset), 14)
     << " " << reg.width * 8 << " bits  " << accessName(reg.access) << "  "
     << left_justify(registerClassName(reg.cls), 13) << " " << replayPolicyName(reg.policy);
  if (reg.policy == ReplayPolicy::Mask)
    os << " " << hex(reg.compareMask);
  if (reg.reset)
    os << "  reset " << hex(*reg.reset);
  os << "\n";
  if (!reg.doc.empty())
    os << "      " << reg.doc << "\n";
  for (const FieldDescription &field : reg.fields) {
    std::string bits = std::to_string(field.high);
    if (field.low != field.high)
      bits += ":" + std::to_string(field.low);
    os << "      [" << bits << "] " << field.name << (field.doc.empty() ? "" : "  ") << field.doc << "\n";
  }
}

/// "(nlb + 1) * 512", "4096".
std::string byteCount(const EntryForm &form, const EntryTransfer &transfer) {
  std::string text = transfer.rowBytes ? form.fields[*transfer.rowBytes].name : std::to_string(transfer.plus);
  if (transfer.rowBytes && transfer.plus)
    text = "(" + text + " + " + std::to_string(transfer.plus) + ")";
  return transfer.times == 1 ? text : text + " * " + std::to_string(transfer.times);
}

void showForm(raw_ostream &os, const LayoutDescription &layout, const EntryForm &form,
              const Description &description) {
  os << "      " << form.name;
  if (layout.opcode)
    os << " (" << hex(form.opcode) << ")";
  os << (form.fields.empty() ? "" : ":");
  for (const EntryField &field : form.fields)
    os << " " << field.name;
  os << "\n";
  auto name = [&](unsigned field) { return form.fields[field].name; };
  for (const EntryTransfer &transfer : form.transfers) {
    os << "          moves ";
    if (transfer.rows)
      os << name(*transfer.rows) << " rows of ";
    os << byteCount(form, transfer) << " bytes "
       << (transfer.toDevice ? "to the device, from " : "from the device, to ") << name(transfer.hostAddress);
    if (transfer.pages)
      os << " and " << name(transfer.pages->second) << " (pages of " << transfer.pages->size << ")";
    if (transfer.content)
      os << ", a " << description.layouts[*transfer.content].name;
    if (transfer.deviceAddress)
      os << (transfer.toDevice ? " to " : " from ") << name(*transfer.deviceAddress);
    os << (transfer.window.empty() ? "" : " in window " + transfer.window);
    if (transfer.when)
      os << " (if " << name(transfer.when->field) << " & " << hex(transfer.when->mask)
         << " == " << hex(transfer.when->value) << ")";
    os << "\n";
  }
  if (form.fence)
    os << "          writes " << name(form.fence->value) << " to " << name(form.fence->address)
       << " when all before it is done\n";
  if (form.creates)
    os << "          creates the " << (form.creates->completions ? "completion queue" : "queue")
       << " numbered " << name(form.creates->number) << " at " << name(form.creates->base) << "\n";
  if (form.deletes)
    os << "          deletes the " << (form.deletes->completions ? "completion queue" : "queue")
       << " numbered " << name(form.deletes->number) << "\n";
  if (form.chain)
    os << "          goes on with " << description.layouts[form.chain->layout].name << "s from "
       << name(form.chain->address) << ", at most " << form.chain->limit << "\n";
}

void showQueues(raw_ostream &os, const Description &description) {
  auto name = [&](unsigned reg) { return description.registers[reg].name; };
  auto show = [&](const RingDescription &ring, const char *doorbell) {
    os << "  " << ring.name << ": " << (ring.size ? name(*ring.size) + " entries" : std::string("entries"))
       << " (" << description.layouts[ring.layout].name << ") "
       << (ring.base ? "at " + name(*ring.base) : std::string("where a command creates it"))
       << (ring.baseHigh ? ", " + name(*ring.baseHigh) : "") << doorbell << name(ring.doorbell);
  };
  if (!description.queues.empty())
    os << "\nqueues: rings of entries in host memory\n";
  for (const QueueDescription &queue : description.queues) {
    show(queue, "; handed over by ");
    if (queue.head)
      os << ", completed up to " << name(*queue.head);
    if (queue.done)
      os << ", counted in " << name(*queue.done);
    os << "\n";
  }
  if (!description.completionQueues.empty())
    os << "\ncompletion queues: rings that the device fills\n";
  for (const RingDescription &ring : description.completionQueues) {
    show(ring, "; handed back by ");
    os << "\n";
  }
  for (const RegisterCondition &idle : description.idle)
    os << "  all are drained when " << conditionText(description, idle) << "\n";
  for (const RegisterCondition &reset : description.resets)
    os << "  all is forgotten when written " << conditionText(description, reset) << "\n";
  if (!description.layouts.empty())
    os << "\nentries: form, opcode, fields\n";
  for (const LayoutDescription &layout : description.layouts) {
    os << "  " << layout.name << ", " << layout.size << " bytes\n";
    for (const EntryForm &form : layout.forms)
      showForm(os, layout, form, description);
  }
}

std::string visibility(const Description &description, const InternalWindow &window) {
  if (!window.readBack.empty())
    return ", read back through " + window.readBack;
  if (!window.port)
    return ", not visible without peek";
  std::string text = ", through " + description.registers[window.port->address].name + " and " +
                     description.registers[window.port->data].name;
  for (const RegisterCondition &usable : window.port->usable)
    text += (&usable == window.port->usable.data() ? " while " : " or ") + conditionText(description, usable);
  return text;
}

void showText(raw_ostream &os, const Description &description) {
  os << description.name << (description.version.empty() ? "" : " version ") << description.version << "\n";
  if (!description.doc.empty())
    os << description.doc << "\n";
  os << "spaces: " << join(description.spaces, ", ") << "\n";
  os << "reset: " << (description.resetMethod.empty() ? "default" : description.resetMethod)
     << "; reaches host addresses up to " << hex(description.dmaMask) << "\n";
  os << "\nregisters: name, place, width, access, class, what a replay does\n";
  for (const RegisterDescription &reg : description.registers)
    showRegister(os, reg);
  if (!description.activities.empty())
    os << "\nactivities: what the device does by itself\n";
  for (const ActivityDescription &activity : description.activities) {
    os << "  " << activity.name << ": starts when " << conditionText(description, activity.starts) << "\n";
    for (const RegisterCondition &done : activity.done)
      os << "      done when " << conditionText(description, done) << "\n";
    for (const TransferDescription &transfer : activity.transfers)
      os << "      moves " << description.registers[transfer.count].name << " bytes "
         << (transfer.toDevice ? "to the device, from " : "from the device, to ")
         << description.registers[transfer.hostAddress].name << (transfer.toDevice ? " to " : " from ")
         << description.registers[transfer.deviceAddress].name
         << (transfer.window.empty() ? "" : " in window " + transfer.window) << "\n";
  }
  showQueues(os, description);
  if (!description.windows.empty())
    os << "\nmemory inside the device\n";
  for (const InternalWindow &window : description.windows)
    os << "  " << window.name << ": " << window.size << " bytes at " << hex(window.base)
       << visibility(description, window) << "\n";
  for (const InterruptDescription &interrupt : description.interrupts)
    os << "\ninterrupt " << interrupt.vector << ": " << interrupt.name << "\n";
  if (!description.counters.empty())
    os << "\ncounters: name, unit, class, width\n";
  for (const CounterDescription &counter : description.counters)
    os << "  " << left_justify(counter.name, 16) << " " << counter.unit << ", " << counter.cls << ", "
       << counter.widthBits << " bits" << (counter.exact ? "" : ", a rate only across targets") << "\n";
  os << "\nrestore recipe: ";
  if (!description.hasRestore)
    os << "none, so no keyframe is restorable\n";
  else {
    for (const RestoreStep &step : description.restore)
      os << (&step == description.restore.data() ? "" : ", ")
         << (step.kind == RestoreStep::Kind::Window ? "window " + step.window
                                                    : description.registers[step.reg].name);
    os << "\n";
  }
}

void layoutsJson(json::OStream &os, const Description &description) {
  os.attributeArray("layouts", [&] {
    for (const LayoutDescription &layout : description.layouts)
      os.object([&] {
        os.attribute("name", layout.name);
        os.attribute("bytes", int64_t(layout.size));
        os.attributeArray("forms", [&] {
          for (const EntryForm &form : layout.forms)
            os.object([&] {
              os.attribute("name", form.name);
              os.attribute("opcode", layout.opcode ? json::Value(hex(form.opcode)) : json::Value(nullptr));
              os.attributeArray("fields", [&] {
                for (const EntryField &field : form.fields)
                  os.object([&] {
                    os.attribute("name", field.name);
                    os.attribute("offset", int64_t(field.offset));
                    os.attribute("width", int64_t(field.width));
                    os.attribute("low", int64_t(field.low));
                    os.attribute("high", int64_t(field.high));
                    os.attribute("signed", field.isSigned);
                    os.attribute("address", field.address);
                  });
              });
              os.attribute("transfers", uint64_t(form.transfers.size()));
              os.attribute("fence", form.fence.has_value());
              os.attribute("chain", form.chain ? json::Value(description.layouts[form.chain->layout].name)
                                               : json::Value(nullptr));
            });
        });
      });
  });
}

void queuesJson(json::OStream &os, const Description &description) {
  auto name = [&](std::optional<unsigned> reg) {
    return reg ? json::Value(description.registers[*reg].name) : json::Value(nullptr);
  };
  os.attributeArray("queues", [&] {
    for (const QueueDescription &queue : description.queues)
      os.object([&] {
        os.attribute("name", queue.name);
        os.attribute("layout", description.layouts[queue.layout].name);
        os.attribute("base", name(queue.base));
        os.attribute("base_high", name(queue.baseHigh));
        os.attribute("size", name(queue.size));
        os.attribute("head", name(queue.head));
        os.attribute("tail", name(queue.tail));
        os.attribute("doorbell", name(queue.doorbell));
        os.attribute("done", name(queue.done));
      });
  });
}

void registerJson(json::OStream &os, const RegisterDescription &reg) {
  os.object([&] {
    os.attribute("name", reg.name);
    os.attribute("space", reg.space);
    os.attribute("offset", hex(reg.offset));
    os.attribute("width", int64_t(reg.width));
    os.attribute("access", accessName(reg.access));
    os.attribute("class", registerClassName(reg.cls));
    os.attribute("policy", replayPolicyName(reg.policy));
    os.attribute("compare_mask", hex(reg.compareMask));
    os.attribute("reset", reg.reset ? json::Value(hex(*reg.reset)) : json::Value(nullptr));
    os.attribute("doc", json::fixUTF8(reg.doc));
    os.attributeArray("fields", [&] {
      for (const FieldDescription &field : reg.fields)
        os.object([&] {
          os.attribute("name", field.name);
          os.attribute("low", int64_t(field.low));
          os.attribute("high", int64_t(field.high));
          os.attribute("doc", json::fixUTF8(field.doc));
        });
    });
  });
}

void conditionJson(json::OStream &os, const Description &description, const RegisterCondition &condition) {
  os.attribute("register", description.registers[condition.reg].name);
  os.attribute("any", condition.any);
  os.attribute("mask", hex(condition.mask));
  os.attribute("value", hex(condition.value));
}

void activitiesJson(json::OStream &os, const Description &description) {
  os.attributeArray("activities", [&] {
    for (const ActivityDescription &activity : description.activities)
      os.object([&] {
        os.attribute("name", activity.name);
        os.attributeObject("starts", [&] { conditionJson(os, description, activity.starts); });
        os.attributeArray("done", [&] {
          for (const RegisterCondition &done : activity.done)
            os.object([&] { conditionJson(os, description, done); });
        });
        os.attributeArray("transfers", [&] {
          for (const TransferDescription &transfer : activity.transfers)
            os.object([&] {
              os.attribute("direction", transfer.toDevice ? "to-device" : "from-device");
              os.attribute("host_address", description.registers[transfer.hostAddress].name);
              os.attribute("device_address", description.registers[transfer.deviceAddress].name);
              os.attribute("count", description.registers[transfer.count].name);
              os.attribute("window",
                           transfer.window.empty() ? json::Value(nullptr) : json::Value(transfer.window));
            });
        });
      });
  });
  os.attributeArray("windows", [&] {
    for (const InternalWindow &window : description.windows)
      os.object([&] {
        os.attribute("name", window.name);
        os.attribute("base", hex(window.base));
        os.attribute("bytes", window.size);
        os.attribute("read_back",
                     window.readBack.empty() ? json::Value(nullptr) : json::Value(window.readBack));
        os.attribute("port", window.port ? json::Value(description.registers[window.port->data].name)
                                         : json::Value(nullptr));
      });
  });
}

void partsJson(json::OStream &os, const Description &description) {
  activitiesJson(os, description);
  layoutsJson(os, description);
  queuesJson(os, description);
}

} // namespace

int runDevice(ArrayRef<const char *> args) {
  cl::opt<std::string> action(cl::Positional, cl::Required, cl::desc("check|show"));
  cl::opt<std::string> which(cl::Positional, cl::Required, cl::desc("DESCRIPTION"));
  cl::opt<std::string> only("register", cl::desc("show: only this register"), cl::value_desc("NAME"));
  CommandLine line(deviceHelp);
  if (std::optional<int> exit = line.parse(args))
    return *exit;
  Report report("device", line.json());
  if (action != "check" && action != "show")
    return report.fail(Failure(FailureClass::Usage, "bad-usage",
                               "there is nothing called '" + action + "' to do", "command line",
                               "use `device check` or `device show`"));
  if (action == "check" && only.getNumOccurrences())
    return report.fail(Failure(FailureClass::Usage, "bad-usage", "`device check` checks all of a description",
                               "--register", "leave --register out, or use `device show`"));
  Expected<DescriptionText> text = loadDescriptionText(which);
  if (!text)
    return report.fail(text.takeError());
  Expected<Description> description = parseDescription(text->text, text->name);
  if (!description)
    return report.fail(description.takeError());
  const RegisterDescription *reg = nullptr;
  if (only.getNumOccurrences()) {
    reg = description->findByName(only);
    if (!reg) {
      std::vector<std::string> names;
      for (const RegisterDescription &other : description->registers)
        names.push_back(other.name);
      std::string near = closest(only, names);
      return report.fail(
          Failure(FailureClass::Usage, "no-such-register",
                  "there is no register '" + only + "' in " + description->name, text->name,
                  near.empty() ? "registers are: " + join(names, ", ") : "did you mean '" + near + "'?"));
    }
  }
  if (report.json()) {
    json::OStream &os = report.object();
    report.verdict(0);
    os.attribute("file", json::fixUTF8(text->name));
    os.attribute("valid", true);
    os.attribute("name", description->name);
    os.attribute("version", description->version);
    if (action == "show")
      os.attributeArray("registers", [&] {
        for (const RegisterDescription &other : description->registers)
          if (!reg || reg == &other)
            registerJson(os, other);
      });
    if (action == "show" && !reg)
      partsJson(os, *description);
    os.attribute("register_count", uint64_t(description->registers.size()));
    os.attribute("activity_count", uint64_t(description->activities.size()));
    os.attribute("queue_count", uint64_t(description->queues.size()));
    os.attribute("counter_count", uint64_t(description->counters.size()));
    os.attribute("window_count", uint64_t(description->windows.size()));
    os.attribute("restore_recipe", description->hasRestore);
  } else if (action == "check") {
    outs() << text->name << ": good: " << description->name << ", " << description->registers.size()
           << " registers, " << description->activities.size() << " activities, "
           << description->queues.size() << " queues, " << description->windows.size() << " memory windows, "
           << (description->hasRestore ? "a" : "no") << " restore recipe\n";
  } else if (reg) {
    showRegister(outs(), *reg);
  } else {
    showText(outs(), *description);
  }
  return report.finish(0);
}

} // namespace tapeback
