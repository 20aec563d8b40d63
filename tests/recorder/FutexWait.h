// Whether a thread waits in the ring: the event that a test of a full ring waits for, instead of for a time.
#pragma once

#include "tests/support/RunProgram.h"
#include <cstdio>
#include <sstream>
#include <string>
#include <sys/syscall.h>

namespace tapeback::test {

/// `task`: "123" or "self/task/456". True while it is in futex() with an address in a ring's mapping.
inline bool waitsInTheRing(const std::string &task) {
  long number = -1;
  unsigned long address = 0;
  // "NUMBER 0xFIRST …", or "running".
  if (std::sscanf(readWholeFile("/proc/" + task + "/syscall").c_str(), "%ld %lx", &number, &address) != 2 ||
      number != SYS_futex)
    return false;
  std::istringstream maps(readWholeFile("/proc/" + task + "/maps"));
  for (std::string line; std::getline(maps, line);) {
    unsigned long from = 0, to = 0;
    if (line.find("/ring") != std::string::npos && std::sscanf(line.c_str(), "%lx-%lx", &from, &to) == 2 &&
        address >= from && address < to)
      return true;
  }
  return false;
}

} // namespace tapeback::test
