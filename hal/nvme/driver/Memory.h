// Device-visible memory, through our pointer where there is one.
#pragma once

#include "recorder/tapeback.h"
#include <cstring>

namespace tapeback::nvme {

/// Owned by its device, freed with it.
struct Memory {
  tb_device *device = nullptr;
  uint64_t iova = 0;
  void *pointer = nullptr;

  int allocate(tb_device *of, size_t bytes) {
    device = of;
    return tb_alloc(of, bytes, 4096, &iova, &pointer);
  }
  int write(uint64_t offset, const void *in, size_t bytes) const {
    if (!pointer)
      return tb_mem_write(device, iova + offset, in, bytes);
    memcpy(static_cast<char *>(pointer) + offset, in, bytes);
    return TB_OK;
  }
  /// What the device wrote: taken over, and then looked at.
  int take(uint64_t offset, void *out, size_t bytes) const {
    if (!pointer)
      return tb_mem_read(device, iova + offset, out, bytes);
    int code = tb_acquire(device, iova + offset, bytes);
    memcpy(out, static_cast<char *>(pointer) + offset, bytes);
    return code;
  }
};

} // namespace tapeback::nvme
