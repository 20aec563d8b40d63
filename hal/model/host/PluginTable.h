// Loads a plugin and checks its table against the ABI, before anything of it is called.
#pragma once

#include "hal/model/tapeback_model.h"
#include <cstddef>
#include <cstdint>

namespace tapeback::modelhost {

/// A checked copy of the plugin's table: functions it does not know are null, all counts and strings are
/// bounded, every function that a claimed capability needs is there.
struct PluginTable {
  tapeback_model model;
};

/// 0, or a HostStatus with one sentence in `error`. The library stays loaded for the process's life.
int32_t loadPlugin(const char *path, PluginTable *table, char *error, size_t errorSize);

/// Length of a string of the plugin: at most maxNameBytes, or SIZE_MAX if it is null or not terminated by
/// then.
size_t pluginStringLength(const char *text);

} // namespace tapeback::modelhost
