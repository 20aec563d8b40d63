#include "replayer/reduce/Plain.h"
#include <algorithm>

namespace tapeback {

using Items = std::vector<uint32_t>;

llvm::Expected<Items> plainDdmin(Items items,
                                 llvm::function_ref<llvm::Expected<bool>(const Items &items)> fails,
                                 llvm::function_ref<bool()> over) {
  for (size_t parts = 2; items.size() > 1;) {
    parts = std::min(parts, items.size());
    auto edge = [&](size_t part) { return items.begin() + long(part * items.size() / parts); };
    bool reduced = false;
    for (bool complement : {false, true})
      for (size_t part = 0; part < parts && !reduced; ++part) {
        if (over())
          return items;
        Items tried;
        if (complement) {
          tried.assign(items.begin(), edge(part));
          tried.insert(tried.end(), edge(part + 1), items.end());
        } else {
          tried.assign(edge(part), edge(part + 1));
        }
        llvm::Expected<bool> still = fails(tried);
        if (!still)
          return still.takeError();
        if (!*still)
          continue;
        items = std::move(tried);
        parts = complement ? std::max<size_t>(parts - 1, 2) : 2;
        reduced = true;
      }
    if (!reduced && parts == items.size())
      break;
    if (!reduced)
      parts *= 2;
  }
  return items;
}

} // namespace tapeback
