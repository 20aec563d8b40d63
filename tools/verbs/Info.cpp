// tapeback info: what a tape is and what is on it.
#include "format/TapeReader.h"
#include "tools/CommandLine.h"
#include "tools/PacketPrinter.h"
#include "tools/Progress.h"
#include "tools/Report.h"
#include "tools/Verb.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include <array>
#include <map>

using namespace llvm;

namespace tapeback {
namespace {

constexpr VerbHelp infoHelp = {
    "info",
    "Say what a tape is and what is on it",
    "TAPE [--quick] [--keyframes] [--json]",
    "Identity (root hash, manifest), devices, windows, packets by kind, keyframes and whether they can be\n"
    "restored, losses, how the recorded run ended, and sizes. Counting by kind reads the whole tape; "
    "--quick\n"
    "leaves that out and reads only the tape's ends.\n",
    "  tapeback info run.tape\n"
    "  tapeback info big.tape --quick --json | jq .root\n",
    "  0  done\n"
    "  2  bad usage, or the file cannot be read\n"
    "  3  the file is damaged, unfinished, or no tape\n"
    "  5  standard output could not be written\n"};

/// What only a pass over the tape tells.
struct Counts {
  std::array<uint64_t, 256> kinds{}; ///< By PacketKind.
  /// By device and name ("GEMM"): as many names as descriptions have forms, and one for what has none.
  std::map<std::pair<uint16_t, std::string>, uint64_t> commands;
  uint64_t quiescentWindows = 0, longestWindow = 0;
  uint64_t failedChecks = 0, pending = 0, notCaptured = 0;
};

Error countPackets(TapeReader &reader, Counts &counts) {
  PacketPrinter names(reader);
  const TapeSummary &summary = reader.summary();
  Progress progress("reading", summary.packets);
  PacketBatch batch;
  for (uint64_t next = 0;; next += batch.packets.size()) {
    if (Error error = reader.readBlockFrom(next, batch))
      return error;
    if (batch.packets.empty())
      break;
    for (const Packet &packet : batch.packets) {
      ++counts.kinds[uint8_t(packet.kind)];
      counts.pending += packet.completion == Completion::Pending;
      counts.notCaptured += (packet.flags & NotCaptured) != 0;
      counts.failedChecks += packet.kind == PacketKind::Oracle && (packet.flags & Failed);
      if (packet.kind != PacketKind::Submit)
        continue;
      Expected<std::string> command = names.commandOf(packet, batch.extra(packet));
      if (!command)
        return command.takeError();
      ++counts.commands[{packet.device, *command}];
    }
    progress.update(next);
  }
  for (uint64_t n = 0; n < summary.windows; ++n) {
    Expected<WindowInfo> window = reader.window(n);
    if (!window)
      return window.takeError();
    counts.quiescentWindows += window->quiescent;
    counts.longestWindow = std::max(counts.longestWindow, window->packetCount);
  }
  return Error::success();
}

/// Keyframes are read one at a time; only these small facts of each are kept, and of at most `most`.
struct KeyframeFact {
  uint64_t packet, window;
  uint16_t device;
  bool restorable;
  std::string reason;
};
struct KeyframeFacts {
  uint64_t restorable = 0;
  std::vector<KeyframeFact> list;
  static constexpr uint64_t most = 100000;
};

Error readKeyframes(TapeReader &reader, bool keepList, KeyframeFacts &facts) {
  for (uint64_t n = 0; n < reader.keyframeCount(); ++n) {
    Expected<Keyframe> keyframe = reader.keyframe(n);
    if (!keyframe)
      return keyframe.takeError();
    facts.restorable += keyframe->restorable;
    if (keepList && facts.list.size() < KeyframeFacts::most)
      facts.list.push_back({keyframe->packet, keyframe->window, keyframe->device, keyframe->restorable,
                            StringRef(keyframe->reason).take_front(500).str()});
  }
  return Error::success();
}

const char *outcomeText(Outcome::Kind kind) {
  switch (kind) {
  case Outcome::Kind::Unknown: return "unknown";
  case Outcome::Kind::Passed: return "passed";
  case Outcome::Kind::Failed: return "failed";
  }
  return "unknown";
}

std::string size(uint64_t bytes) {
  std::string result;
  raw_string_ostream os(result);
  if (bytes < 10240)
    os << bytes << " bytes";
  else if (bytes < 10u << 20)
    os << format("%.1f KiB", double(bytes) / 1024);
  else
    os << format("%.1f MiB", double(bytes) / 1048576);
  return result;
}

std::string kindText(unsigned kind) {
  const char *name = packetKindName(PacketKind(kind));
  return name ? name : "unknown-" + std::to_string(kind);
}

/// Later versions' causes must not fall together.
std::string lossText(LossCause cause) {
  std::string name = lossCauseName(cause);
  return name == "unknown" && cause != LossCause::Unknown ? "unknown-" + std::to_string(unsigned(cause))
                                                          : name;
}

void textOutcome(raw_ostream &os, const Outcome &outcome) {
  os << "outcome   " << outcomeText(outcome.kind);
  if (outcome.packet)
    os << " at packet " << *outcome.packet;
  if (outcome.programSignal)
    os << "; the program was ended by signal " << *outcome.programSignal;
  else if (outcome.programExit)
    os << "; the program exited with " << *outcome.programExit;
  os << "\n";
  if (!outcome.text.empty())
    os << "          " << quoteUntrusted(outcome.text) << "\n";
  if (const std::optional<Signature> &s = outcome.signature) {
    os << "signature " << quoteUntrusted(s->oracle) << " " << quoteUntrusted(s->name);
    if (!s->object.empty())
      os << " in " << quoteUntrusted(s->object);
    if (!s->field.empty())
      os << " field " << quoteUntrusted(s->field);
    if (s->offset)
      os << " offset " << *s->offset;
    if (s->xorClass)
      os << " xor " << hex(*s->xorClass);
    if (!s->marker.empty())
      os << ", command " << s->command << " after " << quoteUntrusted(s->marker) << " #"
         << s->markerOccurrence;
    os << "\n";
  }
}

void textDevices(raw_ostream &os, TapeReader &reader) {
  for (size_t i = 0; i < reader.devices().size(); ++i) {
    const DeviceRecord &device = reader.devices()[i];
    os << "device " << i << "  " << quoteUntrusted(device.alias) << " on "
       << quoteUntrusted(device.targetUri);
    os << (device.description.empty() ? ", without description"
                                      : ", described by " + quoteUntrusted(device.descriptionName) + " (" +
                                            size(device.description.size()) + ")")
       << "\n";
    for (auto &[key, value] : device.identity)
      os << "          " << quoteUntrusted(key) << ": " << quoteUntrusted(value) << "\n";
  }
}

void writeText(raw_ostream &os, StringRef path, TapeReader &reader, const Counts *counts,
               const KeyframeFacts &keyframes, bool listKeyframes) {
  const TapeSummary &summary = reader.summary();
  const Manifest &manifest = reader.manifest();
  os << "tape      " << path << ", " << size(reader.fileBytes()) << ", format " << reader.formatVersion()
     << "\n";
  os << "root      " << toHex(summary.root) << "\n";
  if (manifest.parentRoot)
    os << "parent    " << toHex(*manifest.parentRoot) << ", by " << quoteUntrusted(manifest.derivation)
       << "\n";
  else if (!manifest.derivation.empty())
    os << "is        " << quoteUntrusted(manifest.derivation) << "\n";
  for (auto &[key, value] : manifest.facts)
    os << "          " << quoteUntrusted(key) << ": " << quoteUntrusted(value) << "\n";
  textDevices(os, reader);
  textOutcome(os, reader.outcome());
  os << "time      "
     << format("%.6f s", double(summary.lastTime - std::min(summary.firstTime, summary.lastTime)) / 1e9)
     << "\n";
  os << "windows   " << summary.windows;
  if (counts)
    os << ", " << counts->quiescentWindows << " quiescent at their end, longest " << counts->longestWindow
       << " packets";
  os << "\nkeyframes " << summary.keyframes;
  if (counts || listKeyframes)
    os << ", " << keyframes.restorable << " restorable";
  os << "\n";
  if (listKeyframes)
    for (const KeyframeFact &fact : keyframes.list)
      os << "          before w" << fact.window << " (p" << fact.packet << ") device " << fact.device << ": "
         << (fact.restorable ? "restorable: " : "not restorable: ") << quoteUntrusted(fact.reason) << "\n";
  os << "contents  " << summary.blobs << ", " << size(summary.blobBytes) << "\n";
  os << "losses    " << (summary.loss.any() ? "" : "none");
  for (auto &[cause, packets] : summary.loss.packets)
    os << (cause == summary.loss.packets.begin()->first ? "" : ", ")
       << (packets == unknownCount ? "unknown number" : std::to_string(packets)) << " "
       << lossCauseName(cause);
  os << "\npackets   " << summary.packets;
  if (summary.packets)
    os << format(", %.2f bytes of file each", double(reader.fileBytes()) / double(summary.packets));
  os << "\n";
  if (!counts)
    return;
  for (unsigned kind = 0; kind < counts->kinds.size(); ++kind)
    if (counts->kinds[kind])
      os << "          " << left_justify(kindText(kind), 18) << counts->kinds[kind] << "\n";
  if (counts->pending)
    os << "          " << counts->pending << " issued and never seen to complete\n";
  if (counts->notCaptured)
    os << "          " << counts->notCaptured << " whose memory could not be captured\n";
  if (counts->failedChecks)
    os << "          " << counts->failedChecks << " checks that failed\n";
  for (auto &[command, number] : counts->commands)
    os << (command == counts->commands.begin()->first ? "commands  " : "          ")
       << (reader.devices().size() > 1 ? "d" + std::to_string(command.first) + " " : "")
       << left_justify(command.second, 18) << number << "\n";
}

void jsonTape(json::OStream &os, StringRef path, TapeReader &reader) {
  const TapeSummary &summary = reader.summary();
  const Manifest &manifest = reader.manifest();
  os.attribute("tape", json::fixUTF8(path));
  os.attribute("root", toHex(summary.root));
  os.attribute("tape_id", toHex(ArrayRef<uint8_t>(reader.tapeId()), /*LowerCase=*/true));
  os.attribute("format_version", int64_t(reader.formatVersion()));
  os.attribute("created", reader.createdNs());
  os.attribute("file_bytes", reader.fileBytes());
  os.attribute("parent_root",
               manifest.parentRoot ? json::Value(toHex(*manifest.parentRoot)) : json::Value(nullptr));
  os.attribute("derivation", manifest.derivation.empty() ? json::Value(nullptr)
                                                         : json::Value(json::fixUTF8(manifest.derivation)));
  os.attributeObject("manifest", [&] {
    for (auto &[key, value] : manifest.facts)
      os.attribute(json::fixUTF8(key), json::fixUTF8(value));
  });
  os.attributeArray("devices", [&] {
    for (const DeviceRecord &device : reader.devices())
      os.object([&] {
        os.attribute("alias", json::fixUTF8(device.alias));
        os.attribute("target", json::fixUTF8(device.targetUri));
        os.attribute("description", device.description.empty()
                                        ? json::Value(nullptr)
                                        : json::Value(json::fixUTF8(device.descriptionName)));
        os.attributeObject("identity", [&] {
          for (auto &[key, value] : device.identity)
            os.attribute(json::fixUTF8(key), json::fixUTF8(value));
        });
      });
  });
  os.attributeArray("spaces", [&] {
    for (const std::string &space : reader.spaces())
      os.value(json::fixUTF8(space));
  });
  os.attributeArray("clocks", [&] {
    for (const TapeClock &clock : reader.clocks())
      os.object([&] {
        os.attribute("name", json::fixUTF8(clock.name));
        os.attribute("ticks_per_second", clock.ticksPerSecond);
      });
  });
}

void jsonOutcome(json::OStream &os, const Outcome &outcome) {
  os.attributeObject("outcome", [&] {
    os.attribute("kind", outcomeText(outcome.kind));
    os.attribute("packet", outcome.packet ? json::Value(*outcome.packet) : json::Value(nullptr));
    os.attribute("text", json::fixUTF8(outcome.text));
  });
  os.attributeObject("program", [&] {
    os.attribute("exit", outcome.programExit ? json::Value(*outcome.programExit) : json::Value(nullptr));
    os.attribute("signal",
                 outcome.programSignal ? json::Value(*outcome.programSignal) : json::Value(nullptr));
  });
}

void jsonContents(json::OStream &os, TapeReader &reader, const Counts *counts,
                  const KeyframeFacts &keyframes) {
  const TapeSummary &summary = reader.summary();
  os.attribute("packets", summary.packets);
  os.attribute("windows", summary.windows);
  os.attribute("first_time", summary.firstTime);
  os.attribute("last_time", summary.lastTime);
  os.attribute("blobs", summary.blobs);
  os.attribute("blob_bytes", summary.blobBytes);
  os.attribute("keyframes", summary.keyframes);
  os.attributeObject("losses", [&] {
    for (auto &[cause, packets] : summary.loss.packets)
      os.attribute(lossText(cause), packets == unknownCount ? json::Value(nullptr) : json::Value(packets));
  });
  if (counts) {
    os.attribute("restorable_keyframes", keyframes.restorable);
    os.attributeObject("packets_by_kind", [&] {
      for (unsigned kind = 0; kind < counts->kinds.size(); ++kind)
        if (counts->kinds[kind])
          os.attribute(kindText(kind), counts->kinds[kind]);
    });
    os.attributeArray("commands", [&] {
      for (auto &[command, number] : counts->commands)
        os.object([&] {
          os.attribute("device", int64_t(command.first));
          os.attribute("command", command.second);
          os.attribute("count", number);
        });
    });
    os.attribute("quiescent_windows", counts->quiescentWindows);
    os.attribute("longest_window", counts->longestWindow);
    os.attribute("pending", counts->pending);
    os.attribute("not_captured", counts->notCaptured);
    os.attribute("failed_checks", counts->failedChecks);
  }
  if (keyframes.list.empty())
    return;
  os.attributeArray("keyframe_list", [&] {
    for (const KeyframeFact &fact : keyframes.list)
      os.object([&] {
        os.attribute("device", int64_t(fact.device));
        os.attribute("window", fact.window);
        os.attribute("packet", fact.packet);
        os.attribute("restorable", fact.restorable);
        os.attribute("reason", json::fixUTF8(fact.reason));
      });
  });
}

} // namespace

int runInfo(ArrayRef<const char *> args) {
  cl::opt<std::string> path(cl::Positional, cl::Required, cl::desc("TAPE"));
  cl::opt<bool> quick("quick", cl::desc("Do not read the whole tape: no counts by kind"));
  cl::opt<bool> list("keyframes", cl::desc("List every keyframe with why it can or cannot be restored"));
  CommandLine line(infoHelp);
  if (std::optional<int> exit = line.parse(args))
    return *exit;
  Report report("info", line.json());
  Expected<std::unique_ptr<TapeReader>> opened = TapeReader::open(path);
  if (!opened)
    return report.fail(opened.takeError());
  TapeReader &reader = **opened;
  std::optional<Counts> counts;
  if (!quick) {
    counts.emplace();
    if (Error error = countPackets(reader, *counts))
      return report.fail(std::move(error));
  }
  KeyframeFacts keyframes;
  if (!quick || list)
    if (Error error = readKeyframes(reader, list, keyframes))
      return report.fail(std::move(error));
  if (report.json()) {
    json::OStream &os = report.object();
    report.verdict(0, reader.outcome().signature);
    jsonTape(os, path, reader);
    jsonOutcome(os, reader.outcome());
    jsonContents(os, reader, counts ? &*counts : nullptr, keyframes);
  } else {
    writeText(outs(), path, reader, counts ? &*counts : nullptr, keyframes, list);
  }
  return report.finish(0);
}

} // namespace tapeback
