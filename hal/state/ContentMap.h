// What is known of the bytes of an address space: pages of content with a mask of the bytes that are known.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <array>
#include <bitset>
#include <cstdint>
#include <map>
#include <memory>

namespace tapeback {

/// Pages that several ContentMaps share between them, so that all together stay bounded.
class PageBudget {
public:
  explicit PageBudget(size_t pages) : left(pages) {}
  bool take() {
    if (!left) {
      wasRefused = true;
      return false;
    }
    --left;
    return true;
  }
  void give() { ++left; }
  /// True once something was not kept for want of pages.
  bool refused() const { return wasRefused; }

private:
  size_t left;
  bool wasRefused = false;
};

/// Content that finds no page any more is forgotten (unknown), never wrong. Ranges that do not exist in full
/// (address plus length past 2^64) are cut. Costs are bounded by content given or pages held, never by a
/// length alone. The budget must outlive this.
class ContentMap {
public:
  static constexpr size_t pageBytes = 4096;

  explicit ContentMap(PageBudget &budget) : budget(&budget) {}
  ContentMap(ContentMap &&other) noexcept : budget(other.budget), pages(std::move(other.pages)) {
    other.pages.clear();
  }
  ContentMap &operator=(ContentMap &&) = delete;
  ~ContentMap() { clear(); }

  void store(uint64_t address, llvm::ArrayRef<uint8_t> content);
  /// Forgets the bytes from `first` to `last`, inclusive.
  void forget(uint64_t first, uint64_t last);
  void clear();

  /// Stores what was seen there, and calls `changed(first, last)` for each run of bytes that was known to be
  /// something else: somebody wrote them unseen.
  void observe(uint64_t address, llvm::ArrayRef<uint8_t> content,
               llvm::function_ref<void(uint64_t first, uint64_t last)> changed);

  /// Copies known bytes to `out` (unknown ones are left as they are) and says in `known` which ones are;
  /// returns how many. The two have the same size.
  size_t load(uint64_t address, llvm::MutableArrayRef<uint8_t> out, llvm::MutableArrayRef<bool> known) const;
  /// First byte of [first, last] that is not known; false if all are.
  bool firstUnknown(uint64_t first, uint64_t last, uint64_t &unknown) const;
  /// Runs of known bytes within [first, last], in order, none longer than a page; stops when `visit` returns
  /// false.
  void visitKnown(uint64_t first, uint64_t last,
                  llvm::function_ref<bool(uint64_t address, llvm::ArrayRef<uint8_t> content)> visit) const;
  size_t pageCount() const { return pages.size(); }

private:
  struct Page {
    std::array<uint8_t, pageBytes> bytes;
    std::bitset<pageBytes> known;
  };
  Page *pageFor(uint64_t number);

  PageBudget *budget;
  std::map<uint64_t, std::unique_ptr<Page>> pages; ///< By address / pageBytes.
};

} // namespace tapeback
