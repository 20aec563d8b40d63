#include "tools/verbs/ReplaySession.h"
#include "replayer/Trim.h"
#include "tools/PacketPrinter.h"
#include "tools/Range.h"
#include "tools/verbs/DivergenceReport.h"
#include "llvm/ADT/StringExtras.h"
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

using namespace llvm;

namespace tapeback {

SessionOptions::SessionOptions()
    : range("range",
            cl::desc("Play only these windows (w100..w140, @marker); their state is restored from a "
                     "keyframe or established by a prefix, as `trim` does"),
            cl::value_desc("RANGE")),
      shadow("shadow",
             cl::desc("A second target that is told the same; the two are compared at every window"),
             cl::value_desc("URI")),
      repeat(
          "repeat",
          cl::desc("Play it N times, with fresh targets ({run} in a URI is the run's number), and give the "
                   "outcomes in order, the rate and its interval (default: 1); with --range the way there is "
                   "played once if the target can take a snapshot"),
          cl::value_desc("N"), cl::init(1)),
      prompt("prompt",
             cl::desc("At --until (or before the first packet) ask what to do: read, write, memory, "
                      "step, who wrote this … ; `help` lists it")),
      lab("lab", cl::desc("The lab's configuration: commands to power-cycle, load firmware …, and when"),
          cl::value_desc("FILE")),
      allowExec("allow-exec", cl::desc("Run the commands of --lab")) {}

Error SessionOptions::check(bool wave) const {
  constexpr unsigned mostRuns = 100'000;
  if (!repeat || repeat > mostRuns)
    return failUsage("bad-option", "--repeat " + std::to_string(repeat), "--repeat", "1 to 100000");
  if (repeat > 1 && prompt)
    return failUsage("bad-option", "--prompt stops in one replay, and --repeat makes many", "--prompt",
                     "leave out one of them");
  if (repeat > 1 && wave)
    return failUsage("bad-option", "each run of --repeat would write the same waveform", "--wave",
                     "leave out one of them");
  if (allowExec && lab.empty())
    return failUsage("bad-option", "--allow-exec allows nothing without --lab", "--allow-exec",
                     "give --lab FILE");
  return Error::success();
}

std::string targetOfRun(StringRef uri, unsigned number) {
  std::string result;
  for (;;) {
    auto [before, after] = uri.split("{run}");
    result += before.str();
    if (before.size() == uri.size())
      return result;
    result += std::to_string(number);
    uri = after;
  }
}

//===- A part of the tape
//-------------------------------------------------------------------------------------===//

Expected<TapePart> cutPart(TapeSource &whole, StringRef range, ArrayRef<std::string> texts) {
  Expected<TapeRange> windows = resolveRange(range, whole.reader());
  if (!windows)
    return windows.takeError();
  const char *temporary = std::getenv("TMPDIR");
  std::string folder = std::string(temporary && *temporary ? temporary : "/tmp") + "/tapeback-part-XXXXXX";
  if (!::mkdtemp(folder.data()))
    return failSystem("no-temporary-folder",
                      "a folder for the part could not be made: " + std::string(std::strerror(errno)), folder,
                      "set TMPDIR to a folder with room");
  std::string path = folder + "/part.tape";
  TrimOptions options;
  options.firstWindow = windows->firstWindow;
  options.lastWindow = windows->firstWindow + std::max<uint64_t>(windows->windowCount, 1) - 1;
  options.writer.syncOnFinish = false;
  Expected<TrimReport> trimmed = trimTape(whole, path, options);
  TapePart part;
  Error failure = trimmed ? Error::success() : trimmed.takeError();
  if (!failure) {
    part.firstPacket = trimmed->firstPacket;
    part.firstWindow = options.firstWindow - trimmed->prefixWindows;
    part.prefixPackets = trimmed->prefixPackets;
    part.how = trimmed->how;
    Expected<std::unique_ptr<TapeSource>> source = TapeSource::open(path, texts);
    if (source)
      part.source = std::move(*source);
    else
      failure = source.takeError();
  }
  // The open file stays readable without its name.
  ::unlink(path.c_str());
  ::rmdir(folder.c_str());
  if (failure)
    return failure;
  return part;
}

void renumber(ReplayReport &report, const TapePart &part) {
  auto shift = [&](Divergence &divergence) {
    divergence.place.packet += part.firstPacket;
    divergence.place.window += part.firstWindow;
  };
  for (Divergence &divergence : report.divergences)
    shift(divergence);
  if (report.firstDivergence)
    shift(*report.firstDivergence);
}

//===- One run
//------------------------------------------------------------------------------------------------===//

namespace {

/// Lines of a file descriptor, each of bounded length.
class LineReader {
public:
  explicit LineReader(int fd) : fd(fd) {}
  /// What is beyond the most a line may have is read and dropped, but for one character, so that it shows.
  std::optional<std::string> next() {
    std::string line;
    for (;;) {
      if (position == held.size() && !fill())
        return line.empty() ? std::nullopt : std::optional(line);
      char c = held[position++];
      if (c == '\n')
        return line;
      if (line.size() <= Prompt::maxLine && c != '\r')
        line += c;
    }
  }

private:
  bool fill() {
    char piece[4096];
    ssize_t got;
    do
      got = ::read(fd, piece, sizeof piece);
    while (got < 0 && errno == EINTR);
    held.assign(piece, got > 0 ? size_t(got) : 0);
    position = 0;
    return !held.empty();
  }
  int fd;
  std::string held;
  size_t position = 0;
};

PromptIo terminalIo(TapeSource &source, bool json) {
  raw_ostream &os = json ? errs() : outs();
  bool terminal = ::isatty(STDIN_FILENO);
  auto lines = std::make_shared<LineReader>(STDIN_FILENO);
  auto printer = std::make_shared<PacketPrinter>(source.reader());
  PromptIo io;
  io.readLine = [&os, terminal, lines](StringRef prompt) {
    if (terminal)
      os << prompt;
    os.flush();
    return lines->next();
  };
  io.print = [&os](StringRef text) { os << text; };
  io.packetText = [&source, printer](uint64_t ordinal) -> Expected<std::string> {
    Packet packet;
    PacketExtra extra;
    if (Error error = source.packetAt(ordinal, packet, extra))
      return error;
    Expected<uint64_t> window = source.reader().windowOfPacket(ordinal);
    if (!window)
      return window.takeError();
    std::string text;
    raw_string_ostream stream(text);
    if (Error error = printer->writeText(stream, ordinal, *window, packet, extra))
      return error;
    return text;
  };
  io.resolve = [&source](StringRef place) -> Expected<uint64_t> {
    Expected<TapeRange> range = resolveRange(place, source.reader());
    if (!range)
      return range.takeError();
    return range->firstPacket;
  };
  return io;
}

Expected<TargetSet> openForRun(ArrayRef<std::string> uris, unsigned number) {
  std::vector<std::string> mine;
  for (const std::string &uri : uris)
    mine.push_back(targetOfRun(uri, number));
  return openTargets(mine);
}

} // namespace

/// One replay, with all that watches it.
Expected<ReplayReport> ReplaySession::play(ReplayOptions options, unsigned number, KeptStart::Body body) {
  Expected<TargetSet> second = openForRun(shadows, number);
  if (!second)
    return second.takeError();
  PostMortem examined(source);
  ShadowOptions shadowOptions;
  shadowOptions.player = options.player;
  ShadowRun beside(source, second->targets, shadowOptions);
  if (!shadows.empty())
    options.observers.push_back(&beside);
  options.observers.push_back(&examined);
  PromptOptions promptOptions;
  promptOptions.until = promptAt;
  promptOptions.atDivergence = askAtDivergence;
  promptOptions.forbidden = forbidden;
  promptOptions.shadow = shadows.empty() ? nullptr : &beside;
  std::optional<Prompt> asks;
  if (prompt || askAtDivergence)
    options.observers.push_back(&asks.emplace(source, terminalIo(source, json), promptOptions));
  Expected<ReplayReport> result = body(options);
  postMortem = examined.values();
  postMortemPacket = examined.packet();
  if (!shadows.empty())
    shadow = beside.result();
  return result;
}

Expected<ReplayReport> ReplaySession::run(const ReplayOptions &options, unsigned number) {
  hooks.clear();
  postMortem.clear();
  postMortemPacket.reset();
  shadow.reset();
  std::map<std::string, std::string> variables{{"TAPEBACK_TAPE", tape},
                                               {"TAPEBACK_RUN", std::to_string(number)}};
  for (size_t i = 0; i < targets.size(); ++i)
    variables[i ? "TAPEBACK_TARGET_" + std::to_string(i) : "TAPEBACK_TARGET"] =
        targetOfRun(targets[i], number);
  if (lab)
    if (Error error = runHooks(lab->beforeRun, variables, hooks))
      return error;
  auto open = [&] { return openForRun(targets, number); };
  auto fresh = [&]() -> Expected<ReplayReport> {
    Expected<TargetSet> set = open();
    if (!set)
      return set.takeError();
    return play(options, number,
                [&](const ReplayOptions &watched) { return replayTape(source, set->targets, watched); });
  };
  Expected<ReplayReport> result =
      keptStart ? keptStart->run(open, [&](KeptStart::Body body) { return play(options, number, body); })
                : fresh();
  bool failed = !result || result->targetFailure;
  if (lab && failed)
    if (Error error = runHooks(lab->afterFailure, variables, hooks))
      return joinErrors(result ? Error::success() : result.takeError(), std::move(error));
  return result;
}

std::string ReplaySession::whyNoSnapshot(const ReplayOptions &options) const {
  if (lab && !(lab->beforeRun.empty() && lab->afterFailure.empty()))
    return "the lab's commands are run between the runs";
  if (!shadows.empty())
    return "the second target would have to go back, too";
  if (options.player.pacing.paced)
    return "the gaps before the range are part of the timing";
  if (options.lanes)
    return "lanes may cross the place";
  for (const std::string &uri : targets)
    if (targetOfRun(uri, 0) != uri)
      return "the target is another one in every run ({run})";
  return {};
}

//===- Reports
//------------------------------------------------------------------------------------------------===//

void writeHooks(json::OStream &os, ArrayRef<HookResult> hooks) {
  os.attributeArray("hooks", [&] {
    for (const HookResult &hook : hooks)
      os.object([&] {
        os.attribute("name", json::fixUTF8(hook.name));
        os.attributeArray("command", [&] {
          for (const std::string &word : hook.command)
            os.value(json::fixUTF8(word));
        });
        os.attribute("exit", hook.exit >= 0 ? json::Value(hook.exit) : json::Value(nullptr));
        os.attribute("signal", hook.signal ? json::Value(hook.signal) : json::Value(nullptr));
        os.attribute("timed_out", hook.timedOut);
        os.attribute("duration", hook.hostTime);
        os.attribute("output", json::fixUTF8(hook.output));
        os.attribute("output_cut", hook.outputCut);
      });
  });
}

static void writePostMortem(json::OStream &os, const ReplaySession &session) {
  if (session.postMortem.empty()) {
    os.attribute("post_mortem", nullptr);
    return;
  }
  os.attributeObject("post_mortem", [&] {
    os.attribute("before_reset",
                 session.postMortemPacket ? json::Value(*session.postMortemPacket) : json::Value(nullptr));
    os.attributeArray("registers", [&] {
      for (const PostMortemValue &entry : session.postMortem)
        os.object([&] {
          os.attribute("device", int64_t(entry.device));
          os.attribute("register", json::fixUTF8(entry.reg));
          os.attribute("value", entry.value ? json::Value(hex(*entry.value)) : json::Value(nullptr));
          os.attribute("fields", json::fixUTF8(entry.fields));
          os.attribute("failure", entry.failure.empty() ? json::Value(nullptr)
                                                        : json::Value(json::fixUTF8(entry.failure)));
        });
    });
  });
}

static void writeShadow(json::OStream &os, const std::optional<ShadowReport> &shadow) {
  if (!shadow) {
    os.attribute("shadow", nullptr);
    return;
  }
  os.attributeObject("shadow", [&] {
    os.attribute("differs", shadow->differs());
    os.attribute("windows", shadow->windows);
    os.attribute("windows_differ", shadow->windowsDiffer);
    os.attribute("answers_compared", shadow->answersCompared);
    os.attribute("answers_differ", shadow->answersDiffer);
    os.attribute("states_compared", shadow->statesCompared);
    os.attribute("states_differ", shadow->statesDiffer);
    os.attribute("windows_not_quiescent", shadow->notQuiescent);
    os.attribute("packets_not_comparable", shadow->notComparable);
    os.attribute("stopped", shadow->stopped);
    std::optional<Divergence> first;
    if (!shadow->answers.empty())
      first = shadow->answers.front();
    writeDivergence(os, "first_answer", first, "target", "shadow");
    if (!shadow->state)
      os.attribute("first_state", nullptr);
    else
      os.attributeObject("first_state", [&] {
        const StateDifference &difference = shadow->state->difference;
        os.attribute("window", shadow->state->window);
        os.attribute("device", int64_t(difference.device));
        os.attribute("name", json::fixUTF8(difference.name));
        os.attribute("address", hex(difference.address));
        os.attribute("offset", difference.offset);
        os.attribute("target", hex(difference.good));
        os.attribute("shadow", hex(difference.bad));
      });
    os.attributeObject("coverage", [&] {
      os.attribute("memory", shadow->coverage.memory);
      os.attribute("memory_bytes", shadow->memoryBytes);
      auto names = [&](const char *key, const std::set<std::string> &all) {
        os.attributeArray(key, [&] {
          for (const std::string &name : all)
            os.value(json::fixUTF8(name));
        });
      };
      names("registers", shadow->coverage.registers);
      names("counters", shadow->coverage.counters);
      names("windows", shadow->coverage.windows);
      os.attributeObject("not_visible", [&] {
        for (const auto &[name, reason] : shadow->coverage.notVisible)
          os.attribute(json::fixUTF8(name), json::fixUTF8(reason));
      });
    });
    os.attribute("failure", shadow->failure ? json::Value(json::fixUTF8(shadow->failure->message))
                                            : json::Value(nullptr));
  });
}

/// Registers that a reset which claimed success should have cleared, and did not.
static std::set<std::string> leftByReset(const ReplaySession &session, const ReplayReport &report) {
  std::set<std::string> names, identities = identityRegisters(session.source);
  for (const FingerprintDifference &difference : report.fingerprint)
    if (!difference.fromTape && !identities.count(difference.reg))
      names.insert(difference.reg);
  return names;
}

void writeSession(json::OStream &os, const ReplaySession &session, const ReplayReport &report) {
  std::set<std::string> left = leftByReset(session, report);
  os.attributeObject("reset", [&] {
    os.attribute("trusted", left.empty());
    os.attributeArray("left_behind", [&] {
      for (const std::string &name : left)
        os.value(json::fixUTF8(name));
    });
  });
  writePostMortem(os, session);
  writeShadow(os, session.shadow);
  writeHooks(os, session.hooks);
}

static void printShadow(raw_ostream &os, const ShadowReport &shadow) {
  os << "second target: ";
  if (shadow.notComparable)
    os << "one of the two does not answer\n";
  else if (shadow.differs())
    os << "differs in " << shadow.windowsDiffer << " of " << shadow.windows << " windows\n";
  else
    os << "agrees in all " << shadow.windows << " windows\n";
  if (!shadow.answers.empty())
    os << "  first other answer: " << divergenceText(shadow.answers.front(), "target", "second") << "\n";
  if (shadow.state) {
    const StateDifference &difference = shadow.state->difference;
    os << "  first other state, at the end of window " << shadow.state->window << ": " << difference.name
       << " at " << hex(difference.address) << ": target " << hex(difference.good) << ", second "
       << hex(difference.bad) << "\n";
  }
  os << "  states compared at the end of " << shadow.statesCompared << " windows (" << shadow.notQuiescent
     << " ended with the device at work): " << (shadow.coverage.memory ? "memory, " : "")
     << shadow.coverage.registers.size() << " registers, " << shadow.coverage.counters.size() << " counters, "
     << shadow.coverage.windows.size() << " internal windows\n";
  for (const auto &[name, reason] : shadow.coverage.notVisible)
    os << "  " << name << " not compared: " << reason << "\n";
  if (shadow.failure)
    os << "  it failed: " << shadow.failure->message << "\n";
}

void printSession(raw_ostream &os, const ReplaySession &session, const ReplayReport &report) {
  for (const std::string &name : leftByReset(session, report))
    os << "the reset claimed success and left state behind in " << name << ": it is not to be trusted\n";
  if (!session.postMortem.empty()) {
    os << "post-mortem";
    if (session.postMortemPacket)
      os << " (before the reset at packet " << *session.postMortemPacket << ")";
    os << ":\n";
    for (const PostMortemValue &entry : session.postMortem) {
      os << "  " << entry.reg << " ";
      if (entry.value)
        os << "= " << hex(*entry.value) << (entry.fields.empty() ? "" : "  " + entry.fields) << "\n";
      else
        os << "could not be read: " << entry.failure << "\n";
    }
  }
  if (session.shadow)
    printShadow(os, *session.shadow);
  for (const HookResult &hook : session.hooks)
    os << "hook " << hook.name << " " << hook.fate() << "\n";
}

} // namespace tapeback
