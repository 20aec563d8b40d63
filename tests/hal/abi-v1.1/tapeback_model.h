/* The C ABI of model plugins: how a reference model or wrapped RTL becomes a target
 * ("model:PATH?option=value").
 *
 * A plugin is a shared library that exports one function, tapeback_model_entry. It is loaded (RTLD_LOCAL)
 * into a child process of its own, one process per opened target, so a plugin may crash, loop or leak without
 * hurting anybody; each call is bounded by the target's timeout, after which the process is killed and the
 * target is dead.
 *
 * Threads: all calls come from one thread. The plugin may have threads of its own, but must call back only
 * from within a call and on the calling thread, and must not have threads running when `snapshot` is called
 * if it wants fork snapshots (TAPEBACK_MODEL_CAP_FORK_SAFE).
 *
 * Time: a model's clock advances only inside calls: by a defined amount per access, and by `advance`.
 *
 * Ownership: strings and tables that the plugin returns stay valid until `destroy`; what the host passes in
 * is valid during the call only.
 *
 * Errors: functions return 0 or a negative tapeback_model_status; `last_error` has the text.
 *
 * Versions: TAPEBACK_MODEL_ABI_MAJOR changes when something breaks; otherwise structs grow at the end and
 * `struct_size` says how far the other side knows them. A host accepts every plugin of its major version,
 * whatever its size.
 */
#ifndef TAPEBACK_MODEL_H
#define TAPEBACK_MODEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TAPEBACK_MODEL_ABI_MAJOR 1
#define TAPEBACK_MODEL_ABI_MINOR 1

typedef enum tapeback_model_status {
  TAPEBACK_MODEL_OK = 0,
  TAPEBACK_MODEL_E_USAGE = -1, /* Unknown space, option, width or range. */
  TAPEBACK_MODEL_E_BUS = -2,   /* The access failed on the bus (the device answered with an error). */
  TAPEBACK_MODEL_E_UNSUPPORTED = -3,
  TAPEBACK_MODEL_E_NO_MEMORY = -4,
  TAPEBACK_MODEL_E_INTERNAL = -5
} tapeback_model_status;

#define TAPEBACK_MODEL_CAP_MEMORY (1u << 0) /* Uses the host-memory callbacks. */
#define TAPEBACK_MODEL_CAP_INTERRUPTS (1u << 1)
#define TAPEBACK_MODEL_CAP_SNAPSHOT (1u << 2)  /* snapshot_size/save/load work. */
#define TAPEBACK_MODEL_CAP_FORK_SAFE (1u << 3) /* The process may be forked as a snapshot. */
#define TAPEBACK_MODEL_CAP_DEVICE_TIME (1u << 4)
#define TAPEBACK_MODEL_CAP_COUNTERS (1u << 5)
#define TAPEBACK_MODEL_CAP_PEEK (1u << 6)  /* peek has no side effect and costs no model time. */
#define TAPEBACK_MODEL_CAP_TRACE (1u << 7) /* trace_begin/trace_end write a waveform or log. */
/* Since 1.1: peek_register has no side effect and costs no model time. */
#define TAPEBACK_MODEL_CAP_PEEK_REGISTERS (1u << 8)

/* What the host gives the model. All callbacks return 0 or a negative status and may be called only from
 * within a model call. DMA addresses are IOVAs; a range that is not wholly mapped gives TAPEBACK_MODEL_E_BUS
 * and moves nothing. */
typedef struct tapeback_model_host {
  uint32_t struct_size;
  uint32_t abi_minor;
  void *host; /* Passed to each callback. */
  int (*dma_read)(void *host, uint64_t iova, void *out, uint64_t size);
  int (*dma_write)(void *host, uint64_t iova, const void *in, uint64_t size);
  int (*interrupt)(void *host, uint32_t vector);        /* Edge: one message. */
  void (*log)(void *host, int level, const char *text); /* 0 error, 1 warning, 2 information, 3 debug. */
} tapeback_model_host;

typedef struct tapeback_model_option {
  const char *key;
  const char *value;
} tapeback_model_option;

typedef struct tapeback_model_space {
  const char *name; /* As in the device description: "bar0". */
  uint64_t size;
} tapeback_model_space;

typedef struct tapeback_model_fact {
  const char *key; /* "vendor", "device", "version" … */
  const char *value;
} tapeback_model_fact;

typedef struct tapeback_model_window {
  const char *name; /* An internal window of the device description, for peek. */
  uint64_t size;
} tapeback_model_window;

typedef struct tapeback_model {
  uint32_t struct_size;
  uint16_t abi_major, abi_minor;
  uint32_t capabilities; /* TAPEBACK_MODEL_CAP_* */
  uint32_t interrupt_vectors;
  const char *name;
  const tapeback_model_fact *facts;
  uint32_t fact_count;
  uint32_t space_count;
  const tapeback_model_space *spaces;
  const tapeback_model_window *windows;
  uint32_t window_count;
  uint32_t counter_count;

  /* An instance. Unknown options are refused with TAPEBACK_MODEL_E_USAGE and a message (NUL-terminated, at
   * most `size` bytes) in `error`. No globals: two instances do not see each other. */
  int (*create)(const tapeback_model_host *host, const tapeback_model_option *options, uint32_t option_count,
                void **instance, char *error, size_t size);
  void (*destroy)(void *instance);
  const char *(*last_error)(void *instance);

  int (*reset)(void *instance, uint32_t kind); /* 0 default, 1 function, 2 bus, 3 power. */
  int (*read)(void *instance, uint32_t space, uint64_t address, uint32_t width, uint64_t *value);
  int (*write)(void *instance, uint32_t space, uint64_t address, uint32_t width, uint64_t value);
  /* Lets at most `budget_ns` of model time pass; returns early when an interrupt was raised or nothing more
   * can happen by itself. *advanced_ns says how much passed. Must return in bounded real time for any budget.
   */
  int (*advance)(void *instance, uint64_t budget_ns, uint64_t *advanced_ns);
  /* The clock and counters change only in calls that let something happen (read, write, advance, reset,
   * snapshot_load); asking has no side effect, and the host asks whenever it likes. */
  int (*device_time)(void *instance, uint64_t *nanoseconds);
  int (*counter)(void *instance, uint32_t id, uint64_t *value);
  int (*peek)(void *instance, uint32_t window, uint64_t offset, void *out, uint64_t size);

  /* Everything that decides the future, except host memory. `save` fills exactly snapshot_size bytes. */
  int (*snapshot_size)(void *instance, uint64_t *size);
  int (*snapshot_save)(void *instance, void *out, uint64_t size);
  int (*snapshot_load)(void *instance, const void *in, uint64_t size);

  /* Waveform or log of what follows, to `path`; NULL if CAP_TRACE is not set. */
  int (*trace_begin)(void *instance, const char *path);
  int (*trace_end)(void *instance);

  /* Since 1.1: what a register holds now, which is what a read would give once the device is at rest. For
   * registers whose read does something TAPEBACK_MODEL_E_USAGE is an answer; NULL without
   * CAP_PEEK_REGISTERS. */
  int (*peek_register)(void *instance, uint32_t space, uint64_t address, uint32_t width, uint64_t *value);
} tapeback_model;

/* Returns the plugin's table, or NULL if it cannot serve this major version. Must not do anything else. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const tapeback_model *
tapeback_model_entry(uint32_t host_abi_major);

#ifdef __cplusplus
}
#endif
#endif
