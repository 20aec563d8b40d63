// Stop a replay anywhere and look: a few commands, a line each, on the targets as they are now.
//
// README.md in this folder lists them; `help` does, too. Reading a device is what any program would do to it,
// and may change it: whoever asks for it knows.
#pragma once

#include "replayer/History.h"
#include "replayer/Replay.h"
#include "replayer/shadow/ShadowRun.h"
#include <functional>

namespace tapeback {

/// How the prompt speaks with its user: a terminal, a pipe, or a test.
struct PromptIo {
  /// The next line without its end; nothing at the end of the input. Called with what the prompt is.
  std::function<std::optional<std::string>(llvm::StringRef prompt)> readLine;
  std::function<void(llvm::StringRef text)> print;
  /// A packet for people; a place of the tape ("w12", "p500", "@marker") as the packet it begins at.
  std::function<llvm::Expected<std::string>(uint64_t packet)> packetText;
  std::function<llvm::Expected<uint64_t>(llvm::StringRef place)> resolve;
};

struct PromptOptions {
  std::optional<uint64_t> until; ///< Stop before this packet; nothing: not by itself.
  bool atDivergence = false;     ///< Stop behind the first packet that differs (and each one more).
  ShadowRun *shadow = nullptr;   ///< The second target, if there is one.
};

/// An observer that stops at its places and carries out commands until it is told to go on. One thread.
class Prompt : public ReplayObserver {
public:
  Prompt(TapeSource &source, PromptIo io, const PromptOptions &options)
      : source(source), io(std::move(io)), options(options), stopAt(options.until) {}

  size_t edge(const PacketBatch &batch, size_t begin, size_t end) override;
  llvm::Expected<bool> before(const PacketBatch &batch, size_t index, Player &player,
                              const ReplayReport &report) override;
  llvm::Error ended(Player &player, ReplayReport &report) override;
  bool oneByOne() const override { return options.atDivergence; }

  static constexpr size_t maxLine = 4096;

private:
  enum class Then : uint8_t { Ask, GoOn, Quit };
  using Words = llvm::ArrayRef<llvm::StringRef>;
  struct Command {
    const char *name, *shortName, *syntax, *help;
    llvm::Expected<Then> (Prompt::*run)(Words words);
  };
  static llvm::ArrayRef<Command> commands();

  bool interact(Player &player, const ReplayReport &report, bool atEnd);
  llvm::Expected<Then> carryOut(llvm::StringRef line);

  llvm::Expected<Then> help(Words words);
  llvm::Expected<Then> where(Words words);
  llvm::Expected<Then> read(Words words);
  llvm::Expected<Then> write(Words words);
  llvm::Expected<Then> memory(Words words);
  llvm::Expected<Then> store(Words words);
  llvm::Expected<Then> counters(Words words);
  llvm::Expected<Then> who(Words words);
  llvm::Expected<Then> model(Words words);
  llvm::Expected<Then> differences(Words words);
  llvm::Expected<Then> device(Words words);
  llvm::Expected<Then> step(Words words);
  llvm::Expected<Then> runTo(Words words);
  llvm::Expected<Then> goOn(Words words);
  llvm::Expected<Then> quit(Words words);

  /// A register by name, or "SPACE+OFFSET" with a width.
  struct Access {
    const RegisterDescription *reg = nullptr;
    std::string space;
    uint64_t offset = 0;
    unsigned width = 4;
  };
  llvm::Expected<Access> access(llvm::StringRef word, llvm::StringRef width);
  llvm::Expected<uint64_t> readFrom(Player &player, const Access &access);
  std::string valueText(const Access &access, uint64_t value) const;
  llvm::Expected<std::string> memoryText(Player &player, uint64_t address, uint64_t length);
  llvm::Expected<std::string> counterText(Player &player);
  llvm::Expected<const ShadowState *> history();
  llvm::Expected<uint64_t> commandAfter(uint64_t packet);
  void say(const llvm::Twine &text) { io.print(text.str() + "\n"); }

  TapeSource &source;
  PromptIo io;
  PromptOptions options;
  std::optional<uint64_t> stopAt;
  uint64_t next = 0; ///< The packet that would be issued next.
  uint64_t seenDivergences = 0;
  bool wantsQuit = false, isAtEnd = false;
  uint16_t chosen = 0;      ///< Device.
  Player *player = nullptr; ///< During interact().
  const ReplayReport *report = nullptr;
  std::vector<std::unique_ptr<History>> histories; ///< By device, made when asked for.
};

} // namespace tapeback
