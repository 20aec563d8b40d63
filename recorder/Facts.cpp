#include "recorder/Facts.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/JSON.h"
#include <cstdlib>
#include <ctime>
#include <sys/utsname.h>

using namespace llvm;

namespace tapeback {

std::string shellText(const std::vector<std::string> &command) {
  std::string text;
  for (StringRef word : command) {
    if (!text.empty())
      text += ' ';
    bool plain = !word.empty() &&
                 word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                        "-_./=:,+@%") == StringRef::npos;
    if (plain) {
      text += word;
      continue;
    }
    text += '\'';
    for (char c : word)
      text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    text += '\'';
  }
  return text;
}

static std::string hashOf(StringRef text) {
  BLAKE3 hasher;
  hasher.update(text);
  return toHex(hasher.final<32>());
}

static std::string nowText() {
  time_t now = time(nullptr);
  tm parts;
  char text[32];
  gmtime_r(&now, &parts);
  strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

static std::string captureOptions(const RecordOptions &options) {
  std::string text = "start=" + options.start;
  if (!options.stop.empty())
    text += " stop=" + options.stop;
  text += " keyframe-interval=" + std::to_string(options.keyframeInterval);
  text += " capture-limit=" + std::to_string(options.captureLimit);
  text += " ring-bytes=" + std::to_string(options.ringBytes);
  std::string evidence;
  if (options.evidence.atMarkers)
    evidence += ",markers";
  if (options.evidence.atFences)
    evidence += ",fences";
  if (options.evidence.periodNs)
    evidence += "," + std::to_string(options.evidence.periodNs / 1'000'000) + "ms";
  text += " counters=" + (evidence.empty() ? "off" : evidence.substr(1));
  if (options.dropWhenFull)
    text += " when-full=drop";
  return text;
}

Manifest recordingManifest(const RecordOptions &options, const std::vector<CollectorDevice> &devices) {
  Manifest manifest;
  auto set = [&](const std::string &key, StringRef value) {
    if (!value.empty())
      manifest.facts[key] = json::fixUTF8(value);
  };
  utsname host;
  if (uname(&host) == 0) {
    set("host", host.nodename);
    set("kernel", std::string(host.sysname) + " " + host.release + " " + host.machine);
  }
  set("tool-version", options.toolVersion);
  set("workload", shellText(options.command));
  set("start-time", nowText());
  set("capture-options", captureOptions(options));
  if (const char *seed = std::getenv("TAPEBACK_SEED"))
    set("seed", seed);
  // The tape has its devices in the order in which they were opened; triggers number them as here.
  std::vector<std::string> names;
  for (const CollectorDevice &device : devices)
    names.push_back(device.alias);
  if (names.size() > 1)
    set("devices", join(names, " "));
  for (const CollectorDevice &device : devices) {
    std::string suffix = devices.size() == 1 ? "" : "." + device.alias;
    set("target" + suffix, device.uri);
    if (!device.descriptionText.empty())
      set("description-hash" + suffix, hashOf(device.descriptionText));
  }
  return manifest;
}

} // namespace tapeback
