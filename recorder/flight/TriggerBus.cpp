#include "recorder/flight/TriggerBus.h"
#include "format/Failure.h"
#include "recorder/flight/QuietThread.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <cerrno>
#include <cstring>
#include <ctime>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

using namespace llvm;

namespace tapeback {

namespace {

/// What goes over the wire; both ends are this program on this machine, but whoever is this user can send.
struct Wire {
  char magic[8];
  int32_t pid;
  uint32_t nameBytes;
  uint64_t sentNs;
  char name[64];
};
constexpr char wireMagic[8] = {'T', 'B', 'E', 'V', 'E', 'N', 'T', '1'};
constexpr size_t maxWaiting = 1024, maxPeers = 256;

uint64_t monotonicNow() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return uint64_t(time.tv_sec) * 1'000'000'000 + uint64_t(time.tv_nsec);
}

Expected<std::string> busDirectory(StringRef given) {
  SmallString<128> directory(given);
  if (given.empty()) {
    const char *runtime = std::getenv("XDG_RUNTIME_DIR");
    if (runtime && *runtime)
      sys::path::append(directory, runtime, "tapeback-events");
    else
      (Twine("/tmp/tapeback-events-") + Twine(geteuid())).toVector(directory);
  }
  std::string path(directory);
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return failSystem(
        "no-event-directory",
        "cannot make the directory for events between recordings: " + std::string(strerror(errno)), path);
  struct stat status;
  if (lstat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != geteuid() ||
      (status.st_mode & 077) != 0)
    return failSystem("bad-event-directory",
                      "the directory for events between recordings is not this user's alone", path,
                      "--event-directory names another; it must have mode 0700");
  return path;
}

bool setAddress(sockaddr_un &address, const std::string &path) {
  address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path))
    return false;
  std::memcpy(address.sun_path, path.data(), path.size());
  return true;
}

} // namespace

Expected<std::unique_ptr<TriggerBus>> TriggerBus::join(StringRef given, std::function<void()> wake) {
  Expected<std::string> directory = busDirectory(given);
  if (!directory)
    return directory.takeError();
  std::unique_ptr<TriggerBus> bus(new TriggerBus());
  bus->directory = *directory;
  bus->path = *directory + "/" + std::to_string(getpid()) + ".events";
  bus->wake = std::move(wake);
  sockaddr_un address;
  if (!setAddress(address, bus->path))
    return failUsage("bad-event-directory", "the path is too long for a socket", *directory);
  bus->socketFd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  bus->stopFd = eventfd(0, EFD_CLOEXEC);
  unlink(bus->path.c_str()); // Of a dead process that had our number.
  if (bus->socketFd < 0 || bus->stopFd < 0 ||
      bind(bus->socketFd, reinterpret_cast<sockaddr *>(&address), sizeof address) != 0)
    return failSystem("no-event-socket",
                      "cannot make a socket for events between recordings: " + std::string(strerror(errno)),
                      bus->path);
  Expected<std::thread> listener = threadOrFailure("listens to other recordings", [raw = bus.get()] {
    return startQuietThread([raw] { raw->listen(); });
  });
  if (!listener)
    return listener.takeError();
  bus->listener = std::move(*listener);
  return bus;
}

TriggerBus::~TriggerBus() {
  if (listener.joinable()) {
    uint64_t one = 1;
    while (write(stopFd, &one, sizeof one) < 0 && errno == EINTR)
      continue;
    listener.join();
  }
  if (socketFd >= 0)
    close(socketFd);
  if (stopFd >= 0)
    close(stopFd);
  if (!path.empty())
    unlink(path.c_str());
}

void TriggerBus::raise(StringRef event) {
  Wire wire = {};
  std::memcpy(wire.magic, wireMagic, sizeof wireMagic);
  wire.pid = getpid();
  wire.nameBytes = uint32_t(std::min(event.size(), sizeof wire.name));
  std::memcpy(wire.name, event.data(), wire.nameBytes);
  std::error_code failed;
  size_t peers = 0;
  for (sys::fs::directory_iterator at(directory, failed), end; at != end && !failed && peers < maxPeers;
       at.increment(failed)) {
    if (at->path() == path || !StringRef(at->path()).ends_with(".events"))
      continue;
    ++peers;
    sockaddr_un address;
    if (!setAddress(address, at->path()))
      continue;
    wire.sentNs = monotonicNow();
    if (sendto(socketFd, &wire, sizeof wire, MSG_DONTWAIT | MSG_NOSIGNAL,
               reinterpret_cast<sockaddr *>(&address), sizeof address) == ssize_t(sizeof wire))
      continue;
    if (errno == ECONNREFUSED) {
      unlink(at->path().c_str()); // A recorder that was killed left it.
      continue;
    }
    std::lock_guard guard(lock);
    ++lost;
  }
}

void TriggerBus::listen() {
  pollfd fds[2] = {{socketFd, POLLIN, 0}, {stopFd, POLLIN, 0}};
  for (;;) {
    if (poll(fds, 2, -1) < 0 && errno != EINTR)
      return;
    if (fds[1].revents)
      return;
    if (!(fds[0].revents & POLLIN))
      continue;
    Wire wire = {};
    ssize_t size = recv(socketFd, &wire, sizeof wire, MSG_TRUNC);
    uint64_t now = monotonicNow();
    if (size != ssize_t(sizeof wire) || std::memcmp(wire.magic, wireMagic, sizeof wireMagic) != 0 ||
        wire.nameBytes > sizeof wire.name)
      continue;
    {
      std::lock_guard guard(lock);
      if (waiting.size() >= maxWaiting) {
        ++lost;
        continue;
      }
      waiting.push_back({std::string(wire.name, wire.nameBytes), wire.pid, wire.sentNs, now});
    }
    wake();
  }
}

std::vector<BusMessage> TriggerBus::take() {
  std::lock_guard guard(lock);
  return std::move(waiting);
}

} // namespace tapeback
