/* LTTng-UST's events for the comparison in LttngBench.cpp: the 24 bytes of a register access, and a name. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER tapeback_bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "tests/bench/LttngEvents.h"

#if !defined(TAPEBACK_LTTNG_EVENTS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define TAPEBACK_LTTNG_EVENTS_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(tapeback_bench, access,
                           LTTNG_UST_TP_ARGS(uint64_t, kind, uint64_t, address, uint64_t, value),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, kind, kind)
                                                   lttng_ust_field_integer(uint64_t, address, address)
                                                       lttng_ust_field_integer(uint64_t, value, value)))

LTTNG_UST_TRACEPOINT_EVENT(tapeback_bench, mark, LTTNG_UST_TP_ARGS(const char *, name),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_string(name, name)))

#endif
#include <lttng/tracepoint-event.h>
