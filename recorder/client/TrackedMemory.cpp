#include "recorder/client/TrackedMemory.h"
#include "recorder/client/Device.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

namespace tapeback::client {

static constexpr uint64_t pageBytes = 4096;

static uint64_t wholePages(uint64_t bytes) {
  return (bytes + pageBytes - 1) & ~(pageBytes - 1);
}

/// Tells the person who records, once a process.
static void noteComparing(const tb_device &owner) {
  char text[300];
  int length = snprintf(text, sizeof(text),
                        "device '%s': this kernel does not tell which pages a program stored to; all of the "
                        "device's memory is compared before each register write that may hand it over",
                        owner.alias);
  ring::Record note = blankRecord(&owner, PacketKind::MemoryMap);
  note.type = ring::RecordType::Note;
  session().producer.append(note, text, uint64_t(length));
}

/// The best way there is, or what the user says.
static DirtyPages::Kind wantedKind() {
  const char *text = secure_getenv("TAPEBACK_PAGES");
  if (text && strcmp(text, "compare") == 0)
    return DirtyPages::Kind::None;
  return text && strcmp(text, "soft-dirty") == 0 ? DirtyPages::Kind::SoftDirty : DirtyPages::Kind::Scan;
}

/// Watches a range, if the kernel can.
static bool watch(const tb_device &owner, void *host, uint64_t bytes) {
  Session &current = session();
  Locked lock(current.pagesLock);
  if (!current.pagesStarted) {
    current.pagesStarted = true;
    DirtyPages::Kind wanted = wantedKind();
    if (current.pages.start(wanted) == DirtyPages::Kind::None && wanted != DirtyPages::Kind::None)
      noteComparing(owner);
  }
  return current.pages.kind() != DirtyPages::Kind::None && current.pages.add(host, bytes);
}

static void unwatch(void *host) {
  Locked lock(session().pagesLock);
  session().pages.remove(host);
}

void TrackedMemory::attach(bool wanted) {
  isWanted = wanted;
}

void TrackedMemory::closed(const tb_device &owner) {
  for (const Region &region : owner.regions)
    unmapped(region);
  capture.clear();
  watched.clear();
}

void TrackedMemory::mapped(tb_device &owner, const Region &region, uint64_t known) {
  // Without a view of its own the program stores through the API only, which is recorded anyway. Without room
  // for a shadow the range is foreign to us.
  if (!isWanted || !region.host || !capture.shadow.add(region.iova, region.size, known))
    return;
  // A range that cannot be watched is compared.
  if (watch(owner, region.host, wholePages(region.size)) && !watched.push(region.iova))
    unwatch(region.host);
}

bool TrackedMemory::isWatched(uint64_t iova) const {
  for (uint64_t one : watched)
    if (one == iova)
      return true;
  return false;
}

void TrackedMemory::unmapped(const Region &region) {
  if (!isWanted || !region.host)
    return;
  capture.shadow.remove(region.iova);
  for (size_t i = 0; i < watched.size(); ++i)
    if (watched[i] == region.iova) {
      unwatch(region.host);
      watched.erase(i);
      return;
    }
}

void TrackedMemory::learn(uint64_t iova, const void *content, uint64_t bytes, bool captured) {
  Rows rows;
  if (!isWanted || !Rows::make(iova, bytes, 1, 0, rows))
    return;
  if (captured && content)
    capture.shadow.learn(iova, static_cast<const uint8_t *>(content), bytes);
  else
    capture.shadow.forget(rows);
}

/// Captures those pages of [from, from + bytes) that are not what the tape has, neighbours as one.
static void publishChanged(tb_device &owner, Capture &capture, const Region &region, uint64_t from,
                           uint64_t bytes, Budget &budget) {
  uint64_t changedFrom = from, end = from + bytes;
  auto publish = [&](uint64_t until) {
    if (until > changedFrom)
      capture.publish(owner, {region.iova + changedFrom, until - changedFrom, 1, 0}, budget);
  };
  for (uint64_t at = from; at < end; at += pageBytes) {
    uint64_t part = end - at < pageBytes ? end - at : pageBytes;
    budget.spend(part);
    if (!capture.shadow.knows(region.iova + at, region.host + at, part))
      continue;
    publish(at);
    changedFrom = at + part;
  }
  publish(end);
}

/// A program that uses the device by itself may have given back memory that the device still has.
static bool isThere(uint8_t *start, uint64_t bytes) {
  unsigned char pages[1024];
  constexpr uint64_t step = sizeof(pages) * pageBytes;
  for (uint64_t at = 0; at < bytes; at += step)
    if (mincore(start + at, bytes - at < step ? bytes - at : step, pages) != 0)
      return false;
  return true;
}

void TrackedMemory::look(tb_device &owner, const Region &region, Budget &budget) {
  bool told = false;
  if (isWatched(region.iova)) {
    Session &current = session();
    Locked lock(current.pagesLock);
    told = current.pages.collect(region.host, wholePages(region.size), [&](uint8_t *at, uint64_t bytes) {
      uint64_t from = uint64_t(at - region.host);
      uint64_t part = region.size - from < bytes ? region.size - from : bytes;
      publishChanged(owner, capture, region, from, part, budget);
    });
  }
  if (!told && isThere(region.host, wholePages(region.size)))
    publishChanged(owner, capture, region, 0, region.size, budget);
}

void TrackedMemory::handOver(tb_device &owner) {
  Budget budget(maxBytes);
  for (const Region &region : owner.regions)
    if (region.host)
      look(owner, region, budget);
}

} // namespace tapeback::client
