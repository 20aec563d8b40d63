/* The C API's header on its own, as strict C99. */
#include "recorder/tapeback.h"

int headerIsC99(void);
int headerIsC99(void) {
  return TB_OK;
}
