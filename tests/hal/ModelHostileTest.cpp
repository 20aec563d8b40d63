// Plugins that are broken or mean. Each must end in one clear failure, in bounded time, and never in harm to
// us.
#include "hal/TargetLook.h"
#include "hal/model/ModelTarget.h"
#include "tests/hal/Targets.h"
#include <csignal>
#include <cstring>
#include <sys/prctl.h>
#include <sys/wait.h>

using namespace tapeback;
using namespace tapeback::test;

namespace {

/// Sanitizers turn a crash into an exit of their own, with words of their own.
#ifdef TAPEBACK_SANITIZED
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

void checkDead(Target &target, const std::string &code) {
  uint8_t byte = 0;
  size_t completed = 9;
  TargetOperation operation;
  operation.width = 4;
  double took = milliseconds([&] {
    CHECK(failure(target.read(0, 4, 4)).code == code);
    CHECK(failure(target.write(0, 4, 4, 0)).code == code);
    CHECK(failure(target.submit(operation, &completed)).code == code);
    CHECK(failure(target.advance(1)).code == code);
    CHECK(failure(target.waitInterrupt(0, 1000000000)).code == code);
    CHECK(failure(target.reset(ResetKind::Default)).code == code);
    CHECK(failure(target.peek("inside", 0, byte)).code == code);
    CHECK(failure(target.deviceTime()).code == code);
    CHECK(failure(target.snapshot()).code == code);
    CHECK(failure(target.map(MapRequest{4096, 4096, std::nullopt})).code == code);
  });
  CHECK(completed == 0);
  CHECK(took < 100); // At once: nobody waits for the dead.
}

} // namespace

TEST_CASE("a file that is no plugin of ours is refused as bad use, with its name") {
  struct {
    const char *name, *code, *says;
  } cases[] = {
      {"no-entry", "plugin-no-entry", "tapeback_model_entry"},
      {"null-entry", "plugin-abi-version", "does not serve version 1"},
      {"other-major", "plugin-abi-version", "version 7.0"},
      {"small-table", "plugin-abi-invalid", "64 bytes"},
      {"huge-table", "plugin-abi-invalid", "bytes"},
      {"null-read", "plugin-abi-invalid", "'read'"},
      {"null-peek", "plugin-abi-invalid", "'peek'"},
      {"null-peek-register", "plugin-abi-invalid", "'peek_register'"},
      {"null-counter", "plugin-abi-invalid", "'counter'"},
      {"null-snapshot", "plugin-abi-invalid", "'snapshot_size'"},
      {"huge-spaces", "plugin-abi-invalid", "1073741824 register spaces"},
      {"null-spaces", "plugin-abi-invalid", "table of them is null"},
      {"huge-vectors", "plugin-abi-invalid", "interrupt vectors"},
      {"long-name", "plugin-abi-invalid", "name"},
      {"empty-space-name", "plugin-abi-invalid", "register space 1 is empty"},
      {"null-fact", "plugin-abi-invalid", "value of fact 0"},
  };
  for (auto &[name, code, says] : cases) {
    CAPTURE(name);
    Failure f = failure(openTarget("model:" + plugin(name)));
    CHECK(f.cls == FailureClass::Usage);
    CHECK(f.code == code);
    CHECK_MESSAGE(contains(f.message, says), f.message);
    CHECK(contains(f.where, name));
    CHECK(!f.hint.empty());
  }
}

TEST_CASE("a plugin of a newer minor version is loaded as far as it is known") {
  auto target = open("model:" + plugin("newer-table"));
  CHECK(must(target->read(0, 0, 4)) == 42);
}

TEST_CASE("what cannot be loaded at all is bad use") {
  Failure f = failure(openTarget("model:/nowhere/at/all.so"));
  CHECK(f.cls == FailureClass::Usage);
  CHECK(f.code == "plugin-not-found");
  CHECK(f.where == "/nowhere/at/all.so");
  CHECK(failure(openTarget("model:/dev/zero")).code == "plugin-load-failed");
  CHECK(failure(openTarget("model:/tmp")).code == "plugin-load-failed");
  f = failure(openTarget("model:" + std::string(TAPEBACK_SOURCE_DIR) + "/LICENSE"));
  CHECK(f.code == "plugin-load-failed");
  CHECK(contains(f.where, "LICENSE"));
  f = failure(openTarget("model:no-such-model"));
  CHECK(f.code == "plugin-not-found");
  CHECK(contains(f.hint, "edu"));
  CHECK(failure(openTarget("model:")).code == "bad-model-name");
  CHECK(failure(openTarget("model:a b")).code == "bad-model-name");
  CHECK(failure(openTarget("model:edu?timeout=never")).code == "bad-target-option");
  CHECK(failure(openTarget("model:edu?memory=0")).code == "bad-target-option");
}

TEST_CASE("a plugin that fails while it is made") {
  Failure f = failure(openTarget(hostile("exit-in-create")));
  CHECK(f.cls == FailureClass::Target);
  CHECK(f.code == "target-died");
  CHECK_MESSAGE(contains(f.message, "exit code 0"), f.message);
  CHECK(failure(openTarget(hostile("crash-in-create"))).code == "target-died");
  f = failure(openTarget(hostile("loop-in-create", "&timeout=200")));
  CHECK(f.code == "target-hung");
  CHECK(contains(f.message, "200 ms"));
  CHECK(failure(openTarget(hostile("no-instance"))).code == "model-create-failed");
  CHECK(contains(failure(openTarget(hostile("status-in-create"))).message, "17"));
  f = failure(openTarget(hostile("text-in-create")));
  CHECK(f.code == "model-create-failed");
  CHECK(!contains(f.message, "\033"));
  CHECK(f.message.size() < 1200);
}

TEST_CASE("a crash is a death, with signal and last words") {
  auto target = open(hostile("crash-in-read"));
  Failure f = failure(target->read(0, 0, 4));
  CHECK(f.cls == FailureClass::Target);
  CHECK(f.code == "target-died");
  if (!sanitized)
    CHECK_MESSAGE(contains(f.message, "signal 11"), f.message);
  checkDead(*target, "target-died");

  target = open(hostile("abort-with-words"));
  f = failure(target->read(0, 0, 4));
  CHECK_MESSAGE(contains(f.message, "signal 6"), f.message);
  CHECK_MESSAGE(contains(f.message, "first line / assertion `device is happy' failed"), f.message);

  target = open(hostile("exit-in-read"));
  CHECK(contains(failure(target->read(0, 0, 4)).message, "exit code 5"));
}

TEST_CASE("a loop is ended at the timeout, and is a hang") {
  for (const char *act : {"loop-in-read", "stubborn-loop", "stop"}) {
    CAPTURE(act);
    auto target = open(hostile(act, "&timeout=300"));
    double took = milliseconds([&] {
      Failure f = failure(target->read(0, 0, 4));
      CHECK(f.cls == FailureClass::Target);
      CHECK(f.code == "target-hung");
    });
    CHECK(took >= 299);
    CHECK(took < 3000);
    checkDead(*target, "target-hung");
  }
  auto target = open(hostile("loop-in-advance", "&timeout=300"));
  CHECK(failure(target->waitInterrupt(0, 1000)).code == "target-hung");
}

TEST_CASE("a host process that is killed in the middle of a call is noticed at once") {
  auto target = open(hostile("loop-in-read"));
  pid_t host = modelHostProcess(*target);
  REQUIRE(host > 0);
  pid_t killer = ::fork();
  if (killer == 0) {
    ::usleep(200000);
    ::kill(host, SIGKILL);
    ::_exit(0);
  }
  double took = milliseconds([&] {
    Failure f = failure(target->read(0, 0, 4));
    CHECK(f.code == "target-died");
    CHECK_MESSAGE(contains(f.message, "signal 9"), f.message);
  });
  CHECK(took < 5000); // The timeout is 10 s.
  int status = 0;
  CHECK(::waitpid(killer, &status, 0) == killer);
  checkDead(*target, "target-died");
}

TEST_CASE("a death is noticed even if the plugin left a process that holds the channel") {
  // What is left behind becomes ours to collect.
  REQUIRE(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
  auto target = open(hostile("heir"));
  double took = milliseconds([&] { CHECK(failure(target->read(0, 0, 4)).code == "target-died"); });
  CHECK(took < 5000);
  int status = 0;
  took = milliseconds([&] { CHECK(::waitpid(-1, &status, 0) > 0); });
  CHECK(took < 5000); // It would sleep for 30 seconds.
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGKILL);
  // In sanitizer builds the dying host may have started a symbolizer, which is then ours to collect, too.
  while (::waitpid(-1, &status, 0) > 0)
    ;
  REQUIRE(::prctl(PR_SET_CHILD_SUBREAPER, 0) == 0);
}

TEST_CASE("nonsense on the channel ends the target, not us") {
  for (const char *act : {"garbage", "zeros", "big-garbage"}) {
    CAPTURE(act);
    auto target = open(hostile(act));
    Failure f = failure(target->read(0, 0, 4));
    CHECK(f.cls == FailureClass::Target);
    CHECK(f.code == "target-protocol");
    checkDead(*target, "target-protocol");
  }
  // An empty packet looks like the end of the channel.
  auto target = open(hostile("empty"));
  CHECK(failure(target->read(0, 0, 4)).code == "target-died");
  target = open(hostile("close-channel"));
  CHECK(failure(target->read(0, 0, 4)).code == "target-died");
}

TEST_CASE("a look is answered by what was asked for, or ends the target") {
  struct {
    const char *act, *code;
  } cases[] = {{"crash-in-read", "target-died"},
               {"exit-in-read", "target-died"},
               {"loop-in-read", "target-hung"},
               {"stop", "target-hung"},
               {"garbage", "target-protocol"},
               {"zeros", "target-protocol"},
               {"big-garbage", "target-protocol"},
               {"close-channel", "target-died"},
               {"heir", "target-died"}};
  TargetLook look;
  look.registers.resize(3);
  for (TargetOperation &reg : look.registers)
    reg.width = 4;
  look.windows = {"inside"};
  for (auto &[act, code] : cases) {
    CAPTURE(act);
    // Who dies under a sanitizer writes a report first, which takes its time.
    bool hangs = llvm::StringRef(code) == "target-hung";
    auto target = open(hostile(act, hangs ? "&timeout=300" : ""));
    LookableTarget *lookable = lookableTarget(*target);
    REQUIRE(lookable);
    TargetLook asked = look;
    Failure f = failure(lookable->look(asked));
    CHECK(f.cls == FailureClass::Target);
    CHECK_MESSAGE(f.code == code, f.code);
    CHECK_FALSE(lookable->canLook()); // Nobody relies on its looks any more.
    CHECK(failure(target->read(0, 4, 4)).code == code);
  }
  // Bits beyond the register's width are not believed; a refusal is one, and no value.
  auto wide = open(hostile("wide-value"));
  TargetLook asked = look;
  must(lookableTarget(*wide)->look(asked));
  CHECK(asked.registers[2].value == 0xffffffff);
  auto refusing = open(hostile("positive-status"));
  asked = look;
  CHECK(!failure(lookableTarget(*refusing)->look(asked)).code.empty());
}

TEST_CASE("a million interrupts in one call are counted, not queued") {
  auto target = open(hostile("interrupts"));
  must(target->read(0, 0, 4));
  for (uint32_t vector = 0; vector < 8; ++vector) {
    InterruptResult result = must(target->waitInterrupt(vector, 0));
    CHECK(result.fired);
    CHECK(result.count == 125000);
  }
  CHECK(!must(target->waitInterrupt(0, 0)).fired);
}

TEST_CASE("what a plugin gets wrong within the protocol is a failure, and it lives on") {
  CHECK(must(open(hostile("bad-vector"))->read(0, 0, 4)) == 1);
  CHECK(must(open(hostile("wild-dma"))->read(0, 0, 4)) == 1);
  CHECK(must(open(hostile("wide-value"))->read(0, 0, 2)) == 0xffff);
  for (const char *act : {"positive-status", "strange-status"}) {
    auto target = open(hostile(act));
    CHECK(failure(target->read(0, 0, 4)).code == "model-misbehaved");
    CHECK(must(target->read(0, 8, 4)) == 0);
  }
  auto target = open(hostile("fail-in-write"));
  Failure f = failure(target->write(0, 0, 4, 0));
  CHECK(f.code == "model-error");
  CHECK(contains(f.message, "internal error"));
  for (const char *act : {"long-error", "null-error", "escape-error"}) {
    f = failure(open(hostile(act))->read(0, 0, 4));
    CHECK(f.code == "bus-error");
    CHECK(f.message.size() < 1200);
    CHECK(!contains(f.message, "\033"));
    CHECK(!contains(f.message, "\n"));
  }
}

TEST_CASE("time that does not pass as it should") {
  auto target = open(hostile("advance-too-far"));
  CHECK(failure(target->advance(1000)).code == "model-misbehaved");
  target = open(hostile("advance-nothing"));
  must(target->advance(1000)); // Nothing happens by itself: not an error.
  CHECK(!must(target->waitInterrupt(0, ~uint64_t(0))).fired);
  target = open(hostile("advance-by-one", "&timeout=400"));
  double took = milliseconds([&] { CHECK(failure(target->advance(~uint64_t(0))).code == "target-slow"); });
  CHECK(took < 3000);
  must(target->read(0, 8, 4)); // Slow is not dead.
}

TEST_CASE("noise on its output neither blocks nor reaches ours") {
  for (const char *act : {"print", "log", "spam"}) {
    CAPTURE(act);
    auto target = open(hostile(act));
    double took = milliseconds([&] {
      for (int i = 0; i < 100; ++i)
        CHECK(must(target->read(0, i ? 8 : 0, 4)) == 0);
    });
    CHECK(took < 9000);
  }
}

TEST_CASE("shared memory cannot be taken from under us, and mapped memory is zero even if scribbled on") {
  auto target = open(hostile("truncate-memory"));
  MapRequest request;
  request.size = 4096;
  MemoryRegion region = must(target->map(request));
  CHECK(must(target->read(0, 0, 4)) == 1);
  std::memset(region.host, 1, region.size);

  target = open(hostile("scribble"));
  must(target->read(0, 0, 4));
  region = must(target->map(request));
  for (uint64_t i = 0; i < region.size; ++i)
    REQUIRE(region.host[i] == 0);
}

TEST_CASE("snapshots that go wrong") {
  CHECK(failure(open(hostile("huge-snapshot"))->snapshot()).code == "model-misbehaved");
  CHECK(failure(open(hostile("failing-save"))->snapshot()).code == "model-error");
  auto target = open(hostile("failing-load"));
  uint64_t id = must(target->snapshot());
  CHECK(failure(target->restore(id)).code == "model-error");
  target = open(hostile("empty-snapshot"));
  must(target->restore(must(target->snapshot())));
}

TEST_CASE("a plugin that will not leave is made to") {
  for (const char *act : {"loop-in-destroy", "crash-in-destroy"}) {
    auto target = open(hostile(act));
    double took = milliseconds([&] { target.reset(); });
    CHECK(took < 4000);
  }
  CHECK(children().empty());
}
