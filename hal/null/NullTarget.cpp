#include "hal/null/NullTarget.h"
#include "hal/IovaSpace.h"
#include "hal/TargetFailure.h"
#include "llvm/ADT/SmallVector.h"
#include <cerrno>
#include <cstring>
#include <sys/mman.h>

namespace tapeback {
namespace {

constexpr TargetOptionHelp nullOptions[] = {
    {"spaces", "NAME,NAME…", "register spaces (default bar0)"},
    {"size", "BYTES", "size of each space (default 1 MiB)"},
    {"vectors", "N", "interrupt vectors (default 32)"},
    {"timeout", "MS", "accepted as for every target; nothing here takes time"},
};

class NullTarget final : public Target {
public:
  NullTarget(TargetIdentity identity, std::vector<TargetSpace> spaces, unsigned vectors)
      : self(std::move(identity)), spaceTable(std::move(spaces)), vectors(vectors),
        // Addresses above 16 MiB, as the other targets hand them out; there is no store, only a limit.
        iovas(0x1000000, uint64_t(1) << 48, uint64_t(1) << 40) {}

  ~NullTarget() override {
    for (const auto &[iova, region] : regions)
      ::munmap(region.host, region.size);
  }

  const TargetIdentity &identity() const override { return self; }

  TargetCapabilities capabilities() const override {
    TargetCapabilities can;
    can.memory = can.chooseIova = can.interrupts = can.reset = can.counters = true;
    can.answers = false;
    can.interruptVectors = vectors;
    return can;
  }

  llvm::ArrayRef<TargetSpace> spaces() const override { return spaceTable; }

  llvm::Expected<uint64_t> read(TargetSpaceId space, uint64_t address, unsigned width) override {
    if (llvm::Error error = check(space, address, width))
      return error;
    return 0;
  }

  llvm::Error write(TargetSpaceId space, uint64_t address, unsigned width, uint64_t) override {
    return check(space, address, width);
  }

  llvm::Expected<MemoryRegion> map(const MapRequest &request) override {
    llvm::Expected<IovaSpace::Region> place = iovas.map(request);
    if (!place)
      return place.takeError();
    void *host = ::mmap(nullptr, place->size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (host == MAP_FAILED) {
      std::string reason = std::strerror(errno);
      llvm::consumeError(iovas.unmap(place->iova).takeError()); // Was mapped two lines above: cannot fail.
      return failSystem("out-of-memory",
                        std::to_string(place->size) + " bytes could not be mapped: " + reason);
    }
    MemoryRegion region{place->iova, place->size, static_cast<uint8_t *>(host)};
    regions[region.iova] = region;
    return region;
  }

  llvm::Error unmap(uint64_t iova) override {
    llvm::Expected<IovaSpace::Region> place = iovas.unmap(iova);
    if (!place)
      return place.takeError();
    ::munmap(regions[iova].host, regions[iova].size);
    regions.erase(iova);
    return llvm::Error::success();
  }

  llvm::Error readMemory(uint64_t iova, llvm::MutableArrayRef<uint8_t> out) override {
    llvm::Expected<uint8_t *> host = locate(iova, out.size());
    if (!host)
      return host.takeError();
    if (!out.empty())
      std::memcpy(out.data(), *host, out.size());
    return llvm::Error::success();
  }

  llvm::Error writeMemory(uint64_t iova, llvm::ArrayRef<uint8_t> in) override {
    llvm::Expected<uint8_t *> host = locate(iova, in.size());
    if (!host)
      return host.takeError();
    if (!in.empty())
      std::memcpy(*host, in.data(), in.size());
    return llvm::Error::success();
  }

  llvm::Expected<InterruptResult> waitInterrupt(uint32_t vector, uint64_t) override {
    if (vector >= vectors)
      return failUsage("unknown-vector", "there is no interrupt vector " + std::to_string(vector));
    return InterruptResult{true, 1};
  }

  llvm::Error advance(uint64_t) override { return llvm::Error::success(); }
  llvm::Error reset(ResetKind) override { return llvm::Error::success(); }
  llvm::Expected<uint64_t> counter(uint32_t) override { return 0; }

private:
  /// The fast path of a legal access is four comparisons.
  llvm::Error check(TargetSpaceId space, uint64_t address, unsigned width) const {
    if (LLVM_LIKELY(space < spaceTable.size() && width && width <= 8 && !(width & (width - 1)) &&
                    address < spaceTable[space].size && spaceTable[space].size - address >= width))
      return llvm::Error::success();
    return checkAccess(spaceTable, space, address, width);
  }

  llvm::Expected<uint8_t *> locate(uint64_t iova, uint64_t size) {
    llvm::Expected<uint64_t> offset = iovas.requireOffset(iova, size);
    if (!offset)
      return offset.takeError();
    const MemoryRegion &region = std::prev(regions.upper_bound(iova))->second;
    return region.host + (iova - region.iova);
  }

  TargetIdentity self;
  std::vector<TargetSpace> spaceTable;
  unsigned vectors;
  IovaSpace iovas;
  std::map<uint64_t, MemoryRegion> regions;
};

} // namespace

llvm::Expected<std::unique_ptr<Target>> openNullTarget(const TargetUri &uri) {
  if (llvm::Error error = checkTargetOptions(uri, nullOptions))
    return error;
  if (!uri.rest.empty())
    return failUsage("bad-target-uri", "null: takes options only, not '" + uri.rest + "'",
                     "target '" + uri.text + "'", "null:?spaces=bar0,config");
  llvm::Expected<uint64_t> size = numberOption(uri, "size", 1u << 20, 8, uint64_t(1) << 48);
  if (!size)
    return size.takeError();
  llvm::Expected<uint64_t> vectors = numberOption(uri, "vectors", 32, 0, 2048);
  if (!vectors)
    return vectors.takeError();
  if (llvm::Expected<uint64_t> timeout = timeoutOption(uri); !timeout)
    return timeout.takeError();

  std::vector<TargetSpace> spaces;
  const std::string *names = uri.find("spaces");
  llvm::SmallVector<llvm::StringRef> pieces;
  llvm::StringRef(names ? llvm::StringRef(*names) : "bar0").split(pieces, ',');
  for (llvm::StringRef piece : pieces) {
    bool twice = llvm::any_of(spaces, [&](const TargetSpace &space) { return space.name == piece; });
    if (piece.empty() || twice || spaces.size() == 64)
      return failUsage("bad-target-option", "option 'spaces': at most 64 different names, separated by ','",
                       "target '" + uri.text + "'", "null:?spaces=bar0,config");
    spaces.push_back({piece.str(), *size});
  }
  TargetIdentity identity;
  identity.uri = uri.text;
  identity.kind = "null";
  identity.name = "null";
  return std::make_unique<NullTarget>(std::move(identity), std::move(spaces), unsigned(*vectors));
}

} // namespace tapeback
