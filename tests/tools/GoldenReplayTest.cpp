// Golden tapes of devices are replayed for ever: what a version once recorded, every later one replays with a
// match where the device is right, and with a divergence where it is not.
#include "tests/support/NeedQemu.h"
#include "tests/tools/RunJson.h"
#include <cstdlib>

using namespace tapeback;
using namespace tapeback::test;

namespace {

/// The verdict; the exit code is checked against it.
std::string replayed(const std::string &name, const std::string &target) {
  const std::string tape = TAPEBACK_SOURCE_DIR "/tests/golden/" + name + ".tape";
  JsonResult result = runJson({"replay", tape, "--target", target});
  std::string verdict = result.text("verdict");
  CHECK_MESSAGE(result.run.exited(verdict == "match" ? 0 : 1), result.run);
  return verdict;
}

} // namespace

TEST_CASE("golden tapes of edu replay as they did") {
  CHECK(replayed("v1-edu", "model:edu") == "match");
  CHECK(replayed("v1-edu", "model:edu?fault=factorial&operand=3") == "divergence");
}

TEST_CASE("golden tapes of minnow, recorded on its RTL, replay on its model") {
  CHECK(replayed("v2-minnow", "model:minnow") == "match");
#ifdef TAPEBACK_HAS_RTL
  CHECK(replayed("v2-minnow", "rtl:minnow") == "match");
  CHECK(replayed("v2-minnow", "rtl:minnow?errata=requant-wrap+stale-scratchpad+dma-4k-last-beat") ==
        "divergence");
#endif
}

TEST_CASE("golden tapes of QEMU's NVMe controller replay as they did") {
  TB_NEED_QEMU();
  CHECK(replayed("v2-nvme", "qemu:nvme?pattern=index&medium=64K") == "match");
  CHECK(replayed("v2-nvme", "qemu:nvme?pattern=zero&medium=64K") == "divergence");
}
