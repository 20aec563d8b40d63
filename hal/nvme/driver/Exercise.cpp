#include "hal/nvme/driver/Exercise.h"
#include <algorithm>

namespace tapeback::nvme {

/// SplitMix64.
uint64_t Exercise::random() {
  uint64_t z = state += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

bool Exercise::run() {
  tb_mark(device, "start");
  if (!controller.start() || !controller.good("tb_alloc", pool.allocate(device, poolPages * pageBytes)) ||
      !controller.good("tb_alloc", lists.allocate(device, listPages * pageBytes)))
    return false;
  usedBlocks.assign(size_t(std::min<uint64_t>(controller.blocks(), 1 << 21)), false);
  deallocated = usedBlocks;
  for (unsigned q = 0; q < options.queues; ++q)
    if (!controller.good("tb_alloc", queues[q].allocate(device, q + 1)) ||
        !controller.create(queues[q], std::max(options.depth + 1, 5 + q)))
      return false;
  while (commandsDone < options.commands) {
    tb_mark(device, "round");
    if (!round(options.commands - commandsDone))
      return false;
    if (commandsDone < options.commands && oneIn(3) && !adminMix())
      return false;
  }
  tb_mark(device, "stop");
  for (unsigned q = 0; q < options.queues; ++q)
    if (!controller.remove(queues[q]))
      return false;
  return controller.stop();
}

/// At most so many commands, handed over together and waited for.
bool Exercise::round(uint64_t most) {
  std::vector<Job> jobs;
  usedPages.assign(poolPages, false);
  std::fill(usedBlocks.begin(), usedBlocks.end(), false);
  usedLists = 0;
  uint64_t wanted = std::min<uint64_t>(most, 1 + below(uint64_t(options.depth) * options.queues));
  for (uint64_t i = 0; i < wanted; ++i) {
    Job job;
    job.queue = unsigned(below(options.queues));
    Queue &queue = queues[job.queue];
    if (queue.outstanding() >= options.depth || queue.room() == 0 || !plan(job))
      continue;
    if (!submit(job))
      return false;
    jobs.push_back(std::move(job));
    // Often one doorbell for each command, sometimes one for several.
    if (!oneIn(3) && !controller.good("tb_write32", queue.ring()))
      return false;
  }
  for (unsigned q = 0; q < options.queues; ++q)
    if (queues[q].outstanding() && !controller.good("tb_write32", queues[q].ring()))
      return false;
  for (unsigned q = 0; q < options.queues; ++q)
    while (queues[q].outstanding())
      if (!reap(q, jobs))
        return false;
  for (unsigned q = 0; q < options.queues; ++q)
    if (!controller.good("tb_write32", queues[q].release()))
      return false;
  return true;
}

/// Blocks that no other command of the round has.
bool Exercise::placeBlocks(Job &job, uint32_t most) {
  uint64_t blocks = usedBlocks.size();
  for (unsigned attempt = 0; attempt < 8; ++attempt) {
    job.count = uint32_t(1 + below(most));
    // Mostly in a small part of the medium, so that what was written is read again.
    uint64_t part = oneIn(4) ? blocks : std::min<uint64_t>(blocks, 512);
    if (job.count > part)
      continue;
    job.block = below(part - job.count + 1);
    auto begin = usedBlocks.begin() + ptrdiff_t(job.block), end = begin + job.count;
    if (std::find(begin, end, true) != end)
      continue;
    std::fill(begin, end, true);
    return true;
  }
  return false;
}

/// What the command will be; false if there is no room for it in this round.
bool Exercise::plan(Job &job) {
  static constexpr uint8_t mix[] = {Read,  Read,  Read,        Read,  Write, Write,
                                    Write, Write, WriteZeroes, Flush, Manage};
  job.opcode = mix[below(sizeof mix)];
  if (job.opcode == Flush)
    return true;
  if (!placeBlocks(job, oneIn(6) ? mostBlocks : 12))
    return false;
  auto begin = deallocated.begin() + ptrdiff_t(job.block), end = begin + job.count;
  if (job.opcode == Read && std::find(begin, end, true) != end)
    job.opcode = Write; // So that there is something to read again.
  return true;
}

/// Gives the command pages of the pool, neighbours or not, and lists where it needs them. `content` is what
/// lies there; null: what is read will, and what lies there now must not be that.
bool Exercise::placeData(Job &job, Command &command, uint64_t bytes, const uint8_t *content) {
  uint64_t inFirst = oneIn(3) ? 4 * below(pageBytes / 4) : 0; // Data may begin at any four bytes.
  uint64_t pages = (inFirst + bytes + pageBytes - 1) / pageBytes;
  bool neighbours = oneIn(3);
  for (uint64_t at = below(poolPages); job.places.size() < pages;
       at = neighbours ? at + 1 : below(poolPages)) {
    unsigned tries = 0;
    while (usedPages[at % poolPages] && tries++ < poolPages)
      ++at;
    if (tries > poolPages)
      return false;
    usedPages[at % poolPages] = true;
    job.places.push_back(at % poolPages * pageBytes + (job.places.empty() ? inFirst : 0));
  }
  std::vector<uint8_t> filling;
  if (!content) {
    filling.assign(size_t(bytes), uint8_t(0xa0 | below(16)));
    content = filling.data();
  }
  uint64_t done = 0;
  for (uint64_t place : job.places) {
    uint64_t part = std::min(bytes - done, pageBytes - place % pageBytes);
    if (!controller.good("tb_mem_write", pool.write(place, content + done, size_t(part))))
      return false;
    done += part;
  }
  uint64_t first = pool.iova + job.places[0], second = 0;
  if (job.places.size() == 2) {
    second = pool.iova + job.places[1];
  } else if (job.places.size() > 2) {
    // The list may begin anywhere in its page: then it goes on in the next one.
    uint64_t at = usedLists * pageBytes + (oneIn(2) ? pageBytes - 8 * (2 + below(6)) : 0);
    second = lists.iova + at;
    for (size_t i = 1; i < job.places.size(); ++i) {
      uint64_t address = pool.iova + job.places[i];
      if (at % pageBytes == pageBytes - 8 && i + 1 < job.places.size()) {
        uint64_t next = (++usedLists) * pageBytes;
        uint64_t link = lists.iova + next;
        if (!controller.good("tb_mem_write", lists.write(at, &link, sizeof link)))
          return false;
        at = next;
      }
      if (!controller.good("tb_mem_write", lists.write(at, &address, sizeof address)))
        return false;
      at += 8;
    }
    ++usedLists;
  }
  command.setData(first, second);
  return true;
}

bool Exercise::submit(Job &job) {
  Command command(job.opcode, 1);
  bool placed = true;
  switch (job.opcode) {
  case Write:
    job.written.resize(job.count * blockBytes);
    for (size_t i = 0; i < job.written.size(); i += 8) {
      uint64_t word = random();
      memcpy(&job.written[i], &word, 8);
    }
    command.setBlocks(job.block, job.count);
    placed = placeData(job, command, job.written.size(), job.written.data());
    break;
  case Read:
    command.setBlocks(job.block, job.count);
    placed = placeData(job, command, job.count * blockBytes, nullptr);
    break;
  case WriteZeroes: command.setBlocks(job.block, job.count); break;
  case Manage: {
    // Two ranges, the second of which begins where the first one ends.
    uint32_t split = job.count > 1 ? job.count / 2 : 0;
    uint32_t ranges[8] = {};
    ranges[1] = split ? split : job.count;
    memcpy(&ranges[2], &job.block, 8);
    ranges[5] = job.count - split;
    uint64_t next = job.block + split;
    memcpy(&ranges[6], &next, 8);
    command.words[10] = split ? 1 : 0;
    command.words[11] = 4; // Deallocate.
    placed = placeData(job, command, split ? 32 : 16, reinterpret_cast<const uint8_t *>(ranges));
    break;
  }
  default: break;
  }
  if (controller.failed)
    return false;
  if (!placed) { // No room in the pool: something that needs none.
    job.opcode = Flush;
    job.places.clear();
    command = Command(Flush, 1);
  }
  return controller.good("tb_mem_write", queues[job.queue].push(command, &job.tag));
}

bool Exercise::reap(unsigned queue, std::vector<Job> &jobs) {
  Completion completion;
  if (!controller.good("waiting for a command", queues[queue].reap(completion)))
    return false;
  if (oneIn(2) && !controller.good("tb_write32", queues[queue].release()))
    return false;
  for (Job &job : jobs)
    if (job.queue == queue && job.tag == completion.tag) {
      ++commandsDone;
      return finish(job, completion);
    }
  return controller.check("tag of a command", false);
}

bool Exercise::finish(Job &job, const Completion &completion) {
  if (!controller.expectStatus("command", completion, job.status))
    return false;
  auto learn = [&](const uint8_t *content) {
    for (uint32_t i = 0; i < job.count; ++i) {
      known[job.block + i].assign(content + i * blockBytes, content + (i + 1) * blockBytes);
      deallocated[job.block + i] = false;
    }
  };
  switch (job.opcode) {
  case Write: learn(job.written.data()); return true;
  case WriteZeroes: learn(std::vector<uint8_t>(job.count * blockBytes).data()); return true;
  case Manage:
    for (uint32_t i = 0; i < job.count; ++i)
      deallocated[job.block + i] = true;
    return true;
  case Read: return checkRead(job);
  default: return true;
  }
}

/// What is known must be there; what is not, we learn.
bool Exercise::checkRead(Job &job) {
  std::vector<uint8_t> expected(job.count * blockBytes), there(job.count * blockBytes);
  bool all = true;
  for (uint32_t i = 0; i < job.count; ++i) {
    auto found = known.find(job.block + i);
    all &= found != known.end();
    if (found != known.end())
      memcpy(&expected[i * blockBytes], found->second.data(), blockBytes);
  }
  uint64_t done = 0;
  for (uint64_t place : job.places) {
    uint64_t part = std::min(there.size() - done, pageBytes - place % pageBytes);
    if (all) {
      int holds = tb_check_memory(device, "read", pool.iova + place, &expected[done], size_t(part));
      if (!controller.good("tb_check_memory", holds))
        return false;
      controller.wrong += holds == 0;
    } else if (!controller.good("tb_acquire", pool.take(place, &there[done], size_t(part)))) {
      return false;
    }
    done += part;
  }
  for (uint32_t i = 0; i < job.count && !all; ++i) {
    const uint8_t *block = &there[i * blockBytes];
    auto found = known.find(job.block + i);
    if (found != known.end() && memcmp(found->second.data(), block, blockBytes) != 0 &&
        !controller.check("read", false))
      return false;
    known[job.block + i].assign(block, block + blockBytes);
  }
  return true;
}

bool Exercise::adminMix() {
  Completion completion;
  ++commandsDone;
  switch (below(5)) {
  case 0: return logPage();
  case 1: return mustFail();
  case 2: return remakeQueue();
  case 3: { // Nothing of that tag is under way: "not aborted".
    Command command(Abort, 0);
    command.words[10] = 0xffffu << 16 | 1;
    return controller.admin(command, completion) && controller.expectStatus("abort", completion, 0) &&
           controller.check("abort: nothing to abort", completion.result & 1);
  }
  default: { // Number of queues, then the temperature threshold.
    Command command(GetFeatures, 0);
    command.words[10] = oneIn(2) ? 0x07 : 0x04;
    return controller.admin(command, completion) && controller.expectStatus("get features", completion, 0);
  }
  }
}

bool Exercise::logPage() {
  Completion completion;
  Command command(GetLogPage, 0xffffffff);
  command.setData(controller.page().iova, 0);
  command.words[10] = 127u << 16 | 2; // SMART: 512 bytes.
  uint8_t page[512];
  return controller.admin(command, completion) && controller.expectStatus("log page", completion, 0) &&
         controller.good("tb_acquire", controller.page().take(0, page, sizeof page)) &&
         controller.check("no critical warning", page[0] == 0);
}

/// Commands that the specification says must fail, and how.
bool Exercise::mustFail() {
  struct Case {
    const char *name;
    Command command;
    unsigned status;
  };
  Command beyond(Read, 1), nobody(Read, 0x12345678), unknown(0x7f, 1), badIdentify(Identify, 0),
      noQueue(DeleteSubmission, 0);
  beyond.setBlocks(controller.blocks(), 1);
  beyond.setData(pool.iova, 0);
  nobody.setBlocks(0, 1);
  nobody.setData(pool.iova, 0);
  noQueue.words[10] = 63;
  Completion completion;
  if (oneIn(3))
    return controller.admin(noQueue, completion) &&
           controller.expectStatus("deleting a queue that is not there", completion, 0x101);
  Queue &queue = queues[below(options.queues)];
  Case cases[] = {{"read behind the end", beyond, 0x80},
                  {"read of no namespace", nobody, 0x0b},
                  {"unknown opcode", unknown, 0x01}};
  Case &one = cases[below(3)];
  uint16_t tag = 0;
  return controller.good("tb_mem_write", queue.push(one.command, &tag)) &&
         controller.good("tb_write32", queue.ring()) &&
         controller.good("waiting for a command", queue.reap(completion)) &&
         controller.good("tb_write32", queue.release()) && controller.check("tag", completion.tag == tag) &&
         controller.expectStatus(one.name, completion, one.status);
}

/// Deleted, and made anew in the same memory with another size.
bool Exercise::remakeQueue() {
  Queue &queue = queues[below(options.queues)];
  unsigned entries = unsigned(std::max<uint64_t>(options.depth + 1, 4 + below(20)));
  return controller.remove(queue) && controller.create(queue, std::min(entries, Queue::mostEntries));
}

} // namespace tapeback::nvme
