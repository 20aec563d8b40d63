#include "recorder/durable/RingNote.h"
#include "format/Failure.h"
#include "format/Text.h"
#include "recorder/ring/CaptureTable.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <fcntl.h>
#include <unistd.h>

using namespace llvm;

namespace tapeback {

static constexpr size_t maxNoteSpaces = 256;
static constexpr uint64_t maxNoteBytes = 256 << 20;

static std::string notePath(const std::string &ringPath) {
  return ringPath.substr(0, ringPath.find_last_of('/') + 1) + "session";
}

RingNote RingNote::of(const std::vector<CollectorDevice> &devices) {
  RingNote note;
  for (const CollectorDevice &device : devices)
    note.devices.push_back(
        {device.alias, device.uri, device.descriptionName, device.descriptionText, false, {}});
  return note;
}

void RingNote::opened(uint16_t device, ArrayRef<uint8_t> payload) {
  StringRef rest(reinterpret_cast<const char *>(payload.data()), payload.size());
  auto take = [&](StringRef &text) {
    size_t end = rest.find('\0');
    if (end == StringRef::npos)
      return false;
    text = rest.take_front(end);
    rest = rest.drop_front(end + 1);
    return true;
  };
  StringRef text;
  size_t count = 0;
  if (device >= devices.size() || !take(text) || text.getAsInteger(10, count) || count > maxNoteSpaces)
    return;
  std::vector<std::string> spaces;
  for (size_t i = 0; i < count; ++i) {
    if (!take(text))
      return;
    spaces.push_back(json::fixUTF8(text.take_front(1024)));
  }
  devices[device].spaces = std::move(spaces);
  devices[device].opened = true;
}

std::vector<uint8_t> RingNote::openPayload(const Device &device) {
  std::string payload = std::to_string(device.spaces.size()) + '\0';
  for (const std::string &space : device.spaces)
    payload += StringRef(space).take_until([](char c) { return c == '\0'; }).str() + '\0';
  return {payload.begin(), payload.end()};
}

void RingNote::write(const std::string &ringPath) const {
  json::Array rows;
  for (const Device &device : devices)
    rows.push_back(json::Object{{"alias", json::fixUTF8(device.alias)},
                                {"uri", json::fixUTF8(device.uri)},
                                {"description_name", json::fixUTF8(device.descriptionName)},
                                {"description", json::fixUTF8(device.descriptionText)},
                                {"opened", device.opened},
                                {"spaces", json::Array(device.spaces)}});
  std::string text;
  raw_string_ostream(text) << json::Value(json::Object{{"devices", std::move(rows)}});
  std::string path = notePath(ringPath), fresh = path + ".new";
  int fd = open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0)
    return;
  bool whole = true;
  for (size_t done = 0; whole && done < text.size();) {
    ssize_t wrote = ::write(fd, text.data() + done, text.size() - done);
    whole = wrote > 0;
    done += whole ? size_t(wrote) : 0;
  }
  close(fd);
  if (!whole || rename(fresh.c_str(), path.c_str()) != 0)
    unlink(fresh.c_str());
}

Expected<RingNote> RingNote::read(const std::string &ringPath) {
  std::string path = notePath(ringPath);
  Expected<std::string> text = readTextFile(path, {maxNoteBytes, 16});
  if (!text)
    return text.takeError();
  Expected<json::Value> value = parseJson(*text, path, {maxNoteBytes, 16});
  if (!value)
    return value.takeError();
  const json::Object *object = value->getAsObject();
  const json::Array *rows = object ? object->getArray("devices") : nullptr;
  if (!rows || rows->size() > capture::maxDevices)
    return failUsage("bad-session", "the note beside the ring is not one", path);
  RingNote note;
  for (const json::Value &row : *rows) {
    const json::Object *fields = row.getAsObject();
    const json::Array *spaces = fields ? fields->getArray("spaces") : nullptr;
    if (!fields || (spaces && spaces->size() > maxNoteSpaces))
      return failUsage("bad-session", "the note beside the ring is not one", path);
    Device device;
    device.alias = fields->getString("alias").value_or("").str();
    device.uri = fields->getString("uri").value_or("").str();
    device.descriptionName = fields->getString("description_name").value_or("").str();
    device.descriptionText = fields->getString("description").value_or("").str();
    device.opened = fields->getBoolean("opened").value_or(false);
    for (size_t i = 0; spaces && i < spaces->size(); ++i)
      device.spaces.push_back((*spaces)[i].getAsString().value_or("").str());
    note.devices.push_back(std::move(device));
  }
  return note;
}

} // namespace tapeback
