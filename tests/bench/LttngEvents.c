/* The events of LttngEvents.h, and loops that emit them. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "tests/bench/LttngEvents.h"

int lttngEnabled(void);
void lttngEmit(uint64_t count);
void lttngMark(uint64_t count, const char *name);

int lttngEnabled(void) {
  return lttng_ust_tracepoint_enabled(tapeback_bench, access) != 0 &&
         lttng_ust_tracepoint_enabled(tapeback_bench, mark) != 0;
}

void lttngEmit(uint64_t count) {
  for (uint64_t i = 0; i < count; ++i)
    lttng_ust_tracepoint(tapeback_bench, access, 1, 4 * (i % 16), i);
}

void lttngMark(uint64_t count, const char *name) {
  for (uint64_t i = 0; i < count; ++i)
    lttng_ust_tracepoint(tapeback_bench, mark, name);
}
