/* Tapeback's C API: what a program under test uses to drive a device so that it can be recorded and replayed.
 *
 * The program chooses nothing: which target, whether to record, where to: all that comes from the command
 * (`tapeback record --target URI -o FILE -- program …`) or, without recording, from the environment variable
 * TAPEBACK_TARGET. The same program runs both ways.
 *
 * Plain C99. Links to libtapeback.so, which needs libc only and exports tb_* only.
 * Threads: every function may be called from any thread; a tb_device may be shared. Operations of different
 * threads that overlap in time are recorded as concurrent. Fork: a child of fork() must not use devices
 * opened before; its calls fail with TB_E_FORKED and are not recorded. Errors: functions return 0 or a
 * negative tb_status; tb_error() has the text. Times are in nanoseconds. Memory: every pointer passed in is
 * used during the call only.
 */
#ifndef TAPEBACK_H
#define TAPEBACK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TB_API __attribute__((visibility("default")))
#define TB_MUST_USE __attribute__((warn_unused_result))
#else
#define TB_API
#define TB_MUST_USE
#endif

typedef struct tb_device tb_device;

typedef enum tb_status {
  TB_OK = 0,
  TB_E_USAGE = -1,       /* Bad argument: null, width, unknown space, unmapped memory. */
  TB_E_TARGET = -2,      /* The target failed, hung or died. */
  TB_E_TIMEOUT = -3,     /* The deadline of a poll or wait passed. */
  TB_E_NO_TARGET = -4,   /* No target was named by command or environment. */
  TB_E_UNSUPPORTED = -5, /* This target cannot do that. */
  TB_E_FORKED = -6,      /* Used in a child of fork(). */
  TB_E_NO_MEMORY = -7
} tb_status;

/* Text of the calling thread's last error; "" if none. Valid until that thread's next tb_ call. Never NULL.
 */
TB_API const char *tb_error(void);
/* "MAJOR.MINOR.PATCH" of the library. */
TB_API const char *tb_version(void);
/* 1 if this process is being recorded, else 0. */
TB_API int tb_recording(void);

/* Opens the device that the command gave the alias `name` (NULL or "": the only one). The device has been
 * reset and fingerprinted. Close with tb_close. */
TB_API int tb_open(const char *name, tb_device **device) TB_MUST_USE;
TB_API int tb_close(tb_device *device);

/* Register accesses of exactly that width. `space` is a name of the device description or target ("bar0");
 * NULL is the target's first space. */
TB_API int tb_read8(tb_device *device, const char *space, uint64_t offset, uint8_t *value) TB_MUST_USE;
TB_API int tb_read16(tb_device *device, const char *space, uint64_t offset, uint16_t *value) TB_MUST_USE;
TB_API int tb_read32(tb_device *device, const char *space, uint64_t offset, uint32_t *value) TB_MUST_USE;
TB_API int tb_read64(tb_device *device, const char *space, uint64_t offset, uint64_t *value) TB_MUST_USE;
TB_API int tb_write8(tb_device *device, const char *space, uint64_t offset, uint8_t value) TB_MUST_USE;
TB_API int tb_write16(tb_device *device, const char *space, uint64_t offset, uint16_t value) TB_MUST_USE;
TB_API int tb_write32(tb_device *device, const char *space, uint64_t offset, uint32_t value) TB_MUST_USE;
TB_API int tb_write64(tb_device *device, const char *space, uint64_t offset, uint64_t value) TB_MUST_USE;

/* Reads until (value & mask) == expected or the deadline passes (TB_E_TIMEOUT; *value has the last one read).
 * Replayed as its condition. `value` may be NULL. */
TB_API int tb_poll(tb_device *device, const char *space, uint64_t offset, unsigned width_bytes, uint64_t mask,
                   uint64_t expected, uint64_t deadline_ns, uint64_t *value) TB_MUST_USE;

/* Device-visible memory. `alignment` is a power of two, 0 for 4096. *iova is the address the device uses,
 * *pointer the program's own (NULL if the target has no coherent view: use tb_mem_read and tb_mem_write).
 * Content starts as zero. */
TB_API int tb_alloc(tb_device *device, size_t size, size_t alignment, uint64_t *iova,
                    void **pointer) TB_MUST_USE;
TB_API int tb_free(tb_device *device, uint64_t iova);
TB_API int tb_mem_read(tb_device *device, uint64_t iova, void *out, size_t size) TB_MUST_USE;
TB_API int tb_mem_write(tb_device *device, uint64_t iova, const void *in, size_t size) TB_MUST_USE;

/* A fence in memory: waits until the little-endian word at `iova` satisfies the condition. Width 1, 2, 4
 * or 8. */
TB_API int tb_wait_mem(tb_device *device, uint64_t iova, unsigned width_bytes, uint64_t mask,
                       uint64_t expected, uint64_t deadline_ns, uint64_t *value) TB_MUST_USE;
/* Call before reading results that the device wrote: the content is recorded here, and compared in replay. */
TB_API int tb_acquire(tb_device *device, uint64_t iova, size_t size) TB_MUST_USE;
/* Call after storing through a pointer where the description cannot tell what the device will read. */
TB_API int tb_publish(tb_device *device, uint64_t iova, size_t size) TB_MUST_USE;

/* Waits for an interrupt that came since the last wait on this vector. *count may be NULL. */
TB_API int tb_wait_irq(tb_device *device, uint32_t vector, uint64_t deadline_ns, uint64_t *count) TB_MUST_USE;
/* A counter by the name the description gives it. */
TB_API int tb_counter(tb_device *device, const char *name, uint64_t *value) TB_MUST_USE;
TB_API int tb_reset(tb_device *device) TB_MUST_USE;

/* Marks the place in the workload; starts a window. Names are at most 255 bytes of UTF-8. */
TB_API int tb_mark(tb_device *device, const char *name);
/* Spans nest per thread. *span identifies it for tb_span_end. */
TB_API int tb_span_begin(tb_device *device, const char *name, uint64_t *span);
TB_API int tb_span_end(tb_device *device, uint64_t span);

/* The oracle. A check that does not hold is recorded as the failure's signature; the program goes on. Each
 * returns 1 if the check holds, 0 if not, negative on error. tb_check_equal: `actual` is tied to the calling
 * thread's last read whose value it was, so that replay can redo it. tb_check_memory: compares device-visible
 * memory; implies tb_acquire. tb_check: any condition; replay takes its outcome from the recording. tb_fail:
 * the program found that it failed. */
TB_API int tb_check_equal(tb_device *device, const char *name, uint64_t expected, uint64_t actual);
TB_API int tb_check_memory(tb_device *device, const char *name, uint64_t iova, const void *expected,
                           size_t size);
TB_API int tb_check(tb_device *device, const char *name, int holds);
TB_API int tb_fail(tb_device *device, const char *name);

#ifdef __cplusplus
}
#endif
#endif
