#include "tools/verbs/RecordLive.h"
#include "format/Failure.h"
#include "replayer/CaptureTape.h"
#include "tools/PacketPrinter.h"
#include "tools/verbs/TriggerTape.h"
#include "triggers/OutputText.h"

using namespace llvm;

namespace tapeback {

using triggers::ActionOp;
using triggers::CaptureAmount;
using triggers::CaptureUnit;

Expected<CaptureAmount> parseAmount(StringRef text, StringRef option) {
  struct Unit {
    const char *name;
    CaptureUnit unit;
    uint64_t size;
  };
  // Longer names first.
  static constexpr Unit units[] = {{"KiB", CaptureUnit::Bytes, 1 << 10},
                                   {"MiB", CaptureUnit::Bytes, 1 << 20},
                                   {"GiB", CaptureUnit::Bytes, 1 << 30},
                                   {"ns", CaptureUnit::Nanoseconds, 1},
                                   {"us", CaptureUnit::Nanoseconds, 1000},
                                   {"ms", CaptureUnit::Nanoseconds, 1'000'000},
                                   {"p", CaptureUnit::Packets, 1},
                                   {"w", CaptureUnit::Windows, 1},
                                   {"s", CaptureUnit::Nanoseconds, 1'000'000'000},
                                   {"B", CaptureUnit::Bytes, 1}};
  for (const Unit &unit : units) {
    StringRef number = text;
    uint64_t value = 0;
    if (!number.consume_back(unit.name) || number.empty() || number.getAsInteger(10, value))
      continue;
    if (value > (uint64_t(1) << 62) / unit.size)
      return failUsage("bad-amount", ("'" + text + "' is too much").str(), option.str());
    return CaptureAmount{unit.unit, value * unit.size};
  }
  return failUsage("bad-amount", ("'" + text + "' is no amount").str(), option.str(),
                   "a number and a unit: 1000000p (packets), 20w (windows), 64MiB, 10s, 5ms");
}

static Expected<WrittenCapture> writeCapture(CaptureJob &job, StringRef output) {
  Expected<std::unique_ptr<TapeSource>> source = TapeSource::create(std::move(job.snapshot));
  if (!source)
    return source.takeError();
  CaptureRequest request;
  request.first = job.first;
  request.last = job.last;
  request.point = job.point;
  request.text = job.text;
  request.shortness = job.shortness;
  request.derivation = job.derivation;
  request.kept = job.hasKept ? &job.kept : nullptr;
  WrittenCapture result;
  result.path = capturePath(output, job.name);
  Expected<CaptureTape> tape = writeCaptureTape(**source, result.path, request);
  if (!tape)
    return tape.takeError();
  result.packets = tape->packets;
  result.prefix = tape->prefix;
  result.restorable = tape->restorable;
  result.how = tape->how;
  return result;
}

Expected<LiveOptions> toLiveOptions(const LiveCommandOptions &given, StringRef output, bool) {
  LiveOptions options;
  if (given.flight.getNumOccurrences()) {
    Expected<CaptureAmount> amount = parseAmount(given.flight, "--flight");
    if (!amount)
      return amount.takeError();
    constexpr uint64_t leastBytes = 1 << 20;
    if (amount->unit == CaptureUnit::Bytes && amount->amount < leastBytes)
      return failUsage("bad-amount", "a history of less than 1MiB is not worth having", "--flight");
    options.flight = *amount;
  }
  Expected<CaptureAmount> memory = parseAmount(given.memory, "--flight-memory");
  if (!memory)
    return memory.takeError();
  if (memory->unit != CaptureUnit::Bytes || memory->amount < (1 << 20))
    return failUsage("bad-amount", "the history's memory is at least 1MiB", "--flight-memory");
  options.memoryBytes = memory->amount;
  Expected<CaptureAmount> post = parseAmount(given.post, "--post");
  if (!post)
    return post.takeError();
  options.post = *post;
  if (given.post.getNumOccurrences() && given.captureAt.empty())
    return failUsage("bad-option", "--post belongs to --capture-at", "--post");
  if (given.atEnd == "always")
    options.atEnd = LiveOptions::AtEnd::Always;
  else if (given.atEnd == "never")
    options.atEnd = LiveOptions::AtEnd::Never;
  else if (given.atEnd != "failure")
    return failUsage("bad-option-value", "--at-end is failure, always or never", "--at-end");
  if (given.atEnd.getNumOccurrences() && !options.flight)
    return failUsage("bad-option", "--at-end belongs to --flight: otherwise everything is on the tape",
                     "--at-end");
  for (const std::string &path : given.triggers) {
    Expected<triggers::TriggerFile> file = triggers::readTriggerFile(path);
    if (!file)
      return file.takeError();
    options.triggers.push_back({path, std::move(file->text)});
  }
  options.captureAt.assign(given.captureAt.begin(), given.captureAt.end());
  options.allowExec = given.allowExec;
  options.eventDirectory = given.eventDirectory;
  options.sink = [output = output.str()](CaptureJob &job) { return writeCapture(job, output); };
  return options;
}

//===- Report ----------------------------------------------------------------------------------------===//

int liveExit(const LiveResult &result) {
  const triggers::Evaluator::Shortfalls &missed = result.shortfalls;
  return !result.failure.empty() || result.capturesNotTaken || missed.contents || missed.deadlines ||
                 missed.raises
             ? 5
             : 0;
}

static void writeWritten(json::OStream &os, const WrittenCapture &written) {
  os.attribute("tape", json::fixUTF8(written.path));
  os.attribute("packets", written.packets);
  os.attribute("prefix", written.prefix);
  os.attribute("replays", written.restorable);
  os.attribute("start", json::fixUTF8(written.how));
}

static void writeEvent(json::OStream &os, const TriggerEvent &event) {
  os.object([&] {
    os.attribute("trigger", json::fixUTF8(event.trigger));
    os.attribute("action", triggers::actionName(event.op));
    os.attribute("packet", event.packet ? json::Value(*event.packet) : json::Value(nullptr));
    os.attribute("time", event.time);
    os.attribute("text", json::fixUTF8(event.text));
    os.attribute("executed", event.notDone.empty());
    os.attribute("reason",
                 event.notDone.empty() ? json::Value(nullptr) : json::Value(json::fixUTF8(event.notDone)));
    if (event.op == ActionOp::Snapshot || event.op == ActionOp::Raise)
      os.attribute("delay", event.delayNs);
    if (!event.extent)
      return;
    os.attribute("first", event.extent->first);
    os.attribute("last", event.extent->last);
    os.attribute("pre", event.extent->pre);
    os.attribute("post", event.extent->post);
    os.attribute("pre_short", event.extent->preShort);
    os.attribute("post_short", event.extent->postShort);
    if (event.written)
      writeWritten(os, *event.written);
  });
}

void writeLive(json::OStream &os, const LiveResult &result) {
  os.attributeObject("triggers", [&] {
    os.attribute("armed", result.armed);
    os.attribute("fired", result.fired);
    os.attributeArray("events", [&] {
      for (const TriggerEvent &event : result.events)
        writeEvent(os, event);
    });
    os.attribute("not_listed", result.eventsDropped);
    os.attribute("events_not_delivered", result.lostEvents);
    os.attributeObject("not_done", [&] {
      os.attribute("deadlines_late", result.shortfalls.deadlines);
      os.attribute("raises", result.shortfalls.raises);
      os.attribute("evictions", result.shortfalls.evictions);
      os.attribute("contents", result.shortfalls.contents);
      os.attribute("captures", result.capturesNotTaken);
      os.attribute("captures_reason", result.capturesNotTaken ? json::Value(json::fixUTF8(result.whyNotTaken))
                                                              : json::Value(nullptr));
      os.attribute("marks", result.marksLeftOut);
    });
    os.attribute("failure",
                 result.failure.empty() ? json::Value(nullptr) : json::Value(json::fixUTF8(result.failure)));
  });
  if (!result.history)
    return;
  os.attributeObject("history", [&] {
    os.attribute("packets", result.history->packets);
    os.attribute("bytes", result.history->bytes);
    os.attribute("evicted", result.history->evicted);
    os.attribute("evicted_early", result.history->evictedEarly);
    os.attribute("prefix_dropped", result.history->prefixDropped);
    os.attribute("restorable", result.history->restorable);
    os.attribute("reason", json::fixUTF8(result.history->reason));
    os.attributeObject("end", [&] {
      os.attribute("wanted", result.endWanted);
      if (!result.endFailure.empty())
        os.attribute("failure", json::fixUTF8(result.endFailure));
      if (result.endCapture)
        writeWritten(os, *result.endCapture);
    });
  });
}

static void writeWritten(raw_ostream &os, const WrittenCapture &written) {
  os << written.path << ": " << written.packets << " packets";
  if (written.prefix)
    os << " behind " << written.prefix << " that establish the state";
  if (!written.restorable)
    os << "; cannot be replayed: " << written.how;
}

static void writeEvent(raw_ostream &os, const TriggerEvent &event) {
  os << "  " << (event.packet ? "p" + std::to_string(*event.packet) : std::string("start")) << "  "
     << quoteUntrusted(event.trigger) << ": " << event.text;
  if (event.extent) {
    os << " p" << event.extent->first << "..p" << event.extent->last << ", " << event.extent->pre << " before"
       << (event.extent->preShort ? " (SHORT: there was no more history)" : "") << ", " << event.extent->post
       << " behind" << (event.extent->postShort ? " (SHORT: the recording ended)" : "");
  }
  if (event.op == ActionOp::Snapshot && event.notDone.empty())
    os << ", " << event.delayNs << " ns later";
  if (!event.notDone.empty())
    os << " (NOT EXECUTED: " << event.notDone << ")";
  if (event.written) {
    os << "\n    -> ";
    writeWritten(os, *event.written);
  }
  os << "\n";
}

/// Why there is no capture at all. Nothing is said of what the summary has said already.
static std::string whyNoCapture(const LiveResult &result, const LiveOptions &options, bool runFailed) {
  if (result.fired)
    return "";
  std::string why = ": no trigger fired";
  if (options.flight && options.atEnd == LiveOptions::AtEnd::Never)
    return why + ", and the end is not wanted (--at-end never)";
  return options.flight && !runFailed ? why + ", and the run did not fail" : why;
}

void writeLive(raw_ostream &os, const LiveResult &result, const LiveOptions &options, StringRef output,
               bool runFailed) {
  constexpr size_t most = 50;
  bool anything = result.endCapture.has_value();
  for (size_t i = 0; i < result.events.size(); ++i) {
    anything |= result.events[i].written.has_value();
    if (i < most)
      writeEvent(os, result.events[i]);
  }
  uint64_t more = result.eventsDropped + (result.events.size() > most ? result.events.size() - most : 0);
  if (more)
    os << "  … and " << more << " more (--json lists 10,000)\n";
  if (result.history) {
    const FlightStatus &history = *result.history;
    os << "  history: " << history.packets << " packets in " << history.bytes << " bytes, " << history.evicted
       << " evicted";
    if (history.evictedEarly)
      os << ", " << history.evictedEarly << " of these for want of memory (--flight-memory)";
    os << "\n";
  }
  if (result.endCapture) {
    os << "  the end: ";
    writeWritten(os, *result.endCapture);
    os << "\n";
  } else if (!result.endFailure.empty()) {
    os << "  " << output << " was not written: " << result.endFailure << "\n";
  } else if (result.history && !anything && result.endWanted) {
    os << "  " << output << " was not written: nothing was recorded\n";
  } else if (result.history && !anything && result.history->evicted + result.history->packets) {
    os << "  no capture was taken" << whyNoCapture(result, options, runFailed) << "\n";
  }
  if (result.lostEvents)
    os << "  " << result.lostEvents << " events between recordings were not delivered\n";
  const triggers::Evaluator::Shortfalls &missed = result.shortfalls;
  if (missed.any())
    os << "  not done: " << missed.contents << " contents missing, " << missed.evictions
       << " entries dropped from full tables, " << missed.deadlines << " deadlines late, " << missed.raises
       << " raises\n";
  if (result.marksLeftOut)
    os << "  " << result.marksLeftOut << " trigger points are not marked on the tape: there are too many\n";
  if (result.capturesNotTaken)
    os << "  LOST: " << result.capturesNotTaken << " captures that were not taken: " << result.whyNotTaken
       << "\n";
  if (!result.failure.empty())
    os << "  LOST: a capture or mark: " << result.failure << "\n";
}

} // namespace tapeback
