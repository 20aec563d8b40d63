// Markers, spans, and checks: what the program says about itself.
#include "recorder/client/Device.h"
#include "recorder/client/Evidence.h"
#include <cstdlib>
#include <cstring>

using namespace tapeback;
using namespace tapeback::client;

/// Well-formed UTF-8 without overlong forms, surrogates, or NUL.
static bool isUtf8(const char *text) {
  const auto *at = reinterpret_cast<const unsigned char *>(text);
  while (*at) {
    unsigned first = *at++;
    if (first < 0x80)
      continue;
    unsigned more = first >= 0xc2 && first < 0xe0   ? 1
                    : first >= 0xe0 && first < 0xf0 ? 2
                    : first >= 0xf0 && first < 0xf5 ? 3
                                                    : 0;
    if (!more)
      return false;
    unsigned second = *at, low = 0x80, high = 0xbf;
    low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : low;
    high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : high;
    if (second < low || second > high)
      return false;
    for (unsigned i = 0; i < more; ++i, ++at)
      if ((*at & 0xc0) != 0x80)
        return false;
  }
  return true;
}

/// What names nearly always are.
static bool isAscii(const char *text, size_t length) {
  uint64_t bits = 0, word;
  if (length < sizeof(word)) {
    for (size_t i = 0; i < length; ++i)
      bits |= uint8_t(text[i]);
  } else {
    for (size_t i = 0; i < length; i += sizeof(word)) {
      // The last word is the last eight bytes.
      memcpy(&word, text + (i + sizeof(word) <= length ? i : length - sizeof(word)), sizeof(word));
      bits |= word;
    }
  }
  return !(bits & 0x8080808080808080u);
}

[[gnu::cold, gnu::noinline]] static int badName(const char *function, size_t length) {
  if (!length)
    return fail(TB_E_USAGE, "%s: the name is empty", function);
  if (length > maxNameBytes)
    return fail(TB_E_USAGE, "%s: the name has more than %u bytes", function, maxNameBytes);
  return fail(TB_E_USAGE, "%s: the name is not UTF-8", function);
}

static int ready(tb_device *device, const char *function, const char *name, size_t &length) {
  if (int code = usable(device))
    return code;
  length = name ? strnlen(name, maxNameBytes + 1) : 0;
  if (!length || length > maxNameBytes || (!isAscii(name, length) && !isUtf8(name))) [[unlikely]]
    return badName(function, length);
  return TB_OK;
}

/// An event that is its name. Returns the event's own, 0 if it was not recorded.
static uint64_t nameEvent(const tb_device *device, PacketKind kind, const char *name, size_t length) {
  const uint64_t sequence = startedSession().producer.appendEvent(
      ring::Access::makeEvent(kind, 0, 0, device->id, threadNumber(), Origin::Program), name, length);
  if (!sequence) [[unlikely]]
    (void)recordingNow(); // Counts it.
  return sequence;
}

int tb_mark(tb_device *device, const char *name) {
  size_t length;
  if (int code = ready(device, "tb_mark", name, length))
    return code;
  if (!wantsEvidence(*device, capture::AtMarkers)) {
    nameEvent(device, PacketKind::Marker, name, length);
    return TB_OK;
  }
  Locked lock(device->lock);
  if (int code = usable(device))
    return code;
  nameEvent(device, PacketKind::Marker, name, length);
  takeEvidence(*device);
  return TB_OK;
}

int tb_span_begin(tb_device *device, const char *name, uint64_t *span) {
  if (!span)
    return fail(TB_E_USAGE, "tb_span_begin: span is null");
  size_t length;
  if (int code = ready(device, "tb_span_begin", name, length))
    return code;
  *span = nameEvent(device, PacketKind::SpanBegin, name, length);
  return TB_OK;
}

int tb_span_end(tb_device *device, uint64_t span) {
  if (int code = usable(device))
    return code;
  ring::Record record = blankRecord(device, PacketKind::SpanEnd);
  record.link = span;
  event(record);
  return TB_OK;
}

int tb_check_equal(tb_device *device, const char *name, uint64_t expected, uint64_t actual) {
  size_t length;
  if (int code = ready(device, "tb_check_equal", name, length))
    return code;
  ring::Record record = blankRecord(device, PacketKind::Oracle);
  record.value = actual;
  record.expected = expected;
  record.mask = ~uint64_t(0);
  record.flags = actual == expected ? 0 : Failed;
  record.link = findRead(device->id, actual);
  event(record, name, length);
  return actual == expected;
}

int tb_check_memory(tb_device *device, const char *name, uint64_t iova, const void *expected, size_t size) {
  size_t length;
  if (int code = ready(device, "tb_check_memory", name, length))
    return code;
  if (!expected)
    return fail(TB_E_USAGE, "tb_check_memory: expected is null");
  // Compared with what was recorded, not with what the memory may have become since.
  auto *actual = static_cast<uint8_t *>(malloc(size ? size : 1));
  if (!actual)
    return fail(TB_E_NO_MEMORY, "out of memory");
  ring::Record record = blankRecord(device, PacketKind::Oracle);
  if (int code = acquire(device, iova, actual, size, &record.link)) {
    free(actual);
    return code;
  }
  const auto *wanted = static_cast<const uint8_t *>(expected);
  size_t at = 0;
  while (at < size && actual[at] == wanted[at])
    ++at;
  bool holds = at == size;
  record.address = iova;
  record.length = size;
  record.mask = 0xff;
  if (!holds) {
    record.flags = Failed;
    record.count = at;
    record.value = actual[at];
    record.expected = wanted[at];
  }
  ring::Producer::Group group(session().producer);
  if (!holds) {
    // What was wanted behind the first wrong byte is nowhere else, and a replay must be able to redo the
    // check.
    ring::Record wants = blankRecord(device, PacketKind::Expectation);
    wants.origin = uint8_t(Origin::Recorder);
    wants.address = iova;
    wants.length = size;
    event(wants, expected, size);
  }
  free(actual);
  event(record, name, length);
  return holds;
}

int tb_check(tb_device *device, const char *name, int holds) {
  size_t length;
  if (int code = ready(device, "tb_check", name, length))
    return code;
  ring::Record record = blankRecord(device, PacketKind::Oracle);
  record.value = holds != 0;
  record.expected = 1;
  record.flags = holds ? 0 : Failed;
  event(record, name, length);
  return holds != 0;
}

int tb_fail(tb_device *device, const char *name) {
  int code = tb_check(device, name, 0);
  return code < 0 ? code : 0;
}
