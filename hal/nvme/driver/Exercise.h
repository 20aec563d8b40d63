// A mix of commands that a seed decides, on several queues, with what is known of the medium held against
// what is read.
#pragma once

#include "hal/nvme/driver/Controller.h"
#include <map>

namespace tapeback::nvme {

struct ExerciseOptions {
  uint64_t seed = 1, commands = 100; ///< Commands besides those that set up and take down.
  unsigned queues = 3, depth = 4;
};

/// One thread. Rounds: commands on disjoint blocks are handed over, some on each queue, and all are waited
/// for; between rounds admin commands, commands that must fail, queues deleted and made anew.
class Exercise {
public:
  Exercise(tb_device *device, const ExerciseOptions &options)
      : device(device), options(options), controller(device), state(options.seed * 2 + 1) {}

  /// False: the target failed.
  bool run();
  unsigned long long done() const { return commandsDone; }
  unsigned long long wrong() const { return controller.wrong; }

private:
  static constexpr unsigned poolPages = 512, listPages = 64, mostBlocks = 160;

  struct Job {
    unsigned queue = 0;
    uint16_t tag = 0;
    uint8_t opcode = 0;
    uint64_t block = 0;
    uint32_t count = 0; ///< Blocks.
    unsigned status = 0;
    std::vector<uint64_t>
        places; ///< Offsets of its data in the pool, page by page; the first may begin inside.
    std::vector<uint8_t> written; ///< What it writes.
  };

  uint64_t random();
  uint64_t below(uint64_t limit) { return random() % limit; }
  bool oneIn(uint64_t n) { return below(n) == 0; }

  bool round(uint64_t most);
  bool plan(Job &job);
  bool placeBlocks(Job &job, uint32_t most);
  bool placeData(Job &job, Command &command, uint64_t bytes, const uint8_t *content);
  bool submit(Job &job);
  bool reap(unsigned queue, std::vector<Job> &jobs);
  bool finish(Job &job, const Completion &completion);
  bool checkRead(Job &job);
  bool adminMix();
  bool logPage();
  bool mustFail();
  bool remakeQueue();

  tb_device *device;
  ExerciseOptions options;
  Controller controller;
  uint64_t state;
  Queue queues[Controller::mostQueues];
  Memory pool, lists;
  std::vector<bool> usedPages, usedBlocks; ///< By commands under way.
  unsigned usedLists = 0;
  std::map<uint64_t, std::vector<uint8_t>> known; ///< What is on the medium, by block, where we know.
  std::vector<bool> deallocated; ///< By block: what it reads as is the device's choice, and is not looked at.
  unsigned long long commandsDone = 0;
};

} // namespace tapeback::nvme
