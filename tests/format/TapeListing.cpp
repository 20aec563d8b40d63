#include "tests/format/TapeListing.h"

#include "tests/format/TapeSupport.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

namespace tapeback::test {

namespace {

class Listing {
public:
  explicit Listing(TapeReader &reader) : reader(reader), os(text) {}
  std::string run();

private:
  void head();
  void tables();
  void packets();
  void packet(uint64_t ordinal, const Packet &packet, const PacketExtra &extra);
  void keyframes();
  void end();
  static std::string hex(uint64_t number) { return "0x" + llvm::utohexstr(number, true); }
  static std::string hex(BlobId id) {
    return llvm::utohexstr(id.hi, true) + ":" + llvm::utohexstr(id.lo, true);
  }
  std::string quoted(llvm::StringRef string) {
    std::string result;
    llvm::raw_string_ostream(result) << '"';
    llvm::raw_string_ostream(result).write_escaped(string);
    return result + "\"";
  }

  TapeReader &reader;
  std::string text;
  llvm::raw_string_ostream os;
};

void Listing::head() {
  os << "format " << reader.formatVersion() << " created " << reader.createdNs() << " id "
     << llvm::toHex(reader.tapeId(), true) << "\n";
  for (const auto &[key, value] : reader.manifest().facts)
    os << "fact " << quoted(key) << " " << quoted(value) << "\n";
  if (reader.manifest().parentRoot)
    os << "parent " << toHex(*reader.manifest().parentRoot) << "\n";
  if (!reader.manifest().derivation.empty())
    os << "derivation " << quoted(reader.manifest().derivation) << "\n";
}

void Listing::tables() {
  for (const DeviceRecord &device : reader.devices()) {
    os << "device " << quoted(device.alias) << " " << quoted(device.targetUri) << " "
       << quoted(device.descriptionName) << " " << quoted(device.description) << "\n";
    for (const auto &[key, value] : device.identity)
      os << "  identity " << quoted(key) << " " << quoted(value) << "\n";
  }
  for (const std::string &space : reader.spaces())
    os << "space " << quoted(space) << "\n";
  for (const TapeClock &clock : reader.clocks())
    os << "clock " << quoted(clock.name) << " " << clock.ticksPerSecond << "\n";
}

void Listing::packet(uint64_t ordinal, const Packet &packet, const PacketExtra &extra) {
  // By number: later versions give names to numbers that have none yet.
  os << "packet " << ordinal << " kind " << static_cast<int>(packet.kind) << " " << packet.issueTime << ".."
     << packet.completeTime << " device " << packet.device << " thread " << packet.thread << " space "
     << packet.space << " clock " << int(packet.clock) << " origin " << static_cast<int>(packet.origin)
     << " completion " << static_cast<int>(packet.completion) << " flags " << int(packet.flags) << " width "
     << int(packet.width) << " address " << hex(packet.address) << " value " << hex(packet.value);
  if (extra.mask || extra.expected)
    os << " mask " << hex(extra.mask) << " expected " << hex(extra.expected);
  if (extra.deadline)
    os << " deadline " << extra.deadline;
  if (extra.length)
    os << " length " << extra.length;
  if (extra.link != noLink)
    os << " link " << extra.link;
  if (extra.count)
    os << " count " << extra.count;
  if (extra.payload) {
    const llvm::ArrayRef<uint8_t> content = expectValue(reader.blob(extra.payload));
    os << " payload " << hex(extra.payload) << " of " << content.size() << " "
       << llvm::toHex(content.take_front(16), true);
  }
  os << "\n";
}

void Listing::packets() {
  PacketBatch batch;
  for (uint64_t n = 0; n < reader.summary().windows; ++n) {
    const WindowInfo window = expectValue(reader.window(n));
    os << "window " << n << " packets " << window.firstPacket << "+" << window.packetCount << " time "
       << window.firstTime << ".." << window.lastTime << (window.quiescent ? " quiescent" : "") << "\n";
    expectSuccess(reader.readWindow(n, batch));
    for (size_t i = 0; i < batch.packets.size(); ++i)
      packet(window.firstPacket + i, batch.packets[i], batch.extra(batch.packets[i]));
  }
}

void Listing::keyframes() {
  for (uint64_t n = 0; n < reader.keyframeCount(); ++n) {
    const Keyframe keyframe = expectValue(reader.keyframe(n));
    os << "keyframe " << n << " packet " << keyframe.packet << " window " << keyframe.window << " device "
       << keyframe.device << (keyframe.restorable ? " restorable " : " not-restorable ")
       << quoted(keyframe.reason) << "\n";
    for (const KeyframeRegister &entry : keyframe.registers)
      os << "  register " << entry.space << ":" << hex(entry.address) << " width " << int(entry.width)
         << " value " << hex(entry.value) << "\n";
    for (const auto &[name, extents] : {std::pair("memory", &keyframe.memory),
                                        {"mapping", &keyframe.mappings},
                                        {"internal", &keyframe.internal}})
      for (const KeyframeExtent &extent : *extents)
        os << "  " << name << " " << extent.space << ":" << hex(extent.address) << "+" << extent.length << " "
           << hex(extent.content) << "\n";
  }
}

void Listing::end() {
  for (const TapeReader::TriggerRecord &trigger : expectValue(reader.triggers()))
    os << "trigger " << trigger.packet << " " << quoted(trigger.text) << "\n";
  const Outcome &outcome = reader.outcome();
  os << "outcome " << static_cast<int>(outcome.kind) << " " << quoted(outcome.text);
  if (outcome.packet)
    os << " packet " << *outcome.packet;
  if (outcome.programExit)
    os << " exit " << *outcome.programExit;
  if (outcome.programSignal)
    os << " signal " << *outcome.programSignal;
  os << "\n";
  if (const std::optional<Signature> &signature = outcome.signature) {
    os << "signature " << quoted(signature->oracle) << " " << quoted(signature->name) << " "
       << quoted(signature->object) << " " << quoted(signature->field) << " " << quoted(signature->marker)
       << " " << signature->markerOccurrence << " " << signature->command;
    if (signature->offset)
      os << " offset " << *signature->offset;
    if (signature->xorClass)
      os << " xor " << hex(*signature->xorClass);
    os << "\n";
  }
  const TapeSummary &summary = reader.summary();
  os << "summary packets " << summary.packets << " windows " << summary.windows << " blobs " << summary.blobs
     << " of " << summary.blobBytes << " keyframes " << summary.keyframes << " time " << summary.firstTime
     << ".." << summary.lastTime << "\n";
  for (const auto &[cause, packets] : summary.loss.packets)
    os << "loss " << lossCauseName(cause) << " " << packets << "\n";
  os << "root " << toHex(summary.root) << "\n";
}

std::string Listing::run() {
  head();
  tables();
  packets();
  keyframes();
  end();
  return std::move(text);
}

} // namespace

std::string listTape(TapeReader &reader) {
  return Listing(reader).run();
}

} // namespace tapeback::test
