/* Reads one register of any device over and over, then waits for an interrupt that nobody raises: a program
 * of the C API that is in the middle of something when the bus or the device goes away.
 *
 *   register-loop OFFSET ROUNDS WAIT_SECONDS [VALUE]
 *
 * VALUE is written first: state that a reset has to undo. Exits 0 if the register read the same every time
 * and the wait timed out, 1 if not, 3 if the target failed. */
#include "recorder/tapeback.h"
#include <stdio.h>
#include <stdlib.h>

static int failed(const char *what) {
  fprintf(stderr, "register-loop: %s: %s\n", what, tb_error());
  return 3;
}

int main(int argc, char **argv) {
  if (argc < 4 || argc > 5) {
    fprintf(stderr, "usage: register-loop OFFSET ROUNDS WAIT_SECONDS [VALUE]\n");
    return 2;
  }
  uint64_t offset = strtoull(argv[1], NULL, 0), rounds = strtoull(argv[2], NULL, 0);
  uint64_t seconds = strtoull(argv[3], NULL, 0);
  tb_device *device = NULL;
  if (tb_open(NULL, &device) != TB_OK)
    return failed("tb_open");
  uint32_t first = 0, value = 0;
  if (argc == 5 && tb_write32(device, "bar0", offset, (uint32_t)strtoull(argv[4], NULL, 0)) != TB_OK)
    return failed("tb_write32");
  if (tb_read32(device, "bar0", offset, &first) != TB_OK)
    return failed("tb_read32");
  for (uint64_t i = 1; i < rounds; ++i) {
    if (tb_read32(device, "bar0", offset, &value) != TB_OK)
      return failed("tb_read32");
    if (tb_check_equal(device, "same", first, value) != 1)
      return 1;
  }
  if (seconds) {
    printf("waiting\n");
    fflush(stdout);
    uint64_t count = 0;
    int status = tb_wait_irq(device, 0, seconds * 1000000000, &count);
    if (status != TB_E_TIMEOUT)
      return status == TB_OK ? 1 : failed("tb_wait_irq");
  }
  tb_close(device);
  printf("register-loop: 0x%x in %llu rounds\n", first, (unsigned long long)rounds);
  return 0;
}
