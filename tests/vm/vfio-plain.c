/* A program that drives QEMU's edu device through Linux VFIO by itself, as anybody would write it: no
 * Tapeback in it. For `tapeback record --preload`, which must make a tape of it without its help.
 *
 *   vfio-plain ADDRESS [--rounds N] [--insist] [--hot]
 *
 * --insist maps the registers even where the region query says that they cannot be mapped; --hot ends with a
 * hot reset of the bus in place of the device's own reset. Exits 0 if all
 * answers were right, 1 if one was not, 3 if VFIO refused something. */
#include <errno.h>
#include <fcntl.h>
#include <linux/vfio.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MEMORY = 16384, IOVA = 0x1000000 };

static int device, group, eventDescriptor;
static struct vfio_region_info bar;
static volatile uint8_t *mapped;
static uint8_t *memory;
static int wrong;

static void need(int good, const char *what) {
  if (good)
    return;
  fprintf(stderr, "vfio-plain: %s: %s\n", what, strerror(errno));
  exit(3);
}

static uint32_t readRegister(uint64_t offset) {
  uint32_t value = 0;
  if (mapped)
    return *(volatile uint32_t *)(mapped + offset);
  need(pread(device, &value, 4, (off_t)(bar.offset + offset)) == 4, "pread");
  return value;
}

static void writeRegister(uint64_t offset, uint32_t value) {
  if (mapped)
    *(volatile uint32_t *)(mapped + offset) = value;
  else
    need(pwrite(device, &value, 4, (off_t)(bar.offset + offset)) == 4, "pwrite");
}

static void expect(const char *what, uint32_t actual, uint32_t wanted) {
  if (actual == wanted)
    return;
  fprintf(stderr, "vfio-plain: %s is 0x%x, not 0x%x\n", what, actual, wanted);
  ++wrong;
}

static void waitInterrupt(void) {
  struct pollfd wait = {eventDescriptor, POLLIN, 0};
  uint64_t count = 0;
  need(poll(&wait, 1, 20000) == 1, "no interrupt in 20 s");
  need(read(eventDescriptor, &count, sizeof count) == sizeof count, "read of the eventfd");
}

static void transfer(uint32_t from, uint32_t to, uint32_t count, uint32_t command) {
  writeRegister(0x80, from);
  writeRegister(0x88, to);
  writeRegister(0x90, count);
  writeRegister(0x98, command | 1);
  if (command & 4) {
    waitInterrupt();
    expect("the cause", readRegister(0x24), 0x100);
    writeRegister(0x64, 0x100);
  } else {
    while (readRegister(0x98) & 1)
      usleep(1000);
  }
}

static void openDevice(const char *address, int insist) {
  char path[256], link[256];
  snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/iommu_group", address);
  ssize_t length = readlink(path, link, sizeof link - 1);
  need(length > 0, path);
  link[length] = 0;
  snprintf(path, sizeof path, "/dev/vfio%s", strrchr(link, '/'));
  int container = open("/dev/vfio/vfio", O_RDWR);
  group = open(path, O_RDWR);
  need(container >= 0 && group >= 0, path);
  need(ioctl(group, VFIO_GROUP_SET_CONTAINER, &container) == 0, "SET_CONTAINER");
  need(ioctl(container, VFIO_SET_IOMMU, VFIO_TYPE1v2_IOMMU) == 0, "SET_IOMMU");
  memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  need(memory != MAP_FAILED, "mmap");
  struct vfio_iommu_type1_dma_map map = {sizeof map, VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE,
                                         (uintptr_t)memory, IOVA, MEMORY};
  need(ioctl(container, VFIO_IOMMU_MAP_DMA, &map) == 0, "MAP_DMA");
  device = ioctl(group, VFIO_GROUP_GET_DEVICE_FD, address);
  need(device >= 0, "GET_DEVICE_FD");

  bar.argsz = sizeof bar;
  bar.index = VFIO_PCI_BAR0_REGION_INDEX;
  need(ioctl(device, VFIO_DEVICE_GET_REGION_INFO, &bar) == 0, "GET_REGION_INFO");
  if ((bar.flags & VFIO_REGION_INFO_FLAG_MMAP) || insist) {
    void *registers = mmap(NULL, bar.size, PROT_READ | PROT_WRITE, MAP_SHARED, device, (off_t)bar.offset);
    need(registers != MAP_FAILED, "mapping the registers");
    mapped = registers;
  }
  struct vfio_region_info config = {.argsz = sizeof config, .index = VFIO_PCI_CONFIG_REGION_INDEX};
  need(ioctl(device, VFIO_DEVICE_GET_REGION_INFO, &config) == 0,
       "GET_REGION_INFO of the configuration space");
  uint16_t command = 0;
  need(pread(device, &command, 2, (off_t)config.offset + 4) == 2, "reading COMMAND");
  command |= 6; /* Memory and master. */
  need(pwrite(device, &command, 2, (off_t)config.offset + 4) == 2, "writing COMMAND");

  eventDescriptor = eventfd(0, EFD_CLOEXEC);
  need(eventDescriptor >= 0, "eventfd");
  char buffer[sizeof(struct vfio_irq_set) + sizeof(int32_t)];
  struct vfio_irq_set *set = (struct vfio_irq_set *)buffer;
  memset(buffer, 0, sizeof buffer);
  set->argsz = sizeof buffer;
  set->flags = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER;
  set->index = VFIO_PCI_MSI_IRQ_INDEX;
  set->count = 1;
  int32_t descriptor = eventDescriptor;
  memcpy(set->data, &descriptor, sizeof descriptor);
  need(ioctl(device, VFIO_DEVICE_SET_IRQS, set) == 0, "SET_IRQS");
}

static void once(uint32_t round) {
  writeRegister(0x04, 0x1000u + round);
  expect("liveness", readRegister(0x04), ~(0x1000u + round));
  writeRegister(0x20, 0x80); /* Factorial by interrupt. */
  writeRegister(0x08, 6);
  waitInterrupt();
  expect("the cause", readRegister(0x24), 1);
  writeRegister(0x64, 1);
  expect("6!", readRegister(0x08), 720);
  uint32_t count = 512 + 8 * round, from = 3900 - 4 * round; /* Across the page. */
  for (uint32_t i = 0; i < count; ++i)
    memory[from + i] = (uint8_t)(i * 7 + round + 1);
  memset(memory + 8192, 0x5a, count);
  transfer(IOVA + from, 0x40000, count, round % 2 ? 4 : 0);
  transfer(0x40000, IOVA + 8192, count, 2 | (round % 2 ? 0 : 4));
  expect("what came back", (uint32_t)memcmp(memory + 8192, memory + from, count), 0);
}

/* Every device behind the bridge is in our group: its descriptor says that they are ours to reset. */
static void hotReset(void) {
  char buffer[sizeof(struct vfio_pci_hot_reset) + sizeof(int32_t)];
  struct vfio_pci_hot_reset *request = (struct vfio_pci_hot_reset *)buffer;
  memset(buffer, 0, sizeof buffer);
  request->argsz = sizeof buffer;
  request->count = 1;
  int32_t descriptor = group;
  memcpy(request->group_fds, &descriptor, sizeof descriptor);
  need(ioctl(device, VFIO_DEVICE_PCI_HOT_RESET, request) == 0, "PCI_HOT_RESET");
}

int main(int argc, char **argv) {
  int insist = 0, hot = 0;
  uint32_t rounds = 20;
  if (argc < 2)
    return 2;
  for (int i = 2; i < argc; ++i)
    if (!strcmp(argv[i], "--insist"))
      insist = 1;
    else if (!strcmp(argv[i], "--hot"))
      hot = 1;
    else if (!strcmp(argv[i], "--rounds") && i + 1 < argc)
      rounds = (uint32_t)atoi(argv[++i]);
  openDevice(argv[1], insist);
  for (uint32_t round = 0; round < rounds; ++round)
    once(round);
  if (hot)
    hotReset();
  else
    need(ioctl(device, VFIO_DEVICE_RESET) == 0, "RESET");
  expect("the identity", readRegister(0), 0x010000ed);
  printf("vfio-plain: %u rounds, %d wrong, registers %s\n", rounds, wrong,
         mapped ? "mapped" : "by pread and pwrite");
  return wrong ? 1 : 0;
}
