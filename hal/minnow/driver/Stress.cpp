#include "hal/minnow/driver/Stress.h"
#include "hal/minnow/driver/StressPlanner.h"
#include <cstdio>
#include <cstring>

namespace tapeback::stress {

uint64_t digestOf(const uint8_t *data, size_t size) {
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t at = 0; at + 8 <= size; at += 8) {
    uint64_t word;
    std::memcpy(&word, data + at, 8);
    hash = (hash ^ word) * 0x100000001b3;
    hash ^= hash >> 29; // Else a word's high bits would stay in the high bits.
  }
  return hash;
}

StressPlan::StressPlan(const StressOptions &options) : planner(std::make_unique<Planner>(options)) {}
StressPlan::~StressPlan() = default;

std::vector<StressStep> StressPlan::next() {
  return planner->next();
}

uint64_t StressPlan::submitted() const {
  return planner->submitted;
}

const Evaluation &StressPlan::evaluation() const {
  return planner->evaluation;
}

const char *opcodeName(uint8_t opcode) {
  switch (opcode) {
  case MINNOW_NOP: return "NOP";
  case MINNOW_DMA_LOAD: return "DMA_LOAD";
  case MINNOW_DMA_STORE: return "DMA_STORE";
  case MINNOW_DMA_CHAIN: return "DMA_CHAIN";
  case MINNOW_GEMM: return "GEMM";
  case MINNOW_VADD32: return "VADD32";
  case MINNOW_VADD8: return "VADD8";
  case MINNOW_RELU8: return "RELU8";
  case MINNOW_REQUANT: return "REQUANT";
  case MINNOW_MAXPOOL8: return "MAXPOOL8";
  case MINNOW_FENCE: return "FENCE";
  case MINNOW_SIGNAL: return "SIGNAL";
  case MINNOW_WAIT: return "WAIT";
  case MINNOW_BARRIER: return "BARRIER";
  default: return "?";
  }
}

std::string describe(const minnow_command &command) {
  std::string text = opcodeName(uint8_t(command.w[0]));
  for (unsigned i = 0; i < 13; ++i) {
    char word[24];
    std::snprintf(word, sizeof word, " %x", command.w[i]);
    text += word;
  }
  return text;
}

} // namespace tapeback::stress
