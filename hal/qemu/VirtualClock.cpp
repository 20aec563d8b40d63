#include "hal/qemu/VirtualClock.h"
#include <chrono>

namespace tapeback {
namespace {

constexpr uint64_t hpet = 0xfed00000;
constexpr uint64_t capabilitiesRegister = hpet, configurationRegister = hpet + 0x10,
                   counterRegister = hpet + 0xf0, timerConfiguration = hpet + 0x100,
                   timerComparator = hpet + 0x108;

constexpr uint64_t femtosecondsPerNs = 1'000'000;
constexpr uint64_t lastTime = uint64_t(1) << 62;

} // namespace

llvm::Expected<VirtualClock> VirtualClock::start(QtestClient &client) {
  uint64_t capabilities = 0;
  if (llvm::Error error = client.queue(QtestCommand::read(8, capabilitiesRegister), &capabilities))
    return error;
  // 64 bits, one-shot, no interrupt: a timer that only makes the clock go there.
  if (llvm::Error error = client.queue(QtestCommand::write(8, timerConfiguration, 0)))
    return error;
  if (llvm::Error error = client.queue(QtestCommand::write(8, configurationRegister, 1)))
    return error;
  if (llvm::Error error = client.collect())
    return error;
  const uint64_t period = capabilities >> 32; // Femtoseconds; the specification allows at most 100 ns.
  if (period == 0 || period % femtosecondsPerNs || period > 100 * femtosecondsPerNs)
    return client.fail("no-clock", "QEMU's machine has no usable HPET",
                       "use a QEMU whose machines q35 and pc have one");
  return VirtualClock(client, period / femtosecondsPerNs);
}

llvm::Expected<uint64_t> VirtualClock::now() {
  llvm::Expected<uint64_t> ticks = client->ask(QtestCommand::read(8, counterRegister));
  if (!ticks)
    return ticks.takeError();
  if (*ticks > lastTime / stepNs)
    return client->fail("no-clock", "QEMU's clock is at an impossible time", {});
  return *ticks * stepNs;
}

llvm::Error VirtualClock::advance(uint64_t nanoseconds, QemuProcess &process, uint64_t timeoutMs) {
  llvm::Expected<uint64_t> from = now();
  if (!from)
    return from.takeError();
  if (nanoseconds > lastTime || *from > lastTime - nanoseconds)
    return failUsage("bad-advance", "time cannot go on by " + std::to_string(nanoseconds) + " ns", {},
                     "QEMU's clock ends after 146 years");
  const uint64_t until = *from + nanoseconds;
  if (llvm::Error error =
          client->queue(QtestCommand::write(8, timerComparator, (until + stepNs - 1) / stepNs)))
    return error;
  using Clock = std::chrono::steady_clock;
  const Clock::time_point deadline = Clock::now() + std::chrono::milliseconds(timeoutMs);
  // It is there at the first look, or a few later if timers of devices come before; then look less often.
  for (uint64_t pause = 0;; pause = std::min<uint64_t>(pause + 10'000, 1'000'000)) {
    llvm::Expected<uint64_t> time = now();
    if (!time)
      return time.takeError();
    if (*time >= until)
      return llvm::Error::success();
    if (Clock::now() >= deadline)
      return client->fail("target-hung",
                          "QEMU's virtual clock stood still for " + std::to_string(timeoutMs) + " ms",
                          "timeout=MS gives it longer");
    process.waitEnd(pause); // Ends early if QEMU does; the next look then says so.
  }
}

} // namespace tapeback
