// Records to messages. Estimates of sizes only save a copy; a wrong one costs nothing else.
#include "format/Message.h"
#include "format/RecordCodec.h"

#include <cstring>

namespace tapeback {

namespace {

// Cap'n Proto's setters want NUL-terminated text; std::string has it.
capnp::Text::Reader text(const std::string &string) {
  return {string.c_str(), string.size()};
}

capnp::Data::Reader dataOf(llvm::ArrayRef<uint8_t> bytes) {
  return {bytes.data(), bytes.size()};
}

using Facts = std::map<std::string, std::string>;

template <typename Builder>
void setFacts(Builder list, const Facts &facts) {
  unsigned i = 0;
  for (const auto &[key, value] : facts) {
    list[i].setKey(text(key));
    list[i].setValue(text(value));
    ++i;
  }
}

size_t bytesOfFacts(const Facts &facts) {
  size_t bytes = 0;
  for (const auto &[key, value] : facts)
    bytes += key.size() + value.size() + 40;
  return bytes;
}

template <typename Builder>
void setExtents(Builder list, const std::vector<KeyframeExtent> &extents) {
  for (unsigned i = 0; i < list.size(); ++i) {
    list[i].setSpace(extents[i].space);
    list[i].setAddress(extents[i].address);
    list[i].setLength(extents[i].length);
    list[i].setContentHi(extents[i].content.hi);
    list[i].setContentLo(extents[i].content.lo);
  }
}

void setDevice(schema::Device::Builder to, const DeviceRecord &device) {
  to.setAlias(text(device.alias));
  to.setTargetUri(text(device.targetUri));
  setFacts(to.initIdentity(static_cast<unsigned>(device.identity.size())), device.identity);
  to.setDescription(text(device.description));
  to.setDescriptionName(text(device.descriptionName));
}

void setSignature(schema::Signature::Builder to, const Signature &signature) {
  to.setOracle(text(signature.oracle));
  to.setName(text(signature.name));
  to.setObject(text(signature.object));
  to.setField(text(signature.field));
  to.setHasOffset(signature.offset.has_value());
  to.setOffset(signature.offset.value_or(0));
  to.setHasXorClass(signature.xorClass.has_value());
  to.setXorClass(signature.xorClass.value_or(0));
  to.setMarker(text(signature.marker));
  to.setMarkerOccurrence(signature.markerOccurrence);
  to.setCommand(signature.command);
}

} // namespace

llvm::Error encodeManifest(WordBuffer &buffer, const Manifest &manifest, UseRaw use) {
  return buildMessage(
      buffer, bytesOfFacts(manifest.facts) + manifest.derivation.size() + 128,
      [&](capnp::MessageBuilder &message) {
        auto root = message.initRoot<schema::Manifest>();
        setFacts(root.initFacts(static_cast<unsigned>(manifest.facts.size())), manifest.facts);
        if (manifest.parentRoot)
          root.setParentRoot(dataOf(*manifest.parentRoot));
        root.setDerivation(text(manifest.derivation));
      },
      use);
}

llvm::Error encodeTables(WordBuffer &buffer, const TableRows &tables, UseRaw use) {
  size_t bytes = 256 + 64 * (tables.spaces.size() + tables.clocks.size());
  for (const DeviceRecord &device : tables.devices)
    bytes += 128 + device.alias.size() + device.targetUri.size() + device.description.size() +
             device.descriptionName.size() + bytesOfFacts(device.identity);
  return buildMessage(
      buffer, bytes,
      [&](capnp::MessageBuilder &message) {
        auto root = message.initRoot<schema::Tables>();
        root.setFirstDevice(tables.firstDevice);
        root.setFirstSpace(tables.firstSpace);
        root.setFirstClock(tables.firstClock);
        auto devices = root.initDevices(static_cast<unsigned>(tables.devices.size()));
        for (unsigned i = 0; i < devices.size(); ++i)
          setDevice(devices[i], tables.devices[i]);
        auto spaces = root.initSpaces(static_cast<unsigned>(tables.spaces.size()));
        for (unsigned i = 0; i < spaces.size(); ++i)
          spaces.set(i, text(tables.spaces[i]));
        auto clocks = root.initClocks(static_cast<unsigned>(tables.clocks.size()));
        for (unsigned i = 0; i < clocks.size(); ++i) {
          clocks[i].setName(text(tables.clocks[i].name));
          clocks[i].setTicksPerSecond(tables.clocks[i].ticksPerSecond);
        }
      },
      use);
}

llvm::Error encodeKeyframe(WordBuffer &buffer, const Keyframe &keyframe, UseRaw use) {
  const size_t extents = keyframe.memory.size() + keyframe.mappings.size() + keyframe.internal.size();
  // Cap'n Proto lists end at half a billion words; ours end at the block long before.
  if (48 * extents + 24 * keyframe.registers.size() > maxRawBytes)
    return failUsage("message-too-large", "the keyframe is larger than a block may be (64 MiB)");
  return buildMessage(
      buffer, 48 * extents + 24 * keyframe.registers.size() + keyframe.reason.size() + 256,
      [&](capnp::MessageBuilder &message) {
        auto root = message.initRoot<schema::Keyframe>();
        root.setPacket(keyframe.packet);
        root.setWindow(keyframe.window);
        root.setDevice(keyframe.device);
        root.setRestorable(keyframe.restorable);
        root.setReason(text(keyframe.reason));
        auto registers = root.initRegisters(static_cast<unsigned>(keyframe.registers.size()));
        for (unsigned i = 0; i < registers.size(); ++i) {
          registers[i].setSpace(keyframe.registers[i].space);
          registers[i].setWidth(keyframe.registers[i].width);
          registers[i].setAddress(keyframe.registers[i].address);
          registers[i].setValue(keyframe.registers[i].value);
        }
        setExtents(root.initMemory(static_cast<unsigned>(keyframe.memory.size())), keyframe.memory);
        setExtents(root.initMappings(static_cast<unsigned>(keyframe.mappings.size())), keyframe.mappings);
        setExtents(root.initInternal(static_cast<unsigned>(keyframe.internal.size())), keyframe.internal);
      },
      use);
}

llvm::Error encodeTrigger(WordBuffer &buffer, const TriggerRow &trigger, UseRaw use) {
  return buildMessage(
      buffer, trigger.text.size() + 64,
      [&](capnp::MessageBuilder &message) {
        auto root = message.initRoot<schema::Trigger>();
        root.setPacket(trigger.packet);
        root.setText(text(trigger.text));
      },
      use);
}

llvm::Error encodeOutcome(WordBuffer &buffer, const Outcome &outcome, UseRaw use) {
  return buildMessage(
      buffer, outcome.text.size() + 512,
      [&](capnp::MessageBuilder &message) {
        auto root = message.initRoot<schema::Outcome>();
        root.setKind(static_cast<uint8_t>(outcome.kind));
        if (outcome.signature)
          setSignature(root.initSignature(), *outcome.signature);
        root.setHasPacket(outcome.packet.has_value());
        root.setPacket(outcome.packet.value_or(0));
        root.setHasProgramExit(outcome.programExit.has_value());
        root.setProgramExit(outcome.programExit.value_or(0));
        root.setHasProgramSignal(outcome.programSignal.has_value());
        root.setProgramSignal(outcome.programSignal.value_or(0));
        root.setText(text(outcome.text));
      },
      use);
}

llvm::Error encodePart(WordBuffer &buffer, const PartTable &table, UseRaw use) {
  std::vector<std::vector<uint64_t>> scratch(table.columns.size());
  std::vector<EncodedColumn> columns;
  size_t bytes = 64 + 32 * table.columns.size();
  for (size_t i = 0; i < table.columns.size(); ++i) {
    columns.push_back(encodeColumn(static_cast<uint16_t>(i), table.columns[i], scratch[i]));
    bytes += (columns.back().bytes() + 7) & ~size_t(7);
  }
  return buildMessage(
      buffer, bytes,
      [&](capnp::MessageBuilder &message) {
        auto root = message.initRoot<schema::IndexPart>();
        root.setKind(static_cast<uint16_t>(table.kind));
        root.setFirst(table.first);
        root.setCount(static_cast<uint32_t>(table.rows()));
        auto list = root.initColumns(static_cast<unsigned>(columns.size()));
        for (unsigned i = 0; i < list.size(); ++i) {
          list[i].setField(columns[i].field);
          list[i].setEncoding(static_cast<uint16_t>(columns[i].encoding));
          columns[i].write(list[i].initData(static_cast<unsigned>(columns[i].bytes())).begin());
        }
      },
      use);
}

llvm::Error encodeFooter(WordBuffer &buffer, const FooterRecord &footer, UseRaw use) {
  const size_t bytes = 56 * footer.parts.size() + 8 * (footer.tables.size() + footer.triggers.size()) + 512;
  if (bytes > maxRawBytes)
    return failUsage("message-too-large", "the tape has more index parts or triggers than a footer can list");
  return buildMessage(
      buffer, bytes,
      [&](capnp::MessageBuilder &message) {
        const TapeSummary &summary = footer.summary;
        auto root = message.initRoot<schema::Footer>();
        root.setPackets(summary.packets);
        root.setWindows(summary.windows);
        root.setBlobs(summary.blobs);
        root.setBlobBytes(summary.blobBytes);
        root.setKeyframes(summary.keyframes);
        root.setFirstTime(summary.firstTime);
        root.setLastTime(summary.lastTime);
        root.setRoot(dataOf(summary.root));
        auto loss = root.initLoss(static_cast<unsigned>(summary.loss.packets.size()));
        unsigned row = 0;
        for (const auto &[cause, packets] : summary.loss.packets) {
          loss[row].setCause(static_cast<uint8_t>(cause));
          loss[row++].setPackets(packets);
        }
        root.setTables(kj::arrayPtr(footer.tables.data(), footer.tables.size()));
        root.setTriggers(kj::arrayPtr(footer.triggers.data(), footer.triggers.size()));
        root.setOutcome(footer.outcome);
        auto parts = root.initParts(static_cast<unsigned>(footer.parts.size()));
        for (unsigned i = 0; i < parts.size(); ++i) {
          parts[i].setKind(static_cast<uint16_t>(footer.parts[i].kind));
          parts[i].setOffset(footer.parts[i].offset);
          parts[i].setFirst(footer.parts[i].first);
          parts[i].setCount(footer.parts[i].count);
          parts[i].setKeyHi(footer.parts[i].keyHi);
          parts[i].setKeyLo(footer.parts[i].keyLo);
        }
      },
      use);
}

} // namespace tapeback
