// NVDLA's older traces (input.txn). A script: values are what is expected.
//
//   write_reg ADDR VALUE     read_reg ADDR MASK EXPECTED     load_mem ADDR LENGTH FILE     dump_mem ADDR
//   LENGTH FILE wait                     # comments
//
// A register's address is 0xffffNNNN with a word index: byte address 4 * NNNN of the register space. Reads
// are retried by NVDLA's own player, so they are polls. "wait" is for the interrupt.
#include "recorder/import/Importers.h"
#include "recorder/import/NvdlaMemory.h"

using namespace llvm;

namespace tapeback {
namespace {

class NvdlaTxn : public Importer {
public:
  explicit NvdlaTxn(const ImporterSettings &settings)
      : waitNs(settings.waitNs), spaceName(settings.space.empty() ? "bar0" : settings.space),
        memory(settings.openCompanion) {}

  bool wantsSurvey() const override { return true; }
  void survey(const CaptureLine &line) override {
    Scanner s(line.text);
    uint64_t address, length;
    s.blanks();
    if ((s.eat("load_mem") || s.eat("dump_mem")) && number(s, address) && number(s, length))
      memory.uses(address, length);
  }

  LineVerdict line(const CaptureLine &line, ImportOutput &out) override {
    Scanner s(trimmedRight(line.text.take_front(line.text.find('#'))));
    s.blanks();
    if (s.atEnd())
      return LineVerdict::ignored(isBlank(line.text) ? "blank line" : "comment");
    start(out);
    StringRef verb = s.word();
    if (verb == "write_reg")
      return write(s, out);
    if (verb == "read_reg")
      return read(s, out);
    if (verb == "load_mem" || verb == "dump_mem")
      return block(s, out, verb == "load_mem");
    if (verb == "wait") {
      if (!s.atEnd())
        return LineVerdict::notUnderstood(s, "wait takes no arguments");
      Packet packet = ofDevice(PacketKind::Interrupt);
      PacketExtra extra;
      extra.count = 1;
      extra.deadline = waitNs;
      out.append(packet, extra);
      out.endWindow();
      return LineVerdict::imported();
    }
    return LineVerdict::notUnderstood(1, "no command of an NVDLA trace");
  }

private:
  static bool number(Scanner &s, uint64_t &value) { return s.blanks() && s.cNumber(value); }

  void start(ImportOutput &out) {
    if (started)
      return;
    started = true;
    out.clock("untimed");
    device = out.device("nvdla").value_or(0);
    space = out.space(spaceName).value_or(0);
    memory.mapAll(out, device);
  }
  Packet ofDevice(PacketKind kind) const {
    Packet packet;
    packet.kind = kind;
    packet.device = device;
    return packet;
  }
  bool registerAt(Scanner &s, Packet &packet) const {
    uint64_t index;
    if (!number(s, index) || index >> 16 != 0xffff)
      return false;
    packet.space = space;
    packet.width = 4;
    packet.address = (index & 0xffff) * 4;
    return true;
  }
  static bool word(Scanner &s, uint64_t &value) { return number(s, value) && value <= 0xffffffff; }

  LineVerdict write(Scanner &s, ImportOutput &out) {
    Packet packet = ofDevice(PacketKind::RegisterWrite);
    if (!registerAt(s, packet))
      return LineVerdict::notUnderstood(s, "a register's address is 0xffffNNNN");
    if (!word(s, packet.value))
      return LineVerdict::notUnderstood(s, "a value of 32 bits is wanted");
    s.blanks();
    uint64_t more;
    if (s.cNumber(more)) // "misc_bits" in the generator's own comment.
      s.blanks();
    if (!s.atEnd())
      return LineVerdict::notUnderstood(s, "there is something behind the value");
    out.append(packet);
    return LineVerdict::imported();
  }

  LineVerdict read(Scanner &s, ImportOutput &out) {
    Packet packet = ofDevice(PacketKind::Poll);
    PacketExtra extra;
    if (!registerAt(s, packet))
      return LineVerdict::notUnderstood(s, "a register's address is 0xffffNNNN");
    if (!word(s, extra.mask) || !word(s, extra.expected))
      return LineVerdict::notUnderstood(s, "a mask and an expected value of 32 bits are wanted");
    s.blanks();
    if (!s.atEnd())
      return LineVerdict::notUnderstood(s, "there is something behind the expected value");
    if (extra.expected & ~extra.mask) {
      // It can never hold, and that is not the device's fault: read it, and compare with nothing.
      out.warn("bad-trace",
               "the expected value has bits outside the mask: the read is kept, the check is not");
      packet.kind = PacketKind::RegisterRead;
      packet.completion = Completion::Pending;
      out.append(packet);
      return LineVerdict::imported();
    }
    if (!extra.mask)
      out.warn("vacuous-oracle", "the mask is 0: nothing is compared");
    packet.value = extra.expected;
    extra.deadline = waitNs;
    extra.count = 1;
    out.append(packet, extra);
    return LineVerdict::imported();
  }

  LineVerdict block(Scanner &s, ImportOutput &out, bool load) {
    uint64_t address, length;
    if (!number(s, address) || !number(s, length))
      return LineVerdict::notUnderstood(s, "an address and a length are wanted");
    if (!length || length > NvdlaMemory::maxBytes || address + length < address)
      return LineVerdict::notUnderstood(s, "the length is 0 or above 1 GiB");
    s.blanks();
    StringRef file = s.word();
    s.blanks();
    if (file.empty() || !s.atEnd())
      return LineVerdict::notUnderstood(s, "one file name is wanted");
    if (load)
      memory.load(out, device, address, length, file);
    else
      memory.checkFile(out, device, address, length, file, "dump_mem " + file.take_front(80).str());
    return LineVerdict::imported();
  }

  uint64_t waitNs;
  std::string spaceName;
  NvdlaMemory memory;
  bool started = false;
  uint16_t device = 0, space = 0;
};

unsigned recogniseNvdlaTxn(StringRef head) {
  return shareOfLines(
      head,
      [](StringRef line) {
        return line.starts_with("write_reg ") || line.starts_with("read_reg ") ||
               line.starts_with("load_mem ") || line.starts_with("dump_mem ") || line.trim() == "wait";
      },
      [](StringRef line) { return line.trim().starts_with("#"); });
}

} // namespace

const ImporterKind nvdlaTxnKind = {
    "nvdla-txn",
    "NVDLA trace, older form (input.txn)",
    "times; interrupts other than waits",
    false,
    recogniseNvdlaTxn,
    [](const ImporterSettings &settings) -> Expected<std::unique_ptr<Importer>> {
      return std::make_unique<NvdlaTxn>(settings);
    }};

} // namespace tapeback
