#include "hal/edu/model/EduOptions.h"
#include <stdio.h>
#include <string.h>

static const struct {
  const char *name;
  EduFault fault;
} faultNames[] = {
    {"dma-last-byte", EDU_FAULT_DMA_LAST_BYTE},
    {"factorial", EDU_FAULT_FACTORIAL},
    {"irq-sticky", EDU_FAULT_IRQ_STICKY},
    {"liveness", EDU_FAULT_LIVENESS},
};
enum { FAULT_COUNT = sizeof faultNames / sizeof faultNames[0] };

/* Where an option's number goes. Options that belong to a fault are refused without it: a typing error in a
 * campaign should not silently test a healthy device. */
typedef struct NumberOption {
  const char *key;
  uint64_t most;
  EduFault fault;
} NumberOption;

enum { ACCESS_TIME, FACTORIAL_TIME, DMA_TIME, DMA_MASK, OPERAND, AFTER, BITS, NUMBER_COUNT };
/* An hour. */
#define LONGEST_TIME (UINT64_C(3600) * 1000000000)

static const NumberOption numberOptions[NUMBER_COUNT] = {
    [ACCESS_TIME] = {"access-time", LONGEST_TIME, EDU_FAULT_NONE},
    [FACTORIAL_TIME] = {"factorial-time", LONGEST_TIME, EDU_FAULT_NONE},
    [DMA_TIME] = {"dma-time", LONGEST_TIME, EDU_FAULT_NONE},
    [DMA_MASK] = {"dma-mask", UINT64_MAX, EDU_FAULT_NONE},
    [OPERAND] = {"operand", UINT32_MAX, EDU_FAULT_FACTORIAL},
    [AFTER] = {"after", UINT64_MAX, EDU_FAULT_LIVENESS},
    [BITS] = {"bits", UINT32_MAX, EDU_FAULT_IRQ_STICKY},
};

static const char *faultName(EduFault fault) {
  for (int i = 0; i < FAULT_COUNT; ++i)
    if (faultNames[i].fault == fault)
      return faultNames[i].name;
  return "none";
}

static bool parseFault(const char *value, EduFault *fault, char *error, size_t size) {
  for (int i = 0; i < FAULT_COUNT; ++i)
    if (strcmp(value, faultNames[i].name) == 0) {
      *fault = faultNames[i].fault;
      return true;
    }
  snprintf(error, size,
           "there is no fault '%.64s'; there are dma-last-byte, factorial, irq-sticky and liveness", value);
  return false;
}

/* Decimal, or hexadecimal after 0x. A leading zero is refused: half the world reads 010 as 8. */
static bool parseNumber(const char *text, uint64_t most, uint64_t *number) {
  unsigned base = 10;
  if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
    base = 16;
    text += 2;
  } else if (text[0] == '0' && text[1]) {
    return false;
  }
  if (!*text)
    return false;
  uint64_t sum = 0;
  for (; *text; ++text) {
    unsigned digit = base;
    if (*text >= '0' && *text <= '9')
      digit = (unsigned)(*text - '0');
    else if ((*text | 0x20) >= 'a' && (*text | 0x20) <= 'f')
      digit = (unsigned)((*text | 0x20) - 'a') + 10;
    if (digit >= base || sum > (UINT64_MAX - digit) / base)
      return false;
    sum = sum * base + digit;
  }
  *number = sum;
  return sum <= most;
}

static int findNumberOption(const char *key) {
  for (int i = 0; i < NUMBER_COUNT; ++i)
    if (strcmp(key, numberOptions[i].key) == 0)
      return i;
  return -1;
}

static bool refuseUnknown(const char *key, char *error, size_t size) {
  snprintf(error, size,
           "there is no option '%.64s'; there are access-time, factorial-time, dma-time (nanoseconds), "
           "dma-mask, fault, "
           "and with their faults operand, after, bits",
           key);
  return false;
}

bool eduParseOptions(const tapeback_model_option *given, uint32_t count, EduOptions *options, char *error,
                     size_t size) {
  uint64_t numbers[NUMBER_COUNT] = {
      [ACCESS_TIME] = 1000,    [FACTORIAL_TIME] = 5000, /* Long enough that a poll sees it running. */
      [DMA_TIME] = 100000000,                           /* QEMU's 100 ms. */
      [DMA_MASK] = 0x0fffffff,                          /* 28 bits. */
      [OPERAND] = 7,           [AFTER] = 100,           [BITS] = UINT32_MAX,
  };
  bool seen[NUMBER_COUNT] = {false};
  EduFault fault = EDU_FAULT_NONE;
  for (uint32_t i = 0; i < count; ++i) {
    const char *key = given[i].key, *value = given[i].value;
    if (strcmp(key, "fault") == 0) {
      if (!parseFault(value, &fault, error, size))
        return false;
      continue;
    }
    int which = findNumberOption(key);
    if (which < 0)
      return refuseUnknown(key, error, size);
    if (!parseNumber(value, numberOptions[which].most, &numbers[which])) {
      snprintf(error, size, "option '%s' wants a number of at most %llu, not '%.64s'", key,
               (unsigned long long)numberOptions[which].most, value);
      return false;
    }
    seen[which] = true;
  }
  for (int i = 0; i < NUMBER_COUNT; ++i)
    if (seen[i] && numberOptions[i].fault != EDU_FAULT_NONE && numberOptions[i].fault != fault) {
      snprintf(error, size, "option '%s' belongs to fault=%s", numberOptions[i].key,
               faultName(numberOptions[i].fault));
      return false;
    }
  options->accessTime = numbers[ACCESS_TIME];
  options->factorialTime = numbers[FACTORIAL_TIME];
  options->dmaTime = numbers[DMA_TIME];
  options->dmaMask = numbers[DMA_MASK];
  options->fault = fault;
  options->operand = numbers[OPERAND];
  options->after = numbers[AFTER];
  options->stickyBits = (uint32_t)numbers[BITS];
  return true;
}
