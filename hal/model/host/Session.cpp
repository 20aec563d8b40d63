#include "hal/model/host/Session.h"
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <sys/socket.h>
#include <unistd.h>

namespace tapeback::modelhost {
namespace {

uint64_t monotonicNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return uint64_t(now.tv_sec) * 1000000000u + uint64_t(now.tv_nsec);
}

const char *statusName(int status) {
  switch (status) {
  case TAPEBACK_MODEL_E_USAGE: return "bad use";
  case TAPEBACK_MODEL_E_BUS: return "bus error";
  case TAPEBACK_MODEL_E_UNSUPPORTED: return "unsupported";
  case TAPEBACK_MODEL_E_NO_MEMORY: return "out of memory";
  case TAPEBACK_MODEL_E_INTERNAL: return "internal error";
  default: return "unknown error";
  }
}

int refuseLanguage(const MessageHeader &header) {
  // Standard error is what the other side shows when we are gone.
  dprintf(STDERR_FILENO,
          "tapeback-model-host speaks version %u of the protocol, not %u: rebuild or reinstall\n",
          protocolVersion, header.version);
  return 3;
}

} // namespace

int Session::run() {
  while (true) {
    ssize_t got = recv(channelFd, in, sizeof in, 0);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      break;
    WireReader request{in, size_t(got)};
    auto header = request.get<MessageHeader>();
    if (request.failed || header.magic != protocolMagic || header.version != protocolVersion ||
        header.size != size_t(got))
      return refuseLanguage(header); // No answer would be understood.
    text[0] = 0;
    // Room is kept behind the body for interrupts, text and readings.
    size_t room = sizeof out - sizeof(ReplyHeader) - sizeof(InterruptEntry) * maxVectors - maxTextBytes -
                  sizeof(uint64_t) * (1 + maxReadings);
    WireWriter body{out + sizeof(ReplyHeader), room};
    Status status = dispatch(Command(header.command), request, body);
    if (status == 0 && body.overflow)
      status = fail(HostBadRequest, "the reply does not fit into a message");
    size_t size = writeReply(header, status, body.overflow ? 0 : body.size);
    ssize_t sent;
    do
      sent = send(channelFd, out, size, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent < 0)
      break;
  }
  if (instance)
    plugin.model.destroy(instance);
  return 0;
}

size_t Session::writeReply(const MessageHeader &request, Status status, size_t bodyBytes) {
  ReplyHeader header{};
  header.message = {protocolMagic, protocolVersion, request.command, 0, request.sequence};
  header.status = status;
  header.bodyBytes = uint32_t(bodyBytes);
  header.interruptCount = raisedCount;
  header.textBytes = uint32_t(strnlen(text, sizeof text));
  uint64_t readings[1 + maxReadings];
  if (status == 0 &&
      (Command(request.command) == Command::Execute || Command(request.command) == Command::Advance))
    header.readingCount = takeReadings(readings);
  WireWriter tail{out + sizeof header + bodyBytes, sizeof out - sizeof header - bodyBytes};
  for (uint32_t i = 0; i < raisedCount; ++i) {
    tail.put(InterruptEntry{raised[i], 0, pending[raised[i]]});
    pending[raised[i]] = 0;
  }
  raisedCount = 0;
  tail.bytes(text, header.textBytes);
  tail.bytes(readings, header.readingCount * sizeof readings[0]);
  header.message.size = uint32_t(sizeof header + bodyBytes + tail.size);
  memcpy(out, &header, sizeof header);
  return header.message.size;
}

uint32_t Session::takeReadings(uint64_t *values) const {
  uint32_t count = 0;
  if (timeRides && plugin.model.device_time(instance, &values[count++]) != 0)
    return 0;
  for (uint32_t i = 0; i < ridingCount; ++i)
    if (plugin.model.counter(instance, riding[i], &values[count++]) != 0)
      return 0;
  return count;
}

Session::Status Session::fail(Status status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return status;
}

Session::Status Session::fromPlugin(int status, const char *call) {
  if (status == 0)
    return 0;
  if (status > 0 || status <= HostLoadFailed)
    return fail(HostBadBehaviour, "its %s returned %d, which is no status of the ABI", call, status);
  const char *words = plugin.model.last_error(instance);
  size_t length = words ? strnlen(words, sizeof text - 1) : 0;
  if (length == 0)
    return fail(status, "%s failed: %s", call, statusName(status));
  memcpy(text, words, length);
  text[length] = 0;
  return status;
}

Session::Status Session::counters(WireReader &request, WireWriter &body) {
  const tapeback_model &model = plugin.model;
  uint32_t count = request.get<uint32_t>();
  if (count > maxBatch)
    return fail(HostBadRequest, "%u counters at once", count);
  Status status = 0;
  ridingCount = 0;
  uint32_t rides = count <= maxReadings ? count : 0;
  for (uint32_t at = 0; count && status == 0; --count, ++at) {
    uint64_t value = 0;
    uint32_t id = request.get<uint32_t>();
    if (request.failed)
      return fail(HostBadRequest, "fewer counters than were announced");
    if (!(model.capabilities & TAPEBACK_MODEL_CAP_COUNTERS) || id >= model.counter_count)
      return fail(TAPEBACK_MODEL_E_USAGE, "there is no counter %u", id);
    status = fromPlugin(model.counter(instance, id, &value), "counter");
    body.put(value);
    if (rides)
      riding[at] = id;
  }
  if (status == 0)
    ridingCount = rides;
  return status;
}

Session::Status Session::dispatch(Command command, WireReader &request, WireWriter &body) {
  if ((command == Command::Hello) != (instance == nullptr))
    return fail(HostBadRequest, "Hello comes first, and once");
  const tapeback_model &model = plugin.model;
  uint64_t value = 0;
  switch (command) {
  case Command::Hello: return hello(request, body);
  case Command::Execute: return execute(request, body);
  case Command::Advance: return advance(request, body);
  case Command::Map: return mapMemory(request);
  case Command::Unmap: return unmapMemory(request);
  case Command::Reset: return fromPlugin(model.reset(instance, request.get<uint32_t>()), "reset");
  case Command::Counters: return counters(request, body);
  case Command::DeviceTime: {
    if (!(model.capabilities & TAPEBACK_MODEL_CAP_DEVICE_TIME))
      return fail(TAPEBACK_MODEL_E_UNSUPPORTED, "this model has no clock to read");
    Status status = fromPlugin(model.device_time(instance, &value), "device_time");
    body.put(value);
    timeRides |= status == 0;
    return status;
  }
  case Command::Peek: return peek(request, body);
  case Command::SnapshotSave: return snapshotSave(body);
  case Command::SnapshotRead: return snapshotRead(request, body);
  case Command::SnapshotWrite: return snapshotWrite(request);
  case Command::SnapshotLoad: return snapshotLoad();
  case Command::TraceBegin: return traceBegin(request);
  case Command::TraceEnd: return traceEnd();
  case Command::Look: return look(request, body);
  }
  return fail(HostBadRequest, "there is no command %u", unsigned(command));
}

Session::Status Session::hello(WireReader &request, WireWriter &body) {
  uint64_t memorySize = request.get<uint64_t>();
  size_t length = 0;
  char path[4096 + 1];
  const char *sent = request.string(sizeof path - 1, &length);
  if (request.failed)
    return fail(HostBadRequest, "malformed Hello");
  memcpy(path, sent, length);
  path[length] = 0;
  if (!memory.open(memoryFd, memorySize))
    return fail(HostBadRequest, "device-visible memory cannot be mapped: %s", strerror(errno));
  if (int32_t status = loadPlugin(path, &plugin, text, sizeof text))
    return status;
  if (Status status = createInstance(request))
    return status;
  describe(body);
  return 0;
}

Session::Status Session::createInstance(WireReader &request) {
  constexpr uint32_t most = 64;
  // Key and value are copied with a NUL behind each; the message is bounded, so this is too.
  static char storage[8192 + 2 * most];
  tapeback_model_option options[most];
  size_t used = 0;
  auto take = [&]() -> const char * {
    size_t length = 0;
    const char *from = request.string(8192, &length);
    if (!from || sizeof storage - used < length + 1) {
      request.failed = true;
      return nullptr;
    }
    char *to = storage + used;
    memcpy(to, from, length);
    to[length] = 0;
    used += length + 1;
    return to;
  };
  uint32_t count = request.get<uint32_t>();
  if (count > most)
    return fail(HostBadRequest, "%u options", count);
  for (uint32_t i = 0; i < count; ++i)
    options[i] = {take(), take()};
  if (request.failed || request.left())
    return fail(HostBadRequest, "malformed options");

  callbacks = {sizeof callbacks, TAPEBACK_MODEL_ABI_MINOR, this, dmaRead, dmaWrite, raiseInterrupt, log};
  char error[maxTextBytes] = {};
  void *made = nullptr;
  int status = plugin.model.create(&callbacks, options, count, &made, error, sizeof error);
  if (status != 0) {
    error[sizeof error - 1] = 0;
    if (status > 0 || status <= HostLoadFailed)
      return fail(HostBadBehaviour, "its create returned %d, which is no status of the ABI", status);
    return fail(status, "%s", error[0] ? error : statusName(status));
  }
  if (!made)
    return fail(HostBadBehaviour, "its create succeeded without giving an instance");
  instance = made;
  return 0;
}

void Session::describe(WireWriter &body) const {
  const tapeback_model &model = plugin.model;
  auto string = [&](const char *text) { body.string(text, pluginStringLength(text)); };
  body.put(model.abi_major);
  body.put(model.abi_minor);
  body.put(model.capabilities);
  body.put(model.interrupt_vectors);
  body.put(model.counter_count);
  string(model.name);
  body.put(model.fact_count);
  for (uint32_t i = 0; i < model.fact_count; ++i) {
    string(model.facts[i].key);
    string(model.facts[i].value);
  }
  body.put(model.space_count);
  for (uint32_t i = 0; i < model.space_count; ++i) {
    string(model.spaces[i].name);
    body.put(model.spaces[i].size);
  }
  body.put(model.window_count);
  for (uint32_t i = 0; i < model.window_count; ++i) {
    string(model.windows[i].name);
    body.put(model.windows[i].size);
  }
}

Session::Status Session::execute(WireReader &request, WireWriter &body) {
  uint32_t count = request.get<uint32_t>();
  if (count > maxBatch)
    return fail(HostBadRequest, "a batch of %u", count);
  WireReader operations{request.bytes(count * sizeof(WireOperation)), count * sizeof(WireOperation)};
  if (request.failed)
    return fail(HostBadRequest, "malformed batch");
  uint32_t completed = 0;
  size_t completedAt = body.size;
  body.put(completed);
  Status status = 0;
  for (; completed < count; ++completed) {
    auto operation = operations.get<WireOperation>();
    if (operation.kind == 0) {
      uint64_t value = 0;
      status = fromPlugin(
          plugin.model.read(instance, operation.space, operation.address, operation.width, &value), "read");
      if (status == 0)
        body.put(value);
    } else if (operation.kind == 1) {
      status = fromPlugin(
          plugin.model.write(instance, operation.space, operation.address, operation.width, operation.value),
          "write");
    } else {
      const uint8_t *from = request.bytes(operation.length);
      if (operation.kind != 2 || request.failed || !memory.write(operation.address, from, operation.length))
        status = fail(HostBadRequest, "malformed operation %u of a batch", completed);
    }
    if (status)
      break;
  }
  if (!body.overflow)
    memcpy(body.data + completedAt, &completed, sizeof completed);
  return status;
}

Session::Status Session::advance(WireReader &request, WireWriter &body) {
  auto wanted = request.get<AdvanceRequest>();
  if (request.failed ||
      (wanted.stopVector != noVector && wanted.stopVector >= plugin.model.interrupt_vectors))
    return fail(HostBadRequest, "malformed Advance");
  AdvanceReply reply{0, AdvanceEnd::Budget, 0};
  Status status = 0;
  uint64_t start = monotonicNs();
  while (true) {
    if (wanted.stopVector != noVector && pending[wanted.stopVector]) {
      reply.end = AdvanceEnd::Interrupt;
      break;
    }
    uint64_t left = wanted.budgetNs - reply.advancedNs;
    if (left == 0)
      break;
    uint64_t before = interrupts, passed = 0;
    status = fromPlugin(plugin.model.advance(instance, left, &passed), "advance");
    if (status)
      break;
    if (passed > left) {
      status = fail(HostBadBehaviour, "its advance let %llu ns pass where at most %llu were allowed",
                    static_cast<unsigned long long>(passed), static_cast<unsigned long long>(left));
      break;
    }
    reply.advancedNs += passed;
    if (passed == 0 && interrupts == before) {
      reply.end = AdvanceEnd::Idle;
      break;
    }
    if (monotonicNs() - start > wanted.hostLimitNs) {
      reply.end = AdvanceEnd::HostLimit;
      break;
    }
  }
  body.put(reply);
  return status;
}

Session::Status Session::mapMemory(WireReader &request) {
  uint64_t iova = request.get<uint64_t>(), size = request.get<uint64_t>(), offset = request.get<uint64_t>();
  if (request.failed || !memory.map(iova, size, offset))
    return fail(HostBadRequest, "malformed Map");
  return 0;
}

Session::Status Session::unmapMemory(WireReader &request) {
  uint64_t iova = request.get<uint64_t>();
  if (request.failed || !memory.unmap(iova))
    return fail(HostBadRequest, "malformed Unmap");
  return 0;
}

Session::Status Session::peek(WireReader &request, WireWriter &body) {
  uint32_t window = request.get<uint32_t>();
  uint64_t offset = request.get<uint64_t>();
  uint32_t size = request.get<uint32_t>();
  const tapeback_model &model = plugin.model;
  if (request.failed || size > maxChunkBytes || !(model.capabilities & TAPEBACK_MODEL_CAP_PEEK) ||
      window >= model.window_count || offset > model.windows[window].size ||
      model.windows[window].size - offset < size)
    return fail(HostBadRequest, "malformed Peek");
  uint8_t *to = body.data + body.size;
  memset(to, 0, size);
  Status status = fromPlugin(model.peek(instance, window, offset, to, size), "peek");
  body.size += status == 0 ? size : 0;
  return status;
}

/// Appends the pages of a window that are not as they were shown last.
Session::Status Session::lookAtWindow(uint32_t window, uint32_t *pages, bool *more, WireWriter &body) {
  const tapeback_model &model = plugin.model;
  uint64_t size = model.windows[window].size;
  if (!shown[window]) {
    if (size > maxLookBytes - shownBytes)
      return fail(TAPEBACK_MODEL_E_UNSUPPORTED, "its internal windows are too big for a look");
    if (size > seenBytes) {
      void *room = realloc(seen, size);
      if (!room)
        return fail(TAPEBACK_MODEL_E_NO_MEMORY, "no memory for a look");
      seen = static_cast<uint8_t *>(room);
      seenBytes = size;
    }
    shown[window] = static_cast<uint8_t *>(calloc(1, size ? size : 1));
    if (!shown[window])
      return fail(TAPEBACK_MODEL_E_NO_MEMORY, "no memory for a look");
    shownBytes += size;
  }
  if (size == 0)
    return 0;
  memset(seen, 0, size);
  if (Status status = fromPlugin(model.peek(instance, window, 0, seen, size), "peek"))
    return status;
  for (uint64_t at = 0; at < size; at += lookPageBytes) {
    uint64_t piece = size - at < lookPageBytes ? size - at : lookPageBytes;
    if (memcmp(seen + at, shown[window] + at, piece) == 0)
      continue;
    if (*pages == maxLookPages) {
      *more = true;
      return 0;
    }
    memcpy(shown[window] + at, seen + at, piece);
    body.put(window);
    body.put(uint32_t(at / lookPageBytes));
    body.bytes(seen + at, piece);
    ++*pages;
  }
  return 0;
}

Session::Status Session::look(WireReader &request, WireWriter &body) {
  const tapeback_model &model = plugin.model;
  constexpr uint32_t needed = TAPEBACK_MODEL_CAP_PEEK | TAPEBACK_MODEL_CAP_PEEK_REGISTERS;
  if ((model.capabilities & needed) != needed)
    return fail(TAPEBACK_MODEL_E_UNSUPPORTED, "this model cannot be looked at without side effect");
  uint32_t registers = request.get<uint32_t>();
  if (registers > maxLookRegisters)
    return fail(HostBadRequest, "a look at %u registers", registers);
  for (; registers; --registers) {
    auto wanted = request.get<LookRegister>();
    if (request.failed || wanted.space >= model.space_count)
      return fail(HostBadRequest, "malformed Look");
    uint64_t value = 0;
    if (Status status =
            fromPlugin(model.peek_register(instance, wanted.space, wanted.address, wanted.width, &value),
                       "peek_register"))
      return status;
    body.put(value);
  }
  uint32_t ids = request.get<uint32_t>();
  if (ids > maxLookCounters)
    return fail(HostBadRequest, "a look at %u counters", ids);
  for (; ids; --ids) {
    uint64_t value = 0;
    uint32_t id = request.get<uint32_t>();
    if (request.failed || !(model.capabilities & TAPEBACK_MODEL_CAP_COUNTERS) || id >= model.counter_count)
      return fail(HostBadRequest, "malformed Look");
    if (Status status = fromPlugin(model.counter(instance, id, &value), "counter"))
      return status;
    body.put(value);
  }
  uint32_t windows = request.get<uint32_t>(), pages = 0;
  bool more = false;
  size_t countsAt = body.size;
  body.put(uint32_t(more));
  body.put(pages);
  for (; windows; --windows) {
    uint32_t window = request.get<uint32_t>();
    if (request.failed || window >= model.window_count)
      return fail(HostBadRequest, "malformed Look");
    if (Status status = lookAtWindow(window, &pages, &more, body))
      return status;
  }
  uint32_t counts[] = {uint32_t(more), pages};
  if (!body.overflow)
    memcpy(body.data + countsAt, counts, sizeof counts);
  return 0;
}

Session::Status Session::snapshotSave(WireWriter &body) {
  const tapeback_model &model = plugin.model;
  if (!(model.capabilities & TAPEBACK_MODEL_CAP_SNAPSHOT))
    return fail(TAPEBACK_MODEL_E_UNSUPPORTED, "this model has no snapshots");
  free(snapshot);
  snapshot = nullptr;
  snapshotTotal = snapshotFilled = 0;
  uint64_t size = 0;
  if (Status status = fromPlugin(model.snapshot_size(instance, &size), "snapshot_size"))
    return status;
  if (size > maxSnapshotBytes)
    return fail(HostBadBehaviour, "its snapshot of %llu bytes is too big",
                static_cast<unsigned long long>(size));
  snapshot = static_cast<uint8_t *>(calloc(1, size ? size : 1));
  if (!snapshot)
    return fail(TAPEBACK_MODEL_E_NO_MEMORY, "no memory for a snapshot");
  if (Status status = fromPlugin(model.snapshot_save(instance, snapshot, size), "snapshot_save"))
    return status;
  snapshotTotal = snapshotFilled = size;
  body.put(size);
  return 0;
}

Session::Status Session::snapshotRead(WireReader &request, WireWriter &body) {
  uint64_t offset = request.get<uint64_t>();
  uint32_t size = request.get<uint32_t>();
  if (request.failed || !snapshot || size > maxChunkBytes || offset > snapshotFilled ||
      snapshotFilled - offset < size)
    return fail(HostBadRequest, "malformed SnapshotRead");
  body.bytes(snapshot + offset, size);
  if (offset + size == snapshotTotal) {
    free(snapshot);
    snapshot = nullptr;
  }
  return 0;
}

Session::Status Session::snapshotWrite(WireReader &request) {
  uint64_t total = request.get<uint64_t>(), offset = request.get<uint64_t>();
  size_t size = request.left();
  if (request.failed || total > maxSnapshotBytes || offset > total || total - offset < size)
    return fail(HostBadRequest, "malformed SnapshotWrite");
  if (offset == 0) {
    free(snapshot);
    snapshot = static_cast<uint8_t *>(malloc(total ? total : 1));
    if (!snapshot)
      return fail(TAPEBACK_MODEL_E_NO_MEMORY, "no memory for a snapshot");
    snapshotTotal = total;
    snapshotFilled = 0;
  }
  if (!snapshot || total != snapshotTotal || offset != snapshotFilled)
    return fail(HostBadRequest, "SnapshotWrite out of order");
  if (size)
    memcpy(snapshot + offset, request.bytes(size), size);
  snapshotFilled += size;
  return 0;
}

Session::Status Session::snapshotLoad() {
  if (!(plugin.model.capabilities & TAPEBACK_MODEL_CAP_SNAPSHOT) || !snapshot ||
      snapshotFilled != snapshotTotal)
    return fail(HostBadRequest, "SnapshotLoad without all of its content");
  Status status = fromPlugin(plugin.model.snapshot_load(instance, snapshot, snapshotTotal), "snapshot_load");
  free(snapshot);
  snapshot = nullptr;
  return status;
}

Session::Status Session::traceBegin(WireReader &request) {
  size_t length = 0;
  const char *sent = request.string(maxPathBytes, &length);
  if (request.failed || request.left() || memchr(sent, 0, length))
    return fail(HostBadRequest, "malformed TraceBegin");
  if (!(plugin.model.capabilities & TAPEBACK_MODEL_CAP_TRACE))
    return fail(TAPEBACK_MODEL_E_UNSUPPORTED, "this model writes no waveform");
  char path[maxPathBytes + 1];
  memcpy(path, sent, length);
  path[length] = 0;
  return fromPlugin(plugin.model.trace_begin(instance, path), "trace_begin");
}

Session::Status Session::traceEnd() {
  if (!(plugin.model.capabilities & TAPEBACK_MODEL_CAP_TRACE))
    return fail(TAPEBACK_MODEL_E_UNSUPPORTED, "this model writes no waveform");
  return fromPlugin(plugin.model.trace_end(instance), "trace_end");
}

int Session::dmaRead(void *host, uint64_t iova, void *out, uint64_t size) {
  auto *self = static_cast<Session *>(host);
  if (!(self->plugin.model.capabilities & TAPEBACK_MODEL_CAP_MEMORY))
    return TAPEBACK_MODEL_E_UNSUPPORTED;
  return self->memory.read(iova, out, size) ? TAPEBACK_MODEL_OK : TAPEBACK_MODEL_E_BUS;
}

int Session::dmaWrite(void *host, uint64_t iova, const void *in, uint64_t size) {
  auto *self = static_cast<Session *>(host);
  if (!(self->plugin.model.capabilities & TAPEBACK_MODEL_CAP_MEMORY))
    return TAPEBACK_MODEL_E_UNSUPPORTED;
  return self->memory.write(iova, in, size) ? TAPEBACK_MODEL_OK : TAPEBACK_MODEL_E_BUS;
}

int Session::raiseInterrupt(void *host, uint32_t vector) {
  auto *self = static_cast<Session *>(host);
  if (!(self->plugin.model.capabilities & TAPEBACK_MODEL_CAP_INTERRUPTS))
    return TAPEBACK_MODEL_E_UNSUPPORTED;
  if (vector >= self->plugin.model.interrupt_vectors)
    return TAPEBACK_MODEL_E_USAGE;
  if (self->pending[vector]++ == 0)
    self->raised[self->raisedCount++] = vector;
  ++self->interrupts;
  return TAPEBACK_MODEL_OK;
}

void Session::log(void *, int level, const char *text) {
  static const char *const names[] = {"error", "warning", "info", "debug"};
  if (!text)
    return;
  // One write per message, so that it is not torn; standard error is a pipe that the target drains.
  char line[1024];
  int length =
      snprintf(line, sizeof line, "%s: %.*s\n", level >= 0 && level < 4 ? names[level] : "log", 960, text);
  if (length > 0 && write(STDERR_FILENO, line, size_t(length)) < 0)
    return; // Nobody listens any more: the channel will say so.
}

} // namespace tapeback::modelhost
