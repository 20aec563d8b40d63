#include "recorder/preload/VfioFiles.h"
#include <cstring>

namespace tapeback::preload {

static std::atomic<uint8_t> kinds[maxFiles];
static File files[maxFiles];
static pthread_mutex_t filesLock = PTHREAD_MUTEX_INITIALIZER;
static constinit DeviceState deviceStates[client::maxDevices];

FileKind kindOf(int fd) {
  return fd < 0 || fd >= maxFiles ? FileKind::Foreign : FileKind(kinds[fd].load(std::memory_order_acquire));
}

File fileOf(int fd) {
  if (kindOf(fd) == FileKind::Foreign)
    return File{FileKind::Foreign, -1, -1, nullptr, 0};
  client::Locked lock(filesLock);
  return files[fd];
}

void setFile(int fd, const File &file) {
  if (fd < 0 || fd >= maxFiles)
    return;
  client::Locked lock(filesLock);
  files[fd] = file;
  kinds[fd].store(uint8_t(file.kind), std::memory_order_release);
}

void copyFile(int from, int to) {
  if (kindOf(from) != FileKind::Foreign)
    setFile(to, fileOf(from));
  else
    forgetFile(to);
}

void forgetFile(int fd) {
  if (kindOf(fd) != FileKind::Foreign)
    kinds[fd].store(uint8_t(FileKind::Foreign), std::memory_order_release);
}

bool isOpen(const DeviceState *state) {
  client::Locked lock(filesLock);
  for (int fd = 0; fd < maxFiles; ++fd)
    if (FileKind(kinds[fd].load(std::memory_order_relaxed)) == FileKind::Device && files[fd].device == state)
      return true;
  return false;
}

int containerOf(const DeviceState *state) {
  client::Locked lock(filesLock);
  int fd = state->group;
  bool known =
      fd >= 0 && fd < maxFiles && FileKind(kinds[fd].load(std::memory_order_relaxed)) == FileKind::Group;
  return known ? files[fd].container : -1;
}

DeviceState *deviceByName(const char *name) {
  const capture::Table *table = client::session().table();
  if (!table || !client::session().producer.recording())
    return nullptr;
  const auto *all = capture::elements<capture::Device>(table, table->devices);
  size_t length = strlen(name);
  for (uint32_t i = 0; i < table->devices.count && i < client::maxDevices; ++i) {
    const char *rest = strchr(all[i].uri, ':');
    if (!rest || strncmp(rest + 1, name, length) != 0 || (rest[1 + length] && rest[1 + length] != '?'))
      continue;
    deviceStates[i].device.id = uint16_t(i);
    strcpy(deviceStates[i].device.alias, all[i].alias);
    return &deviceStates[i];
  }
  return nullptr;
}

DeviceState *deviceAt(unsigned index) {
  return index < client::maxDevices ? &deviceStates[index] : nullptr;
}

} // namespace tapeback::preload
