#include "tools/PacketFilter.h"
#include "format/Failure.h"
#include "format/Text.h"
#include "tools/CommandLine.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace tapeback {
namespace {

/// "a, b, c and 12 more".
std::string list(const std::vector<std::string> &names) {
  std::string result;
  for (size_t i = 0; i < std::min<size_t>(names.size(), 30); ++i)
    result += (i ? ", " : "") + names[i];
  if (names.size() > 30)
    result += " and " + std::to_string(names.size() - 30) + " more";
  return result;
}

std::string suggestion(StringRef word, const std::vector<std::string> &names, const char *what) {
  std::string near = closest(word, names);
  return near.empty() ? std::string(what) + " are: " + list(names) : "did you mean '" + near + "'?";
}

} // namespace

Expected<PacketFilter> PacketFilter::make(const FilterOptions &options, TapeReader &reader,
                                          PacketPrinter &printer) {
  PacketFilter filter;
  for (const std::string &name : options.kinds)
    if (Error error = filter.addKind(name))
      return error;
  if (options.device)
    if (Error error = filter.setDevice(*options.device, reader))
      return error;
  filter.anyRegister = options.registers.empty();
  for (const std::string &name : options.registers)
    if (Error error = filter.addRegister(name, reader, printer))
      return error;
  for (const std::string &name : options.commands)
    if (Error error = filter.addCommand(name, reader, printer))
      return error;
  if (options.thread) {
    if (*options.thread > UINT16_MAX)
      return failUsage("bad-option-value", "there is no thread " + std::to_string(*options.thread),
                       "--thread",
                       "threads are numbered from 0 in the order in which they first used the device");
    filter.thread = uint16_t(*options.thread);
  }
  return filter;
}

Error PacketFilter::addKind(StringRef name) {
  if (name == "unknown") {
    for (unsigned kind = packetKindCount; kind < kinds.size(); ++kind)
      kinds.set(kind);
    return Error::success();
  }
  std::vector<std::string> names;
  for (unsigned kind = 0; kind < packetKindCount; ++kind) {
    names.push_back(packetKindName(PacketKind(kind)));
    if (name == names.back()) {
      kinds.set(kind);
      return Error::success();
    }
  }
  names.push_back("unknown");
  return failUsage("no-such-kind", "there is no kind of packet '" + name.str() + "'", "--kind",
                   suggestion(name, names, "kinds"));
}

Error PacketFilter::setDevice(StringRef name, TapeReader &reader) {
  ArrayRef<DeviceRecord> devices = reader.devices();
  std::vector<std::string> names;
  for (size_t i = 0; i < devices.size(); ++i) {
    names.push_back(devices[i].alias.empty() ? std::to_string(i) : devices[i].alias);
    if (name == devices[i].alias || name == std::to_string(i)) {
      device = uint16_t(i);
      return Error::success();
    }
  }
  return failUsage("no-such-device", "there is no device '" + name.str() + "' on this tape", "--device",
                   names.empty() ? "the tape has no devices" : suggestion(name, names, "devices"));
}

Error PacketFilter::addRegister(StringRef name, TapeReader &reader, PacketPrinter &printer) {
  ArrayRef<std::string> spaces = reader.spaces();
  auto spaceIndex = [&](StringRef wanted) -> std::optional<uint16_t> {
    for (size_t i = 0; i < spaces.size(); ++i)
      if (wanted == spaces[i])
        return uint16_t(i);
    return std::nullopt;
  };
  if (name.contains('+')) {
    auto [spaceName, offsetText] = name.split('+');
    std::optional<uint16_t> space = spaceIndex(spaceName);
    if (!space)
      return failUsage("no-such-space", "there is no space '" + spaceName.str() + "' on this tape",
                       "--register", suggestion(spaceName, spaces.vec(), "spaces"));
    Expected<uint64_t> offset = parseNumber(offsetText);
    if (!offset)
      return failUsage("bad-option-value", toFailure(offset.takeError()).message, "--register",
                       "write space+offset, for example bar0+0x20");
    registers.push_back({std::nullopt, *space, *offset, 1});
    return Error::success();
  }
  std::vector<std::string> names;
  bool found = false;
  for (size_t i = 0; i < reader.devices().size(); ++i) {
    const Description *description = printer.description(uint16_t(i));
    if (!description)
      continue;
    for (const RegisterDescription &reg : description->registers) {
      names.push_back(reg.name);
      if (name != reg.name)
        continue;
      found = true;
      if (std::optional<uint16_t> space = spaceIndex(reg.space))
        registers.push_back({uint16_t(i), *space, reg.offset, reg.width});
    }
  }
  if (found)
    return Error::success();
  return failUsage(
      "no-such-register", "there is no register '" + name.str() + "' on this tape", "--register",
      names.empty()
          ? "the tape has no description that could name it: write space+offset, for example bar0+0x20"
          : suggestion(name, names, "registers"));
}

Error PacketFilter::addCommand(const std::string &name, TapeReader &reader, PacketPrinter &printer) {
  std::vector<std::string> names;
  for (size_t i = 0; i < reader.devices().size(); ++i)
    if (const Description *description = printer.description(uint16_t(i)))
      for (const QueueDescription &queue : description->queues)
        for (const EntryForm &form : description->layouts[queue.layout].forms)
          if (!is_contained(names, form.name))
            names.push_back(form.name);
  commands.push_back(name);
  if (name == "unknown" || is_contained(names, name))
    return Error::success();
  return failUsage("no-such-command", "there is no command '" + name + "' on this tape", "--command",
                   names.empty() ? "no description on the tape names commands"
                                 : suggestion(name, names, "commands"));
}

Expected<bool> PacketFilter::passes(const Packet &packet, const PacketExtra &extra,
                                    PacketPrinter &printer) const {
  if (kinds.any() && !kinds.test(size_t(packet.kind)))
    return false;
  if (device && packet.device != *device)
    return false;
  if (thread && packet.thread != *thread)
    return false;
  if (!commands.empty()) {
    Expected<std::string> command = printer.commandOf(packet, extra);
    if (!command)
      return command.takeError();
    if (!is_contained(commands, *command))
      return false;
  }
  if (anyRegister)
    return true;
  if (packet.kind != PacketKind::RegisterRead && packet.kind != PacketKind::RegisterWrite &&
      packet.kind != PacketKind::Poll)
    return false;
  for (const RegisterBytes &reg : registers) {
    if ((reg.device && packet.device != *reg.device) || packet.space != reg.space)
      continue;
    uint64_t width = packet.width ? packet.width : 1;
    // In this order nothing overflows.
    if (packet.address >= reg.first ? packet.address - reg.first < reg.size
                                    : reg.first - packet.address < width)
      return true;
  }
  return false;
}

} // namespace tapeback
