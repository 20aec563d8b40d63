#include "tests/replayer/QueueProgram.h"
#include "replayer/Rows.h"
#include "tests/replayer/OrThrow.h"

namespace tapeback::test {

static void gather(Target &target, const Rows &rows, llvm::MutableArrayRef<uint8_t> out) {
  for (uint64_t row = 0; row < rows.count; ++row)
    orThrow(target.readMemory(rows.rowAddress(row), out.slice(row * rows.rowBytes, rows.rowBytes)));
}

TargetCapabilities FilterTarget::capabilities() const {
  TargetCapabilities result = inner->capabilities();
  result.peek &= peeks;
  return result;
}

llvm::Expected<uint64_t> FilterTarget::read(TargetSpaceId space, uint64_t address, unsigned width) {
  ++reads;
  llvm::Expected<uint64_t> value = inner->read(space, address, width);
  if (value && onRead)
    *value = onRead(address, *value);
  return value;
}

llvm::Error FilterTarget::readMemory(uint64_t iova, llvm::MutableArrayRef<uint8_t> out) {
  ++memoryReads;
  if (llvm::Error error = inner->readMemory(iova, out))
    return error;
  if (onReadMemory)
    onReadMemory(iova, out);
  return llvm::Error::success();
}

llvm::Error FilterTarget::writeMemory(uint64_t iova, llvm::ArrayRef<uint8_t> in) {
  ++memoryWrites;
  if (llvm::Error error = inner->writeMemory(iova, in))
    return error;
  if (afterWriteMemory)
    afterWriteMemory(iova, in);
  return llvm::Error::success();
}

std::unique_ptr<FilterTarget> openMinnow(const std::string &uri) {
  return std::make_unique<FilterTarget>(orThrow(openTarget(uri)));
}

static constexpr uint64_t queueRegister(unsigned q, uint64_t offset) {
  return MINNOW_QUEUE + MINNOW_QUEUE_STRIDE * q + offset;
}

QueueProgram::QueueProgram(uint32_t entries, const std::string &uri)
    : theTape(std::make_unique<MemoryTape>()), device(openMinnow(uri)), entries(entries) {
  DescriptionText text = orThrow(loadDescriptionText("minnow"));
  parsed = orThrow(parseDescription(text.text, text.name));
  DeviceRecord record;
  record.alias = "minnow";
  record.targetUri = uri;
  record.descriptionName = "minnow";
  record.description = text.text;
  theTape->theDevices.push_back(record);
  theTape->theSpaces.push_back("bar0");
  shadow = std::make_unique<ShadowState>(&parsed, theTape->theSpaces, 0);
  Packet reset;
  reset.kind = PacketKind::Reset;
  reset.origin = Origin::Recorder;
  orThrow(device->reset(ResetKind::Default));
  append(reset);
  MapRequest request;
  request.size = size;
  request.iova = base;
  orThrow(device->map(request));
  Packet map;
  map.kind = PacketKind::MemoryMap;
  map.address = base;
  PacketExtra extra;
  extra.length = size;
  append(map, extra);
  store(base, std::vector<uint8_t>(size));
  for (unsigned q = 0; q < 2; ++q) {
    write(queueRegister(q, MINNOW_Q_BASE_LO), uint32_t(base + q * 0x10000));
    write(queueRegister(q, MINNOW_Q_BASE_HI), 0);
    write(queueRegister(q, MINNOW_Q_SIZE), entries);
  }
  write(MINNOW_CONTROL, MINNOW_CONTROL_ENABLE);
}

std::unique_ptr<MemoryTape> QueueProgram::finish() {
  theTape->endWindow(shadow->quiescent());
  return std::move(theTape);
}

uint64_t QueueProgram::append(Packet packet, PacketExtra extra) {
  time += 100;
  packet.issueTime = time;
  packet.completeTime = time + 50;
  bool sync = shadow->atSynchronisation() && packet.kind != PacketKind::DmaCompletion;
  if (sync || packet.kind == PacketKind::Marker)
    theTape->endWindow(shadow->quiescent());
  uint64_t ordinal = theTape->add(packet, extra);
  shadow->apply(ordinal, packet, extra, [&](BlobId id) { return llvm::cantFail(theTape->blob(id)); });
  return ordinal;
}

uint64_t QueueProgram::raw(Packet packet, PacketExtra extra) {
  return append(packet, extra);
}

uint64_t QueueProgram::write(uint64_t offset, uint32_t value) {
  orThrow(device->write(0, offset, 4, value));
  Packet packet;
  packet.kind = PacketKind::RegisterWrite;
  packet.space = 1;
  packet.width = 4;
  packet.address = offset;
  packet.value = value;
  return append(packet);
}

uint64_t QueueProgram::read(uint64_t offset) {
  Packet packet;
  packet.kind = PacketKind::RegisterRead;
  packet.space = 1;
  packet.width = 4;
  packet.address = offset;
  packet.value = orThrow(device->read(0, offset, 4));
  return append(packet);
}

uint64_t QueueProgram::store(uint64_t iova, llvm::ArrayRef<uint8_t> content) {
  orThrow(device->writeMemory(iova, content));
  Packet packet;
  packet.kind = PacketKind::MemoryWrite;
  packet.address = iova;
  PacketExtra extra;
  extra.length = content.size();
  extra.payload = theTape->store(content);
  return append(packet, extra);
}

uint64_t QueueProgram::marker(llvm::StringRef name) {
  Packet packet;
  packet.kind = PacketKind::Marker;
  PacketExtra extra;
  extra.payload = theTape->storeText(name);
  return append(packet, extra);
}

uint64_t QueueProgram::wait(uint64_t iova, uint64_t value, bool timesOut) {
  Packet packet;
  packet.kind = PacketKind::MemoryWait;
  packet.address = iova;
  packet.width = 8;
  PacketExtra extra;
  extra.mask = ~uint64_t(0);
  extra.expected = value;
  extra.deadline = 1'000'000;
  packet.completion = Completion::TimedOut;
  for (unsigned i = 0; i < 1000 && packet.completion != Completion::Done; ++i) {
    uint8_t bytes[8];
    orThrow(device->readMemory(iova, bytes));
    packet.value = 0;
    for (unsigned b = 0; b < 8; ++b)
      packet.value |= uint64_t(bytes[b]) << (8 * b);
    if (packet.value == value)
      packet.completion = Completion::Done;
    else
      orThrow(device->advance(1000));
  }
  if (timesOut != (packet.completion == Completion::TimedOut))
    throw std::runtime_error("a wait did not end as the test wants it to");
  return append(packet, extra);
}

uint64_t QueueProgram::acquire(uint64_t iova, uint64_t length) {
  Packet packet;
  packet.kind = PacketKind::Acquire;
  packet.address = iova;
  PacketExtra extra;
  extra.length = length;
  extra.payload = theTape->store(memory(iova, length));
  return append(packet, extra);
}

QueueProgram::Submitted QueueProgram::submit(unsigned q, const minnow_command &command, uint8_t flags) {
  llvm::ArrayRef<uint8_t> bytes(reinterpret_cast<const uint8_t *>(command.w), sizeof command.w);
  Packet packet;
  packet.kind = PacketKind::Submit;
  packet.address = base + q * 0x10000 + 64 * tail[q];
  packet.value = q;
  PacketExtra extra;
  extra.length = 64;
  extra.count = submits[q]++;
  extra.payload = theTape->store(bytes);
  orThrow(device->writeMemory(packet.address, bytes));
  tail[q] = (tail[q] + 1) % entries;
  Submitted result;
  result.submit = append(packet, extra);
  uint8_t opcode = uint8_t(command.w[0]);
  if (opcode != MINNOW_DMA_LOAD && opcode != MINNOW_DMA_STORE)
    return result;
  Packet descriptor;
  descriptor.kind = PacketKind::DmaDescriptor;
  descriptor.address = command.w[2] | uint64_t(command.w[3]) << 32;
  descriptor.value = command.w[4];
  descriptor.flags = uint8_t((opcode == MINNOW_DMA_LOAD ? TransferToDevice : TransferFromDevice) | flags);
  PacketExtra rows;
  rows.length = uint64_t(command.w[5]) * command.w[6];
  rows.count = command.w[6];
  rows.expected = command.w[7];
  rows.mask = command.w[8];
  if (opcode == MINNOW_DMA_LOAD && !(flags & (DeviceOwned | NotCaptured))) {
    std::vector<uint8_t> content(rows.length);
    gather(*device, orThrow(Rows::of(descriptor, rows)), content);
    rows.payload = theTape->store(content);
  }
  result.descriptor = append(descriptor, rows);
  return result;
}

uint64_t QueueProgram::doorbell(unsigned q) {
  return write(queueRegister(q, MINNOW_Q_DOORBELL), tail[q]);
}

uint64_t QueueProgram::rewind(unsigned q) {
  tail[q] = 0;
  return write(queueRegister(q, MINNOW_Q_SIZE), entries);
}

uint64_t QueueProgram::completion(uint64_t descriptor, bool again) {
  Packet packet = theTape->packets[descriptor];
  PacketExtra extra = theTape->extras[descriptor];
  packet.kind = PacketKind::DmaCompletion;
  packet.value = again;
  extra.link = descriptor;
  extra.payload = {};
  if (packet.flags & TransferFromDevice) {
    std::vector<uint8_t> content(extra.length);
    gather(*device, orThrow(Rows::of(packet, extra)), content);
    extra.payload = theTape->store(content);
  }
  return append(packet, extra);
}

void QueueProgram::settle() {
  orThrow(device->advance(1'000'000'000));
}

std::vector<uint8_t> QueueProgram::memory(uint64_t iova, uint64_t length) {
  std::vector<uint8_t> content(length);
  orThrow(device->readMemory(iova, content));
  return content;
}

} // namespace tapeback::test
