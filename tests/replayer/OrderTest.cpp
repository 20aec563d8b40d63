// In what order a device may be seen to have done things: what follows from a fence or a count, and replays
// in which something is seen too early.
#include "replayer/CompletionOrder.h"
#include "tests/replayer/QueueProgram.h"
#include "tests/replayer/ReplayHarness.h"

using namespace tapeback;
using namespace tapeback::test;

namespace {

constexpr uint64_t orderData = QueueProgram::data, fenceA = orderData + 0x8000, fenceB = fenceA + 8,
                   fenceC = fenceA + 16;

Description minnowDescription() {
  DescriptionText text = llvm::cantFail(loadDescriptionText("minnow"));
  return llvm::cantFail(parseDescription(text.text, text.name));
}

void submitTo(CompletionOrder &order, unsigned queue, const minnow_command &command) {
  order.submitted(queue, llvm::ArrayRef<uint8_t>(reinterpret_cast<const uint8_t *>(command.w), 64));
}

/// "q0#1 q1#0": entries of the fences that have to be there.
std::string dueText(const std::vector<CompletionOrder::Due> &due) {
  std::string text;
  for (const CompletionOrder::Due &one : due)
    text += (text.empty() ? "q" : " q") + std::to_string(one.queue) + "#" + std::to_string(one.entry);
  return text;
}

std::pair<ReplayReport, std::string> playOrder(const MemoryTape &tape, FilterTarget &target) {
  auto source = llvm::cantFail(TapeSource::create(tape.copy()));
  Target *raw = &target;
  ReplayReport report = llvm::cantFail(replayTape(*source, raw, quickOptions()));
  return {report, report.firstDivergence ? divergenceText(*report.firstDivergence) : ""};
}

/// Two fences of one queue, of which the program waits for the second only.
struct TwoFences {
  QueueProgram program;
  uint64_t waited = 0;
  TwoFences() {
    program.store(fenceA, std::vector<uint8_t>(64));
    program.submit(0, minnow_fence(fenceA, 11, 0));
    program.submit(0, minnow_fence(fenceB, 12, 0));
    program.doorbell(0);
    waited = program.wait(fenceB, 12);
  }
};

} // namespace

TEST_CASE("order: within a queue, everything before a fence or a count") {
  Description minnow = minnowDescription();
  CompletionOrder order(&minnow);
  submitTo(order, 0, minnow_fence(fenceA, 1, 0));
  submitTo(order, 0, minnow_nop());
  submitTo(order, 0, minnow_fence(fenceB, 2, 0));
  submitTo(order, 1, minnow_fence(fenceC, 3, 0));
  submitTo(order, 0, minnow_fence(fenceA, 4, 0));
  CHECK(dueText(order.fenceSeen(fenceC, 99)) == "");
  std::vector<CompletionOrder::Due> due = order.fenceSeen(fenceB, 2);
  CHECK(dueText(due) == "q0#0"); // Its own is seen; the other queue's has nothing to do with it.
  CHECK(due[0].address == fenceA);
  CHECK(due[0].width == 8);
  CHECK(due[0].values == std::vector<uint64_t>{1, 4}); // The later one may be there already.
  CHECK(dueText(order.fenceSeen(fenceB, 2)) == "");
  CHECK(dueText(order.doneSeen(0, 3)) == "");
  CHECK(dueText(order.doneSeen(0, 4)) == "q0#3");
  CHECK(dueText(order.doneSeen(1, 1)) == "q1#0");
  CHECK(dueText(order.doneSeen(1, 77)) == ""); // More than were ever submitted.
  order.reset();
  CHECK(dueText(order.doneSeen(0, 4)) == "");
}

TEST_CASE("order: across queues, what barriers and semaphores say and nothing else") {
  Description minnow = minnowDescription();
  CompletionOrder order(&minnow);
  submitTo(order, 0, minnow_fence(fenceA, 1, 0));
  submitTo(order, 0, minnow_barrier());
  submitTo(order, 0, minnow_fence(fenceA + 64, 2, 0));
  submitTo(order, 1, minnow_barrier());
  submitTo(order, 1, minnow_fence(fenceB, 3, 0));
  CHECK(dueText(order.fenceSeen(fenceB, 3)) == "q0#0");

  CompletionOrder semaphores(&minnow);
  submitTo(semaphores, 0, minnow_fence(fenceA, 1, 0));
  submitTo(semaphores, 0, minnow_signal(2));
  submitTo(semaphores, 0, minnow_fence(fenceB, 1, 0));
  submitTo(semaphores, 0, minnow_signal(2));
  for (unsigned number = 0; number < 2; ++number) {
    submitTo(semaphores, 1, minnow_wait(2));
    submitTo(semaphores, 1, minnow_fence(fenceC + 64 * number, 5, 0));
  }
  CHECK(dueText(semaphores.fenceSeen(fenceC, 5)) == "q0#0");
  CHECK(dueText(semaphores.fenceSeen(fenceC + 64, 5)) == "q0#2");

  // Two that signal: whose signal it was nobody knows.
  CompletionOrder both(&minnow);
  for (unsigned queue : {0u, 1u}) {
    submitTo(both, queue, minnow_fence(fenceA + 64 * queue, 1, 0));
    submitTo(both, queue, minnow_signal(3));
  }
  submitTo(both, 1, minnow_wait(3));
  submitTo(both, 1, minnow_fence(fenceC, 1, 0));
  CHECK(dueText(both.fenceSeen(fenceC, 1)) == "q1#0");
}

TEST_CASE("order: what the host or a transfer wrote over is not looked for") {
  Description minnow = minnowDescription();
  for (auto [address, length, gone] :
       {std::tuple(fenceA, uint64_t(8), true), std::tuple(fenceA + 7, uint64_t(1), true),
        std::tuple(fenceA - 8, uint64_t(9), true), std::tuple(fenceA + 8, uint64_t(8), false),
        std::tuple(fenceA - 8, uint64_t(8), false), std::tuple(uint64_t(0), ~uint64_t(0), true)}) {
    CompletionOrder order(&minnow);
    submitTo(order, 0, minnow_fence(fenceA, 1, 0));
    submitTo(order, 0, minnow_fence(fenceB + 64, 2, 0));
    order.overwritten(address, length);
    CHECK(dueText(order.doneSeen(0, 1)) == (gone ? "" : "q0#0"));
  }
}

TEST_CASE("order: nothing grows without bound") {
  Description minnow = minnowDescription();
  CompletionOrder order(&minnow);
  for (unsigned i = 0; i < 10'000; ++i) {
    submitTo(order, 0, minnow_fence(fenceA + 8 * i, i, 0));
    submitTo(order, 0, minnow_barrier());
    submitTo(order, 0, minnow_signal(i));
    submitTo(order, 1, minnow_barrier());
    submitTo(order, 1, minnow_wait(i));
  }
  std::vector<CompletionOrder::Due> due = order.doneSeen(1, 20'000);
  CHECK(due.size() <= 4096);
  CHECK(due.size() > 1000);
}

TEST_CASE("order: a fence seen before one that comes before it in its queue is an order violation") {
  TwoFences two;
  std::unique_ptr<MemoryTape> tape = two.program.finish();
  std::unique_ptr<FilterTarget> good = openMinnow();
  auto [same, none] = playOrder(*tape, *good);
  CHECK_MESSAGE(same.verdict == Verdict::Match, none);

  // A device whose first fence comes later than the second.
  std::unique_ptr<FilterTarget> late = openMinnow();
  unsigned looks = 0;
  late->onReadMemory = [&](uint64_t iova, llvm::MutableArrayRef<uint8_t> out) {
    if (iova == fenceA && out.size() == 8 && ++looks < 4)
      std::fill(out.begin(), out.end(), 0);
  };
  auto [violated, text] = playOrder(*tape, *late);
  CHECK(violated.verdict == Verdict::Divergence);
  REQUIRE(violated.firstDivergence);
  CHECK(violated.firstDivergence->rule == Rule::CompletionOrder);
  CHECK(violated.firstDivergence->grade == Grade::OrderViolation);
  CHECK(violated.firstDivergence->place.packet == two.waited);
  CHECK_MESSAGE(text.find("the fence of q0 #0") != std::string::npos, text);
  CHECK(violated.grades.of(Grade::Mismatch) == 0);

  // One that is never there was perhaps never written in the recording either: nobody looked.
  std::unique_ptr<FilterTarget> never = openMinnow();
  never->onReadMemory = [&](uint64_t iova, llvm::MutableArrayRef<uint8_t> out) {
    if (iova == fenceA && out.size() == 8)
      std::fill(out.begin(), out.end(), 0);
  };
  CHECK(playOrder(*tape, *never).first.verdict == Verdict::Match);
}

TEST_CASE("order: a count of completed entries is held against the fences it includes") {
  QueueProgram program;
  program.store(fenceA, std::vector<uint8_t>(64));
  program.submit(0, minnow_fence(fenceA, 11, 0));
  program.doorbell(0);
  program.settle();
  uint64_t counted = program.queueRead(0, MINNOW_Q_DONE);
  std::unique_ptr<MemoryTape> tape = program.finish();
  REQUIRE(tape->packets[counted].value == 1);
  std::unique_ptr<FilterTarget> target = openMinnow();
  unsigned looks = 0;
  target->onReadMemory = [&](uint64_t iova, llvm::MutableArrayRef<uint8_t> out) {
    if (iova == fenceA && ++looks < 4)
      std::fill(out.begin(), out.end(), 0);
  };
  auto [report, text] = playOrder(*tape, *target);
  REQUIRE_MESSAGE(report.firstDivergence, text);
  CHECK(report.firstDivergence->rule == Rule::CompletionOrder);
  CHECK(report.firstDivergence->place.packet == counted);
}

TEST_CASE("interrupts: what was done when the last one was taken needs none of its own") {
  for (bool workBetween : {false, true}) {
    QueueProgram program;
    program.write(MINNOW_IRQ_ENABLE, 1);
    program.submit(0, minnow_fence(fenceA, 11, MINNOW_INTERRUPT));
    program.submit(0, minnow_fence(fenceB, 12, MINNOW_INTERRUPT));
    program.doorbell(0);
    program.wait(fenceB, 12);
    // The recorded device took its time: one message for each fence, acknowledged one by one.
    Packet wait;
    wait.kind = PacketKind::Interrupt;
    PacketExtra extra;
    extra.deadline = 1'000'000;
    extra.count = 1;
    program.raw(wait, extra);
    program.write(MINNOW_IRQ_STATUS, 1);
    if (workBetween)
      program.write(MINNOW_DBG_ADDR, 0);
    uint64_t second = program.raw(wait, extra);
    program.write(MINNOW_IRQ_STATUS, 1);
    std::unique_ptr<FilterTarget> target = openMinnow();
    auto [report, text] = playOrder(*program.finish(), *target);
    CAPTURE(text);
    if (workBetween) {
      // Something was told to the device meanwhile: the interrupt may be that one's, and has to come.
      REQUIRE(report.firstDivergence);
      CHECK(report.firstDivergence->place.packet == second);
      CHECK(report.firstDivergence->grade == Grade::Timeout);
    } else {
      CHECK(report.verdict == Verdict::Match);
      CHECK(report.grades.of(Rule::InterruptCoalesced) == 1);
    }
  }
}
