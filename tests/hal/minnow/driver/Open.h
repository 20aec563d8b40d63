// A Minnow opened through the C API, as a program would, in the test's own process.
#pragma once

#include "hal/minnow/driver/NetworkRun.h"
#include <cstdlib>
#include <doctest/doctest.h>
#include <memory>
#include <string>

namespace tapeback::test {

struct Opened {
  explicit Opened(const std::string &uri, const minnow::AcceleratorOptions &options = {}) {
    unsetenv("TAPEBACK_RING");
    setenv("TAPEBACK_TARGET", uri.c_str(), 1);
    REQUIRE_MESSAGE(tb_open(nullptr, &device) == TB_OK, tb_error());
    accelerator = std::make_unique<minnow::Accelerator>(device, options);
  }
  Opened(const Opened &) = delete;
  Opened &operator=(const Opened &) = delete;
  ~Opened() {
    if (device)
      tb_close(device);
  }

  tb_device *device = nullptr;
  std::unique_ptr<minnow::Accelerator> accelerator;
};

} // namespace tapeback::test
