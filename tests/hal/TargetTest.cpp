// What Target does by itself, and the table of schemes.
#include "hal/TargetFailure.h"
#include "tests/hal/Targets.h"

using namespace tapeback;
using namespace tapeback::test;

namespace {

/// Remembers what reached it; fails at one address.
class Recording final : public Target {
public:
  TargetIdentity self{"test:", "test", "test", {}};
  std::vector<std::string> calls;

  const TargetIdentity &identity() const override { return self; }
  TargetCapabilities capabilities() const override { return {}; }
  llvm::ArrayRef<TargetSpace> spaces() const override { return {}; }
  llvm::Expected<uint64_t> read(TargetSpaceId, uint64_t address, unsigned) override {
    calls.push_back("read " + std::to_string(address));
    if (address == 666)
      return failTarget("bus-error", "no answer", "offset 666");
    return address * 2;
  }
  llvm::Error write(TargetSpaceId, uint64_t address, unsigned, uint64_t value) override {
    calls.push_back("write " + std::to_string(address) + " " + std::to_string(value));
    return llvm::Error::success();
  }
  llvm::Expected<MemoryRegion> map(const MapRequest &) override {
    return unsupportedByTarget(self, "has no memory");
  }
  llvm::Error unmap(uint64_t) override { return llvm::Error::success(); }
  llvm::Error readMemory(uint64_t, llvm::MutableArrayRef<uint8_t>) override { return llvm::Error::success(); }
  llvm::Error writeMemory(uint64_t iova, llvm::ArrayRef<uint8_t> in) override {
    calls.push_back("memory " + std::to_string(iova) + " " + std::to_string(in.size()));
    return llvm::Error::success();
  }
  llvm::Expected<InterruptResult> waitInterrupt(uint32_t, uint64_t) override { return InterruptResult(); }
  llvm::Error advance(uint64_t) override { return llvm::Error::success(); }
  llvm::Error reset(ResetKind) override { return llvm::Error::success(); }
};

TargetOperation operation(TargetOperation::Kind kind, uint64_t address, uint64_t packet) {
  TargetOperation made;
  made.kind = kind;
  made.address = address;
  made.packet = packet;
  made.width = 4;
  made.value = 9;
  return made;
}

} // namespace

TEST_CASE("a batch is carried out in order and gives back what was read") {
  Recording target;
  uint8_t data[3] = {};
  using Kind = TargetOperation::Kind;
  TargetOperation batch[] = {operation(Kind::Write, 1, 10), operation(Kind::Read, 21, 11),
                             operation(Kind::WriteMemory, 100, 12)};
  batch[2].data = data;
  batch[2].length = 3;
  size_t completed = 99;
  must(target.submit(batch, &completed));
  CHECK(completed == 3);
  CHECK(target.calls == std::vector<std::string>{"write 1 9", "read 21", "memory 100 3"});
  CHECK(batch[1].value == 42);
}

TEST_CASE("a batch stops at its first failure and names the packet") {
  Recording target;
  using Kind = TargetOperation::Kind;
  TargetOperation batch[] = {operation(Kind::Read, 1, 10), operation(Kind::Read, 666, 1234),
                             operation(Kind::Read, 2, 12)};
  size_t completed = 99;
  Failure f = failure(target.submit(batch, &completed));
  CHECK(completed == 1);
  CHECK(target.calls.size() == 2);
  CHECK(f.where == "packet 1234, offset 666");
  CHECK(f.code == "bus-error");
  CHECK(f.cls == FailureClass::Target);
}

TEST_CASE("what a target cannot do is said, not done") {
  Recording target;
  uint8_t byte = 0;
  CHECK(failure(target.counter(0)).code == "unsupported");
  CHECK(failure(target.deviceTime()).code == "unsupported");
  CHECK(failure(target.peek("x", 0, byte)).code == "unsupported");
  CHECK(failure(target.snapshot()).code == "unsupported");
  CHECK(failure(target.restore(1)).code == "unsupported");
  CHECK(failure(target.releaseSnapshot(1)).code == "unsupported");
}

TEST_CASE("an unknown scheme is refused with a list of those there are") {
  Failure f = failure(openTarget("modle:edu"));
  CHECK(f.cls == FailureClass::Usage);
  CHECK(f.code == "unknown-target-scheme");
  for (const TargetScheme &scheme : targetSchemes())
    CHECK(contains(f.hint, scheme.syntax));
  CHECK(targetSchemes().size() >= 3);
}
