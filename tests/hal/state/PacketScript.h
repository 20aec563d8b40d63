// Packets for tests of ShadowState: says in one line each what a program and a device do.
#pragma once

#include "format/Packet.h"
#include "hal/state/ShadowState.h"
#include <map>
#include <string>
#include <vector>

namespace tapeback {

/// Feeds a ShadowState of device 0; space 1 is bar0. Each function returns the packet's ordinal.
class PacketScript {
public:
  explicit PacketScript(const Description *description, ShadowLimits limits = {})
      : state(description, {"memory", "bar0"}, 0, limits) {}

  uint64_t apply(Packet packet, PacketExtra extra = {}) {
    state.apply(next, packet, extra, lookup());
    return next++;
  }
  ShadowState::BlobLookup lookup() const {
    return [this](BlobId id) {
      auto found = blobs.find(id.lo);
      return found == blobs.end() ? llvm::ArrayRef<uint8_t>() : llvm::ArrayRef<uint8_t>(found->second);
    };
  }
  BlobId store(llvm::ArrayRef<uint8_t> content) {
    blobs[++lastBlob] = content.vec();
    return {1, lastBlob};
  }

  uint64_t access(PacketKind kind, uint64_t address, unsigned width, uint64_t value,
                  Completion completion = Completion::Done) {
    Packet packet;
    packet.kind = kind;
    packet.space = 1;
    packet.address = address;
    packet.width = uint8_t(width);
    packet.value = value;
    packet.completion = completion;
    return apply(packet);
  }
  uint64_t write(uint64_t address, uint64_t value, unsigned width = 4) {
    return access(PacketKind::RegisterWrite, address, width, value);
  }
  uint64_t read(uint64_t address, uint64_t value, unsigned width = 4) {
    return access(PacketKind::RegisterRead, address, width, value);
  }
  uint64_t poll(uint64_t address, uint64_t value, unsigned width = 4) {
    return access(PacketKind::Poll, address, width, value);
  }

  uint64_t range(PacketKind kind, uint64_t address, uint64_t length, uint8_t flags = 0, uint64_t value = 0,
                 uint64_t link = noLink) {
    Packet packet;
    packet.kind = kind;
    packet.address = address;
    packet.flags = flags;
    packet.value = value;
    PacketExtra extra;
    extra.length = length;
    extra.link = link;
    return apply(packet, extra);
  }
  uint64_t content(PacketKind kind, uint64_t address, const std::vector<uint8_t> &bytes, uint8_t flags = 0,
                   uint64_t value = 0, uint64_t link = noLink) {
    Packet packet;
    packet.kind = kind;
    packet.address = address;
    packet.flags = flags;
    packet.value = value;
    PacketExtra extra;
    extra.length = bytes.size();
    extra.link = link;
    extra.payload = store(bytes);
    return apply(packet, extra);
  }
  uint64_t map(uint64_t address, uint64_t length) { return range(PacketKind::MemoryMap, address, length); }
  uint64_t memoryWrite(uint64_t address, const std::vector<uint8_t> &bytes) {
    return content(PacketKind::MemoryWrite, address, bytes);
  }
  uint64_t acquire(uint64_t address, const std::vector<uint8_t> &bytes) {
    return content(PacketKind::Acquire, address, bytes);
  }
  uint64_t event(PacketKind kind, uint64_t value = 0, Completion completion = Completion::Done) {
    Packet packet;
    packet.kind = kind;
    packet.value = value;
    packet.completion = completion;
    return apply(packet);
  }
  uint64_t reset(uint64_t kind = 0) { return event(PacketKind::Reset, kind); }
  uint64_t loss(LossCause cause) {
    Packet packet;
    packet.kind = PacketKind::Loss;
    packet.device = 77; // Whoever it names.
    packet.address = uint64_t(cause);
    return apply(packet);
  }
  uint64_t mark(const std::string &name) {
    return content(PacketKind::Marker, 0, std::vector<uint8_t>(name.begin(), name.end()));
  }

  /// edu: tells it a transfer as the recorder records it, up to the write of DMA_CMD. Returns the descriptor.
  uint64_t startDma(bool toDevice, uint64_t host, uint64_t device, const std::vector<uint8_t> &bytes) {
    write(0x80, toDevice ? host : device, 8);
    write(0x88, toDevice ? device : host, 8);
    write(0x90, bytes.size(), 8);
    memoryWrite(host, toDevice ? bytes : std::vector<uint8_t>(bytes.size(), 0xee));
    uint64_t descriptor =
        toDevice ? content(PacketKind::DmaDescriptor, host, bytes, TransferToDevice, device, 0)
                 : range(PacketKind::DmaDescriptor, host, bytes.size(), TransferFromDevice, device, 0);
    command = write(0x98, toDevice ? 1 : 3, 8);
    return descriptor;
  }
  /// Its completion, after the poll that saw it.
  uint64_t finishDma(uint64_t descriptor, uint64_t host, const std::vector<uint8_t> &fromDevice = {}) {
    return fromDevice.empty()
               ? range(PacketKind::DmaCompletion, host, 0, 0, 0, descriptor)
               : content(PacketKind::DmaCompletion, host, fromDevice, TransferFromDevice, 0, descriptor);
  }
  void dma(bool toDevice, uint64_t host, uint64_t device, const std::vector<uint8_t> &bytes) {
    uint64_t descriptor = startDma(toDevice, host, device, bytes);
    poll(0x98, toDevice ? 0 : 2, 8);
    finishDma(descriptor, host, toDevice ? std::vector<uint8_t>() : bytes);
  }

  llvm::Expected<Keyframe> keyframe() {
    return state.keyframe(
        [this](llvm::ArrayRef<uint8_t> bytes) -> llvm::Expected<BlobId> { return store(bytes); });
  }
  /// The content, with '?' for what is not known.
  std::string memory(uint64_t address, size_t size) {
    std::vector<uint8_t> bytes(size);
    auto known = std::make_unique<bool[]>(size);
    state.memoryContent(address, bytes, llvm::MutableArrayRef<bool>(known.get(), size));
    return text(bytes, known.get());
  }
  std::string window(uint64_t address, size_t size) {
    std::vector<uint8_t> bytes(size);
    auto known = std::make_unique<bool[]>(size);
    state.windowContent("buffer", address, bytes, llvm::MutableArrayRef<bool>(known.get(), size));
    return text(bytes, known.get());
  }
  static std::string text(const std::vector<uint8_t> &bytes, const bool *known) {
    std::string result;
    for (size_t i = 0; i < bytes.size(); ++i)
      result += known[i] ? char(bytes[i]) : '?';
    return result;
  }

  ShadowState state;
  uint64_t next = 0;
  uint64_t command = 0; ///< Ordinal of startDma's last write.
  std::map<uint64_t, std::vector<uint8_t>> blobs;
  uint64_t lastBlob = 0;
};

inline std::vector<uint8_t> bytesOf(const std::string &text) {
  return {text.begin(), text.end()};
}

} // namespace tapeback
