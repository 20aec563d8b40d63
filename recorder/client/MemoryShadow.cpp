#include "recorder/client/MemoryShadow.h"
#include <cstring>
#include <sys/mman.h>

namespace tapeback::client {

static constexpr uint64_t everyByte = 0x0101010101010101;

static uint8_t *reserve(uint64_t bytes) {
  void *memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<uint8_t *>(memory);
}

bool MemoryShadow::add(uint64_t iova, uint64_t size, uint64_t known) {
  Area area = {iova, size, reserve(size), reserve(size)};
  if (!area.content || !area.state || !areas.push(area)) {
    if (area.content)
      munmap(area.content, size);
    if (area.state)
      munmap(area.state, size);
    return false;
  }
  if (known < size)
    memset(area.state + known, unknown, size - known);
  return true;
}

void MemoryShadow::remove(uint64_t iova) {
  for (size_t i = 0; i < areas.size(); ++i) {
    if (areas[i].iova != iova)
      continue;
    munmap(areas[i].content, areas[i].size);
    munmap(areas[i].state, areas[i].size);
    areas.erase(i);
    return;
  }
}

void MemoryShadow::clear() {
  while (areas.size())
    remove(areas[areas.size() - 1].iova);
  areas.release();
}

const MemoryShadow::Area *MemoryShadow::areaOf(uint64_t address) const {
  for (const Area &area : areas)
    if (address >= area.iova && address - area.iova < area.size)
      return &area;
  return nullptr;
}

/// Calls visit(content, state, offset, bytes) for each part that lies in an area, until it returns false.
template <typename Visit>
void MemoryShadow::visit(uint64_t address, uint64_t bytes, Visit visit) const {
  uint64_t last = address + (bytes - 1);
  if (const Area *area = areaOf(address); area && last - area->iova < area->size) {
    visit(area->content + (address - area->iova), area->state + (address - area->iova), 0, bytes);
    return;
  }
  for (const Area &area : areas) {
    uint64_t areaLast = area.iova + (area.size - 1);
    if (address > areaLast || last < area.iova)
      continue;
    uint64_t first = address > area.iova ? address : area.iova;
    uint64_t until = last < areaLast ? last : areaLast;
    if (!visit(area.content + (first - area.iova), area.state + (first - area.iova), first - address,
               until - first + 1))
      return;
  }
}

template <typename Visit>
void MemoryShadow::visit(const Rows &rows, Visit visitPart) const {
  Rows pieces = rows.pieces();
  bool more = true;
  for (uint64_t r = 0; r < pieces.count && more; ++r)
    visit(pieces.address + r * pieces.stride, pieces.bytes,
          [&](uint8_t *content, uint8_t *state, uint64_t, uint64_t bytes) {
            return more = visitPart(content, state, bytes);
          });
}

bool MemoryShadow::covers(const Rows &rows) const {
  const Area *area = areaOf(rows.address);
  if (area && rows.last() - area->iova < area->size)
    return true;
  uint64_t there = 0;
  visit(rows, [&](uint8_t *, uint8_t *, uint64_t bytes) {
    there += bytes;
    return true;
  });
  Rows pieces = rows.pieces();
  return there == pieces.bytes * pieces.count;
}

bool MemoryShadow::leading(const Rows &rows, Rows &part) const {
  part = rows;
  for (part.count = 0; part.count < rows.count; ++part.count)
    if (!covers({rows.address + part.count * rows.stride, rows.bytes, 1, 0}))
      break;
  if (part.count)
    return true;
  const Area *area = areaOf(rows.address);
  if (!area)
    return false;
  part = {rows.address, area->size - (rows.address - area->iova), 1, 0};
  return true;
}

uint64_t MemoryShadow::size() const {
  uint64_t bytes = 0;
  for (const Area &area : areas)
    bytes += area.size;
  return bytes;
}

/// True if a byte has one of these bits.
static bool any(const uint8_t *state, uint64_t bytes, uint8_t bits) {
  uint64_t i = 0, wanted = everyByte * bits;
  for (; i + 32 <= bytes; i += 32) {
    uint64_t words[4];
    memcpy(words, state + i, sizeof(words));
    if ((words[0] | words[1] | words[2] | words[3]) & wanted)
      return true;
  }
  for (; i < bytes; ++i)
    if (state[i] & bits)
      return true;
  return false;
}

bool MemoryShadow::owned(const Rows &rows) const {
  bool found = false;
  visit(rows,
        [&](uint8_t *, uint8_t *state, uint64_t bytes) { return !(found = any(state, bytes, owners)); });
  return found;
}

void MemoryShadow::take(const Rows &rows) {
  visit(rows, [this](uint8_t *, uint8_t *state, uint64_t bytes) {
    // More owners than can be counted stay owners until the device is reset.
    for (uint64_t i = 0; i < bytes; ++i) {
      uint8_t count = state[i] & owners;
      state[i] = uint8_t((count == owners ? count : count + 1) | unknown);
      overflowed |= count == owners;
    }
    return true;
  });
}

void MemoryShadow::release(const Rows &rows) {
  visit(rows, [](uint8_t *, uint8_t *state, uint64_t bytes) {
    for (uint64_t i = 0; i < bytes; ++i) {
      uint8_t count = state[i] & owners;
      if (count && count != owners)
        --state[i];
    }
    return true;
  });
}

void MemoryShadow::abandon(const Rows &rows) {
  visit(rows, [](uint8_t *, uint8_t *state, uint64_t bytes) {
    memset(state, unknown, bytes);
    return true;
  });
}

void MemoryShadow::disown() {
  if (!overflowed)
    return;
  overflowed = false;
  for (const Area &area : areas)
    for (uint64_t i = 0; i < area.size; ++i)
      area.state[i] &= unknown;
}

bool MemoryShadow::knows(uint64_t address, const uint8_t *content, uint64_t bytes) const {
  uint64_t known = 0;
  visit(address, bytes, [&](const uint8_t *there, const uint8_t *state, uint64_t offset, uint64_t size) {
    if (any(state, size, unknown | owners) || memcmp(there, content + offset, size) != 0)
      return false;
    known += size;
    return true;
  });
  return known == bytes;
}

bool MemoryShadow::contradicts(uint64_t address, const uint8_t *content, uint64_t bytes) const {
  bool found = false;
  visit(address, bytes, [&](const uint8_t *there, const uint8_t *state, uint64_t offset, uint64_t size) {
    if (memcmp(there, content + offset, size) == 0)
      return true;
    for (uint64_t i = 0; i < size && !found; ++i)
      found = state[i] == 0 && there[i] != content[offset + i];
    return !found;
  });
  return found;
}

void MemoryShadow::learn(uint64_t address, const uint8_t *content, uint64_t bytes) {
  visit(address, bytes, [&](uint8_t *there, uint8_t *state, uint64_t offset, uint64_t size) {
    memcpy(there, content + offset, size);
    if (!any(state, size, owners)) {
      memset(state, 0, size);
      return true;
    }
    for (uint64_t i = 0; i < size; ++i)
      if (state[i] == unknown)
        state[i] = 0;
    return true;
  });
}

void MemoryShadow::forget(const Rows &rows) {
  visit(rows, [](uint8_t *, uint8_t *state, uint64_t bytes) {
    for (uint64_t i = 0; i < bytes; ++i)
      state[i] |= unknown;
    return true;
  });
}

void MemoryShadow::forgetAll() {
  for (const Area &area : areas)
    for (uint64_t i = 0; i < area.size; ++i)
      area.state[i] |= unknown;
}

bool MemoryShadow::nextFree(uint64_t first, uint64_t end, uint64_t &from, uint64_t &to) const {
  for (uint64_t at = first; at < end;) {
    const Area *area = areaOf(at);
    if (!area) {
      // The nearest area behind.
      uint64_t next = end;
      for (const Area &other : areas)
        if (other.iova > at && other.iova < next)
          next = other.iova;
      at = next;
      continue;
    }
    uint64_t areaEnd = end - area->iova < area->size ? end : area->iova + area->size;
    auto isOwned = [&](uint64_t address) { return area->state[address - area->iova] & owners; };
    while (at < areaEnd && isOwned(at))
      ++at;
    if (at == areaEnd)
      continue;
    from = at;
    while (at < areaEnd && !isOwned(at))
      ++at;
    to = at;
    return true;
  }
  return false;
}

} // namespace tapeback::client
