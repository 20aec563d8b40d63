// Functions whose machine code MmioTest reads: each makes the accesses that its name says, through
// hal/vfio/Mmio.h.
#include "hal/vfio/Mmio.h"

using namespace tapeback;

extern "C" {
uint64_t tapebackProbeLoad1(const volatile uint8_t *p) {
  return mmio::load8(p);
}
uint64_t tapebackProbeLoad2(const volatile uint16_t *p) {
  return mmio::load16(p);
}
uint64_t tapebackProbeLoad4(const volatile uint32_t *p) {
  return mmio::load32(p);
}
uint64_t tapebackProbeLoad8(const volatile uint64_t *p) {
  return mmio::load64(p);
}
void tapebackProbeStore1(volatile uint8_t *p, uint8_t v) {
  mmio::store8(p, v);
}
void tapebackProbeStore2(volatile uint16_t *p, uint16_t v) {
  mmio::store16(p, v);
}
void tapebackProbeStore4(volatile uint32_t *p, uint32_t v) {
  mmio::store32(p, v);
}
void tapebackProbeStore8(volatile uint64_t *p, uint64_t v) {
  mmio::store64(p, v);
}
/// What a compiler would love to merge into one store of four bytes.
void tapebackProbeFourStores1(volatile uint8_t *p) {
  mmio::store8(p, 1);
  mmio::store8(p + 1, 2);
  mmio::store8(p + 2, 3);
  mmio::store8(p + 3, 4);
}
/// What a compiler would love to do once.
uint64_t tapebackProbeTwoLoads4(const volatile uint32_t *p) {
  return mmio::load32(p) + mmio::load32(p);
}
/// A payload stored through an ordinary pointer, then the doorbell: must stay in this order.
void tapebackProbeDoorbell(uint32_t *payload, volatile uint32_t *doorbell) {
  payload[0] = 0x11223344;
  mmio::store32(doorbell, 1);
  payload[0] = 0x55667788;
}
}
