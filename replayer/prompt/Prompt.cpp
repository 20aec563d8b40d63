#include "replayer/prompt/Prompt.h"
#include "format/Failure.h"
#include "format/Text.h"
#include "replayer/Commands.h"
#include "llvm/ADT/StringExtras.h"

namespace tapeback {

//===- Stopping
//----------------------------------------------------------------------------------------------===//

size_t Prompt::edge(const PacketBatch &batch, size_t begin, size_t end) {
  uint64_t first = batch.firstOrdinal + begin;
  if (!stopAt || *stopAt <= first || *stopAt >= batch.firstOrdinal + end)
    return end;
  return size_t(*stopAt - batch.firstOrdinal);
}

llvm::Expected<bool> Prompt::before(const PacketBatch &batch, size_t index, Player &at,
                                    const ReplayReport &so) {
  next = batch.firstOrdinal + index;
  if (index >= batch.packets.size())
    return true; // The end is ended()'s.
  uint64_t diverged = so.grades.divergences();
  bool place = stopAt && next >= *stopAt;
  bool difference = options.atDivergence && diverged > seenDivergences;
  if (!place && !difference)
    return true;
  seenDivergences = diverged;
  if (difference && !place)
    say("stopped: " +
        (so.divergences.empty() ? std::string("a packet differs") : divergenceText(so.divergences.back())));
  return interact(at, so, /*atEnd=*/false);
}

llvm::Error Prompt::ended(Player &at, ReplayReport &so) {
  if (wantsQuit)
    return llvm::Error::success();
  next = so.packetsReplayed;
  say(so.stopped.empty() ? "the replay is over" : "the replay has ended: " + so.stopped);
  interact(at, so, /*atEnd=*/true);
  return llvm::Error::success();
}

/// True: go on.
bool Prompt::interact(Player &at, const ReplayReport &so, bool atEnd) {
  player = &at;
  report = &so;
  isAtEnd = atEnd;
  stopAt.reset();
  if (llvm::Expected<Then> shown = where({}); !shown)
    say("error: " + toFailure(shown.takeError()).message);
  Then then = Then::Ask;
  while (then == Then::Ask) {
    std::optional<std::string> line = io.readLine("(p" + std::to_string(next) + ") ");
    if (!line) {
      then = Then::Quit;
      break;
    }
    llvm::Expected<Then> done = carryOut(*line);
    if (done) {
      then = *done;
      continue;
    }
    Failure failure = toFailure(done.takeError());
    say("error: " + failure.message + (failure.hint.empty() ? "" : " (" + failure.hint + ")"));
  }
  wantsQuit = then == Then::Quit;
  player = nullptr;
  report = nullptr;
  return !wantsQuit;
}

llvm::Expected<Prompt::Then> Prompt::carryOut(llvm::StringRef line) {
  if (line.size() > maxLine)
    return failUsage("long-line", "a line has at most " + std::to_string(maxLine) + " characters");
  llvm::SmallVector<llvm::StringRef, 8> words;
  line.split(words, ' ', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef &word : words)
    word = word.trim();
  llvm::erase_if(words, [](llvm::StringRef word) { return word.empty(); });
  if (words.empty())
    return Then::Ask;
  for (const Command &command : commands())
    if (words[0] == command.name || words[0] == command.shortName)
      return (this->*command.run)(Words(words).drop_front());
  return failUsage("unknown-command", "there is no command '" + words[0].str() + "'", {},
                   "`help` lists them");
}

llvm::ArrayRef<Prompt::Command> Prompt::commands() {
  static constexpr Command table[] = {
      {"where", "w", "where", "the next packet, and where in the workload it is", &Prompt::where},
      {"step", "s", "step [N] | step command [N] | step window [N]", "issue packets, and stop again",
       &Prompt::step},
      {"until", "u", "until PLACE", "go on to a place: w12, p500, @marker#2", &Prompt::runTo},
      {"continue", "c", "continue", "go on to the end", &Prompt::goOn},
      {"read", "r", "read REGISTER | read SPACE+OFFSET [WIDTH]", "read a register now", &Prompt::read},
      {"write", "", "write REGISTER VALUE | write SPACE+OFFSET VALUE [WIDTH]", "write a register now",
       &Prompt::write},
      {"memory", "m", "memory ADDRESS [LENGTH]", "show device-visible memory, at its recorded address",
       &Prompt::memory},
      {"store", "", "store ADDRESS BYTES", "write bytes (hexadecimal) to device-visible memory",
       &Prompt::store},
      {"counters", "", "counters", "read the counters", &Prompt::counters},
      {"who", "", "who REGISTER | who ADDRESS | who WINDOW+OFFSET", "the packet that wrote it last",
       &Prompt::who},
      {"model", "", "model read … | model memory … | model counters",
       "the same of the second target (--shadow): what would it say?", &Prompt::model},
      {"differences", "d", "differences", "what has differed so far", &Prompt::differences},
      {"device", "", "device [N]", "which device the others are about", &Prompt::device},
      {"help", "h", "help", "this list", &Prompt::help},
      {"quit", "q", "quit", "end the replay here", &Prompt::quit},
  };
  return table;
}

//===- Going on
//-----------------------------------------------------------------------------------------------===//

llvm::Expected<Prompt::Then> Prompt::quit(Words) {
  return Then::Quit;
}

llvm::Expected<Prompt::Then> Prompt::goOn(Words) {
  if (isAtEnd)
    return failUsage("at-the-end", "the replay is over: there is nothing to go on with");
  return Then::GoOn;
}

llvm::Expected<Prompt::Then> Prompt::runTo(Words words) {
  if (isAtEnd)
    return failUsage("at-the-end", "the replay is over: there is nothing to go on with");
  if (words.size() != 1)
    return failUsage("bad-command", "until PLACE", {}, "a place is w12, p500 or @marker#2");
  llvm::Expected<uint64_t> place = io.resolve(words[0]);
  if (!place)
    return place.takeError();
  if (*place <= next)
    return failUsage("bad-place",
                     "packet " + std::to_string(*place) + " is not ahead: a replay goes one way");
  stopAt = *place;
  return Then::GoOn;
}

/// The packet behind the next command from `packet` on.
llvm::Expected<uint64_t> Prompt::commandAfter(uint64_t packet) {
  PacketBatch batch;
  for (uint64_t position = packet;; position += batch.packets.size()) {
    if (llvm::Error error = source.reader().readBlockFrom(position, batch))
      return error;
    if (batch.packets.empty())
      return position;
    for (size_t i = 0; i < batch.packets.size(); ++i)
      if (isCommand(source, batch.packets[i]))
        return position + i + 1;
  }
}

llvm::Expected<Prompt::Then> Prompt::step(Words words) {
  if (isAtEnd)
    return failUsage("at-the-end", "the replay is over: there is nothing to go on with");
  llvm::StringRef what = "packet";
  if (!words.empty() && !llvm::isDigit(words[0][0])) {
    what = words[0];
    words = words.drop_front();
  }
  uint64_t count = 1;
  if (!words.empty()) {
    llvm::Expected<uint64_t> number = parseNumber(words[0]);
    if (!number)
      return number.takeError();
    count = *number;
  }
  constexpr uint64_t most = 1'000'000'000;
  if (!count || count > most || words.size() > 1)
    return failUsage("bad-command", "step [N] | step command [N] | step window [N]");
  if (what == "packet" || what == "p") {
    stopAt = next + count;
    return Then::GoOn;
  }
  if (what == "command" || what == "c") {
    uint64_t place = next;
    for (; count; --count) {
      llvm::Expected<uint64_t> after = commandAfter(place);
      if (!after)
        return after.takeError();
      if (*after == place)
        break; // The tape ends.
      place = *after;
    }
    stopAt = place;
    return Then::GoOn;
  }
  if (what == "window" || what == "w") {
    llvm::Expected<uint64_t> window = source.reader().windowOfPacket(next);
    if (!window)
      return window.takeError();
    uint64_t last = std::min(*window + count - 1, source.reader().summary().windows - 1);
    llvm::Expected<WindowInfo> info = source.reader().window(last);
    if (!info)
      return info.takeError();
    stopAt = info->firstPacket + info->packetCount;
    return Then::GoOn;
  }
  return failUsage("bad-command", "there is no step by '" + what.str() + "'", {},
                   "by packet, command or window");
}

//===- Looking at the tape
//-------------------------------------------------------------------------------------===//

llvm::Expected<Prompt::Then> Prompt::help(Words) {
  for (const Command &command : commands()) {
    std::string left = std::string("  ") + command.syntax + (*command.shortName ? "  (" : "") +
                       command.shortName + (*command.shortName ? ")" : "");
    left.resize(std::max<size_t>(left.size(), 44), ' ');
    say(left + "  " + command.help);
  }
  return Then::Ask;
}

llvm::Expected<const ShadowState *> Prompt::history() {
  histories.resize(source.deviceCount());
  if (chosen >= histories.size())
    return failUsage("no-device", "the tape has no devices");
  std::unique_ptr<History> &history = histories[chosen];
  if (!history) {
    llvm::Expected<std::unique_ptr<History>> made = History::before(source, chosen, next, /*contents=*/false);
    if (!made)
      return made.takeError();
    history = std::move(*made);
  } else if (llvm::Error error = history->advanceTo(next)) {
    return error;
  }
  return &history->state();
}

llvm::Expected<Prompt::Then> Prompt::where(Words) {
  uint64_t packets = source.reader().summary().packets;
  if (next >= packets) {
    say("at the end of the tape, behind packet " + std::to_string(packets ? packets - 1 : 0));
    return Then::Ask;
  }
  llvm::Expected<uint64_t> window = source.reader().windowOfPacket(next);
  if (!window)
    return window.takeError();
  std::string text = "window " + std::to_string(*window) + ", before packet " + std::to_string(next);
  if (source.deviceCount()) {
    llvm::Expected<const ShadowState *> state = history();
    if (!state)
      return state.takeError();
    if ((*state)->markerOccurrence())
      text += ", after marker \"" + (*state)->marker() + "\" (occurrence " +
              std::to_string((*state)->markerOccurrence()) + "), command " +
              std::to_string((*state)->commandsSinceMarker());
    if (!(*state)->quiescent())
      text += ", not quiescent";
  }
  say(text);
  llvm::Expected<std::string> packet = io.packetText(next);
  if (!packet)
    return packet.takeError();
  say("next: " + llvm::StringRef(*packet).trim().str());
  return Then::Ask;
}

llvm::Expected<Prompt::Then> Prompt::differences(Words) {
  uint64_t count = report->grades.divergences();
  say(count ? std::to_string(count) + " packets differ" : "nothing has differed so far");
  for (const Divergence &divergence : report->divergences)
    say("  " + divergenceText(divergence));
  if (options.shadow && options.shadow->result().differs())
    say("the second target differs in " + std::to_string(options.shadow->result().windowsDiffer) +
        " windows");
  return Then::Ask;
}

llvm::Expected<Prompt::Then> Prompt::device(Words words) {
  if (!words.empty()) {
    llvm::Expected<uint64_t> number = parseNumber(words[0]);
    if (!number)
      return number.takeError();
    if (*number >= source.deviceCount())
      return failUsage("no-device", "there is no device " + std::to_string(*number) + "; the tape has " +
                                        std::to_string(source.deviceCount()));
    chosen = uint16_t(*number);
  }
  for (size_t i = 0; i < source.deviceCount(); ++i)
    say((i == chosen ? "* " : "  ") + std::to_string(i) + " " + source.reader().devices()[i].alias);
  return Then::Ask;
}

llvm::Expected<Prompt::Then> Prompt::who(Words words) {
  if (words.size() != 1)
    return failUsage("bad-command", "who REGISTER | who ADDRESS | who WINDOW+OFFSET");
  llvm::Expected<const ShadowState *> state = history();
  if (!state)
    return state.takeError();
  const Description *description = source.description(chosen);
  std::optional<uint64_t> writer;
  auto [window, offset] = words[0].split('+');
  if (description && !offset.empty() && description->findWindow(window)) {
    llvm::Expected<uint64_t> number = parseNumber(offset);
    if (!number)
      return number.takeError();
    writer = (*state)->lastWriterOfWindow(window, description->findWindow(window)->base + *number);
  } else if (llvm::isDigit(words[0][0])) {
    llvm::Expected<uint64_t> number = parseNumber(words[0]);
    if (!number)
      return number.takeError();
    writer = (*state)->lastWriterOfMemory(*number);
  } else {
    llvm::Expected<Access> place = access(words[0], "");
    if (!place)
      return place.takeError();
    std::optional<uint16_t> space = player->binding(chosen).tapeSpace(place->space);
    if (space)
      writer = (*state)->lastWriterOfRegister(*space, place->offset);
  }
  if (!writer) {
    say("nobody has written it, as far as the tape tells");
    return Then::Ask;
  }
  llvm::Expected<std::string> text = io.packetText(*writer);
  if (!text)
    return text.takeError();
  say(llvm::StringRef(*text).trim());
  return Then::Ask;
}

} // namespace tapeback
