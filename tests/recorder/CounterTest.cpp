// What recordings stamp with: the kernel's word, and what the processors show.
#include "recorder/ring/StampClock.h"
#include "tests/support/Skip.h"
#include <doctest/doctest.h>
#include <sched.h>

using namespace tapeback;
using namespace tapeback::ring;

namespace {
/// A counter that goes everywhere alike: the kernel's.
uint64_t sound() {
  return ClockPair::now().ns;
}
/// One of which a processor is behind by a millisecond.
uint64_t apart() {
  return sound() - (sched_getcpu() == 0 ? 1'000'000 : 0);
}
/// One that every processor has for itself: it stands still where nobody looks.
uint64_t stuck() {
  return 5;
}

unsigned processors() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  REQUIRE(sched_getaffinity(0, sizeof(allowed), &allowed) == 0);
  return unsigned(CPU_COUNT(&allowed));
}

/// Both tests that need two processors need the first, too.
bool canBeApart() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  return sched_getaffinity(0, sizeof(allowed), &allowed) == 0 && CPU_ISSET(0, &allowed) &&
         CPU_COUNT(&allowed) > 1;
}
} // namespace

TEST_CASE("processors whose counters agree are found to") {
  CounterCheck check = checkCounters(sound, 10'000);
  CHECK(check.processors == processors());
  CHECK(check.everyoneSeen);
  CHECK(check.ticksBehind == 0);
  CHECK(check.agree());
}

TEST_CASE("a processor whose counter is behind is found, and by how much") {
  if (!canBeApart())
    TB_SKIP("one processor");
  CounterCheck check = checkCounters(apart, 10'000);
  CHECK(check.ticksBehind > 0);
  CHECK(check.ticksBehind <= 1'000'000);
  CHECK_FALSE(check.agree());
}

TEST_CASE("a counter that does not move shows nothing, in bounded time") {
  if (processors() < 2)
    TB_SKIP("one processor");
  CounterCheck check = checkCounters(stuck, 20);
  CHECK_FALSE(check.everyoneSeen);
  CHECK_FALSE(check.agree());
}

TEST_CASE("the check leaves its thread where it may run") {
  unsigned before = processors();
  checkCounters(sound, 10'000);
  CHECK(processors() == before);
}

TEST_CASE("what is stamped with, and why") {
  StampSource chosen;
  SUBCASE("a counter that the kernel lists is trusted without a look") {
    CHECK(judgeCounter("tsc hpet acpi_pm\n", "tsc\n", stuck, 20, chosen) ==
          "invariant, and trusted by the kernel");
    CHECK(chosen == StampSource::Counter);
    judgeCounter("kvm-clock tsc\n", "kvm-clock\n", stuck, 20, chosen);
    CHECK(chosen == StampSource::Counter);
  }
  SUBCASE("one that it does not list is not, on a machine of its own") {
    for (const char *current : {"hpet\n", "acpi_pm", "", "tsc-early\n", "kvm-clocks\n"}) {
      CHECK(judgeCounter("hpet acpi_pm \n", current, sound, 10'000, chosen) ==
            "the kernel does not trust the time-stamp counter");
      CHECK(chosen == StampSource::Monotonic);
    }
  }
  SUBCASE("in a virtual machine whose clock is made of it the processors are asked") {
    std::string why = judgeCounter("kvm-clock \n", "kvm-clock\n", sound, 10'000, chosen);
    CHECK_MESSAGE(why.find("agree") != std::string::npos, why);
    CHECK(chosen == StampSource::Counter);
  }
  SUBCASE("and believed when they say no") {
    if (!canBeApart())
      TB_SKIP("one processor");
    std::string why = judgeCounter("kvm-clock \n", "kvm-clock\n", apart, 10'000, chosen);
    CHECK_MESSAGE(why.find("ticks apart") != std::string::npos, why);
    CHECK(chosen == StampSource::Monotonic);
    why = judgeCounter("kvm-clock \n", "kvm-clock\n", stuck, 20, chosen);
    CHECK_MESSAGE(why.find("could be compared") != std::string::npos, why);
    CHECK(chosen == StampSource::Monotonic);
  }
}
