#include "tests/replayer/ToyProgram.h"
#include "tests/replayer/OrThrow.h"

namespace tapeback::test {

ToyProgram::ToyProgram(ToyOptions given, bool described)
    : theTape(std::make_unique<MemoryTape>()), options(std::move(given)),
      device(std::make_unique<ScriptedTarget>(options)),
      parsed(orThrow(parseDescription(toy::description, "toy"))) {
  DeviceRecord record;
  record.alias = "toy";
  record.targetUri = "scripted:";
  record.identity = options.facts;
  record.descriptionName = "toy";
  if (described)
    record.description = toy::description;
  theTape->theDevices.push_back(record);
  theTape->theSpaces.push_back("bar0");
  shadow = std::make_unique<ShadowState>(described ? &parsed : nullptr, theTape->theSpaces, 0);
}

std::unique_ptr<MemoryTape> ToyProgram::finish() {
  theTape->endWindow(shadow->quiescent());
  return std::move(theTape);
}

Packet ToyProgram::packetOf(PacketKind kind, uint64_t address, unsigned width) {
  Packet packet;
  packet.kind = kind;
  packet.address = address;
  packet.width = uint8_t(width);
  packet.space = width ? 1 : 0;
  return packet;
}

uint64_t ToyProgram::append(Packet packet, PacketExtra extra) {
  time += 100;
  packet.issueTime = time;
  packet.completeTime = packet.completion == Completion::Pending ? 0 : time + 50;
  // As the recorder does: completions belong to the window of what made them known.
  bool sync = shadow->atSynchronisation() && packet.kind != PacketKind::DmaCompletion;
  if (sync || packet.kind == PacketKind::Marker)
    theTape->endWindow(shadow->quiescent());
  uint64_t ordinal = theTape->add(packet, extra);
  shadow->apply(ordinal, packet, extra, [&](BlobId id) { return llvm::cantFail(theTape->blob(id)); });
  return ordinal;
}

uint64_t ToyProgram::raw(Packet packet, PacketExtra extra) {
  return append(packet, extra);
}

uint64_t ToyProgram::open() {
  PacketExtra name;
  name.payload = theTape->storeText("toy");
  uint64_t first = append(packetOf(PacketKind::Open, 0), name);
  orThrow(device->reset(ResetKind::Default));
  Packet reset = packetOf(PacketKind::Reset, 0);
  reset.origin = Origin::Recorder;
  append(reset);
  for (uint64_t offset : {toy::id, toy::scratch, toy::irq}) {
    Packet seen = packetOf(PacketKind::RegisterRead, offset, 4);
    seen.origin = Origin::Recorder;
    seen.value = orThrow(device->read(0, offset, 4));
    append(seen);
  }
  return first;
}

uint64_t ToyProgram::map(uint64_t iova, uint64_t length) {
  MapRequest request;
  request.size = length;
  request.iova = iova;
  orThrow(device->map(request));
  PacketExtra extra;
  extra.length = length;
  uint64_t first = append(packetOf(PacketKind::MemoryMap, iova), extra);
  std::vector<uint8_t> zeroes(length);
  store(iova, zeroes);
  return first;
}

uint64_t ToyProgram::unmap(uint64_t iova) {
  orThrow(device->unmap(iova));
  return append(packetOf(PacketKind::MemoryUnmap, iova));
}

uint64_t ToyProgram::write(uint64_t offset, uint64_t value, unsigned width) {
  orThrow(device->write(0, offset, width, value));
  Packet packet = packetOf(PacketKind::RegisterWrite, offset, width);
  packet.value = value;
  return append(packet);
}

uint64_t ToyProgram::read(uint64_t offset, unsigned width) {
  Packet packet = packetOf(PacketKind::RegisterRead, offset, width);
  packet.value = orThrow(device->read(0, offset, width));
  return append(packet);
}

uint64_t ToyProgram::poll(uint64_t offset, uint64_t mask, uint64_t expected, uint64_t deadline,
                          unsigned width) {
  Packet packet = packetOf(PacketKind::Poll, offset, width);
  PacketExtra extra;
  extra.mask = mask;
  extra.expected = expected;
  extra.deadline = deadline;
  packet.completion = Completion::TimedOut;
  for (uint64_t passed = 0; passed <= deadline; passed += 1000) {
    packet.value = orThrow(device->read(0, offset, width));
    ++extra.count;
    if ((packet.value & mask) == expected) {
      packet.completion = Completion::Done;
      break;
    }
    orThrow(device->advance(1000));
  }
  return append(packet, extra);
}

std::vector<uint8_t> ToyProgram::memory(uint64_t iova, uint64_t length) {
  std::vector<uint8_t> bytes(length);
  orThrow(device->readMemory(iova, bytes));
  return bytes;
}

uint64_t ToyProgram::store(uint64_t iova, llvm::ArrayRef<uint8_t> content) {
  orThrow(device->writeMemory(iova, content));
  PacketExtra extra;
  extra.length = content.size();
  extra.payload = theTape->store(content);
  return append(packetOf(PacketKind::MemoryWrite, iova), extra);
}

uint64_t ToyProgram::load(uint64_t iova, uint64_t length) {
  PacketExtra extra;
  extra.length = length;
  extra.payload = theTape->store(memory(iova, length));
  return append(packetOf(PacketKind::MemoryRead, iova), extra);
}

uint64_t ToyProgram::acquire(uint64_t iova, uint64_t length) {
  PacketExtra extra;
  extra.length = length;
  extra.payload = theTape->store(memory(iova, length));
  return append(packetOf(PacketKind::Acquire, iova), extra);
}

uint64_t ToyProgram::waitMemory(uint64_t iova, unsigned width, uint64_t mask, uint64_t expected) {
  Packet packet = packetOf(PacketKind::MemoryWait, iova, width);
  packet.space = 0;
  PacketExtra extra;
  extra.mask = mask;
  extra.expected = expected;
  extra.deadline = 1'000'000'000;
  packet.completion = Completion::TimedOut;
  for (int i = 0; i < 1000; ++i) {
    std::vector<uint8_t> bytes = memory(iova, width);
    packet.value = 0;
    for (unsigned b = 0; b < width; ++b)
      packet.value |= uint64_t(bytes[b]) << (8 * b);
    if ((packet.value & mask) == expected) {
      packet.completion = Completion::Done;
      break;
    }
    orThrow(device->advance(1000));
  }
  return append(packet, extra);
}

uint64_t ToyProgram::waitInterrupt(uint64_t deadline) {
  Packet packet = packetOf(PacketKind::Interrupt, 0);
  PacketExtra extra;
  extra.deadline = deadline;
  InterruptResult result = orThrow(device->waitInterrupt(0, deadline));
  extra.count = result.count;
  packet.completion = result.fired ? Completion::Done : Completion::TimedOut;
  return append(packet, extra);
}

uint64_t ToyProgram::counter(uint64_t id) {
  Packet packet = packetOf(PacketKind::CounterSnapshot, id);
  packet.value = orThrow(device->read(0, id == 0 ? toy::exact : toy::rate, 4));
  return append(packet);
}

uint64_t ToyProgram::marker(llvm::StringRef name) {
  PacketExtra extra;
  extra.payload = theTape->storeText(name);
  return append(packetOf(PacketKind::Marker, 0), extra);
}

uint64_t ToyProgram::reset() {
  orThrow(device->reset(ResetKind::Default));
  return append(packetOf(PacketKind::Reset, 0));
}

uint64_t ToyProgram::checkEqual(llvm::StringRef name, uint64_t link, uint64_t expected) {
  Packet packet = packetOf(PacketKind::Oracle, 0);
  packet.value = theTape->packets[link].value;
  PacketExtra extra;
  extra.payload = theTape->storeText(name);
  extra.mask = ~uint64_t(0);
  extra.expected = expected;
  extra.link = link;
  if (packet.value != expected)
    packet.flags |= Failed;
  return append(packet, extra);
}

uint64_t ToyProgram::check(llvm::StringRef name, bool holds) {
  Packet packet = packetOf(PacketKind::Oracle, 0);
  packet.value = holds;
  PacketExtra extra;
  extra.payload = theTape->storeText(name);
  extra.expected = 1;
  if (!holds)
    packet.flags |= Failed;
  return append(packet, extra);
}

uint64_t ToyProgram::checkMemory(llvm::StringRef name, uint64_t iova, llvm::ArrayRef<uint8_t> expected) {
  uint64_t link = acquire(iova, expected.size());
  std::vector<uint8_t> actual = memory(iova, expected.size());
  Packet packet = packetOf(PacketKind::Oracle, iova);
  PacketExtra extra;
  extra.payload = theTape->storeText(name);
  extra.length = expected.size();
  extra.link = link;
  for (size_t i = 0; i < expected.size(); ++i)
    if (actual[i] != expected[i]) {
      packet.flags |= Failed;
      packet.value = actual[i];
      extra.expected = expected[i];
      extra.count = i;
      break;
    }
  return append(packet, extra);
}

uint64_t ToyProgram::loss(uint64_t count, LossCause cause) {
  Packet packet = packetOf(PacketKind::Loss, uint64_t(cause));
  packet.value = count;
  return append(packet);
}

ToyProgram::Dma ToyProgram::dma(bool toDevice, uint64_t host, uint64_t bufferOffset, uint64_t length,
                                bool interrupt) {
  Dma result;
  write(toy::source, toDevice ? host : toy::bufferBase + bufferOffset, 8);
  write(toy::destination, toDevice ? toy::bufferBase + bufferOffset : host, 8);
  write(toy::count, length, 8);
  store(host, memory(host, length));
  Packet descriptor = packetOf(PacketKind::DmaDescriptor, host);
  descriptor.flags = toDevice ? TransferToDevice : TransferFromDevice;
  descriptor.value = toy::bufferBase + bufferOffset;
  PacketExtra told;
  told.length = length;
  told.link = 0;
  if (toDevice)
    told.payload = theTape->store(memory(host, length));
  result.descriptor = append(descriptor, told);
  result.doorbell = write(toy::command, 1 | (toDevice ? 0 : 2) | (interrupt ? 4 : 0));
  result.window = openWindow();
  result.poll = poll(toy::command, 1, 0);
  Packet completion = packetOf(PacketKind::DmaCompletion, host);
  completion.flags = descriptor.flags;
  completion.value = descriptor.value;
  PacketExtra done;
  done.length = length;
  done.link = result.descriptor;
  if (!toDevice)
    done.payload = theTape->store(memory(host, length));
  result.completion = append(completion, done);
  return result;
}

uint64_t ToyProgram::square(uint64_t n) {
  uint64_t first = write(toy::square, n);
  poll(toy::status, 1, 0);
  read(toy::square);
  return first;
}

ToyWorkload makeWorkload(uint64_t seed, unsigned operations, ToyOptions options) {
  ToyWorkload work;
  std::mt19937_64 random(seed);
  auto pick = [&](uint64_t low, uint64_t high) { return low + random() % (high - low + 1); };
  ToyProgram program(std::move(options));
  program.open();
  program.map(toyMemory, toyMemorySize);
  auto transfer = [&](bool toDevice, bool interrupt) {
    uint64_t length = pick(1, 64), offset = pick(0, toy::bufferSize - length);
    uint64_t host = toyMemory + pick(0, toyMemorySize - length);
    if (toDevice) {
      std::vector<uint8_t> content(length);
      for (uint8_t &byte : content)
        byte = uint8_t(random());
      program.store(host, content);
    }
    work.dmas.push_back(program.dma(toDevice, host, offset, length, interrupt));
    work.dmaShape.emplace_back(offset, length);
    work.dmaToDevice.push_back(toDevice);
    return std::pair(host, length);
  };
  for (unsigned i = 0; i < operations; ++i) {
    program.marker("op-" + std::to_string(i));
    switch (random() % 6) {
    case 0:
    case 1: transfer(true, false); break;
    case 2: {
      auto [host, length] = transfer(false, false);
      program.checkMemory("read-back", host, program.memory(host, length));
      break;
    }
    case 3: {
      uint64_t n = pick(0, 1000);
      program.square(n);
      program.checkEqual("square", program.packets() - 1, n * n);
      break;
    }
    case 4:
      transfer(random() & 1, true);
      program.waitInterrupt();
      program.read(toy::irq);
      work.acknowledges.push_back(program.write(toy::irqAck, 0x100));
      program.read(toy::irq);
      break;
    case 5: {
      uint64_t value = random() & 0xffffffff;
      program.write(toy::scratch, value);
      program.read(toy::noise);
      program.read(toy::scratch);
      program.checkEqual("scratch", program.packets() - 1, value);
      break;
    }
    }
  }
  work.tape = program.finish();
  return work;
}

} // namespace tapeback::test
