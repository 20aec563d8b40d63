// Packets in, state out: what each kind of packet tells about registers, memory, windows and activities.
#include "hal/state/ShadowState.h"

#include "hal/state/StateParts.h"
#include "llvm/ADT/STLExtras.h"

namespace tapeback {

ShadowState::State::State(const Description *description, std::vector<std::string> spaces, uint16_t device,
                          const ShadowLimits &limits)
    : description(description), device(device), limits(limits),
      registers(description, std::move(spaces), limits.undescribedRegisters),
      activities(description, limits.outstanding), budget(limits.pages), memory(budget),
      memoryWriters(limits.writers), mappings(limits.mappings) {
  if (!description)
    return;
  windows.reserve(description->windows.size());
  for (const InternalWindow &window : description->windows)
    windows.emplace_back(window, budget, limits.writers / description->windows.size());
}

ShadowState::ShadowState(const Description *description, std::vector<std::string> spaces, uint16_t device,
                         ShadowLimits limits)
    : state(std::make_unique<State>(description, std::move(spaces), device, limits)) {}
ShadowState::~ShadowState() = default;
ShadowState::ShadowState(ShadowState &&) noexcept = default;

void ShadowState::addSpace(uint16_t id, llvm::StringRef name) {
  state->registers.addSpace(id, name);
}

static bool isAccess(PacketKind kind) {
  return kind == PacketKind::RegisterRead || kind == PacketKind::RegisterWrite || kind == PacketKind::Poll;
}
static bool goodWidth(unsigned width) {
  return width == 1 || width == 2 || width == 4 || width == 8;
}

/// The payload as far as it is there; never more than the packet's length.
static llvm::ArrayRef<uint8_t> payloadOf(const Packet &packet, const PacketExtra &extra,
                                         const ShadowState::BlobLookup &blobs) {
  if ((packet.flags & NotCaptured) || !extra.payload || !blobs)
    return {};
  llvm::ArrayRef<uint8_t> content = blobs(extra.payload);
  return content.size() > extra.length ? content.take_front(size_t(extra.length)) : content;
}

void ShadowState::apply(uint64_t ordinal, const Packet &packet, const PacketExtra &extra,
                        const BlobLookup &blobs) {
  state->synchronised = false;
  if (packet.kind == PacketKind::Loss)
    state->lost(ordinal, packet);
  else if (packet.device == state->device && (!isAccess(packet.kind) || goodWidth(packet.width)))
    state->dispatch(ordinal, packet, extra, blobs);
}

void ShadowState::State::dispatch(uint64_t ordinal, const Packet &packet, const PacketExtra &extra,
                                  const BlobLookup &blobs) {
  if (didNotComplete(ordinal, packet, extra))
    return;
  switch (packet.kind) {
  case PacketKind::RegisterRead:
  case PacketKind::Poll: return registerSeen(packet);
  case PacketKind::RegisterWrite: return registerWrite(ordinal, packet);
  case PacketKind::MemoryWrite: return memoryWritten(ordinal, packet, extra, blobs);
  case PacketKind::MemoryRead: return memorySeen(packet.address, payloadOf(packet, extra, blobs));
  case PacketKind::MemoryWait: return waitedForMemory(packet);
  case PacketKind::Acquire: return acquired(packet, extra, blobs);
  case PacketKind::Submit:
    memoryWritten(ordinal, packet, extra, blobs);
    activities.submitted();
    ++commands;
    return;
  case PacketKind::DmaDescriptor: return transferTold(ordinal, packet, extra);
  case PacketKind::DmaCompletion: return transferDone(packet, extra, blobs);
  case PacketKind::Interrupt: synchronised = packet.completion == Completion::Done; return;
  case PacketKind::Marker: return marked(packet, extra, blobs);
  case PacketKind::Reset: return deviceReset(ordinal, packet);
  case PacketKind::MemoryMap: return mapped(ordinal, packet.address, extra.length, true);
  case PacketKind::MemoryUnmap: return mapped(ordinal, packet.address, extra.length, false);
  case PacketKind::LateCompletion: return cameBack(ordinal, packet, extra);
  default: return; // Says nothing about the device's state.
  }
}

/// Operations that never came back, or came back as failures. True if there is no more to the packet.
bool ShadowState::State::didNotComplete(uint64_t ordinal, const Packet &packet, const PacketExtra &extra) {
  const bool pending = packet.completion == Completion::Pending;
  if (!pending && packet.completion != Completion::Failed)
    return false;
  if (pending && isAccess(packet.kind))
    activities.pending(ordinal, packet);
  switch (packet.kind) {
  case PacketKind::RegisterWrite:
    // It may have arrived. What it may have started counts as started: nobody can say that the device is
    // idle.
    registers.writeUncertain(ordinal, packet.space, packet.address, packet.width);
    registers.visitTouched(packet.space, packet.address, packet.width, packet.value,
                           [&](unsigned reg, uint64_t mask, uint64_t part) {
                             for (unsigned activity : activities.written(ordinal, reg, mask, part))
                               started(ordinal, activity, part);
                           });
    return true;
  case PacketKind::MemoryWrite:
  case PacketKind::Submit: overwriteMemory(ordinal, packet.address, extra.length); return true;
  case PacketKind::Reset:
    registers.reset(ordinal, false);
    forgetWindows(ordinal, false);
    return true;
  case PacketKind::DmaDescriptor:
  case PacketKind::MemoryMap:
  case PacketKind::MemoryUnmap: return false;    // Told, whatever became of it.
  case PacketKind::LateCompletion: return false; // Its completion is that of another operation.
  default: return true;
  }
}

void ShadowState::State::registerSeen(const Packet &packet) {
  registers.read(packet.space, packet.address, packet.width, packet.value);
  registers.visitTouched(
      packet.space, packet.address, packet.width, packet.value,
      [&](unsigned reg, uint64_t mask, uint64_t part) { synchronised |= activities.seen(reg, mask, part); });
}

void ShadowState::State::registerWrite(uint64_t ordinal, const Packet &packet) {
  registers.write(ordinal, packet.space, packet.address, packet.width, packet.value);
  registers.visitTouched(packet.space, packet.address, packet.width, packet.value,
                         [&](unsigned reg, uint64_t mask, uint64_t part) {
                           // A part write completes the value that earlier ones began.
                           uint64_t others = registers.described(reg).value_or(0) & ~mask;
                           for (unsigned activity : activities.written(ordinal, reg, mask, part | others))
                             started(ordinal, activity, part | others);
                         });
}

/// The effects of an activity's transfers, where no DmaDescriptor was recorded that tells them.
void ShadowState::State::started(uint64_t ordinal, unsigned activity, uint64_t value) {
  ++commands;
  if (activities.hasTransfersOfLastStart(activity))
    return;
  for (const TransferDescription &transfer : description->activities[activity].transfers) {
    if (!transfer.when.holds(value))
      continue;
    std::optional<uint64_t> count = registers.described(transfer.count);
    std::optional<uint64_t> where =
        registers.described(transfer.toDevice ? transfer.deviceAddress : transfer.hostAddress);
    if (count && *count == 0)
      continue;
    auto window =
        llvm::find_if(windows, [&](const WindowState &w) { return w.window->name == transfer.window; });
    if (!transfer.toDevice) {
      if (count && where)
        overwriteMemory(ordinal, *where, *count);
      else
        forgetMemory(); // Somewhere.
    } else if (window != windows.end()) {
      uint64_t first = window->window->base, last = window->last();
      if (count && where && !window->clip(*where, *count, first, last))
        continue;
      window->content.forget(first, last);
      window->writers.assign(first, last, ordinal);
    }
  }
}

void ShadowState::State::overwriteMemory(uint64_t ordinal, uint64_t first, uint64_t length) {
  if (length == 0)
    return;
  memory.forget(first, lastOf(first, length));
  memoryWriters.assign(first, lastOf(first, length), ordinal);
}

void ShadowState::State::memoryWritten(uint64_t ordinal, const Packet &packet, const PacketExtra &extra,
                                       const BlobLookup &blobs) {
  overwriteMemory(ordinal, packet.address, extra.length);
  memory.store(packet.address, payloadOf(packet, extra, blobs));
}

void ShadowState::State::memorySeen(uint64_t address, llvm::ArrayRef<uint8_t> content) {
  memory.observe(address, content, [&](uint64_t first, uint64_t last) { memoryWriters.forget(first, last); });
}

void ShadowState::State::waitedForMemory(const Packet &packet) {
  if (packet.completion == Completion::Done) {
    synchronised = true;
    activities.synchronised();
  }
  if (!goodWidth(packet.width))
    return;
  uint8_t bytes[8];
  for (unsigned i = 0; i < packet.width; ++i)
    bytes[i] = uint8_t(packet.value >> (8 * i));
  memorySeen(packet.address, llvm::ArrayRef(bytes, packet.width));
}

void ShadowState::State::acquired(const Packet &packet, const PacketExtra &extra, const BlobLookup &blobs) {
  memorySeen(packet.address, payloadOf(packet, extra, blobs));
  activities.synchronised();
  // The recorder lets the completions of the transfers that this acquire covers follow; the last of them
  // counts.
  synchronised =
      extra.length == 0 || !activities.deviceMayWrite(packet.address, lastOf(packet.address, extra.length));
}

void ShadowState::State::transferTold(uint64_t ordinal, const Packet &packet, const PacketExtra &extra) {
  OutstandingTransfer transfer;
  if (description && extra.link < description->activities.size())
    transfer.activity = unsigned(extra.link);
  transfer.toDevice = packet.flags & TransferToDevice;
  transfer.hostAddress = packet.address;
  transfer.deviceAddress = packet.value;
  transfer.length = extra.length;
  if (!(packet.flags & NotCaptured))
    transfer.payload = extra.payload;
  activities.descriptor(ordinal, transfer);
  // From here until it is complete, the destination may be anything.
  if (!transfer.toDevice) {
    overwriteMemory(ordinal, transfer.hostAddress, transfer.length);
    return;
  }
  WindowState *window = windowOf(transfer);
  uint64_t first, last;
  if (window && window->clip(transfer.deviceAddress, transfer.length, first, last)) {
    window->content.forget(first, last);
    window->writers.assign(first, last, ordinal);
  }
}

/// Cuts content that begins at `address` to the window; `address` moves along.
static llvm::ArrayRef<uint8_t> clipContent(const WindowState &window, uint64_t &address,
                                           llvm::ArrayRef<uint8_t> content) {
  uint64_t first, last;
  if (!window.clip(address, content.size(), first, last))
    return {};
  content = content.slice(size_t(first - address), size_t(last - first) + 1);
  address = first;
  return content;
}

void ShadowState::State::transferDone(const Packet &packet, const PacketExtra &extra,
                                      const BlobLookup &blobs) {
  bool ended = false;
  std::optional<OutstandingTransfer> transfer = activities.completed(extra.link, ended);
  synchronised = ended;
  if (!transfer)
    return;
  WindowState *window = windowOf(*transfer);
  uint64_t address = transfer->deviceAddress;
  if (transfer->toDevice) {
    if (!window || !transfer->payload || !blobs)
      return;
    llvm::ArrayRef<uint8_t> content = blobs(transfer->payload);
    if (content.size() > transfer->length)
      content = content.take_front(size_t(transfer->length));
    content = clipContent(*window, address, content);
    window->content.store(address, content);
    return;
  }
  llvm::ArrayRef<uint8_t> content = payloadOf(packet, extra, blobs);
  if (content.size() > transfer->length)
    content = content.take_front(size_t(transfer->length));
  memory.store(transfer->hostAddress, content);
  if (!window)
    return;
  content = clipContent(*window, address, content);
  window->content.observe(address, content,
                          [&](uint64_t first, uint64_t last) { window->writers.forget(first, last); });
}

WindowState *ShadowState::State::windowOf(const OutstandingTransfer &transfer) {
  if (!transfer.activity || transfer.length == 0)
    return nullptr;
  for (const TransferDescription &described : description->activities[*transfer.activity].transfers) {
    if (described.toDevice != transfer.toDevice || described.window.empty())
      continue;
    uint64_t first, last;
    for (WindowState &window : windows)
      if (window.window->name == described.window &&
          window.clip(transfer.deviceAddress, transfer.length, first, last))
        return &window;
  }
  return nullptr;
}

void ShadowState::State::forgetMemory() {
  memory.clear();
  memoryWriters.clear();
}

void ShadowState::State::forgetWindows(std::optional<uint64_t> resetBy, bool filled) {
  for (WindowState &window : windows) {
    window.content.clear();
    window.writers.clear();
    window.resetBy = resetBy;
    window.filled = filled && window.window->reset.has_value();
  }
}

/// Whether a reset of that kind is the one after which the description's reset values hold.
static bool resetsAsDescribed(const Description *description, uint64_t kind) {
  static constexpr llvm::StringLiteral names[] = {"default", "function", "bus",
                                                  "power"}; // ResetKind on tape.
  if (!description || kind >= std::size(names))
    return false;
  return description->resetMethod.empty() || kind == 0 || kind == 3 ||
         names[kind] == description->resetMethod;
}

void ShadowState::State::deviceReset(uint64_t ordinal, const Packet &packet) {
  bool known = packet.completion == Completion::Done && resetsAsDescribed(description, packet.value);
  registers.reset(ordinal, known);
  forgetWindows(ordinal, known);
  activities.reset();
  seededAt.reset();
  synchronised = true;
}

void ShadowState::State::lost(uint64_t ordinal, const Packet &packet) {
  bool seeded = seededAt == ordinal && packet.address == uint64_t(LossCause::NotRecording);
  seededAt.reset();
  if (seeded)
    return;
  registers.forgetAll();
  forgetMemory();
  forgetWindows(std::nullopt, false);
  activities.lost(ordinal);
}

void ShadowState::State::marked(const Packet &, const PacketExtra &extra, const BlobLookup &blobs) {
  llvm::ArrayRef<uint8_t> name;
  if (extra.payload && blobs)
    name = blobs(extra.payload).take_front(255);
  marker.assign(name.begin(), name.end());
  commandsAtMarker = commands;
  auto known = markerCounts.find(marker);
  if (known != markerCounts.end())
    markerOccurrence = ++known->second;
  else if (markerCounts.size() < limits.markers)
    markerOccurrence = markerCounts[marker] = 1;
  else
    markerOccurrence = 0; // Not counted any more.
}

void ShadowState::State::mapped(uint64_t ordinal, uint64_t first, uint64_t length, bool isMapped) {
  if (length == 0)
    return;
  uint64_t last = lastOf(first, length);
  memory.forget(first, last);
  memoryWriters.forget(first, last);
  if (isMapped)
    mappings.assign(first, last, ordinal);
  else
    mappings.forget(first, last);
}

void ShadowState::State::cameBack(uint64_t ordinal, const Packet &packet, const PacketExtra &extra) {
  std::optional<Packet> operation = activities.cameBack(extra.link);
  if (!operation || packet.completion != Completion::Done)
    return;
  operation->value = operation->kind == PacketKind::RegisterWrite ? operation->value : packet.value;
  if (operation->kind == PacketKind::RegisterWrite) // What it started has been seen when it was issued.
    registers.write(ordinal, operation->space, operation->address, operation->width, operation->value);
  else
    registerSeen(*operation);
}

bool ShadowState::quiescent() const {
  return state->activities.idle();
}
std::vector<std::string> ShadowState::running() const {
  return state->activities.names();
}
bool ShadowState::atSynchronisation() const {
  return state->synchronised;
}
uint64_t ShadowState::commands() const {
  return state->commands;
}
uint64_t ShadowState::commandsSinceMarker() const {
  return state->commands - state->commandsAtMarker;
}
const std::string &ShadowState::marker() const {
  return state->marker;
}
uint64_t ShadowState::markerOccurrence() const {
  return state->markerOccurrence;
}

} // namespace tapeback
