#include "recorder/CaptureCompiler.h"
#include "format/Failure.h"
#include "hal/description/AddressPair.h"
#include "recorder/ring/CaptureTable.h"
#include "recorder/ring/RingFormat.h"
#include "llvm/ADT/StringRef.h"
#include <algorithm>
#include <cstring>
#include <map>
#include <set>

using namespace llvm;

namespace tapeback {

using namespace capture;

namespace {

class Compiler {
public:
  Error add(const CaptureSource &source);
  std::vector<uint8_t> finish(const EvidenceOptions &evidence) const;

private:
  uint32_t spaceOf(StringRef name);
  void addRegisters(const Description &description, capture::Device &device);
  void addActivities(const Description &description, capture::Device &device);
  void addQueues(const Description &description, capture::Device &device);
  void addLayout(const LayoutDescription &layout, uint32_t firstLayout);
  void addForm(const EntryForm &form, uint32_t firstLayout);
  Place placeOf(const RingDescription &ring, uint32_t queue, std::map<uint32_t, std::vector<Role>> &rolesOf);
  void addHandOver(const Description &description, capture::Device &device);
  void addReadings(const Description &description, capture::Device &device);
  capture::Condition conditionOf(const RegisterCondition &condition, uint32_t activity) const {
    return {activity, condition.any, condition.mask, condition.value};
  }

  std::vector<capture::Device> devices;
  std::vector<Name> spaces;
  std::vector<Register> registers;
  std::vector<capture::Condition> conditions;
  std::vector<Activity> activities;
  std::vector<Transfer> transfers;
  std::vector<Role> roles;
  std::vector<Queue> queues;
  std::vector<Layout> layouts;
  std::vector<Form> forms;
  std::vector<capture::EntryTransfer> entryTransfers;
  std::vector<Completions> rings;
  std::vector<ContentCounter> contentCounters;
  std::vector<Counter> counters;
  std::vector<Fingerprint> fingerprints;
  std::map<unsigned, uint32_t> registerIndex; ///< Of the present device: description's index to the table's.
};

template <size_t capacity>
bool copyText(char (&out)[capacity], StringRef text) {
  if (text.size() >= capacity || text.contains('\0'))
    return false;
  std::memset(out, 0, capacity);
  std::memcpy(out, text.data(), text.size());
  return true;
}

uint32_t Compiler::spaceOf(StringRef name) {
  for (size_t i = 0; i < spaces.size(); ++i)
    if (name == spaces[i].text)
      return uint32_t(i);
  Name added;
  copyText(added.text, name.take_front(nameBytes - 1));
  spaces.push_back(added);
  return uint32_t(spaces.size() - 1);
}

/// Activities that move nothing need no following.
bool moves(const ActivityDescription &activity) {
  return !activity.transfers.empty();
}

void Compiler::addRegisters(const Description &description, capture::Device &device) {
  std::set<unsigned> used;
  for (const ActivityDescription &activity : description.activities) {
    if (!moves(activity))
      continue;
    used.insert(activity.starts.reg);
    for (const RegisterCondition &done : activity.done)
      used.insert(done.reg);
    for (const TransferDescription &transfer : activity.transfers) {
      used.insert({transfer.hostAddress, transfer.deviceAddress, transfer.count});
      if (std::optional<unsigned> high = upperHalfOf(description, transfer.hostAddress))
        used.insert(*high);
    }
  }
  for (const QueueDescription &queue : description.queues) {
    used.insert(queue.doorbell);
    for (std::optional<unsigned> reg : {queue.base, queue.baseHigh, queue.size, queue.head, queue.done})
      if (reg)
        used.insert(*reg);
    used.insert(queue.rewind.begin(), queue.rewind.end());
  }
  for (const RingDescription &ring : description.completionQueues) {
    used.insert(ring.doorbell);
    for (std::optional<unsigned> reg : {ring.base, ring.baseHigh, ring.size})
      if (reg)
        used.insert(*reg);
  }
  if (!description.queues.empty())
    for (const std::vector<RegisterCondition> *list : {&description.idle, &description.resets})
      for (const RegisterCondition &condition : *list)
        used.insert(condition.reg);
  for (const RegisterCondition &condition : description.handOver)
    used.insert(condition.reg);
  std::vector<unsigned> order(used.begin(), used.end());
  auto key = [&](unsigned index) {
    const RegisterDescription &reg = description.registers[index];
    return std::pair(spaceOf(reg.space), reg.offset);
  };
  std::stable_sort(order.begin(), order.end(), [&](unsigned a, unsigned b) { return key(a) < key(b); });
  registerIndex.clear();
  device.registers = {uint32_t(registers.size()), uint32_t(order.size())};
  for (unsigned index : order) {
    const RegisterDescription &reg = description.registers[index];
    registerIndex[index] = uint32_t(registers.size());
    registers.push_back(
        {reg.offset, reg.reset.value_or(0), spaceOf(reg.space), reg.width, {}, {}, {}, {}, {}, {}});
  }
}

void Compiler::addActivities(const Description &description, capture::Device &device) {
  device.activities = {uint32_t(activities.size()), 0};
  std::map<uint32_t, std::vector<capture::Condition>> starts, done; // By register of the table.
  for (size_t index = 0; index < description.activities.size(); ++index) {
    const ActivityDescription &activity = description.activities[index];
    if (!moves(activity))
      continue;
    uint32_t number = uint32_t(activities.size());
    activities.push_back(
        {uint32_t(index), 0, {uint32_t(transfers.size()), uint32_t(activity.transfers.size())}});
    ++device.activities.count;
    for (const TransferDescription &transfer : activity.transfers) {
      const std::optional<unsigned> high = upperHalfOf(description, transfer.hostAddress);
      transfers.push_back({conditionOf(transfer.when, number), transfer.toDevice,
                           registerIndex[transfer.hostAddress], registerIndex[transfer.deviceAddress],
                           registerIndex[transfer.count], high ? registerIndex[*high] : capture::none, 0});
    }
    starts[registerIndex[activity.starts.reg]].push_back(conditionOf(activity.starts, number));
    for (const RegisterCondition &condition : activity.done)
      done[registerIndex[condition.reg]].push_back(conditionOf(condition, number));
  }
  auto place = [&](const std::vector<capture::Condition> &list) {
    Range range{uint32_t(conditions.size()), uint32_t(list.size())};
    conditions.insert(conditions.end(), list.begin(), list.end());
    return range;
  };
  for (const auto &[reg, list] : starts)
    registers[reg].starts = place(list);
  for (const auto &[reg, list] : done)
    registers[reg].done = place(list);
}

capture::Field fieldOf(const EntryField &field) {
  return {field.offset, field.width, field.low, field.high >= field.low ? field.high - field.low + 1 : 1};
}
capture::Field fieldOf(const EntryForm &form, std::optional<unsigned> index) {
  return index ? fieldOf(form.fields[*index]) : capture::Field{};
}
FieldCondition fieldConditionOf(const EntryForm &form, const std::optional<EntryCondition> &condition) {
  if (!condition)
    return {};
  return {fieldOf(form.fields[condition->field]), condition->mask, condition->value};
}

void Compiler::addForm(const EntryForm &form, uint32_t firstLayout) {
  Form row = {};
  row.opcode = form.opcode;
  row.transfers = {uint32_t(entryTransfers.size()), uint32_t(form.transfers.size())};
  for (const tapeback::EntryTransfer &transfer : form.transfers)
    entryTransfers.push_back(
        {fieldConditionOf(form, transfer.when), fieldOf(form, transfer.hostAddress),
         fieldOf(form, transfer.rowBytes), fieldOf(form, transfer.rows), fieldOf(form, transfer.hostStride),
         fieldOf(form, transfer.deviceAddress), fieldOf(form, transfer.deviceStride),
         transfer.pages ? fieldOf(form, transfer.pages->second) : capture::Field{}, transfer.plus,
         transfer.times, transfer.toDevice, transfer.pages ? uint32_t(transfer.pages->size) : 0,
         transfer.content ? firstLayout + *transfer.content : none, 0});
  if (form.fence) {
    row.fenceAddress = fieldOf(form, form.fence->address);
    row.fenceValue = fieldOf(form, form.fence->value);
  }
  if (form.chain) {
    row.chain = fieldOf(form, form.chain->address);
    row.last = fieldConditionOf(form, form.chain->last);
    row.chainLayout = firstLayout + form.chain->layout;
    row.chainLimit = form.chain->limit;
  }
  if (form.creates) {
    row.createsNumber = fieldOf(form, form.creates->number);
    row.createsBase = fieldOf(form, form.creates->base);
    row.createsSize = fieldOf(form, form.creates->size);
    row.createsPlus = form.creates->sizePlus;
    row.createsCompletions = form.creates->completions;
  }
  if (form.deletes) {
    row.deletesNumber = fieldOf(form, form.deletes->number);
    row.deletesCompletions = form.deletes->completions;
  }
  forms.push_back(row);
}

void Compiler::addLayout(const LayoutDescription &layout, uint32_t firstLayout) {
  layouts.push_back({layout.size,
                     0,
                     layout.opcode ? fieldOf(*layout.opcode) : capture::Field{},
                     {uint32_t(forms.size()), uint32_t(layout.forms.size())},
                     layout.tag ? fieldOf(*layout.tag) : capture::Field{}});
  for (const EntryForm &form : layout.forms)
    addForm(form, firstLayout);
}

Place Compiler::placeOf(const RingDescription &ring, uint32_t queue,
                        std::map<uint32_t, std::vector<Role>> &rolesOf) {
  auto reg = [&](std::optional<unsigned> wanted) {
    if (!wanted)
      return none;
    uint32_t row = registerIndex[*wanted];
    rolesOf[row].push_back({Role::Config, queue});
    return row;
  };
  unsigned low = ring.sizeLow, high = std::min(ring.sizeHigh, 63u);
  return {ring.number.value_or(noNumber),
          ring.sizePlus,
          reg(ring.base),
          reg(ring.baseHigh),
          reg(ring.size),
          low,
          high - low + 1,
          0};
}

void Compiler::addQueues(const Description &description, capture::Device &device) {
  device.queues = {uint32_t(queues.size()), uint32_t(description.queues.size())};
  if (description.queues.empty())
    return;
  uint32_t firstLayout = uint32_t(layouts.size());
  for (const LayoutDescription &layout : description.layouts)
    addLayout(layout, firstLayout);
  std::map<uint32_t, std::vector<Role>> rolesOf;
  std::map<uint32_t, std::vector<capture::Condition>> idle, resets;
  for (size_t index = 0; index < description.queues.size(); ++index) {
    const QueueDescription &queue = description.queues[index];
    uint32_t number = uint32_t(queues.size());
    auto reg = [&](std::optional<unsigned> wanted, std::optional<Role::Kind> kind) {
      if (!wanted)
        return none;
      uint32_t row = registerIndex[*wanted];
      if (kind)
        rolesOf[row].push_back({*kind, number});
      return row;
    };
    queues.push_back({placeOf(queue, number, rolesOf), uint32_t(index), reg(queue.head, Role::Head),
                      reg(queue.doorbell, Role::Doorbell), reg(queue.done, Role::Done),
                      firstLayout + queue.layout, 0});
    for (unsigned rewind : queue.rewind)
      reg(rewind, Role::Rewind);
  }
  device.contentCounters = {uint32_t(contentCounters.size()), 0};
  for (size_t id = 0; id < description.counters.size(); ++id)
    if (const auto &content = description.counters[id].content) {
      contentCounters.push_back(
          {uint32_t(id), firstLayout + content->layout,
           fieldOf(description.layouts[content->layout].forms.front(), content->field)});
      ++device.contentCounters.count;
    }
  device.rings = {uint32_t(rings.size()), uint32_t(description.completionQueues.size())};
  for (const RingDescription &ring : description.completionQueues) {
    const LayoutDescription &layout = description.layouts[ring.layout];
    uint32_t doorbell = registerIndex[ring.doorbell];
    rolesOf[doorbell].push_back({Role::CompletionDoorbell, uint32_t(rings.size())});
    rings.push_back({placeOf(ring, 0, rolesOf), doorbell, layout.size, fieldOf(layout.completes->queue),
                     fieldOf(layout.completes->tag), fieldOf(layout.completes->phase),
                     fieldConditionOf(layout.forms.front(), layout.completes->success)});
  }
  for (const RegisterCondition &condition : description.idle)
    idle[registerIndex[condition.reg]].push_back(conditionOf(condition, none));
  for (const RegisterCondition &condition : description.resets)
    resets[registerIndex[condition.reg]].push_back(conditionOf(condition, none));
  auto place = [](auto &table, const auto &list) {
    Range range{uint32_t(table.size()), uint32_t(list.size())};
    table.insert(table.end(), list.begin(), list.end());
    return range;
  };
  for (const auto &[row, list] : rolesOf)
    registers[row].roles = place(roles, list);
  for (const auto &[row, list] : idle)
    registers[row].idle = place(conditions, list);
  for (const auto &[row, list] : resets)
    registers[row].resets = place(conditions, list);
}

/// Where memory is handed over of which neither activities nor queues tell.
void Compiler::addHandOver(const Description &description, capture::Device &device) {
  bool tells = !description.queues.empty() ||
               llvm::any_of(description.activities,
                            [](const ActivityDescription &activity) { return !activity.transfers.empty(); });
  std::map<uint32_t, std::vector<capture::Condition>> byRegister;
  for (const RegisterCondition &condition : description.handOver)
    byRegister[registerIndex[condition.reg]].push_back(conditionOf(condition, none));
  for (const auto &[row, list] : byRegister) {
    registers[row].handsOver = {uint32_t(conditions.size()), uint32_t(list.size())};
    conditions.insert(conditions.end(), list.begin(), list.end());
  }
  device.handOver = !byRegister.empty() ? HandOver::Conditions
                    : tells             ? HandOver::AsDescribed
                                        : HandOver::AnyWrite;
}

void Compiler::addReadings(const Description &description, capture::Device &device) {
  device.counters = {uint32_t(counters.size()), 0};
  for (size_t id = 0; id < description.counters.size(); ++id) {
    const CounterDescription &counter = description.counters[id];
    if (counter.content)
      continue;
    const RegisterDescription &reg = description.registers[counter.reg];
    Counter row = {};
    if (!copyText(row.name, counter.name))
      continue; // A name that the C API's caller could not have meant.
    row.id = uint32_t(id);
    row.space = spaceOf(reg.space);
    row.offset = reg.offset;
    row.width = reg.width;
    row.widthBits = counter.widthBits;
    counters.push_back(row);
    ++device.counters.count;
  }
  device.fingerprints = {uint32_t(fingerprints.size()), uint32_t(description.fingerprint.size())};
  for (const FingerprintEntry &entry : description.fingerprint) {
    const RegisterDescription &reg = description.registers[entry.reg];
    fingerprints.push_back({reg.offset, spaceOf(reg.space), reg.width});
  }
}

Error Compiler::add(const CaptureSource &source) {
  if (devices.size() == maxDevices)
    return failUsage("too-many-devices",
                     "a recording has at most " + std::to_string(maxDevices) + " devices");
  capture::Device device = {};
  device.handOver = HandOver::AnyWrite; // Without a description nobody can tell.
  if (source.alias.empty() || !copyText(device.alias, source.alias))
    return failUsage("bad-alias", "the device's alias '" + source.alias + "' is empty or has more than " +
                                      std::to_string(nameBytes - 1) + " bytes");
  if (!copyText(device.uri, source.uri))
    return failUsage("bad-target",
                     "the target's name is longer than " + std::to_string(uriBytes - 1) + " bytes",
                     source.alias);
  for (const capture::Device &other : devices)
    if (source.alias == other.alias)
      return failUsage("bad-alias", "two devices have the alias '" + source.alias + "'", {},
                       "name them apart: --target ALIAS=URI");
  if (source.description) {
    for (const std::string &space : source.description->spaces)
      if (space.size() >= nameBytes)
        return failUsage("description-too-large", "the name of space '" + space + "' is too long",
                         source.alias);
    addRegisters(*source.description, device);
    addActivities(*source.description, device);
    addQueues(*source.description, device);
    addHandOver(*source.description, device);
    addReadings(*source.description, device);
  }
  devices.push_back(device);
  return Error::success();
}

std::vector<uint8_t> Compiler::finish(const EvidenceOptions &evidence) const {
  std::vector<uint8_t> bytes(sizeof(Table));
  auto put = [&](const auto &rows) {
    Section section{uint32_t(bytes.size()), uint32_t(rows.size())};
    size_t rowBytes = rows.size() * sizeof(rows[0]);
    bytes.resize((bytes.size() + rowBytes + 7) & ~size_t(7));
    if (rowBytes)
      std::memcpy(bytes.data() + section.offset, rows.data(), rowBytes);
    return section;
  };
  Table table = {};
  table.version = capture::version;
  table.devices = put(devices);
  table.spaces = put(spaces);
  table.registers = put(registers);
  table.conditions = put(conditions);
  table.activities = put(activities);
  table.transfers = put(transfers);
  table.counters = put(counters);
  table.fingerprints = put(fingerprints);
  table.roles = put(roles);
  table.queues = put(queues);
  table.layouts = put(layouts);
  table.forms = put(forms);
  table.entryTransfers = put(entryTransfers);
  table.rings = put(rings);
  table.contentCounters = put(contentCounters);
  table.evidence =
      (evidence.atMarkers ? uint32_t(AtMarkers) : 0) | (evidence.atFences ? uint32_t(AtFences) : 0);
  table.evidencePeriodNs = evidence.periodNs;
  table.bytes = uint32_t(bytes.size());
  std::memcpy(bytes.data(), &table, sizeof(table));
  return bytes;
}

} // namespace

Expected<std::vector<uint8_t>> compileCaptureTable(ArrayRef<CaptureSource> sources,
                                                   const EvidenceOptions &evidence) {
  Compiler compiler;
  size_t estimate = 0;
  for (const CaptureSource &source : sources) {
    if (source.description) {
      // Checked before anything is built: a row is at most 200 bytes.
      estimate += source.description->registers.size() + source.description->counters.size() +
                  source.description->fingerprint.size();
      for (const ActivityDescription &activity : source.description->activities)
        estimate += 2 + activity.done.size() + activity.transfers.size();
      estimate += source.description->idle.size() + source.description->resets.size() +
                  source.description->handOver.size();
      for (const QueueDescription &queue : source.description->queues)
        estimate += 7 + queue.rewind.size();
      estimate += 8 * source.description->completionQueues.size();
      for (const LayoutDescription &layout : source.description->layouts)
        for (const EntryForm &form : layout.forms)
          estimate += 2 + form.transfers.size();
    }
    if (estimate > ring::maxTableBytes / 200)
      return failUsage("description-too-large",
                       "the descriptions are too large to be followed while recording", source.alias);
    if (Error error = compiler.add(source))
      return error;
  }
  return compiler.finish(evidence);
}

} // namespace tapeback
