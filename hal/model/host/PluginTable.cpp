#include "hal/model/host/PluginTable.h"
#include "hal/model/HostProtocol.h"
#include <cstdarg>
#include <cstdio>
#include <dlfcn.h>

namespace tapeback::modelhost {
namespace {

/// Where version 1.0's table ends. A plugin's may be longer (newer) but never shorter.
constexpr size_t firstTableSize = offsetof(tapeback_model, trace_end) + sizeof(void *);
static_assert(sizeof(void *) != 8 || firstTableSize == 184,
              "version 1.0 is frozen: only add behind trace_end");
/// More than any version can need: a `struct_size` beyond it is garbage.
constexpr size_t absurdTableSize = 1u << 16;

struct Refusal {
  char *error;
  size_t size;

  __attribute__((format(printf, 2, 3))) bool operator()(const char *format, ...) const {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error, size, format, arguments);
    va_end(arguments);
    return false;
  }
};

bool checkName(const Refusal &refuse, const char *text, const char *what, uint32_t index) {
  size_t length = pluginStringLength(text);
  if (length == SIZE_MAX)
    return refuse("%s %u is null or longer than %zu bytes", what, index, maxNameBytes);
  if (length == 0)
    return refuse("%s %u is empty", what, index);
  return true;
}

bool checkCount(const Refusal &refuse, uint32_t count, uint32_t most, const void *table, const char *what) {
  if (count > most)
    return refuse("it claims %u %s; at most %u make sense", count, what, most);
  if (count && !table)
    return refuse("it claims %u %s but its table of them is null", count, what);
  return true;
}

bool checkTables(const Refusal &refuse, const tapeback_model &model) {
  if (pluginStringLength(model.name) == SIZE_MAX || !*model.name)
    return refuse("its name is null, empty or longer than %zu bytes", maxNameBytes);
  if (!checkCount(refuse, model.fact_count, maxFacts, model.facts, "facts") ||
      !checkCount(refuse, model.space_count, maxSpaces, model.spaces, "register spaces") ||
      !checkCount(refuse, model.window_count, maxWindows, model.windows, "internal windows"))
    return false;
  if (model.interrupt_vectors > maxVectors)
    return refuse("it claims %u interrupt vectors; at most %u make sense", model.interrupt_vectors,
                  maxVectors);
  if (model.counter_count > maxCounters)
    return refuse("it claims %u counters; at most %u make sense", model.counter_count, maxCounters);
  for (uint32_t i = 0; i < model.fact_count; ++i) {
    if (!checkName(refuse, model.facts[i].key, "the key of fact", i))
      return false;
    if (pluginStringLength(model.facts[i].value) == SIZE_MAX)
      return refuse("the value of fact %u is null or longer than %zu bytes", i, maxNameBytes);
  }
  for (uint32_t i = 0; i < model.space_count; ++i)
    if (!checkName(refuse, model.spaces[i].name, "the name of register space", i))
      return false;
  for (uint32_t i = 0; i < model.window_count; ++i)
    if (!checkName(refuse, model.windows[i].name, "the name of internal window", i))
      return false;
  return true;
}

bool checkFunctions(const Refusal &refuse, const tapeback_model &model) {
  struct Need {
    uint32_t capability; ///< 0: always needed.
    const char *name;
    bool present;
  };
  const Need needs[] = {
      {0, "create", model.create != nullptr},
      {0, "destroy", model.destroy != nullptr},
      {0, "last_error", model.last_error != nullptr},
      {0, "reset", model.reset != nullptr},
      {0, "read", model.read != nullptr},
      {0, "write", model.write != nullptr},
      {0, "advance", model.advance != nullptr},
      {TAPEBACK_MODEL_CAP_DEVICE_TIME, "device_time", model.device_time != nullptr},
      {TAPEBACK_MODEL_CAP_COUNTERS, "counter", model.counter != nullptr},
      {TAPEBACK_MODEL_CAP_PEEK, "peek", model.peek != nullptr},
      {TAPEBACK_MODEL_CAP_SNAPSHOT, "snapshot_size", model.snapshot_size != nullptr},
      {TAPEBACK_MODEL_CAP_SNAPSHOT, "snapshot_save", model.snapshot_save != nullptr},
      {TAPEBACK_MODEL_CAP_SNAPSHOT, "snapshot_load", model.snapshot_load != nullptr},
      {TAPEBACK_MODEL_CAP_TRACE, "trace_begin", model.trace_begin != nullptr},
      {TAPEBACK_MODEL_CAP_TRACE, "trace_end", model.trace_end != nullptr},
      {TAPEBACK_MODEL_CAP_PEEK_REGISTERS, "peek_register", model.peek_register != nullptr},
  };
  for (const Need &need : needs) {
    if (need.present)
      continue;
    if (need.capability == 0)
      return refuse("its function '%s', which every model must have, is null", need.name);
    if (model.capabilities & need.capability)
      return refuse("its function '%s' is null, but its capabilities promise it", need.name);
  }
  return true;
}

} // namespace

size_t pluginStringLength(const char *text) {
  if (!text)
    return SIZE_MAX;
  size_t length = strnlen(text, maxNameBytes + 1);
  return length > maxNameBytes ? SIZE_MAX : length;
}

int32_t loadPlugin(const char *path, PluginTable *table, char *error, size_t errorSize) {
  Refusal refuse{error, errorSize};
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    refuse("it cannot be loaded: %s", dlerror());
    return HostLoadFailed;
  }
  using Entry = const tapeback_model *(*)(uint32_t);
  auto entry = reinterpret_cast<Entry>(dlsym(library, "tapeback_model_entry"));
  if (!entry) {
    refuse("it has no function tapeback_model_entry, so it is not a model plugin");
    return HostNoEntry;
  }
  const tapeback_model *theirs = entry(TAPEBACK_MODEL_ABI_MAJOR);
  if (!theirs) {
    refuse("it does not serve version %d of the model ABI", TAPEBACK_MODEL_ABI_MAJOR);
    return HostAbiVersion;
  }
  // The major version is looked at first: the rest of the table means something only if it is ours.
  if (theirs->abi_major != TAPEBACK_MODEL_ABI_MAJOR) {
    refuse("it is of version %u.%u of the model ABI, this is version %d", theirs->abi_major,
           theirs->abi_minor, TAPEBACK_MODEL_ABI_MAJOR);
    return HostAbiVersion;
  }
  size_t size = theirs->struct_size;
  if (size < firstTableSize || size > absurdTableSize) {
    refuse("its table says it has %zu bytes; version %d.0 has %zu", size, TAPEBACK_MODEL_ABI_MAJOR,
           firstTableSize);
    return HostAbiInvalid;
  }
  table->model = {};
  memcpy(&table->model, theirs, size < sizeof(tapeback_model) ? size : sizeof(tapeback_model));
  if (!checkTables(refuse, table->model) || !checkFunctions(refuse, table->model))
    return HostAbiInvalid;
  return 0;
}

} // namespace tapeback::modelhost
