/* A program under test: drives the doorbell device through the C API, or says why it cannot. */
#include <stdio.h>
#include <string.h>
#include <tapeback.h>

static int complain(const char *what) {
  fprintf(stderr, "%s: %s\n", what, tb_error());
  return 3;
}

int main(void) {
  tb_device *device = NULL;
  uint32_t value = 0;
  uint32_t i;
  if (strlen(tb_version()) == 0)
    return complain("version");
  if (tb_open(NULL, &device) != TB_OK)
    return complain("open");
  for (i = 0; i < 100; ++i) {
    tb_mark(device, "ring");
    if (tb_write32(device, "bar0", 8, i) != TB_OK || tb_read32(device, "bar0", 8, &value) != TB_OK)
      return complain("access");
    if (tb_check_equal(device, "echo", i, value) != 1)
      return complain("check");
  }
  if (tb_close(device) != TB_OK)
    return complain("close");
  printf("%u rings, %s\n", (unsigned)i, tb_recording() ? "recorded" : "not recorded");
  return 0;
}
