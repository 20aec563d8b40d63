// Packets made by hand for tests of the evaluator, and what they lead to.
#pragma once

#include "format/Failure.h"
#include "triggers/Evaluator.h"
#include "llvm/Support/MemoryBuffer.h"
#include <doctest/doctest.h>
#include <map>

namespace tapeback::test {

using namespace triggers;

inline const Description &description(const char *path) {
  static std::map<std::string, Description> all;
  auto found = all.find(path);
  if (found == all.end()) {
    auto text = llvm::MemoryBuffer::getFile(std::string(TAPEBACK_SOURCE_DIR) + "/" + path);
    REQUIRE(text);
    llvm::Expected<Description> parsed = parseDescription((*text)->getBuffer(), path);
    REQUIRE(bool(parsed));
    found = all.emplace(path, std::move(*parsed)).first;
  }
  return found->second;
}
inline const Description &edu() {
  return description("hal/edu/edu.yaml");
}
inline const Description &minnow() {
  return description("hal/minnow/minnow.yaml");
}

inline Compilation compileFor(llvm::StringRef source, const Description *device, bool allowExec = false) {
  CompileOptions options;
  options.devices.push_back({"", device});
  options.allowExec = allowExec;
  return compileTriggers(source, options);
}

inline Program compiled(llvm::StringRef source, const Description *device = &minnow(),
                        bool allowExec = false) {
  Compilation compilation = compileFor(source, device, allowExec);
  std::string all;
  for (const Diagnostic &diagnostic : compilation.diagnostics)
    all += formatDiagnostic(diagnostic, "test") + "\n";
  INFO(all);
  REQUIRE(compilation.program);
  return std::move(*compilation.program);
}

/// A stream and its evaluator. Spaces: 0 memory, 1 bar0. Clock 1 is the device's, at 1 MHz. Each packet comes
/// 10 ns after the one before unless `at` says otherwise.
class Stream {
public:
  explicit Stream(const Program &program)
      : evaluator(program, {{"memory", "bar0"}, {1'000'000'000, 1'000'000}}), program(program) {}

  /// The trigger points of what fired (fire and capture), in order.
  std::vector<uint64_t> points() const {
    std::vector<uint64_t> all;
    for (const Output &output : outputs)
      if (output.op == ActionOp::Fire)
        all.push_back(output.packet);
    return all;
  }

  Stream &at(uint64_t time) {
    now = time;
    return *this;
  }
  uint64_t add(Packet packet, PacketExtra extra = {}, std::vector<uint8_t> payload = {}) {
    packet.issueTime = now;
    if (!packet.completeTime && packet.completion != Completion::Pending)
      packet.completeTime = now;
    now += 10;
    if (!payload.empty()) {
      extra.payload = {1, ordinal + 1};
      if (!extra.length)
        extra.length = payload.size();
    }
    auto fetch = [&](BlobId) { return llvm::ArrayRef<uint8_t>(payload); };
    evaluator.packet(ordinal, packet, extra, fetch, outputs);
    return ordinal++;
  }
  uint64_t access(PacketKind kind, uint64_t offset, uint64_t value, uint8_t width = 4) {
    Packet packet;
    packet.kind = kind;
    packet.space = 1;
    packet.address = offset;
    packet.value = value;
    packet.width = width;
    return add(packet);
  }
  uint64_t read(uint64_t offset, uint64_t value, uint8_t width = 4) {
    return access(PacketKind::RegisterRead, offset, value, width);
  }
  uint64_t write(uint64_t offset, uint64_t value, uint8_t width = 4) {
    return access(PacketKind::RegisterWrite, offset, value, width);
  }
  uint64_t marker(llvm::StringRef name) {
    Packet packet;
    packet.kind = PacketKind::Marker;
    return add(packet, {}, {name.bytes_begin(), name.bytes_end()});
  }
  uint64_t kind(PacketKind kind, uint64_t address = 0, uint64_t value = 0, PacketExtra extra = {}) {
    Packet packet;
    packet.kind = kind;
    packet.address = address;
    packet.value = value;
    return add(packet, extra);
  }
  /// Sixteen words, into queue `queue`, from ring address `address`.
  uint64_t submit(std::vector<uint32_t> words, uint64_t queue = 0, uint64_t address = 0x1000) {
    words.resize(16);
    std::vector<uint8_t> bytes;
    for (uint32_t word : words)
      for (unsigned i = 0; i < 4; ++i)
        bytes.push_back(uint8_t(word >> 8 * i));
    Packet packet;
    packet.kind = PacketKind::Submit;
    packet.address = address;
    packet.value = queue;
    return add(packet, {}, bytes);
  }

  uint64_t now = 1000, ordinal = 0;
  llvm::SmallVector<Output, 8> outputs;
  Evaluator evaluator;
  const Program &program;
};

} // namespace tapeback::test
