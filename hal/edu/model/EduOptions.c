#include "hal/edu/model/EduOptions.h"
#include <stdio.h>
#include <string.h>

static const struct {
  const char *name;
  EduFault fault;
} faultNames[] = {
    {"dma-last-byte", EduFaultDmaLastByte}, {"factorial", EduFaultFactorial},
    {"irq-sticky", EduFaultIrqSticky},      {"liveness", EduFaultLiveness},
    {"dma-heals", EduFaultDmaHeals},        {"pair", EduFaultPair},
    {"early-done", EduFaultEarlyDone},
};
enum { FaultCount = sizeof faultNames / sizeof faultNames[0] };

/* Where an option's number goes. Options that belong to a fault are refused without it: a typing error in a
 * campaign should not silently test a healthy device. */
typedef struct NumberOption {
  const char *key;
  uint64_t most;
  EduFault fault;
} NumberOption;

enum { AccessTime, FactorialTime, DmaTime, DmaMask, Operand, After, Bits, NumberCount };
/* An hour. */
#define LONGEST_TIME (UINT64_C(3600) * 1000000000)

static const NumberOption numberOptions[NumberCount] = {
    [AccessTime] = {"access-time", LONGEST_TIME, EduFaultNone},
    [FactorialTime] = {"factorial-time", LONGEST_TIME, EduFaultNone},
    [DmaTime] = {"dma-time", LONGEST_TIME, EduFaultNone},
    [DmaMask] = {"dma-mask", UINT64_MAX, EduFaultNone},
    [Operand] = {"operand", UINT32_MAX, EduFaultFactorial},
    [After] = {"after", UINT64_MAX, EduFaultLiveness},
    [Bits] = {"bits", UINT32_MAX, EduFaultIrqSticky},
};

static const char *faultName(EduFault fault) {
  for (int i = 0; i < FaultCount; ++i)
    if (faultNames[i].fault == fault)
      return faultNames[i].name;
  return "none";
}

static bool parseFault(const char *value, EduFault *fault, char *error, size_t size) {
  for (int i = 0; i < FaultCount; ++i)
    if (strcmp(value, faultNames[i].name) == 0) {
      *fault = faultNames[i].fault;
      return true;
    }
  snprintf(error, size,
           "there is no fault '%.64s'; there are dma-last-byte, factorial, irq-sticky, liveness, dma-heals, "
           "pair and "
           "early-done",
           value);
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
  for (int i = 0; i < NumberCount; ++i)
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
  uint64_t numbers[NumberCount] = {
      [AccessTime] = 1000,    [FactorialTime] = 5000, /* Long enough that a poll sees it running. */
      [DmaTime] = 100000000,                          /* QEMU's 100 ms. */
      [DmaMask] = 0x0fffffff,                         /* 28 bits. */
      [Operand] = 7,          [After] = 100,          [Bits] = UINT32_MAX,
  };
  bool seen[NumberCount] = {false};
  EduFault fault = EduFaultNone;
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
  for (int i = 0; i < NumberCount; ++i)
    if (seen[i] && numberOptions[i].fault != EduFaultNone && numberOptions[i].fault != fault) {
      snprintf(error, size, "option '%s' belongs to fault=%s", numberOptions[i].key,
               faultName(numberOptions[i].fault));
      return false;
    }
  options->accessTime = numbers[AccessTime];
  options->factorialTime = numbers[FactorialTime];
  options->dmaTime = numbers[DmaTime];
  options->dmaMask = numbers[DmaMask];
  options->fault = fault;
  options->operand = numbers[Operand];
  options->after = numbers[After];
  options->stickyBits = (uint32_t)numbers[Bits];
  return true;
}
