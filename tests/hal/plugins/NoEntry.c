/* A shared library that is no plugin. */
__attribute__((visibility("default"))) int something_else(void);
int something_else(void) {
  return 1;
}
