// The contents that packets still to come may refer to: what a descriptor handed over is looked at again when
// its transfer is done. Bounded; the oldest go first.
#pragma once

#include "format/Packet.h"
#include "llvm/ADT/ArrayRef.h"
#include <deque>
#include <map>
#include <vector>

namespace tapeback {

class ContentCache {
public:
  void add(BlobId id, llvm::ArrayRef<uint8_t> content) {
    auto [it, fresh] = contents.try_emplace({id.hi, id.lo});
    if (!fresh)
      return;
    it->second.assign(content.begin(), content.end());
    order.push_back({id.hi, id.lo});
    bytes += content.size();
    while (order.size() > 1 && (bytes > maxBytes || order.size() > maxCount)) {
      auto oldest = contents.find(order.front());
      bytes -= oldest->second.size();
      contents.erase(oldest);
      order.pop_front();
    }
  }
  /// Empty if it is not there. Valid until the next add.
  llvm::ArrayRef<uint8_t> find(BlobId id) const {
    auto it = contents.find({id.hi, id.lo});
    return it == contents.end() ? llvm::ArrayRef<uint8_t>() : llvm::ArrayRef<uint8_t>(it->second);
  }

private:
  static constexpr size_t maxBytes = 64 << 20, maxCount = 4096;
  using Key = std::pair<uint64_t, uint64_t>;
  std::map<Key, std::vector<uint8_t>> contents;
  std::deque<Key> order;
  size_t bytes = 0;
};

} // namespace tapeback
