// The main of every doctest program.
//
// doctest counts a case that could not run as passed, and a filter that matches nothing as success. Here the
// last line of standard output is always
//     NAME: N passed, N failed, N skipped
// which tools/run-tests sums up. The program fails when a case fails, when a case asserts nothing, and when
// no case ran. After a crash there is no such line, and tools/run-tests counts that as a failure.
#define DOCTEST_CONFIG_IMPLEMENT
#ifdef TAPEBACK_SANITIZED
// The sanitizers report faults themselves, and with their own exit code.
#define DOCTEST_CONFIG_NO_POSIX_SIGNALS
#endif
#include "tests/support/Skip.h"
#include <cstdio>
#include <cstring>
#include <doctest/doctest.h>
#include <mutex>
#include <string>
#include <vector>

namespace {

/// What the run amounted to. One per process; the mutex is for TB_SKIP on a test's own thread.
struct Tally {
  std::mutex mutex;
  int passed = 0;
  int failed = 0;
  int skipped = 0;
  bool started = false;             ///< Cases that doctest leaves out, marked or filtered, do not start.
  std::string skipReason;           ///< Of the running case; empty if it did not skip.
  std::vector<std::string> remarks; ///< Printed at the end, one per line.
};

Tally &tally() {
  static Tally instance;
  return instance;
}

/// doctest's own reporter prints; this one only counts.
struct CountingListener : doctest::IReporter {
  explicit CountingListener(const doctest::ContextOptions &) {}

  void test_case_start(const doctest::TestCaseData &testCase) override {
    running = testCase.m_name;
    tally().started = true;
    tally().skipReason.clear();
  }

  void test_case_end(const doctest::CurrentTestCaseStats &stats) override {
    Tally &counts = tally();
    std::lock_guard lock(counts.mutex);
    if (!stats.testCaseSuccess) {
      ++counts.failed;
    } else if (!counts.skipReason.empty()) {
      ++counts.skipped;
      counts.remarks.push_back("skipped: " + running + ": " + counts.skipReason);
    } else if (stats.numAssertsCurrentTest == 0) {
      ++counts.failed;
      counts.remarks.push_back("failed: " + running + ": it checks nothing");
    } else {
      ++counts.passed;
    }
  }

  // Called for cases that a filter leaves out, too; those are not this run's.
  void test_case_skipped(const doctest::TestCaseData &testCase) override {
    if (!testCase.m_skip)
      return;
    ++tally().skipped;
    tally().remarks.push_back(std::string("skipped: ") + testCase.m_name + ": marked doctest::skip()");
  }

  void test_case_reenter(const doctest::TestCaseData &) override {}
  void report_query(const doctest::QueryData &) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats &) override {}
  void test_case_exception(const doctest::TestCaseException &) override {}
  void subcase_start(const doctest::SubcaseSignature &) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData &) override {}
  void log_message(const doctest::MessageData &) override {}

  std::string running;
};

REGISTER_LISTENER("counting", 1, CountingListener);

} // namespace

void tapeback::test::skipRunningTestCase(std::string reason) {
  Tally &counts = tally();
  std::lock_guard lock(counts.mutex);
  counts.skipReason = reason.empty() ? "no reason given" : std::move(reason);
}

int main(int argc, char **argv) {
  doctest::Context context(argc, argv);
  const int result = context.run();
  if (context.shouldExit()) // --help, --list-test-cases …
    return result;

  const Tally &counts = tally();
  for (const std::string &remark : counts.remarks)
    std::printf("%s\n", remark.c_str());
  if (!counts.started)
    std::printf("failed: no test case ran\n");
  const char *slash = std::strrchr(argv[0], '/');
  std::printf("%s: %d passed, %d failed, %d skipped\n", slash ? slash + 1 : argv[0], counts.passed,
              counts.failed, counts.skipped);
  return result != 0 || counts.failed != 0 || !counts.started ? 1 : 0;
}
