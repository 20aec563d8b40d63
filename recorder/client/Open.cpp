// tb_open, tb_close, tb_reset, and what a process can ask about itself.
#include "recorder/client/Device.h"
#include "recorder/client/DurableLog.h"
#include "recorder/client/Evidence.h"
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace tapeback;
using namespace tapeback::client;

static constinit tb_device devices[maxDevices];
static unsigned unrecordedDevices; ///< Slots in use when there is no capture table.
static pthread_mutex_t openLock = PTHREAD_MUTEX_INITIALIZER;

void tapeback::client::endShortcuts() {
  for (tb_device &device : devices)
    closeShortcuts(device);
}

const char *tb_error(void) {
  return hotThread.state ? hotThread.state->error : "";
}
const char *tb_version(void) {
  return TAPEBACK_VERSION;
}
int tb_recording(void) {
  return session().producer.recording() && !forked();
}

/// The device that the recorder's command gave this alias.
static int findRecorded(const char *name, tb_device **slot, const char **uri) {
  const capture::Table *table = session().table();
  const auto *all = capture::elements<capture::Device>(table, table->devices);
  uint32_t count = table->devices.count, found = count;
  if (!name || !*name) {
    if (count != 1)
      return fail(TB_E_USAGE, "the command names %u devices: say which one to open", count);
    found = 0;
  }
  for (uint32_t i = 0; found == count && i < count; ++i)
    if (strcmp(all[i].alias, name) == 0)
      found = i;
  if (found == count) {
    char known[512] = "";
    for (uint32_t i = 0; i < count; ++i)
      snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s", i ? ", " : "", all[i].alias);
    return fail(TB_E_USAGE, "the command names no device '%s' (it has: %s)", name, known);
  }
  *slot = &devices[found];
  (*slot)->id = uint16_t(found);
  strcpy((*slot)->alias, all[found].alias);
  *uri = all[found].uri;
  return TB_OK;
}

/// The name a URI gives its device: "edu" of "qemu:edu?…".
static bool isNameOf(const char *uri, const char *name) {
  const char *colon = strchr(uri, ':');
  const char *rest = colon ? colon + 1 : uri;
  size_t length = strcspn(rest, "?");
  return length == strlen(name) && strncmp(rest, name, length) == 0;
}

/// The device that the environment names: TAPEBACK_TARGET_alias, or TAPEBACK_TARGET.
static int findUnrecorded(const char *name, tb_device **slot, const char **uri) {
  const char *alias = name && *name ? name : "";
  if (strlen(alias) >= capture::nameBytes)
    return fail(TB_E_USAGE, "the device's name is too long");
  const char *target = nullptr;
  if (*alias) {
    char variable[capture::nameBytes + 32];
    snprintf(variable, sizeof(variable), "TAPEBACK_TARGET_%s", alias);
    for (char *c = variable; *c; ++c)
      if (!isalnum(static_cast<unsigned char>(*c)))
        *c = '_';
    target = secure_getenv(variable);
  }
  if (!target || !*target) {
    target = secure_getenv("TAPEBACK_TARGET");
    if (target && *alias && !isNameOf(target, alias))
      return fail(TB_E_NO_TARGET, "no target is named '%s': set TAPEBACK_TARGET_%s to its URI", alias, alias);
  }
  if (!target || !*target)
    return fail(TB_E_NO_TARGET,
                "no target: run under `tapeback record --target URI`, or set TAPEBACK_TARGET to a URI");
  for (unsigned i = 0; i < unrecordedDevices; ++i)
    if (strcmp(devices[i].alias, alias) == 0)
      *slot = &devices[i];
  if (!*slot) {
    if (unrecordedDevices == maxDevices)
      return fail(TB_E_USAGE, "more than %u devices", maxDevices);
    *slot = &devices[unrecordedDevices];
    (*slot)->id = uint16_t(unrecordedDevices++);
    strcpy((*slot)->alias, alias);
  }
  *uri = target;
  return TB_OK;
}

static int readSpaces(tb_device *device, const tapeback_backend *backend) {
  device->spaces.clear();
  uint32_t count = backend->space_count(device->target);
  for (uint32_t i = 0; i < count; ++i) {
    DeviceSpace space = {};
    const char *name = backend->space(device->target, i, &space.size);
    if (!name || strlen(name) >= sizeof(space.name))
      return fail(TB_E_TARGET, "the target has a space with a name of more than %zu bytes",
                  sizeof(space.name) - 1);
    strcpy(space.name, name);
    if (!device->spaces.push(space))
      return fail(TB_E_NO_MEMORY, "out of memory");
  }
  return TB_OK;
}

/// Tells the collector what was opened; format in RingFormat.h.
static void recordOpen(tb_device *device, const tapeback_backend *backend) {
  if (!session().producer.recording())
    return;
  char *payload = static_cast<char *>(malloc(ring::maxDeviceOpenBytes));
  if (!payload)
    return; // The collector then knows the device by its number only.
  size_t used = 0;
  auto put = [&](const char *text) {
    size_t length = strlen(text) + 1;
    if (length > ring::maxDeviceOpenBytes - used)
      return false;
    memcpy(payload + used, text, length);
    used += length;
    return true;
  };
  char number[16];
  snprintf(number, sizeof(number), "%zu", device->spaces.size());
  bool fits = put(number);
  for (size_t i = 0; fits && i < device->spaces.size(); ++i)
    fits = put(device->spaces[i].name);
  for (uint32_t i = 0; fits; ++i) {
    size_t before = used;
    const char *value = nullptr, *key = backend->identity(device->target, i, &value);
    if (!key)
      break;
    if (!put(key) || !put(value)) {
      used = before; // Facts that do not fit are left out as a whole.
      break;
    }
  }
  ring::Record record = blankRecord(device, PacketKind::Open);
  record.type = ring::RecordType::DeviceOpen;
  session().producer.append(record, payload, used);
  free(payload);
}

static void noteOpenFailure(const tb_device *device, const char *uri) {
  char text[1600];
  int length = snprintf(text, sizeof(text), "device '%s' (%s) could not be opened: %s", device->alias, uri,
                        tb_error());
  ring::Record note = blankRecord(device, PacketKind::Open);
  note.type = ring::RecordType::Note;
  session().producer.append(note, text,
                            uint64_t(length) < sizeof(text) ? uint64_t(length) : sizeof(text) - 1);
}

static int resetOpen(tb_device *device, Origin origin) {
  Operation operation(device, PacketKind::Reset);
  operation.record.origin = uint8_t(origin);
  operation.issue();
  tapeback_backend_failure failure;
  int status = session().backend->reset(device->target, 0, &failure);
  device->follower.reset();
  return operation.finish(status, failure);
}

/// Reads the registers that tell one post-reset state from another; evidence, not workload.
static int readFingerprint(tb_device *device, const capture::Device *described) {
  const capture::Table *table = session().table();
  const auto *names = capture::elements<capture::Name>(table, table->spaces);
  const auto *entries =
      capture::elements<capture::Fingerprint>(table, table->fingerprints) + described->fingerprints.first;
  for (uint32_t i = 0; i < described->fingerprints.count; ++i) {
    uint32_t space = 0;
    while (space < device->spaces.size() &&
           strcmp(device->spaces[space].name, names[entries[i].space].text) != 0)
      ++space;
    if (space == device->spaces.size())
      continue; // The description names a space that this target does not have.
    Operation operation(device, PacketKind::RegisterRead);
    operation.record.origin = uint8_t(Origin::Recorder);
    operation.record.space = uint16_t(space + 1);
    operation.record.address = entries[i].offset;
    operation.record.width = uint8_t(entries[i].width);
    operation.issue();
    tapeback_backend_failure failure;
    uint64_t value = 0;
    int status =
        session().backend->read(device->target, space, entries[i].offset, entries[i].width, &value, &failure);
    if (int code = operation.finish(status, failure, value))
      return code;
  }
  return TB_OK;
}

static int openTarget(tb_device *device, const char *uri) {
  const tapeback_backend *backend = loadBackend();
  if (!backend)
    return TB_E_UNSUPPORTED;
  tapeback_backend_failure failure;
  if (int status = backend->open(uri, &device->target, &failure))
    return failBackend(status, failure);
  device->capabilities = backend->capabilities(device->target);
  device->failureNoted = false;
  device->evidenceFailed = false;
  device->backend = backend;
  device->readTarget = backend->read;
  device->writeTarget = backend->write;
  const capture::Table *table = session().table();
  const capture::Device *described =
      table ? &capture::elements<capture::Device>(table, table->devices)[device->id] : nullptr;
  device->evidencePeriod = evidencePeriod(*device);
  int code = readSpaces(device, backend);
  if (code == TB_OK && !device->follower.attach(table, described, *device))
    code = fail(TB_E_NO_MEMORY, "out of memory");
  if (code == TB_OK) {
    durableOpened(device);
    recordOpen(device, backend);
    if (device->capabilities & TAPEBACK_BACKEND_CAP_RESET)
      code = resetOpen(device, Origin::Recorder);
    if (code == TB_OK && described && session().producer.recording())
      code = readFingerprint(device, described);
    if (code != TB_OK)
      event(blankRecord(device, PacketKind::Close));
  }
  if (code != TB_OK) {
    backend->close(device->target);
    device->target = nullptr;
  }
  return code;
}

int tb_open(const char *name, tb_device **device) {
  if (!device)
    return fail(TB_E_USAGE, "tb_open: device is null");
  *device = nullptr;
  Session &current = session();
  if (forked())
    return fail(TB_E_FORKED,
                "this process is a child of one that uses the device; open it in one of them only");
  if (current.ringStatus != TB_OK)
    return fail(current.ringStatus, "%s", current.ringError);
  tb_device *slot = nullptr;
  const char *uri = nullptr;
  {
    Locked lock(openLock);
    if (int code = current.table() ? findRecorded(name, &slot, &uri) : findUnrecorded(name, &slot, &uri))
      return code;
  }
  Locked lock(slot->lock);
  if (slot->open.load(std::memory_order_relaxed))
    return fail(TB_E_USAGE, "device '%s' is already open", slot->alias);
  if (int code = openTarget(slot, uri)) {
    noteOpenFailure(slot, uri);
    return code;
  }
  slot->open.store(true, std::memory_order_release);
  chooseShortcut(*slot);
  *device = slot;
  return TB_OK;
}

int tb_close(tb_device *device) {
  if (int code = usable(device))
    return code;
  Locked lock(device->lock);
  if (int code = usable(device))
    return code;
  device->open.store(false, std::memory_order_release);
  closeShortcuts(*device);
  event(blankRecord(device, PacketKind::Close));
  device->follower.closed(*device);
  session().backend->close(device->target);
  device->target = nullptr;
  device->regions.clear();
  return TB_OK;
}

int tb_reset(tb_device *device) {
  if (int code = usable(device))
    return code;
  Locked lock(device->lock);
  if (int code = usable(device))
    return code;
  return resetOpen(device, Origin::Program);
}
