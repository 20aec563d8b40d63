// Packets in, state out: what each kind of packet tells about registers, memory, windows and activities.
#include "hal/state/ShadowState.h"

#include "hal/description/AddressPair.h"
#include "hal/state/StateParts.h"
#include "llvm/ADT/STLExtras.h"

namespace tapeback {

ShadowState::State::State(const Description *description, std::vector<std::string> spaces, uint16_t device,
                          const ShadowLimits &limits)
    : description(description), device(device), limits(limits),
      registers(description, std::move(spaces), limits.undescribedRegisters),
      activities(description, limits.outstanding), queues(description, limits.outstanding),
      budget(limits.pages), memory(budget), memoryWriters(limits.writers), mappings(limits.mappings) {
  if (!description)
    return;
  seenAt.resize(description->registers.size());
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
  if (packet.kind == PacketKind::Loss) {
    state->lost(ordinal, packet);
  } else if (packet.device == state->device && (!isAccess(packet.kind) || goodWidth(packet.width))) {
    ++state->step;
    if (packet.kind != PacketKind::DmaCompletion)
      state->endsWithCompletions = false;
    state->dispatch(ordinal, packet, extra, blobs);
    state->endsWithCompletions |= state->synchronised;
  }
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
  case PacketKind::MemoryRead: {
    llvm::ArrayRef<uint8_t> content = payloadOf(packet, extra, blobs);
    memorySeen(packet.address, content);
    synchronised = fencesSeen(packet.address, content);
    return;
  }
  case PacketKind::MemoryWait: return waitedForMemory(packet);
  case PacketKind::Acquire: return acquired(packet, extra, blobs);
  case PacketKind::Submit: return submitted(ordinal, packet, extra, blobs);
  case PacketKind::DmaDescriptor: return transferTold(ordinal, packet, extra);
  case PacketKind::DmaCompletion: return transferDone(packet, extra, blobs);
  case PacketKind::CommandDone:
    memorySeen(packet.address, payloadOf(packet, extra, blobs));
    queues.done(packet.value, extra.count);
    synchronised = true;
    return;
  case PacketKind::Interrupt: synchronised = packet.completion == Completion::Done; return;
  case PacketKind::Marker: return marked(packet, extra, blobs);
  case PacketKind::Reset: return deviceReset(ordinal, packet);
  case PacketKind::MemoryMap: return mapped(ordinal, packet.address, extra.length, true);
  case PacketKind::MemoryUnmap: return mapped(ordinal, packet.address, extra.length, false);
  // Memory goes with its device; of one that died with its process only the next open tells.
  case PacketKind::Open:
  case PacketKind::Close: mappings.clear(); return forgetMemory();
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
  case PacketKind::Submit:
    overwriteMemory(ordinal, RowRange::of(packet.address, extra.expected, extra));
    return true;
  case PacketKind::Reset:
    registers.reset(ordinal, false);
    forgetWindows(ordinal, false);
    queues.lost();
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
  registers.visitTouched(packet.space, packet.address, packet.width, packet.value,
                         [&](unsigned reg, uint64_t mask, uint64_t part) {
                           synchronised |= activities.seen(reg, mask, part);
                           if (mask == description->registers[reg].widthMask())
                             synchronised |= queues.sawRegister(
                                 reg, part, [&](unsigned other) { return registers.described(other); },
                                 [&](const QueueTracker::Fence &fence) { fencePassed(fence); });
                           seenAt[reg] = step;
                           portAccess(noLink, reg, mask, part, false);
                         });
}

void ShadowState::State::registerWrite(uint64_t ordinal, const Packet &packet) {
  registers.write(ordinal, packet.space, packet.address, packet.width, packet.value);
  bool isReset = false;
  registers.visitTouched(packet.space, packet.address, packet.width, packet.value,
                         [&](unsigned reg, uint64_t mask, uint64_t part) {
                           if (!isPort(reg))
                             disturbedAt = step;
                           portAccess(ordinal, reg, mask, part, true);
                           queues.rewind(reg);
                           // A part write completes the value that earlier ones began.
                           uint64_t others = registers.described(reg).value_or(0) & ~mask;
                           for (unsigned activity : activities.written(ordinal, reg, mask, part | others))
                             started(ordinal, activity, part | others);
                           isReset |= queues.resets(reg, mask, part | others);
                         });
  if (isReset)
    forgetDevice(ordinal, true);
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
    const std::optional<unsigned> high =
        transfer.toDevice ? std::nullopt : upperHalfOf(*description, transfer.hostAddress);
    if (where && high) {
      const std::optional<uint64_t> upper = registers.described(*high);
      where = upper
                  ? std::optional(*where | *upper << (8 * description->registers[transfer.hostAddress].width))
                  : std::nullopt;
    }
    if (count && *count == 0)
      continue;
    auto window =
        llvm::find_if(windows, [&](const WindowState &w) { return w.window->name == transfer.window; });
    if (!transfer.toDevice) {
      if (count && where)
        overwriteMemory(ordinal, {*where, *count});
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

void ShadowState::State::overwriteMemory(uint64_t ordinal, const RowRange &rows) {
  rows.visit([&](uint64_t first, uint64_t last) {
    memory.forget(first, last);
    memoryWriters.assign(first, last, ordinal);
  });
}

void ShadowState::State::memoryWritten(uint64_t ordinal, const Packet &packet, const PacketExtra &extra,
                                       const BlobLookup &blobs) {
  RowRange rows = RowRange::of(packet.address, extra.expected, extra);
  llvm::ArrayRef<uint8_t> content = payloadOf(packet, extra, blobs);
  overwriteMemory(ordinal, rows);
  rows.visitContent(content,
                    [&](uint64_t address, llvm::ArrayRef<uint8_t> part) { memory.store(address, part); });
  // A fence in it is still to be written by the device.
  queues.stored(packet.address, rows.empty() ? 0 : rows.last() - rows.address + 1,
                rows.count == 1 ? content : llvm::ArrayRef<uint8_t>(), [&](const QueueTracker::Fence &fence) {
                  memory.forget(fence.address, fence.address + (fence.width - 1));
                  memoryWriters.assign(fence.address, fence.address + (fence.width - 1), fence.ordinal);
                });
}

std::optional<uint64_t> ShadowState::State::wordAt(uint64_t address, unsigned width) const {
  uint8_t bytes[8];
  bool known[8];
  if (memory.load(address, llvm::MutableArrayRef(bytes, width), llvm::MutableArrayRef(known, width)) != width)
    return std::nullopt;
  uint64_t word = 0;
  for (unsigned i = 0; i < width; ++i)
    word |= uint64_t(bytes[i]) << (8 * i);
  return word;
}

void ShadowState::State::submitted(uint64_t ordinal, const Packet &packet, const PacketExtra &extra,
                                   const BlobLookup &blobs) {
  memoryWritten(ordinal, packet, extra, blobs);
  ++commands;
  lastQueue.reset();
  if (!queues.has(packet.value))
    return activities.submitted();
  lastQueue = unsigned(packet.value);
  llvm::ArrayRef<uint8_t> entry = payloadOf(packet, extra, blobs);
  const QueueTracker::Fence *fence = queues.submitted(
      ordinal, packet.value, extra.count, packet.address, entry,
      [&](unsigned reg) { return registers.described(reg); },
      [&](uint64_t address, unsigned width) { return wordAt(address, width); });
  if (fence)
    overwriteMemory(ordinal, {fence->address, fence->width});
  if (queues.changesWindows(packet.value, entry)) {
    // Nothing says where: what was known of them is not known any more, nor who wrote it.
    windowsChanged = ordinal + 1;
    forgetWindows(std::nullopt, false);
  }
}

/// A fence is known to have been written: its value lies there, whether it was looked at or not.
void ShadowState::State::fencePassed(const QueueTracker::Fence &fence) {
  uint8_t bytes[8];
  for (unsigned i = 0; i < fence.width; ++i)
    bytes[i] = uint8_t(fence.value >> (8 * i));
  memory.store(fence.address, llvm::ArrayRef(bytes, fence.width));
}

bool ShadowState::State::fencesSeen(uint64_t address, llvm::ArrayRef<uint8_t> content) {
  return queues.sawMemory(address, content, [&](const QueueTracker::Fence &fence) { fencePassed(fence); });
}

/// Whether a port may be used now, for all that is known. A register that only the device changes says so
/// only as long as nothing was written since it was read.
bool ShadowState::State::portUsable(const InternalWindow::Port &port) const {
  return port.usable.empty() || llvm::any_of(port.usable, [&](const RegisterCondition &condition) {
           std::optional<uint64_t> value = registers.described(condition.reg);
           bool fresh = description->registers[condition.reg].access != RegisterAccess::ReadOnly ||
                        seenAt[condition.reg] > disturbedAt;
           return value && fresh && condition.holds(*value);
         });
}

/// The data register of a window's port shows or changes the window, and moves the address register on.
void ShadowState::State::portAccess(uint64_t ordinal, unsigned reg, uint64_t mask, uint64_t value,
                                    bool write) {
  for (WindowState &window : windows) {
    if (!window.window->port || window.window->port->data != reg)
      continue;
    const InternalWindow::Port &port = *window.window->port;
    unsigned width = description->registers[reg].width;
    std::optional<uint64_t> at = registers.described(port.address);
    uint64_t first = 0, last = 0;
    bool inside = at && window.clip(*at, width, first, last) && last - first + 1 == width;
    if (!portUsable(port) || !inside || mask != description->registers[reg].widthMask()) {
      // Nobody can say whether the access did anything, or where.
      if (write)
        window.forgetAll();
      registers.set(port.address, std::nullopt);
      continue;
    }
    uint8_t bytes[8];
    for (unsigned i = 0; i < width; ++i)
      bytes[i] = uint8_t(value >> (8 * i));
    llvm::ArrayRef<uint8_t> content(bytes, width);
    if (write)
      window.writers.assign(first, last, ordinal);
    if (!activities.idle() || !queues.idle())
      window.content.forget(first, last); // A command that waits may change it as soon as it goes on.
    else if (write)
      window.content.store(first, content);
    else
      window.content.observe(first, content,
                             [&](uint64_t from, uint64_t to) { window.writers.forget(from, to); });
    registers.set(port.address, last == window.last() ? window.window->base : *at + width);
  }
}

bool ShadowState::State::isPort(unsigned reg) const {
  return llvm::any_of(windows, [&](const WindowState &window) {
    return window.window->port && (window.window->port->data == reg || window.window->port->address == reg);
  });
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
  synchronised |= fencesSeen(packet.address, llvm::ArrayRef(bytes, packet.width));
}

void ShadowState::State::acquired(const Packet &packet, const PacketExtra &extra, const BlobLookup &blobs) {
  llvm::ArrayRef<uint8_t> content = payloadOf(packet, extra, blobs);
  memorySeen(packet.address, content);
  fencesSeen(packet.address, content);
  activities.synchronised();
  // The recorder lets the completions of the transfers that this acquire covers follow; the last of them
  // counts.
  synchronised =
      extra.length == 0 || !activities.deviceMayWrite(packet.address, lastOf(packet.address, extra.length));
  endsWithCompletions = true;
}

void ShadowState::State::transferTold(uint64_t ordinal, const Packet &packet, const PacketExtra &extra) {
  OutstandingTransfer transfer;
  if (description && extra.link < description->activities.size())
    transfer.activity = unsigned(extra.link);
  transfer.toDevice = packet.flags & TransferToDevice;
  transfer.host = RowRange::of(packet.address, extra.expected, extra);
  transfer.device = RowRange::of(packet.value, extra.mask, extra);
  transfer.length = extra.length;
  if (!(packet.flags & NotCaptured))
    transfer.payload = extra.payload;
  if (!transfer.activity && extra.link == noLink)
    transfer.queue = lastQueue;
  if (transfer.queue) {
    bool meets = activities.meetsOthers(transfer); // Marks the others, too.
    transfer.uncertain = meets || queues.othersChangeWindows(*transfer.queue);
  }
  activities.descriptor(ordinal, transfer);
  // From here until it is complete, the destination may be anything.
  if (!transfer.toDevice)
    return overwriteMemory(ordinal, transfer.host);
  WindowState *window = windowOf(transfer);
  if (!window)
    return;
  transfer.device.visit([&](uint64_t rowFirst, uint64_t rowLast) {
    uint64_t first, last;
    if (!window->clip(rowFirst, lengthOf(rowFirst, rowLast), first, last))
      return;
    window->content.forget(first, last);
    window->writers.assign(first, last, ordinal);
  });
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
  const RowRange host = RowRange::of(packet.address, extra.expected, extra);
  llvm::ArrayRef<uint8_t> content = payloadOf(packet, extra, blobs);
  bool ended = false;
  std::optional<OutstandingTransfer> transfer = activities.completed(extra.link, ended);
  if (!transfer) {
    // Seen once more: what is there now, whoever put it there.
    host.visitContent(content,
                      [&](uint64_t address, llvm::ArrayRef<uint8_t> part) { memorySeen(address, part); });
    return;
  }
  synchronised = transfer->queue ? endsWithCompletions : ended;
  WindowState *window = windowOf(*transfer);
  // Another queue, or a later command, may have changed the window meanwhile.
  if (transfer->uncertain || (transfer->queue && windowsChanged > extra.link))
    window = nullptr;
  if (transfer->toDevice) {
    if (!window || !transfer->payload || !blobs)
      return;
    llvm::ArrayRef<uint8_t> moved = blobs(transfer->payload);
    if (moved.size() > transfer->length)
      moved = moved.take_front(size_t(transfer->length));
    transfer->device.visitContent(moved, [&](uint64_t address, llvm::ArrayRef<uint8_t> part) {
      part = clipContent(*window, address, part);
      window->content.store(address, part);
    });
    return;
  }
  if (content.size() > transfer->length)
    content = content.take_front(size_t(transfer->length));
  transfer->host.visitContent(
      content, [&](uint64_t address, llvm::ArrayRef<uint8_t> part) { memory.store(address, part); });
  if (!window)
    return;
  transfer->device.visitContent(content, [&](uint64_t address, llvm::ArrayRef<uint8_t> part) {
    part = clipContent(*window, address, part);
    window->content.observe(address, part,
                            [&](uint64_t first, uint64_t last) { window->writers.forget(first, last); });
  });
}

/// The window that a transfer's device side lies in, of those that `transfers` name.
template <typename Transfers>
WindowState *ShadowState::State::windowAmong(const Transfers &transfers,
                                             const OutstandingTransfer &transfer) {
  for (const auto &described : transfers) {
    if (described.toDevice != transfer.toDevice || described.window.empty())
      continue;
    uint64_t first, last;
    for (WindowState &window : windows)
      if (window.window->name == described.window &&
          window.clip(transfer.device.address, lengthOf(transfer.device.address, transfer.device.last()),
                      first, last))
        return &window;
  }
  return nullptr;
}

WindowState *ShadowState::State::windowOf(const OutstandingTransfer &transfer) {
  if (windows.empty() || transfer.length == 0 || transfer.device.empty())
    return nullptr;
  if (transfer.activity)
    return windowAmong(description->activities[*transfer.activity].transfers, transfer);
  if (!transfer.queue)
    return nullptr;
  // Which form of which layout it came from, a list's element perhaps, its packet does not say.
  for (const LayoutDescription &layout : description->layouts)
    for (const EntryForm &form : layout.forms)
      if (WindowState *window = windowAmong(form.transfers, transfer))
        return window;
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
  forgetDevice(ordinal, known);
}

void ShadowState::State::forgetDevice(uint64_t ordinal, bool known) {
  registers.reset(ordinal, known);
  forgetWindows(ordinal, known);
  activities.reset();
  queues.reset();
  lastQueue.reset();
  disturbedAt = step;
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
  queues.lost();
  lastQueue.reset();
  disturbedAt = step;
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
  return state->activities.idle() && state->queues.idle();
}
std::vector<std::string> ShadowState::running() const {
  std::vector<std::string> names = state->activities.names();
  for (std::string &name : state->queues.names())
    names.push_back(std::move(name));
  return names;
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
