#include "replayer/reduce/Groups.h"
#include <algorithm>

namespace tapeback {

llvm::Expected<std::vector<size_t>> changeInGroups(std::vector<Group> groups,
                                                   llvm::function_ref<llvm::Expected<bool>(Group)> change,
                                                   llvm::function_ref<bool()> over) {
  std::vector<size_t> left;
  auto leave = [&](Group group) {
    for (size_t i = group.first; i < group.last; ++i)
      left.push_back(i);
  };
  // Refused ones of the level, the last first.
  std::vector<Group> level;
  auto attempt = [&](Group group) -> llvm::Expected<bool> {
    if (!group.size())
      return true;
    if (over()) {
      leave(group);
      return false;
    }
    llvm::Expected<bool> changed = change(group);
    if (!changed)
      return changed.takeError();
    if (!*changed)
      level.push_back({group.first, group.last, true});
    return changed;
  };
  for (size_t i = groups.size(); i--;) {
    if (groups[i].refused)
      level.push_back(groups[i]);
    else if (llvm::Expected<bool> changed = attempt(groups[i]); !changed)
      return changed.takeError();
  }
  while (!level.empty()) {
    std::vector<Group> refused = std::move(level);
    level.clear();
    for (Group group : refused) {
      if (group.size() <= 1 || over()) {
        leave(group);
        continue;
      }
      size_t middle = group.first + group.size() / 2;
      llvm::Expected<bool> later = attempt({middle, group.last, false});
      if (!later)
        return later.takeError();
      if (*later)
        level.push_back({group.first, middle, true});
      else if (llvm::Expected<bool> earlier = attempt({group.first, middle, false}); !earlier)
        return earlier.takeError();
    }
  }
  std::sort(left.begin(), left.end());
  return left;
}

} // namespace tapeback
