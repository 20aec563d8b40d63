/* The in-process target library: how libtapeback.so, which has no LLVM and no C++ runtime, drives a target.
 *
 * libtapeback-backend.so holds all targets and what they need, hidden; it exports tapeback_backend_entry,
 * which returns this table. It is loaded RTLD_LOCAL by the client library of the same version and by nothing
 * else.
 *
 * Threads: calls on one target must not overlap; different targets are independent. Which thread calls does
 * not matter: a target outlives the thread that opened it. A thread of the library's own takes no signals and
 * does not keep the process alive (hal/HelperThread.h). Errors: functions return
 * 0, or a negative tapeback_backend_status with the text in *failure (never null). Exceptions never cross.
 * Strings returned stay valid until `close`.
 */
#ifndef TAPEBACK_BACKEND_H
#define TAPEBACK_BACKEND_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TAPEBACK_BACKEND_ABI 2

typedef enum tapeback_backend_status {
  TAPEBACK_BACKEND_OK = 0,
  TAPEBACK_BACKEND_E_USAGE = -1, /* A bad request: space, width, range, URI. */
  TAPEBACK_BACKEND_E_TARGET = -2,
  TAPEBACK_BACKEND_E_UNSUPPORTED = -3,
  TAPEBACK_BACKEND_E_NO_MEMORY = -4
} tapeback_backend_status;

#define TAPEBACK_BACKEND_CAP_MEMORY (1u << 0)
#define TAPEBACK_BACKEND_CAP_INTERRUPTS (1u << 1)
#define TAPEBACK_BACKEND_CAP_RESET (1u << 2)
#define TAPEBACK_BACKEND_CAP_COUNTERS (1u << 3)
#define TAPEBACK_BACKEND_CAP_DEVICE_TIME (1u << 4) /* Time passes only inside calls. */

typedef struct tapeback_backend_failure {
  char code[64];
  char message[1024];
} tapeback_backend_failure;

typedef struct tapeback_backend_target tapeback_backend_target;

typedef struct tapeback_backend_region {
  uint64_t iova, size;
  void *host; /* NULL: use read_memory and write_memory. */
} tapeback_backend_region;

typedef struct tapeback_backend_counter {
  uint32_t id;    /* In the description. */
  uint32_t space; /* Of its register, for targets without CAP_COUNTERS. */
  uint64_t offset;
  uint32_t width, width_bits;
} tapeback_backend_counter;

typedef struct tapeback_backend {
  uint32_t struct_size;
  uint32_t abi;

  int (*open)(const char *uri, tapeback_backend_target **target, tapeback_backend_failure *failure);
  void (*close)(tapeback_backend_target *target);

  uint32_t (*capabilities)(tapeback_backend_target *target); /* TAPEBACK_BACKEND_CAP_* */
  uint32_t (*space_count)(tapeback_backend_target *target);
  const char *(*space)(tapeback_backend_target *target, uint32_t index, uint64_t *size);
  /* Identity: "kind", "name", then the facts that are known. Fact `index` or NULL after the last. */
  const char *(*identity)(tapeback_backend_target *target, uint32_t index, const char **value);

  int (*read)(tapeback_backend_target *target, uint32_t space, uint64_t offset, uint32_t width,
              uint64_t *value, tapeback_backend_failure *failure);
  int (*write)(tapeback_backend_target *target, uint32_t space, uint64_t offset, uint32_t width,
               uint64_t value, tapeback_backend_failure *failure);
  int (*flush)(tapeback_backend_target *target, tapeback_backend_failure *failure);

  int (*map)(tapeback_backend_target *target, uint64_t size, uint64_t alignment,
             tapeback_backend_region *region, tapeback_backend_failure *failure);
  int (*unmap)(tapeback_backend_target *target, uint64_t iova, tapeback_backend_failure *failure);
  int (*read_memory)(tapeback_backend_target *target, uint64_t iova, void *out, uint64_t size,
                     tapeback_backend_failure *failure);
  int (*write_memory)(tapeback_backend_target *target, uint64_t iova, const void *in, uint64_t size,
                      tapeback_backend_failure *failure);

  /* *count is 0 if the deadline passed. */
  int (*wait_interrupt)(tapeback_backend_target *target, uint32_t vector, uint64_t deadline_ns,
                        uint64_t *count, tapeback_backend_failure *failure);
  int (*advance)(tapeback_backend_target *target, uint64_t nanoseconds, tapeback_backend_failure *failure);
  int (*reset)(tapeback_backend_target *target, uint32_t kind, tapeback_backend_failure *failure);
  /* `count` counters, read as close together as the target can. */
  int (*counters)(tapeback_backend_target *target, const uint32_t *ids, uint64_t *values, uint32_t count,
                  tapeback_backend_failure *failure);
  /* A counter by name, from the description `description` (a name or path; NULL: the target's own name). */
  int (*find_counter)(tapeback_backend_target *target, const char *description, const char *name,
                      tapeback_backend_counter *counter, tapeback_backend_failure *failure);
  /* Of the device's own clock, in nanoseconds. */
  int (*device_time)(tapeback_backend_target *target, uint64_t *value, tapeback_backend_failure *failure);
} tapeback_backend;

/* The table, or NULL if `abi` is not this library's. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const tapeback_backend *
tapeback_backend_entry(uint32_t abi);

#ifdef __cplusplus
}
#endif
#endif
