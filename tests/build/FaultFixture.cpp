// Not a test of its own: commits the fault it is told to, for ScriptsTest.py to see how the sanitizers exit.
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace {

volatile int sink;

void overflowHeap() {
  char *bytes = new char[8];
  volatile int index = 8;
  sink = bytes[index];
  delete[] bytes;
}

void overflowInteger() {
  volatile int large = INT_MAX;
  sink = large + 1;
}

__attribute__((noinline)) void leak() {
  void *volatile lost = std::malloc(12345);
  lost = nullptr;
  (void)lost;
}

void race() {
  int counter = 0;
  std::thread other([&] { ++counter; });
  ++counter;
  other.join();
  sink = counter;
}

} // namespace

int main(int argc, char **argv) {
  const char *fault = argc == 2 ? argv[1] : "";
  if (!std::strcmp(fault, "heap"))
    overflowHeap();
  else if (!std::strcmp(fault, "integer"))
    overflowInteger();
  else if (!std::strcmp(fault, "leak"))
    leak();
  else if (!std::strcmp(fault, "race"))
    race();
  else
    return 2;
  std::puts("nobody noticed");
  return 0;
}
