#include "hal/nvme/driver/Controller.h"

namespace tapeback::nvme {

bool Controller::good(const char *what, int code) {
  if (code >= 0)
    return true;
  fprintf(stderr, "nvme-exercise: %s: %s\n", what, tb_error());
  failed = true;
  return false;
}

bool Controller::check(const char *name, bool holds) {
  int code = tb_check(device, name, holds);
  if (!good(name, code))
    return false;
  if (code == 0) {
    fprintf(stderr, "nvme-exercise: check '%s' does not hold\n", name);
    ++wrong;
  }
  return true;
}

bool Controller::expectStatus(const char *name, const Completion &completion, unsigned status) {
  if (completion.status() != status)
    fprintf(stderr, "nvme-exercise: %s: status 0x%x, expected 0x%x\n", name, completion.status(), status);
  return check(name, completion.status() == status);
}

bool Controller::waitReady(uint32_t value) {
  return good("waiting for CSTS.RDY",
              tb_poll(device, "bar0", Status, 4, ready | fatal, value, deadlineNs, nullptr));
}

bool Controller::start() {
  uint32_t ignored = 0;
  for (uint64_t reg : {CapLow, CapHigh, Version})
    if (!good("tb_read32", tb_read32(device, "bar0", reg, &ignored)))
      return false;
  if (!good("tb_write32", tb_write32(device, "bar0", Configuration, 0)) || !waitReady(0))
    return false;
  constexpr unsigned entries = 16;
  if (!good("tb_alloc", adminQueue.allocate(device, 0)) || !good("tb_mem_write", adminQueue.begin(entries)) ||
      !good("tb_alloc", adminPage.allocate(device, pageBytes)))
    return false;
  const uint64_t sq = adminQueue.submissions(), cq = adminQueue.completions();
  struct {
    uint64_t reg;
    uint64_t value;
  } const writes[] = {{AdminAttributes, (entries - 1) << 16 | (entries - 1)},
                      {AdminSubmission, sq & 0xffffffff},
                      {AdminSubmission + 4, sq >> 32},
                      {AdminCompletion, cq & 0xffffffff},
                      {AdminCompletion + 4, cq >> 32},
                      {Configuration, configuration | enable}};
  for (const auto &write : writes)
    if (!good("tb_write32", tb_write32(device, "bar0", write.reg, uint32_t(write.value))))
      return false;
  if (!waitReady(ready))
    return false;
  Completion completion;
  for (uint32_t what : {1u, 0u}) { // The controller, then namespace 1.
    Command command(Identify, what ? 0 : 1);
    command.setData(adminPage.iova, 0);
    command.words[10] = what;
    if (!admin(command, completion) || !expectStatus("identify", completion, 0))
      return false;
  }
  return good("tb_mem_read", adminPage.take(0, &namespaceBlocks, sizeof namespaceBlocks)) &&
         check("namespace has blocks", namespaceBlocks != 0);
}

bool Controller::stop() {
  return good("tb_write32", tb_write32(device, "bar0", Configuration, 0)) && waitReady(0);
}

bool Controller::admin(Command command, Completion &completion) {
  uint16_t tag = 0;
  return good("tb_mem_write", adminQueue.push(command, &tag)) && good("tb_write32", adminQueue.ring()) &&
         good("waiting for an admin command", adminQueue.reap(completion)) &&
         good("tb_write32", adminQueue.release()) && check("admin tag", completion.tag == tag);
}

bool Controller::create(Queue &queue, unsigned entries) {
  if (!good("tb_mem_write", queue.begin(entries)))
    return false;
  Completion completion;
  Command completions(CreateCompletion, 0);
  completions.setData(queue.completions(), 0);
  completions.words[10] = (entries - 1) << 16 | queue.number();
  completions.words[11] = 1; // Contiguous, without interrupts.
  if (!admin(completions, completion) || !expectStatus("create completion queue", completion, 0))
    return false;
  Command submissions(CreateSubmission, 0);
  submissions.setData(queue.submissions(), 0);
  submissions.words[10] = (entries - 1) << 16 | queue.number();
  submissions.words[11] = queue.number() << 16 | 1;
  return admin(submissions, completion) && expectStatus("create submission queue", completion, 0);
}

bool Controller::remove(Queue &queue) {
  Completion completion;
  for (uint8_t opcode : {DeleteSubmission, DeleteCompletion}) {
    Command command(opcode, 0);
    command.words[10] = queue.number();
    if (!admin(command, completion) || !expectStatus("delete queue", completion, 0))
      return false;
  }
  return true;
}

} // namespace tapeback::nvme
