#include "recorder/ring/CaptureTable.h"

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
        !rangeFits(registers[i].done, table->conditions))
      return false;
  const Condition *conditions = elements<Condition>(table, table->conditions);
  for (uint32_t i = 0; i < table->conditions.count; ++i)
    if (conditions[i].activity >= table->activities.count)
      return false;
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
        transfers[i].count >= table->registers.count)
      return false;
  return true;
}

static bool validDevices(const Table *table) {
  const Device *devices = elements<Device>(table, table->devices);
  for (uint32_t i = 0; i < table->devices.count; ++i) {
    const Device &device = devices[i];
    if (!textEnds(device.alias, nameBytes) || !textEnds(device.uri, uriBytes) ||
        !rangeFits(device.registers, table->registers) || !rangeFits(device.activities, table->activities) ||
        !rangeFits(device.counters, table->counters) || !rangeFits(device.fingerprints, table->fingerprints))
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
      !sectionFits<Counter>(table->counters, bytes) || !sectionFits<Fingerprint>(table->fingerprints, bytes))
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
  return validRegisters(table) && validActivities(table) && validDevices(table);
}

} // namespace tapeback::capture
