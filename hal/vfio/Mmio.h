// Register accesses through mapped memory, exactly as wide as asked: one access is one load or store
// instruction.
//
// Why assembly and not volatile or memcpy: a compiler may split or merge what it copies, libc may pick any
// width, and volatile says nothing about either once an access is inlined next to another. A test reads the
// disassembly of this code and counts the instructions.
//
// Ordering: x86 keeps stores in program order, also from write-back memory (payloads, descriptors) to
// uncached memory (the doorbell), and loads from uncached memory are not passed by later loads; what must be
// kept from reordering is the compiler, which the "memory" clobber does. Other machines need the barrier
// instructions named here.
#pragma once

#include <cstdint>

namespace tapeback::mmio {

#if defined(__x86_64__)

inline uint8_t load8(const volatile uint8_t *p) {
  uint8_t v;
  __asm__ __volatile__("movb %1, %0" : "=q"(v) : "m"(*p) : "memory");
  return v;
}
inline uint16_t load16(const volatile uint16_t *p) {
  uint16_t v;
  __asm__ __volatile__("movw %1, %0" : "=r"(v) : "m"(*p) : "memory");
  return v;
}
inline uint32_t load32(const volatile uint32_t *p) {
  uint32_t v;
  __asm__ __volatile__("movl %1, %0" : "=r"(v) : "m"(*p) : "memory");
  return v;
}
inline uint64_t load64(const volatile uint64_t *p) {
  uint64_t v;
  __asm__ __volatile__("movq %1, %0" : "=r"(v) : "m"(*p) : "memory");
  return v;
}
inline void store8(volatile uint8_t *p, uint8_t v) {
  __asm__ __volatile__("movb %1, %0" : "=m"(*p) : "q"(v) : "memory");
}
inline void store16(volatile uint16_t *p, uint16_t v) {
  __asm__ __volatile__("movw %1, %0" : "=m"(*p) : "r"(v) : "memory");
}
inline void store32(volatile uint32_t *p, uint32_t v) {
  __asm__ __volatile__("movl %1, %0" : "=m"(*p) : "r"(v) : "memory");
}
inline void store64(volatile uint64_t *p, uint64_t v) {
  __asm__ __volatile__("movq %1, %0" : "=m"(*p) : "r"(v) : "memory");
}

#elif defined(__aarch64__)

// dmb oshld after a load and dmb oshst before a store: what Linux's readl and writel do.
inline uint8_t load8(const volatile uint8_t *p) {
  uint32_t v;
  __asm__ __volatile__("ldrb %w0, %1\n\tdmb oshld" : "=r"(v) : "Q"(*p) : "memory");
  return uint8_t(v);
}
inline uint16_t load16(const volatile uint16_t *p) {
  uint32_t v;
  __asm__ __volatile__("ldrh %w0, %1\n\tdmb oshld" : "=r"(v) : "Q"(*p) : "memory");
  return uint16_t(v);
}
inline uint32_t load32(const volatile uint32_t *p) {
  uint32_t v;
  __asm__ __volatile__("ldr %w0, %1\n\tdmb oshld" : "=r"(v) : "Q"(*p) : "memory");
  return v;
}
inline uint64_t load64(const volatile uint64_t *p) {
  uint64_t v;
  __asm__ __volatile__("ldr %0, %1\n\tdmb oshld" : "=r"(v) : "Q"(*p) : "memory");
  return v;
}
inline void store8(volatile uint8_t *p, uint8_t v) {
  __asm__ __volatile__("dmb oshst\n\tstrb %w1, %0" : "=Q"(*p) : "r"(uint32_t(v)) : "memory");
}
inline void store16(volatile uint16_t *p, uint16_t v) {
  __asm__ __volatile__("dmb oshst\n\tstrh %w1, %0" : "=Q"(*p) : "r"(uint32_t(v)) : "memory");
}
inline void store32(volatile uint32_t *p, uint32_t v) {
  __asm__ __volatile__("dmb oshst\n\tstr %w1, %0" : "=Q"(*p) : "r"(v) : "memory");
}
inline void store64(volatile uint64_t *p, uint64_t v) {
  __asm__ __volatile__("dmb oshst\n\tstr %1, %0" : "=Q"(*p) : "r"(v) : "memory");
}

#else
#error "hal/vfio/Mmio.h: say how this machine makes one access of an exact width, and with which barriers"
#endif

/// `width` is 1, 2, 4 or 8 and `p` is aligned to it (the caller has checked both).
inline uint64_t load(const volatile uint8_t *p, unsigned width) {
  switch (width) {
  case 1: return load8(p);
  case 2: return load16(reinterpret_cast<const volatile uint16_t *>(p));
  case 4: return load32(reinterpret_cast<const volatile uint32_t *>(p));
  default: return load64(reinterpret_cast<const volatile uint64_t *>(p));
  }
}
inline void store(volatile uint8_t *p, unsigned width, uint64_t value) {
  switch (width) {
  case 1: return store8(p, uint8_t(value));
  case 2: return store16(reinterpret_cast<volatile uint16_t *>(p), uint16_t(value));
  case 4: return store32(reinterpret_cast<volatile uint32_t *>(p), uint32_t(value));
  default: return store64(reinterpret_cast<volatile uint64_t *>(p), value);
  }
}

} // namespace tapeback::mmio
