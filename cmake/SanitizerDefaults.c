/* Linked into every program of a sanitizer build, so that a fault exits with 86 however the program is
 * started: the sanitizers' own default is 1, which here means "divergence". */
#define DEFAULTS __attribute__((used, visibility("default"), no_sanitize("address", "undefined", "thread")))

DEFAULTS const char *__asan_default_options(void);
DEFAULTS const char *__ubsan_default_options(void);
DEFAULTS const char *__lsan_default_options(void);
DEFAULTS const char *__tsan_default_options(void);

const char *__asan_default_options(void) {
  return "exitcode=86:detect_stack_use_after_return=1:strict_string_checks=1";
}
const char *__ubsan_default_options(void) {
  return "exitcode=86:print_stacktrace=1";
}
const char *__lsan_default_options(void) {
  return "exitcode=86";
}
const char *__tsan_default_options(void) {
  return "exitcode=86:second_deadlock_stack=1";
}
