// Looks at processes through /proc: which children somebody has, and waits, bounded, for what they come to.
#pragma once

#include "llvm/ADT/StringRef.h"
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <dirent.h>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <sys/types.h>
#include <thread>
#include <vector>

namespace tapeback::test {

struct ProcessStat {
  std::string name; ///< The first 15 characters.
  char state = 0;   ///< 'R', 'S', 'T', 'Z' …; 0 if there is no such process.
  pid_t parent = 0;
};

inline ProcessStat processStat(pid_t pid) {
  // Not a stream: it throws where the process ends between opening and reading.
  std::string text;
  if (FILE *file = std::fopen(("/proc/" + std::to_string(pid) + "/stat").c_str(), "re")) {
    char bytes[1024];
    text.assign(bytes, std::fread(bytes, 1, sizeof bytes, file));
    std::fclose(file);
  }
  size_t open = text.find('('), close = text.rfind(')');
  ProcessStat stat;
  if (open == std::string::npos || close == std::string::npos || close + 4 >= text.size())
    return stat;
  stat.name = text.substr(open + 1, close - open - 1);
  stat.state = text[close + 2];
  stat.parent = pid_t(std::atol(text.c_str() + close + 4));
  return stat;
}

/// Children of a process whose name begins so.
inline std::vector<pid_t> childrenNamed(pid_t parent, llvm::StringRef name) {
  std::vector<pid_t> found;
  DIR *proc = ::opendir("/proc");
  if (!proc)
    return found;
  while (dirent *entry = ::readdir(proc)) {
    pid_t pid = pid_t(std::atol(entry->d_name));
    if (pid <= 0)
      continue;
    ProcessStat stat = processStat(pid);
    if (stat.parent == parent && stat.state && llvm::StringRef(stat.name).starts_with(name))
      found.push_back(pid);
  }
  ::closedir(proc);
  return found;
}

/// True as soon as the condition holds; false if it does not within the time.
inline bool eventually(const std::function<bool()> &condition,
                       std::chrono::milliseconds limit = std::chrono::seconds(10)) {
  auto deadline = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline)
      return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

/// Gone, or dead and only waiting to be collected.
inline bool isGone(pid_t pid) {
  char state = processStat(pid).state;
  return state == 0 || state == 'Z' || state == 'X';
}

} // namespace tapeback::test
