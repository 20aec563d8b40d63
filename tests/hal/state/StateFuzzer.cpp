// Any packets into a ShadowState of edu or, by the first byte, of Minnow, which has queues. Input: packets of
// 24 bytes each, in a compact form so that mutations keep meaning something. Afterwards a state that begins
// from its keyframe must agree with it.
#include "format/Failure.h"
#include "hal/state/ShadowState.h"
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

using namespace tapeback;

namespace {

Description descriptionOf(const char *path) {
  std::ifstream in(path, std::ios::binary);
  llvm::Expected<Description> parsed =
      parseDescription(std::string(std::istreambuf_iterator<char>(in), {}), "fuzzed.yaml");
  if (!parsed)
    std::abort();
  return std::move(*parsed);
}
const Description &edu() {
  static const Description description = descriptionOf(TAPEBACK_CORPUS_SOURCE_DIR "/hal/edu/edu.yaml");
  return description;
}
const Description &minnow() {
  static const Description description = descriptionOf(TAPEBACK_CORPUS_SOURCE_DIR "/hal/minnow/minnow.yaml");
  return description;
}

struct Compact {
  uint8_t kind, shape, flags, completion;
  uint8_t addressForm, valueForm, lengthForm, link;
  uint64_t address, value;
};
static_assert(sizeof(Compact) == 24);

/// Registers and the window's surroundings more often than anything else.
uint64_t addressOf(uint8_t form, uint64_t raw) {
  switch (form % 4) {
  case 0: return form & 0x80 ? raw % 0x120 & ~uint64_t(3) : raw % 0xa8;
  case 1: return 0x40000 - 8 + raw % 4112;
  case 2: return raw % 0x8000;
  default: return raw;
  }
}

void require(bool holds) {
  if (!holds)
    std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const std::vector<uint8_t> pool = [] {
    std::vector<uint8_t> bytes(9000);
    for (size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = uint8_t(i * 7);
    return bytes;
  }();
  ShadowState::BlobLookup blobs = [](BlobId id) {
    return id.hi == 1 ? llvm::ArrayRef(pool).drop_front(id.lo % 256).take_front(id.lo % 8000)
                      : llvm::ArrayRef<uint8_t>();
  };
  ShadowLimits limits;
  limits.pages = 8;
  limits.writers = 16;
  limits.mappings = 8;
  limits.undescribedRegisters = 8;
  limits.outstanding = 8;
  limits.markers = 4;
  const bool queues = size && (data[0] & 0x80);
  const Description &description = queues ? minnow() : edu();
  const char *window = queues ? "scratchpad" : "buffer";
  ShadowState state(&description, {"memory", "bar0"}, 0, limits);
  uint64_t ordinal = 0;
  for (; size >= sizeof(Compact); data += sizeof(Compact), size -= sizeof(Compact), ++ordinal) {
    Compact compact;
    std::memcpy(&compact, data, sizeof(compact));
    Packet packet;
    packet.kind = PacketKind(compact.kind % (packetKindCount + 2));
    packet.space = (compact.shape >> 4) % 3;
    packet.width = compact.shape & 8 ? compact.shape : uint8_t(1u << (compact.shape & 3));
    packet.flags = compact.flags;
    packet.completion = Completion(compact.completion % 5);
    packet.address = addressOf(compact.addressForm, compact.address);
    packet.value = addressOf(compact.valueForm, compact.value);
    packet.device = compact.flags == 0x7f;
    PacketExtra extra;
    extra.length =
        compact.lengthForm < 200 ? compact.lengthForm : compact.value >> (compact.lengthForm - 200);
    extra.link = compact.link & 0x80 ? ordinal - (compact.link & 0x7f) : compact.link;
    if (queues) {
      // Rows, entries' numbers, strides, and links that are none.
      extra.count = compact.lengthForm % 5 == 0 ? compact.value : compact.link % 8;
      extra.expected = compact.addressForm & 0x40 ? compact.address : compact.addressForm;
      extra.mask = compact.valueForm;
      if (compact.link == 0x7f)
        extra.link = noLink;
      if (packet.kind == PacketKind::Submit)
        packet.value %= 3;
    }
    extra.payload = {uint64_t(compact.link & 1), compact.address};
    state.apply(ordinal, packet, extra, blobs);
    require(state.quiescent() == state.running().empty());
    require(state.commandsSinceMarker() <= state.commands());
  }

  std::vector<std::vector<uint8_t>> stored;
  auto store = [&](llvm::ArrayRef<uint8_t> bytes) -> llvm::Expected<BlobId> {
    require(!bytes.empty() && bytes.size() <= 4096);
    stored.push_back(bytes.vec());
    return BlobId{2, stored.size() - 1};
  };
  llvm::Expected<Keyframe> keyframe = state.keyframe(store);
  require(bool(keyframe));
  require(!keyframe->restorable || state.quiescent());
  require(keyframe->reason.size() > 0);

  ShadowState again(&description, {"memory", "bar0"}, 0);
  std::vector<std::vector<uint8_t>> first = stored;
  again.seed(*keyframe, [&](BlobId id) { return llvm::ArrayRef<uint8_t>(first[id.lo]); });
  for (const KeyframeRegister &reg : keyframe->registers)
    require(again.registerValue(reg.space, reg.address) == state.registerValue(reg.space, reg.address));
  uint8_t was[64], is[64];
  bool wasKnown[64], isKnown[64];
  for (const KeyframeExtent &extent : keyframe->internal) {
    state.windowContent(window, extent.address, was, wasKnown);
    again.windowContent(window, extent.address, is, isKnown);
    require(wasKnown[0] && isKnown[0] && was[0] == is[0]);
  }
  if (keyframe->restorable)
    require(again.quiescent());
  return 0;
}
