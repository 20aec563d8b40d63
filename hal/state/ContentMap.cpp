#include "hal/state/ContentMap.h"

#include <algorithm>
#include <cstring>

namespace tapeback {

static uint64_t pageOf(uint64_t address) {
  return address / ContentMap::pageBytes;
}
static size_t offsetIn(uint64_t address) {
  return size_t(address % ContentMap::pageBytes);
}

/// Cuts content that would reach past the last address.
static llvm::ArrayRef<uint8_t> cut(uint64_t address, llvm::ArrayRef<uint8_t> content) {
  uint64_t room = ~uint64_t(0) - address; // One less than there is, which a size may not express.
  return content.size() > room ? content.take_front(size_t(room) + 1) : content;
}

ContentMap::Page *ContentMap::pageFor(uint64_t number) {
  auto found = pages.lower_bound(number);
  if (found != pages.end() && found->first == number)
    return found->second.get();
  if (!budget->take())
    return nullptr;
  return pages.emplace_hint(found, number, std::make_unique<Page>())->second.get();
}

void ContentMap::clear() {
  for (size_t i = pages.size(); i; --i)
    budget->give();
  pages.clear();
}

/// Marks `count` bytes; whole pages, the common case, at once.
static void mark(std::bitset<ContentMap::pageBytes> &known, size_t begin, size_t count) {
  if (count == known.size())
    known.set();
  else
    for (size_t i = begin; i < begin + count; ++i)
      known.set(i);
}

void ContentMap::store(uint64_t address, llvm::ArrayRef<uint8_t> content) {
  content = cut(address, content);
  while (!content.empty()) {
    size_t offset = offsetIn(address), count = std::min(content.size(), pageBytes - offset);
    if (Page *page = pageFor(pageOf(address))) {
      std::memcpy(page->bytes.data() + offset, content.data(), count);
      mark(page->known, offset, count);
    }
    address += count;
    content = content.drop_front(count);
  }
}

void ContentMap::observe(uint64_t address, llvm::ArrayRef<uint8_t> content,
                         llvm::function_ref<void(uint64_t, uint64_t)> changed) {
  content = cut(address, content);
  for (size_t done = 0; done < content.size();) {
    uint64_t at = address + done;
    size_t offset = offsetIn(at), count = std::min(content.size() - done, pageBytes - offset);
    auto found = pages.find(pageOf(at));
    const uint8_t *seen = content.data() + done;
    if (found != pages.end() && (!found->second->known.all() ||
                                 std::memcmp(found->second->bytes.data() + offset, seen, count) != 0)) {
      const Page &page = *found->second;
      auto differs = [&](size_t i) {
        return page.known.test(offset + i) && page.bytes[offset + i] != seen[i];
      };
      for (size_t i = 0; i < count; ++i) {
        if (!differs(i))
          continue;
        size_t begin = i;
        while (i + 1 < count && differs(i + 1))
          ++i;
        changed(at + begin, at + i);
      }
    }
    done += count;
  }
  store(address, content);
}

void ContentMap::forget(uint64_t first, uint64_t last) {
  if (first > last)
    return;
  for (auto it = pages.lower_bound(pageOf(first)); it != pages.end() && it->first <= pageOf(last);) {
    size_t begin = it->first == pageOf(first) ? offsetIn(first) : 0;
    size_t end = it->first == pageOf(last) ? offsetIn(last) + 1 : pageBytes;
    Page &page = *it->second;
    if (begin == 0 && end == pageBytes)
      page.known.reset();
    else
      for (size_t i = begin; i < end; ++i)
        page.known.reset(i);
    if (page.known.none()) {
      budget->give();
      it = pages.erase(it);
    } else {
      ++it;
    }
  }
}

size_t ContentMap::load(uint64_t address, llvm::MutableArrayRef<uint8_t> out,
                        llvm::MutableArrayRef<bool> known) const {
  std::fill(known.begin(), known.end(), false);
  if (out.empty())
    return 0;
  size_t copied = 0;
  uint64_t last = address + cut(address, out).size() - 1;
  visitKnown(address, last, [&](uint64_t at, llvm::ArrayRef<uint8_t> content) {
    std::copy(content.begin(), content.end(), out.begin() + ptrdiff_t(at - address));
    std::fill_n(known.begin() + ptrdiff_t(at - address), content.size(), true);
    copied += content.size();
    return true;
  });
  return copied;
}

bool ContentMap::firstUnknown(uint64_t first, uint64_t last, uint64_t &unknown) const {
  uint64_t next = first;
  bool covered = false;
  visitKnown(first, last, [&](uint64_t at, llvm::ArrayRef<uint8_t> content) {
    if (at != next)
      return false;
    uint64_t end = at + (content.size() - 1);
    covered = end == last;
    next = end + 1; // May wrap to 0, and then `covered` holds.
    return !covered;
  });
  unknown = next;
  return !covered;
}

void ContentMap::visitKnown(uint64_t first, uint64_t last,
                            llvm::function_ref<bool(uint64_t, llvm::ArrayRef<uint8_t>)> visit) const {
  if (first > last)
    return;
  for (auto it = pages.lower_bound(pageOf(first)); it != pages.end() && it->first <= pageOf(last); ++it) {
    size_t begin = it->first == pageOf(first) ? offsetIn(first) : 0;
    size_t end = it->first == pageOf(last) ? offsetIn(last) + 1 : pageBytes;
    const Page &page = *it->second;
    if (begin == 0 && end == pageBytes &&
        page.known.all()) { // The common case, without looking at each byte.
      if (!visit(it->first * pageBytes, page.bytes))
        return;
      continue;
    }
    while (begin < end) {
      while (begin < end && !page.known.test(begin))
        ++begin;
      size_t stop = begin;
      while (stop < end && page.known.test(stop))
        ++stop;
      if (stop > begin &&
          !visit(it->first * pageBytes + begin, llvm::ArrayRef(page.bytes).slice(begin, stop - begin)))
        return;
      begin = stop;
    }
  }
}

} // namespace tapeback
