// Feeds a Collector with records as a client library would write them, and lets a test write worse ones.
#pragma once

#include "recorder/Collector.h"
#include "tests/recorder/MemoryTape.h"

namespace tapeback::test {

/// The description that the collector's tests use: a copy engine with a start, an end, and two transfers.
inline constexpr const char *copyEngineYaml = R"(
tapeback-description: 1
name: copy-engine
version: "1"
spaces: [bar0]
registers:
  - {name: PLAIN, space: bar0, offset: 0x0, width: 4}
  - {name: SRC, space: bar0, offset: 0x80, width: 8, class: address-low, policy: relocate, reset: 0}
  - {name: DST, space: bar0, offset: 0x88, width: 8, class: address-low, policy: relocate, reset: 0}
  - {name: COUNT, space: bar0, offset: 0x90, width: 8, reset: 0}
  - name: CMD
    space: bar0
    offset: 0x98
    width: 8
    class: poll
    reset: 0
    fields:
      - {name: RUN, bits: 0}
      - {name: FROM, bits: 1}
windows:
  - {name: buffer, base: 0x40000, size: 4096, reset: 0}
activities:
  - name: copy
    starts: {register: CMD, mask: 0x1, value: 0x1}
    done:
      - {register: CMD, mask: 0x1, value: 0x0}
    transfers:
      - when: {register: CMD, mask: 0x2, value: 0x0}
        direction: to-device
        host-address: SRC
        device-address: DST
        count: COUNT
        window: buffer
      - when: {register: CMD, mask: 0x2, value: 0x2}
        direction: from-device
        host-address: DST
        device-address: SRC
        count: COUNT
        window: buffer
restore:
  - {window: buffer}
)";

/// A device with a queue: its entries load and store, signal, or compute.
inline constexpr const char *queueEngineYaml = R"(
tapeback-description: 1
name: queue-engine
spaces: [bar0]
registers:
  - {name: BASE, offset: 0x0, width: 8, reset: 0}
  - {name: SIZE, offset: 0x80, width: 8, reset: 0}
  - {name: HEAD, offset: 0x88, width: 8, access: ro}
  - {name: BELL, offset: 0x90, width: 8, access: wo}
  - {name: STATUS, offset: 0x98, width: 8, access: ro}
windows:
  - {name: pad, base: 0, size: 4096, reset: 0}
layouts:
  - name: entry
    size: 32
    opcode: {offset: 0, width: 1}
    forms:
      - {name: MATH, opcode: 0}
      - name: MOVE
        opcode: 1
        fields:
          - {name: host, offset: 8, width: 8, address: true}
          - {name: at, offset: 16}
          - {name: bytes, offset: 20}
          - {name: store, offset: 1, width: 1}
        transfers:
          - {when: {field: store, value: 0}, direction: to-device, host-address: host, row-bytes: bytes, device-address: at, window: pad}
          - {when: {field: store, value: 1}, direction: from-device, host-address: host, row-bytes: bytes, device-address: at, window: pad}
      - name: FENCE
        opcode: 2
        fields: [{name: host, offset: 8, width: 8, address: true}, {name: value, offset: 16, width: 8}]
        fence: {address: host, value: value}
      - name: LIST
        opcode: 3
        fields: [{name: next, offset: 8, width: 8, address: true}]
        chain: {address: next, layout: entry, limit: 9}
queues:
  - {name: q, base: BASE, size: SIZE, head: HEAD, doorbell: BELL, rewind: [SIZE], layout: entry}
idle: [{register: STATUS, mask: 1, value: 0}]
resets: [{register: BELL, value: 0xdead}]
)";

inline CollectorDevice queueEngine(const std::string &alias) {
  CollectorDevice device;
  device.alias = alias;
  device.uri = "null:";
  device.descriptionText = queueEngineYaml;
  device.descriptionName = "queue-engine";
  llvm::Expected<Description> description = parseDescription(queueEngineYaml, "queue-engine.yaml");
  if (description)
    device.description = std::move(*description);
  else
    llvm::consumeError(description.takeError()); // The test sees a device without description, and fails.
  return device;
}

inline CollectorDevice copyEngine(const std::string &alias) {
  CollectorDevice device;
  device.alias = alias;
  device.uri = "null:";
  device.descriptionText = copyEngineYaml;
  device.descriptionName = "copy-engine";
  llvm::Expected<Description> description = parseDescription(copyEngineYaml, "copy-engine.yaml");
  if (description)
    device.description = std::move(*description);
  else
    llvm::consumeError(description.takeError()); // The test sees a device without description, and fails.
  return device;
}

class Feeder {
public:
  /// The last device has queues if `queues` says so.
  explicit Feeder(CollectorOptions options = {}, unsigned devices = 1, bool queues = false) {
    std::vector<CollectorDevice> list;
    for (unsigned i = 0; i < devices; ++i) {
      std::string alias(1, char('a' + i));
      list.push_back(queues && i + 1 == devices ? queueEngine(alias) : copyEngine(alias));
    }
    collector = std::make_unique<Collector>(tape, std::move(list), std::move(options));
  }

  static ring::Record record(ring::RecordType type, PacketKind kind, uint16_t thread = 0,
                             uint16_t device = 0) {
    ring::Record r = {};
    r.type = type;
    r.kind = uint8_t(kind);
    r.thread = thread;
    r.device = device;
    return r;
  }
  void give(ring::Record r, llvm::ArrayRef<uint8_t> payload = {}) {
    if (!r.time)
      r.time = ++now;
    r.payloadBytes = payload.size();
    collector->accept(r, payload);
  }
  void give(ring::Record r, llvm::StringRef text) {
    give(r, llvm::ArrayRef<uint8_t>(reinterpret_cast<const uint8_t *>(text.data()), text.size()));
  }

  void open(uint16_t device = 0, llvm::StringRef extra = {}) {
    std::string payload("1\0bar0\0name\0copy-engine\0", 24);
    payload += extra;
    ring::Record r = record(ring::RecordType::DeviceOpen, PacketKind::Open, 0, device);
    r.sequence = ++sequence;
    give(r, payload);
  }
  uint64_t issue(PacketKind kind, uint16_t thread, const std::function<void(ring::Record &)> &change = {},
                 llvm::ArrayRef<uint8_t> payload = {}) {
    ring::Record r = record(ring::RecordType::Issue, kind, thread);
    r.sequence = ++sequence;
    if (change)
      change(r);
    last[thread] = r;
    give(r, payload);
    return r.sequence;
  }
  void complete(uint16_t thread, uint64_t value = 0, Completion completion = Completion::Done,
                llvm::ArrayRef<uint8_t> payload = {}) {
    ring::Record r = last[thread];
    r.type = ring::RecordType::Complete;
    r.time = 0;
    r.value = value;
    r.completion = uint8_t(completion);
    give(r, payload);
  }
  uint64_t event(PacketKind kind, const std::function<void(ring::Record &)> &change = {},
                 llvm::ArrayRef<uint8_t> payload = {}) {
    ring::Record r = record(ring::RecordType::Event, kind);
    r.sequence = ++sequence;
    if (change)
      change(r);
    give(r, payload);
    return r.sequence;
  }
  static llvm::ArrayRef<uint8_t> bytes(llvm::StringRef text) {
    return {reinterpret_cast<const uint8_t *>(text.data()), text.size()};
  }
  void mark(llvm::StringRef name) { event(PacketKind::Marker, {}, bytes(name)); }
  uint64_t read(uint64_t offset, uint64_t value, uint16_t thread = 0) {
    uint64_t name = issue(PacketKind::RegisterRead, thread, at(offset));
    complete(thread, value);
    return name;
  }
  uint64_t write(uint64_t offset, uint64_t value, uint16_t thread = 0) {
    uint64_t name = issue(PacketKind::RegisterWrite, thread, [&](ring::Record &r) {
      at(offset)(r);
      r.value = value;
    });
    complete(thread, value);
    return name;
  }
  static std::function<void(ring::Record &)> at(uint64_t offset) {
    return [offset](ring::Record &r) {
      r.space = 1;
      r.address = offset;
      r.width = offset >= 0x80 ? 8 : 4;
    };
  }
  /// What a client puts in front of a doorbell. Returns the descriptor's name.
  uint64_t transfer(bool toDevice, uint64_t iova, uint64_t deviceAddress, llvm::StringRef content) {
    event(
        PacketKind::MemoryWrite,
        [&](ring::Record &r) {
          r.address = iova;
          r.length = content.size();
        },
        bytes(content));
    return event(PacketKind::DmaDescriptor, [&](ring::Record &r) {
      r.address = iova;
      r.length = content.size();
      r.value = deviceAddress;
      r.flags = toDevice ? TransferToDevice : TransferFromDevice;
      r.hints = toDevice ? uint32_t(ring::SamePayload) : 0;
    });
  }
  void transferDone(uint64_t descriptor, bool toDevice, uint64_t iova, llvm::StringRef content) {
    event(
        PacketKind::DmaCompletion,
        [&](ring::Record &r) {
          r.address = iova;
          r.length = content.size();
          r.link = descriptor;
          r.flags = toDevice ? TransferToDevice : TransferFromDevice;
        },
        toDevice ? llvm::ArrayRef<uint8_t>() : bytes(content));
  }
  void map(uint64_t iova, uint64_t length) {
    issue(PacketKind::MemoryMap, 0, [&](ring::Record &r) { r.length = length; });
    last[0].address = iova;
    complete(0);
  }
  llvm::Expected<TapeSummary> finish(ProgramFate fate = {0, std::nullopt}) { return collector->finish(fate); }

  /// Packets on the tape of that kind.
  std::vector<size_t> find(PacketKind kind) const {
    std::vector<size_t> found;
    for (size_t i = 0; i < tape.packets.size(); ++i)
      if (tape.packets[i].kind == kind)
        found.push_back(i);
    return found;
  }

  MemoryTape tape;
  std::unique_ptr<Collector> collector;
  std::map<uint16_t, ring::Record> last;
  uint64_t sequence = 0, now = 1000;
};

} // namespace tapeback::test
