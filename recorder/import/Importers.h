// The importers, one file each; only the table includes this.
#pragma once

#include "recorder/import/Importer.h"

namespace tapeback {

extern const ImporterKind qtestKind, mmiotraceKind, vfioTraceKind, nvdlaTxnKind, nvdlaCfgKind, maliLogKind,
    nvmeTraceKind, vcdKind;

} // namespace tapeback
