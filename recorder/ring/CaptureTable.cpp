#include "recorder/ring/CaptureTable.h"
#include <initializer_list>

namespace tapeback::capture {

template <typename T>
static bool sectionFits(Section section, uint64_t bytes) {
  return section.offset % 8 == 0 && section.offset <= bytes &&
         section.count <= (bytes - section.offset) / sizeof(T);
}
static bool rangeFits(Range range, Section section) {
  return range.first <= section.count && range.count <= section.count - range.first;
}
static bool textEnds(const char *text, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i)
    if (!text[i])
      return true;
  return false;
}
static bool validWidth(uint32_t width) {
  return width == 1 || width == 2 || width == 4 || width == 8;
}

static bool validRegisters(const Table *table) {
  const Register *registers = elements<Register>(table, table->registers);
  for (uint32_t i = 0; i < table->registers.count; ++i)
    if (registers[i].space >= table->spaces.count || !validWidth(registers[i].width) ||
        !rangeFits(registers[i].starts, table->conditions) ||
        !rangeFits(registers[i].done, table->conditions) ||
        !rangeFits(registers[i].idle, table->conditions) ||
        !rangeFits(registers[i].resets, table->conditions) ||
        !rangeFits(registers[i].handsOver, table->conditions) || !rangeFits(registers[i].roles, table->roles))
      return false;
  const Condition *conditions = elements<Condition>(table, table->conditions);
  for (uint32_t i = 0; i < table->conditions.count; ++i)
    if (conditions[i].activity != none && conditions[i].activity >= table->activities.count)
      return false;
  const Role *roles = elements<Role>(table, table->roles);
  for (uint32_t i = 0; i < table->roles.count; ++i)
    if (roles[i].kind > Role::CompletionDoorbell ||
        roles[i].queue >= (roles[i].kind == Role::CompletionDoorbell || roles[i].kind == Role::Config
                               ? table->queues.count + table->rings.count
                               : table->queues.count) ||
        (roles[i].kind == Role::CompletionDoorbell && roles[i].queue >= table->rings.count))
      return false;
  return true;
}

static bool validField(const Field &field, uint32_t entryBytes) {
  if (!field.present())
    return true;
  return validWidth(field.width) && field.offset <= entryBytes && field.width <= entryBytes - field.offset &&
         field.low < 8 * field.width && field.bits >= 1 && field.bits <= 8 * field.width - field.low;
}

/// Forms belong to one layout and transfers to one form, in order: the checks cost no more than the table is
/// long.
static bool validForm(const Table *table, const Form &form, uint32_t entryBytes, uint32_t &nextTransfer) {
  if (form.transfers.first != nextTransfer || !rangeFits(form.transfers, table->entryTransfers) ||
      !validField(form.fenceAddress, entryBytes) || !validField(form.fenceValue, entryBytes) ||
      !validField(form.chain, entryBytes) || !validField(form.last.field, entryBytes) ||
      form.fenceAddress.present() != form.fenceValue.present() ||
      !validField(form.createsNumber, entryBytes) || !validField(form.createsBase, entryBytes) ||
      !validField(form.createsSize, entryBytes) || !validField(form.deletesNumber, entryBytes) ||
      form.createsNumber.present() != form.createsBase.present() ||
      form.createsNumber.present() != form.createsSize.present() ||
      (form.chain.present() && form.chainLayout >= table->layouts.count))
    return false;
  nextTransfer += form.transfers.count;
  const EntryTransfer *transfers =
      elements<EntryTransfer>(table, table->entryTransfers) + form.transfers.first;
  for (uint32_t i = 0; i < form.transfers.count; ++i) {
    const EntryTransfer &transfer = transfers[i];
    for (const Field *field :
         {&transfer.when.field, &transfer.host, &transfer.rowBytes, &transfer.rows, &transfer.hostStride,
          &transfer.deviceAddress, &transfer.deviceStride, &transfer.second})
      if (!validField(*field, entryBytes))
        return false;
    uint32_t page = transfer.pageBytes;
    if (!transfer.host.present() || (transfer.content != none && transfer.content >= table->layouts.count) ||
        (transfer.second.present() ? page < 16 || page > maxPageBytes || (page & (page - 1)) : page != 0))
      return false;
  }
  return true;
}

static bool validPlace(const Table *table, const Place &place) {
  for (uint32_t reg : {place.base, place.baseHigh, place.size})
    if (reg != none && reg >= table->registers.count)
      return false;
  return (place.base == none) == (place.size == none) && (place.base != none || place.baseHigh == none) &&
         place.sizeLow < 64 && place.sizeBits >= 1 && place.sizeBits <= 64;
}

static bool validRings(const Table *table) {
  const Completions *rings = elements<Completions>(table, table->rings);
  for (uint32_t i = 0; i < table->rings.count; ++i) {
    const Completions &ring = rings[i];
    if (!validPlace(table, ring.place) || ring.doorbell >= table->registers.count || ring.bytes == 0 ||
        ring.bytes > maxEntryBytes)
      return false;
    for (const Field *field : {&ring.queue, &ring.tag, &ring.phase, &ring.success.field})
      if (!validField(*field, ring.bytes))
        return false;
    if (!ring.queue.present() || !ring.tag.present() || !ring.phase.present())
      return false;
  }
  const Layout *layouts = elements<Layout>(table, table->layouts);
  const ContentCounter *counters = elements<ContentCounter>(table, table->contentCounters);
  for (uint32_t i = 0; i < table->contentCounters.count; ++i)
    if (counters[i].layout >= table->layouts.count || !counters[i].field.present() ||
        !validField(counters[i].field, layouts[counters[i].layout].size))
      return false;
  return true;
}

static bool validQueues(const Table *table) {
  const Layout *layouts = elements<Layout>(table, table->layouts);
  const Form *forms = elements<Form>(table, table->forms);
  uint32_t next = 0, nextTransfer = 0;
  for (uint32_t i = 0; i < table->layouts.count; ++i) {
    const Layout &layout = layouts[i];
    if (layout.size == 0 || layout.size > maxEntryBytes || !validField(layout.opcode, layout.size) ||
        !validField(layout.tag, layout.size) || layout.forms.first != next ||
        !rangeFits(layout.forms, table->forms))
      return false;
    next += layout.forms.count;
    for (uint32_t f = 0; f < layout.forms.count; ++f)
      if (!validForm(table, forms[layout.forms.first + f], layout.size, nextTransfer))
        return false;
  }
  const Queue *queues = elements<Queue>(table, table->queues);
  for (uint32_t i = 0; i < table->queues.count; ++i) {
    const Queue &queue = queues[i];
    if (!validPlace(table, queue.place) || queue.doorbell >= table->registers.count)
      return false;
    for (uint32_t reg : {queue.head, queue.done})
      if (reg != none && reg >= table->registers.count)
        return false;
    if (queue.layout >= table->layouts.count)
      return false;
  }
  return true;
}

static bool validActivities(const Table *table) {
  const Activity *activities = elements<Activity>(table, table->activities);
  for (uint32_t i = 0; i < table->activities.count; ++i)
    if (!rangeFits(activities[i].transfers, table->transfers))
      return false;
  const Transfer *transfers = elements<Transfer>(table, table->transfers);
  for (uint32_t i = 0; i < table->transfers.count; ++i)
    if (transfers[i].host >= table->registers.count || transfers[i].deviceSide >= table->registers.count ||
        transfers[i].count >= table->registers.count ||
        (transfers[i].hostHigh != none && transfers[i].hostHigh >= table->registers.count))
      return false;
  return true;
}

static bool validDevices(const Table *table) {
  const Device *devices = elements<Device>(table, table->devices);
  for (uint32_t i = 0; i < table->devices.count; ++i) {
    const Device &device = devices[i];
    if (!textEnds(device.alias, nameBytes) || !textEnds(device.uri, uriBytes) ||
        !rangeFits(device.registers, table->registers) || !rangeFits(device.activities, table->activities) ||
        !rangeFits(device.counters, table->counters) ||
        !rangeFits(device.fingerprints, table->fingerprints) || !rangeFits(device.queues, table->queues) ||
        !rangeFits(device.rings, table->rings) ||
        !rangeFits(device.contentCounters, table->contentCounters) || device.handOver > HandOver::AnyWrite)
      return false;
  }
  return true;
}

bool validTable(const Table *table, uint64_t bytes) {
  if (bytes < sizeof(Table) || table->version != version || table->bytes > bytes ||
      table->bytes < sizeof(Table))
    return false;
  bytes = table->bytes;
  if (!sectionFits<Device>(table->devices, bytes) || !sectionFits<Name>(table->spaces, bytes) ||
      !sectionFits<Register>(table->registers, bytes) || !sectionFits<Condition>(table->conditions, bytes) ||
      !sectionFits<Activity>(table->activities, bytes) || !sectionFits<Transfer>(table->transfers, bytes) ||
      !sectionFits<Counter>(table->counters, bytes) ||
      !sectionFits<Fingerprint>(table->fingerprints, bytes) || !sectionFits<Role>(table->roles, bytes) ||
      !sectionFits<Queue>(table->queues, bytes) || !sectionFits<Layout>(table->layouts, bytes) ||
      !sectionFits<Form>(table->forms, bytes) || !sectionFits<EntryTransfer>(table->entryTransfers, bytes) ||
      !sectionFits<Completions>(table->rings, bytes) ||
      !sectionFits<ContentCounter>(table->contentCounters, bytes))
    return false;
  if (table->devices.count == 0 || table->devices.count > maxDevices)
    return false;
  const Name *spaces = elements<Name>(table, table->spaces);
  for (uint32_t i = 0; i < table->spaces.count; ++i)
    if (!textEnds(spaces[i].text, nameBytes))
      return false;
  const Counter *counters = elements<Counter>(table, table->counters);
  for (uint32_t i = 0; i < table->counters.count; ++i)
    if (!textEnds(counters[i].name, nameBytes) || counters[i].space >= table->spaces.count ||
        !validWidth(counters[i].width))
      return false;
  const Fingerprint *fingerprints = elements<Fingerprint>(table, table->fingerprints);
  for (uint32_t i = 0; i < table->fingerprints.count; ++i)
    if (fingerprints[i].space >= table->spaces.count || !validWidth(fingerprints[i].width))
      return false;
  return validRegisters(table) && validActivities(table) && validQueues(table) && validRings(table) &&
         validDevices(table);
}

} // namespace tapeback::capture
