/* The events of LttngEvents.h, and a loop that emits them. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "tests/bench/LttngEvents.h"

int lttngEnabled(void);
void lttngEmit(uint64_t count);

int lttngEnabled(void) {
  return lttng_ust_tracepoint_enabled(tapeback_bench, access) != 0;
}

void lttngEmit(uint64_t count) {
  for (uint64_t i = 0; i < count; ++i)
    lttng_ust_tracepoint(tapeback_bench, access, 1, 4 * (i % 16), i);
}
