// The `tapeback` command: finds the verb and runs it.
#include "tools/CommandLine.h"
#include "tools/Report.h"
#include "tools/Verb.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/raw_ostream.h"
#include <csignal>
#include <fcntl.h>
#include <new>
#include <unistd.h>

using namespace llvm;

namespace tapeback {
namespace {

constexpr Verb table[] = {
    {"record", "Run a program and record what it says to a device", runRecord},
    {"replay", "Play a tape to a target and compare", runReplay},
    {"bisect", "Name the first window, packet and byte in which two targets differ", runBisect},
    {"diff", "Compare two tapes with each other, without a target", runDiff},
    {"info", "Say what a tape is and what is on it", runInfo},
    {"dump", "List a tape's packets", runDump},
    {"trim", "Make a window range a tape of its own", runTrim},
    {"trigger", "Check a trigger file, or carry it out over tapes", runTrigger},
    {"verify", "Check every block, hash, index entry and cross-reference of a tape", runVerify},
    {"recover", "Make a valid tape of what a damaged or unfinished one still holds", runRecover},
    {"import", "Make a tape of what another tool recorded", runImport},
    {"targets", "Say which kinds of target there are and which can be driven from here", runTargets},
    {"device", "Check or show a device description", runDevice},
};

void printHelp(raw_ostream &os) {
  os << "tapeback: records what a host and a device say to each other, and plays it back\n\n"
        "usage: tapeback VERB [arguments]\n"
        "       tapeback VERB --help\n"
        "       tapeback --version\n\nverbs:\n";
  for (const Verb &verb : verbs())
    os << "  " << verb.name << std::string(10 - StringRef(verb.name).size(), ' ') << verb.summary << "\n";
  os << "\nexamples:\n"
        "  tapeback record --target qemu:edu -o run.tape -- edu-exercise --seed 1 --ops 100\n"
        "  tapeback replay run.tape --target model:edu\n"
        "  tapeback bisect run.tape --good model:edu --bad 'model:edu?fault=dma-last-byte'\n"
        "\nexit codes, the same for every verb:\n"
        "  0  done, and what was expected holds\n"
        "  1  done, and it does not\n"
        "  2  bad usage or bad input description\n"
        "  3  damaged or foreign tape\n"
        "  4  the target failed in a way the tape does not expect\n"
        "  5  done, but with loss or incomplete, or the machine failed (disk full)\n";
}

/// A file opened while 0, 1 or 2 is closed would become standard output, and a report would be written into
/// it.
void keepStandardDescriptors() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(fd, F_GETFD) < 0)
      // Standard output for reading only: writing to it fails, as it should.
      if (open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY) < 0)
        _exit(5);
}

/// A reader that goes away must show as EPIPE. A handler, not SIG_IGN: programs we start get the default
/// back.
///
/// So must a limit on file sizes (ulimit -f) show as EFBIG, and not end us with a file half-written.
void surviveWrites() {
  struct sigaction action = {}, before = {};
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;
  sigaction(SIGPIPE, &action, nullptr);
  sigaction(SIGXFSZ, nullptr, &before);
  if (before.sa_handler == SIG_DFL) // Ignored: programs we start inherit that.
    sigaction(SIGXFSZ, &action, nullptr);
}

int unknownVerb(ArrayRef<const char *> args) {
  std::vector<std::string> names;
  for (const Verb &verb : verbs())
    names.push_back(verb.name);
  std::string near = closest(args[0], names);
  Report report("command", asksForJson(args));
  bool option = args[0][0] == '-';
  return report.fail(
      Failure(FailureClass::Usage, option ? "unknown-option" : "unknown-verb",
              std::string(option ? "unknown option '" : "there is no verb '") + args[0] + "'", "command line",
              (near.empty() ? "" : "did you mean '" + near + "'? ") + "`tapeback --help` lists the verbs"));
}

int run(ArrayRef<const char *> args) {
  if (args.empty()) {
    printHelp(errs());
    return 2;
  }
  StringRef first = args[0];
  if (first == "help" && args.size() == 1)
    first = "--help";
  if (first == "--help" || first == "-h") {
    printHelp(outs());
    return Report("command", false).finish(0);
  }
  if (first == "--version" && asksForJson(args)) {
    Report report("version", true);
    report.verdict(0);
    report.object().attribute("version", TAPEBACK_VERSION);
    return report.finish(0);
  }
  if (first == "--version") {
    outs() << "tapeback " TAPEBACK_VERSION " (LLVM " LLVM_VERSION_STRING ")\n";
    return Report("command", false).finish(0);
  }
  const char *helpOption[] = {"--help"};
  if (first == "help") {
    args = args.drop_front();
    if (args.size() > 1)
      return Report("command", asksForJson(args))
          .fail(Failure(FailureClass::Usage, "unexpected-argument",
                        std::string("unexpected argument '") + args[1] + "'", "command line",
                        "usage: tapeback help VERB"));
    for (const Verb &verb : verbs())
      if (StringRef(args[0]) == verb.name)
        return verb.run(ArrayRef<const char *>(helpOption));
    return unknownVerb(args);
  }
  for (const Verb &verb : verbs())
    if (first == verb.name)
      return verb.run(args.drop_front());
  return unknownVerb(args);
}

} // namespace

ArrayRef<Verb> verbs() {
  return table;
}

} // namespace tapeback

int main(int argc, char **argv) {
  using namespace tapeback;
  keepStandardDescriptors();
  surviveWrites();
  try {
    return run(ArrayRef<const char *>(argv + (argc > 0), argv + argc));
  } catch (const std::bad_alloc &) {
    return Report(argc > 1 ? argv[1] : "command", asksForJson(ArrayRef<const char *>(argv + 1, argv + argc)))
        .fail(Failure(FailureClass::System, "out-of-memory", "there is not enough memory"));
  }
}
