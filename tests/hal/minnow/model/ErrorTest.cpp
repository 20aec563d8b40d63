// Every error, and which of several is reported (SPEC.md, section 6).
#include "tests/hal/minnow/model/Minnow.h"

using namespace tapeback;
using namespace tapeback::test;

namespace {

/// What one command reports, alone on queue 1 at index 3; checks all the rest of an error.
std::string outcome(Minnow &minnow, const Words &words) {
  minnow.write(Control, softReset);
  minnow.pass(20000);
  minnow.setUp(1, 8);
  minnow.write(Control, enable);
  std::vector<uint8_t> before = minnow.hostBytes(Minnow::data, 4096);
  minnow.submit(1, {nop(), nop(), nop(), words, nop()});
  minnow.settle();
  uint32_t code = minnow.read(ErrCode);
  if (code == 0) {
    CHECK(minnow.readQueue(1, Head) == 5);
    return "none";
  }
  CHECK(minnow.read(ErrQueue) == 1);
  CHECK(minnow.read(ErrIndex) == 3);
  CHECK(minnow.read(ErrOpcode) == words[0]);
  CHECK(minnow.read(IrqStatus) == 4);
  CHECK(minnow.read(Status) == (1u | halted | 1u << 9));
  CHECK(minnow.readQueue(1, Head) == 3);
  CHECK(minnow.readQueue(1, Done) == 3);
  CHECK(minnow.counter(11) == 3);
  CHECK(minnow.scratchpad() == std::vector<uint8_t>(65536, 0)); // No effect.
  CHECK(minnow.hostBytes(Minnow::data, 4096) == before);
  char text[64];
  std::snprintf(text, sizeof text, "%u 0x%llx", code,
                static_cast<unsigned long long>(minnow.read64(ErrAddr)));
  return text;
}

Words with(Words words, std::initializer_list<std::pair<unsigned, uint32_t>> changes) {
  for (auto &[index, value] : changes)
    words[index] = value;
  return words;
}

struct Case {
  std::initializer_list<std::pair<unsigned, uint32_t>> changes;
  const char *expected;
};

/// A command that is right, with some of its words changed.
void checkCases(const Words &right, std::initializer_list<Case> cases) {
  Minnow minnow;
  CHECK(outcome(minnow, right) == "none");
  for (const Case &item : cases) {
    std::string what;
    for (auto &[index, value] : item.changes)
      what += "w" + std::to_string(index) + "=" + std::to_string(value) + " ";
    CAPTURE(what);
    CHECK(outcome(minnow, with(right, item.changes)) == item.expected);
  }
}

} // namespace

TEST_CASE("opcodes that are not in the table; flags and tags do not matter") {
  Minnow minnow;
  std::vector<uint32_t> known{0x00, 0x01, 0x02, 0x03, 0x10, 0x20, 0x21,
                              0x22, 0x23, 0x24, 0x30, 0x31, 0x32, 0x33};
  for (uint32_t opcode = 0; opcode < 256; ++opcode)
    if (std::find(known.begin(), known.end(), opcode) == known.end()) {
      CAPTURE(opcode);
      Words all;
      all.fill(0xffffffff);
      all[0] = 0xabcdfe00 | opcode;
      CHECK(outcome(minnow, all) == "1 0x0");
    }
  CHECK(outcome(minnow, {0xabcdfe00}) == "none");
}

TEST_CASE("DMA_LOAD and DMA_STORE: ranges, then alignment, then the scratchpad") {
  for (bool store : {false, true})
    checkCases(dma(store, Minnow::data, 64, 16, 2, 32, 24),
               {
                   {{{5, 0}}, "2 0x0"},
                   {{{5, 7}}, "2 0x7"},
                   {{{5, 65537}}, "2 0x10001"},
                   {{{5, 0xffffffff}}, "2 0xffffffff"},
                   {{{6, 0}}, "2 0x0"},
                   {{{6, 4097}}, "2 0x1001"},
                   {{{2, 0x1020004}}, "3 0x1020004"},
                   {{{2, 0x1020001}, {3, 0x80000000}}, "3 0x8000000001020001"},
                   {{{4, 65}}, "3 0x41"},
                   {{{5, 12}}, "3 0xc"},
                   {{{7, 33}}, "3 0x21"},
                   {{{8, 20}}, "3 0x14"},
                   {{{4, 65536}}, "4 0x10000"},
                   {{{4, 65536 - 32}}, "4 0xffe0"}, // 24 + 16 bytes.
                   {{{4, 0xfffffff8}}, "4 0xfffffff8"},
                   {{{8, 0xfffffff8}}, "4 0x40"},
                   {{{4, 0}, {5, 65536}, {6, 2}, {8, 8}}, "4 0x0"},
                   // Two things wrong.
                   {{{5, 4}, {6, 0}}, "2 0x4"},
                   {{{2, 1}, {6, 0}}, "2 0x0"},
                   {{{2, 0x1020001}, {4, 1}}, "3 0x1020001"},
                   {{{4, 3}, {5, 9}, {7, 1}}, "3 0x3"},
                   {{{5, 9}, {7, 1}, {8, 5}}, "3 0x9"},
                   {{{7, 1}, {8, 5}}, "3 0x1"},
                   {{{4, 65536}, {8, 5}}, "3 0x5"},
                   {{{2, 0}, {4, 65536}}, "4 0x10000"},
               });
  // The edges that are right.
  Minnow minnow;
  CHECK(outcome(minnow, dma(true, Minnow::data + 4096, 65536 - 40, 16, 2, 32, 24)) == "none");
  CHECK(outcome(minnow, dma(true, Minnow::data + 4096, 0, 65536, 1, 0xfffffff8, 0xfffffff8)) == "none");
  CHECK(outcome(minnow, dma(true, Minnow::data + 4096, 0, 65536, 4096, 0, 0)) == "none");
}

TEST_CASE("DMA_CHAIN: 64-byte alignment, then the bus") {
  Minnow minnow;
  uint64_t at = Minnow::data + 0x8000;
  CHECK(outcome(minnow, chain(at + 8)) == "3 0x1028008");
  CHECK(outcome(minnow, chain(at + 32)) == "3 0x1028020");
  CHECK(outcome(minnow, chain(0x80)) == "5 0x80");
  CHECK(outcome(minnow, chain(at)) == "2 0x0"); // A descriptor of nothing but zeroes: row bytes.
}

TEST_CASE("GEMM") {
  checkCases(gemm(0, 0x400, 0x800, 3, 5, 9, 16, 8, 24),
             {
                 {{{5, 0}}, "2 0x0"},
                 {{{5, 1025}}, "2 0x401"},
                 {{{6, 0}}, "2 0x0"},
                 {{{6, 1025}}, "2 0x401"},
                 {{{7, 0}}, "2 0x0"},
                 {{{7, 0x80000001}}, "2 0x80000001"},
                 {{{2, 4}}, "3 0x4"},
                 {{{3, 2}}, "3 0x2"},
                 {{{4, 0xffffffff}}, "3 0xffffffff"},
                 {{{8, 9}}, "3 0x9"},
                 {{{9, 10}}, "3 0xa"},
                 {{{10, 11}}, "3 0xb"},
                 {{{2, 65536 - 40}}, "4 0xffd8"}, // Two strides of 16, and 9 bytes rounded up to 16.
                 {{{3, 65536 - 64}}, "4 0xffc0"},
                 {{{4, 65536 - 64}}, "4 0xffc0"}, // 48 and 20 rounded up to 24.
                 {{{10, 0xfffffff8}}, "4 0x800"},
                 // Two things wrong.
                 {{{5, 2000}, {6, 3000}, {7, 4000}}, "2 0x7d0"},
                 {{{6, 3000}, {7, 4000}}, "2 0xbb8"},
                 {{{2, 1}, {7, 0}}, "2 0x0"},
                 {{{4, 3}, {8, 1}}, "3 0x3"},
                 {{{2, 65536}, {10, 1}}, "3 0x1"},
                 {{{2, 65536}, {3, 65544}, {4, 65552}}, "4 0x10000"},
                 {{{3, 65544}, {4, 65552}}, "4 0x10008"},
             });
  Minnow minnow;
  CHECK(outcome(minnow, gemm(65536 - 48, 65536 - 72, 65536 - 72, 3, 5, 9, 16, 8, 24)) == "none");
}

TEST_CASE("VADD32, VADD8 and RELU8") {
  for (uint32_t opcode : {0x20u, 0x21u})
    checkCases(vector(opcode, 0, 0x400, 0x800, 3, 6, 24, 24, 24), {
                                                                      {{{5, 0}}, "2 0x0"},
                                                                      {{{5, 4097}}, "2 0x1001"},
                                                                      {{{6, 0}, {2, 1}}, "2 0x0"},
                                                                      {{{6, 4097}}, "2 0x1001"},
                                                                      {{{2, 1}, {3, 2}}, "3 0x1"},
                                                                      {{{3, 2}, {7, 3}}, "3 0x2"},
                                                                      {{{4, 3}}, "3 0x3"},
                                                                      {{{7, 4}, {8, 5}}, "3 0x4"},
                                                                      {{{8, 5}}, "3 0x5"},
                                                                      {{{9, 6}}, "3 0x6"},
                                                                      {{{2, 65536 - 48}}, "4 0xffd0"},
                                                                      {{{3, 65536 - 48}}, "4 0xffd0"},
                                                                      {{{4, 65536 - 48}}, "4 0xffd0"},
                                                                      {{{8, 0x8000}}, "4 0x400"},
                                                                  });
  Minnow minnow;
  // With BROADCAST w8 means nothing and b has one row; VADD8 has no such flag.
  CHECK(outcome(minnow, vector(0x20, 0, 65536 - 24, 0x800, 3, 6, 24, 0xffffffff, 24, true)) == "none");
  CHECK(outcome(minnow, vector(0x20, 0, 65536 - 16, 0x800, 3, 6, 24, 0, 24, true)) == "4 0xfff0");
  CHECK(outcome(minnow, vector(0x21, 0, 0x400, 0x800, 3, 6, 24, 5, 24, true)) == "3 0x5");
  CHECK(outcome(minnow, vector(0x20, 0, 0, 0, 4096, 4096, 0, 0, 0)) == "none");
  checkCases({0x22, 0, 0, 1, 0x800, 3, 6, 8, 1, 8}, {
                                                        {{{5, 0}}, "2 0x0"},
                                                        {{{6, 5000}}, "2 0x1388"},
                                                        {{{2, 1}, {4, 2}}, "3 0x1"},
                                                        {{{4, 2}, {7, 3}}, "3 0x2"},
                                                        {{{7, 3}, {9, 4}}, "3 0x3"},
                                                        {{{9, 4}}, "3 0x4"},
                                                        {{{2, 65536 - 16}, {4, 65536}}, "4 0xfff0"},
                                                        {{{4, 65536 - 16}}, "4 0xfff0"},
                                                    });
}

TEST_CASE("REQUANT") {
  checkCases(requant(0, 0x800, 3, 6, 24, 8, 1, 0, 0),
             {
                 {{{5, 0}, {6, 0}}, "2 0x0"},
                 {{{5, 4097}, {6, 0}}, "2 0x1001"},
                 {{{6, 4097}, {10, 0}}, "2 0x1001"},
                 {{{10, 0}, {11, 63}}, "2 0x0"},
                 {{{10, 0x80000000}}, "2 0x80000000"},
                 {{{10, 0xffffffff}}, "2 0xffffffff"},
                 {{{11, 63}, {2, 1}}, "2 0x3f"},
                 {{{11, 0x100}}, "2 0x100"},
                 {{{2, 1}, {4, 2}}, "3 0x1"},
                 {{{4, 2}, {7, 3}}, "3 0x2"},
                 {{{7, 3}, {9, 4}}, "3 0x3"},
                 {{{9, 4}, {2, 65536}}, "3 0x4"},
                 {{{2, 65536 - 64}}, "4 0xffc0"}, // 4 bytes an element …
                 {{{4, 65536 - 16}}, "4 0xfff0"},
             });
  Minnow minnow; // … and one; all words that are not listed mean nothing.
  Words words = requant(65536 - 72, 65536 - 24, 3, 6, 24, 8, 0x7fffffff, 62, -5);
  words[3] = words[8] = words[1] = words[13] = words[15] = 0xffffffff;
  CHECK(outcome(minnow, words) == "none");
}

TEST_CASE("MAXPOOL8") {
  checkCases(maxpool(0, 0x4000, 6, 5, 16, 2, 2), {
                                                     {{{5, 0}}, "2 0x0"},
                                                     {{{5, 257}, {6, 257}}, "2 0x101"},
                                                     {{{6, 0}, {7, 4}}, "2 0x0"},
                                                     {{{6, 258}}, "2 0x102"},
                                                     {{{7, 0}}, "2 0x0"},
                                                     {{{7, 12}, {8, 0}}, "2 0xc"},
                                                     {{{7, 520}}, "2 0x208"},
                                                     {{{8, 0}, {9, 0}}, "2 0x0"},
                                                     {{{8, 9}}, "2 0x9"},
                                                     {{{8, 6}}, "2 0x6"}, // Wider than the image.
                                                     {{{5, 3}, {8, 4}}, "2 0x4"},
                                                     {{{9, 0}, {2, 1}}, "2 0x0"},
                                                     {{{9, 9}}, "2 0x9"},
                                                     {{{2, 4}, {4, 5}}, "3 0x4"},
                                                     {{{4, 5}, {2, 65536}}, "3 0x5"},
                                                     {{{2, 65536 - 472}}, "4 0xfe28"}, // 480 bytes.
                                                     {{{4, 65536 - 88}}, "4 0xffa8"},  // 3·2·16.
                                                     {{{5, 256}, {6, 256}, {7, 512}}, "4 0x0"},
                                                 });
  Minnow minnow;
  CHECK(outcome(minnow, maxpool(0, 65536 - 96, 6, 5, 16, 2, 2)) == "none");
}

TEST_CASE("FENCE, SIGNAL and WAIT") {
  Minnow minnow;
  CHECK(outcome(minnow, fence(Minnow::data + 4, 1)) == "3 0x1020004");
  CHECK(outcome(minnow, fence(0xffffffff00000001, 1)) == "3 0xffffffff00000001");
  CHECK(outcome(minnow, fence(Minnow::iova + Minnow::bytes, 1, true)) == "5 0x1100000");
  for (uint32_t opcode : {0x31u, 0x32u}) {
    CHECK(outcome(minnow, {opcode, 0, 8}) == "2 0x8");
    CHECK(outcome(minnow, {opcode, 0, 0xffffffff}) == "2 0xffffffff");
  }
  CHECK(outcome(minnow, signal(7)) == "none");
}

TEST_CASE("a command that cannot be fetched has no opcode") {
  Minnow minnow = Minnow::ready();
  minnow.writeQueue(0, BaseLo, lo(Minnow::iova + Minnow::bytes - 128)); // Two of 16 are mapped.
  std::memset(minnow.host(Minnow::iova + Minnow::bytes - 128), 0, 128);
  minnow.writeQueue(0, Doorbell, 5);
  minnow.settle();
  CHECK(errorOf(minnow) == "code 5 queue 0 index 2 opcode 0x0 address 0x1100000");
  CHECK(minnow.readQueue(0, Done) == 2);
}
