// minnow-run: the MLPerf Tiny networks on Minnow, through Tapeback's C API.
//
// A program under test like any other: it links libtapeback.so, chooses neither target nor output, and runs
// under `tapeback record` or alone with TAPEBACK_TARGET. Exit codes: 0 all checks held, 1 a check failed, 2
// bad usage, 3 the target failed.
#include "hal/minnow/driver/NetworkRun.h"
#include <charconv>
#include <cstdio>
#include <cstring>

using namespace tapeback::minnow;

namespace {

constexpr const char *usage =
    "usage: minnow-run [--net NAME] [--inferences N] [--seed N] [--layers N] [--ring N]\n"
    "                  [--scratchpad KIB] [--checks layers|end] [--keep-going] [--device NAME]\n"
    "\n"
    "Runs MLPerf Tiny networks on a Minnow accelerator; checks each layer against the host's computation.\n"
    "  --net NAME      kws, ic, ad, vww or all (default ad)\n"
    "  --inferences N  so many inputs, one after the other (default 1)\n"
    "  --seed N        what decides weights and inputs (default 1)\n"
    "  --layers N      only so many of the first layers (default: all)\n"
    "  --ring N        entries of each command queue, a power of two from 8 to 1024 (default 16)\n"
    "  --scratchpad KIB\n"
    "                  use only so much of the 64 KiB: more and smaller tiles\n"
    "  --checks WHEN   layers: each layer's output and the exact counters (default); end: only what each\n"
    "                  inference gives in the end, and the counters behind the last one\n"
    "  --keep-going    go on after a check that did not hold (it still exits 1)\n"
    "  --device NAME   the alias to open (default: the only one)\n"
    "\n"
    "The target comes from `tapeback record --target URI`, or from the environment: TAPEBACK_TARGET=URI.\n"
    "Exits 0 if all checks held, 1 if one did not, 2 on bad usage, 3 if the target failed.\n";

struct Options {
  std::vector<Network> networks;
  AcceleratorOptions accelerator;
  RunOptions run;
  const char *device = nullptr;
};

bool parseNumber(const char *text, uint64_t low, uint64_t high, uint64_t &value) {
  const char *end = text + strlen(text);
  auto [stop, error] = std::from_chars(text, end, value);
  return error == std::errc() && stop == end && value >= low && value <= high;
}

bool chooseNetworks(std::string_view name, std::vector<Network> &networks) {
  networks.clear();
  for (const std::string &known : networkNames())
    if (name == known || name == "all")
      networks.push_back(*networkNamed(known));
  return !networks.empty();
}

bool parseOption(std::string_view name, const char *value, Options &options) {
  uint64_t number = 0;
  if (name == "--net")
    return chooseNetworks(value, options.networks);
  if (name == "--inferences")
    return parseNumber(value, 1, 1'000'000, options.run.inferences);
  if (name == "--seed")
    return parseNumber(value, 0, UINT64_MAX, options.run.seed);
  if (name == "--checks") {
    options.run.checkLayers = !strcmp(value, "layers");
    return options.run.checkLayers || !strcmp(value, "end");
  }
  if (name == "--device") {
    options.device = value;
    return true;
  }
  if (name == "--layers" && parseNumber(value, 1, 1000, number)) {
    options.run.layers = number;
    return true;
  }
  if (name == "--scratchpad" && parseNumber(value, 1, 64, number)) {
    options.run.scratchpad = uint32_t(number) * 1024;
    return true;
  }
  if (name == "--ring" && parseNumber(value, 8, 1024, number) && (number & (number - 1)) == 0) {
    options.accelerator.ringEntries = uint32_t(number);
    return true;
  }
  return false;
}

/// 0: go on; otherwise 1 + the exit code.
int parse(int argc, char **argv, Options &options) {
  chooseNetworks("ad", options.networks);
  for (int i = 1; i < argc; ++i) {
    if (!strcmp(argv[i], "--help")) {
      fputs(usage, stdout);
      return 1;
    }
    if (!strcmp(argv[i], "--keep-going")) {
      options.accelerator.keepGoing = true;
      continue;
    }
    const char *value = i + 1 < argc ? argv[i + 1] : nullptr;
    if (!value || !parseOption(argv[i], value, options)) {
      fprintf(stderr, "minnow-run: bad argument '%s%s%s'\n%s", argv[i], value ? " " : "", value ? value : "",
              usage);
      return 1 + 2;
    }
    ++i;
  }
  return 0;
}

using Count = unsigned long long;

/// True: go on. `failure`: the options leave no room for the network.
bool runOne(Accelerator &accelerator, const Network &network, const RunOptions &options,
            std::string &failure) {
  RunFigures figures;
  uint64_t wrongBefore = accelerator.wrong();
  bool complete = runNetwork(accelerator, network, options, figures, failure);
  if (complete)
    printf("minnow-run: %s: seed %llu: %llu inferences, %llu layers, %llu tiles, %llu wrong; %llu MACs, %llu "
           "bytes "
           "read, %llu written, %llu commands\n",
           network.name.c_str(), Count(options.seed), Count(figures.inferences), Count(figures.layers),
           Count(figures.tiles), Count(accelerator.wrong() - wrongBefore), Count(figures.counters.macs),
           Count(figures.counters.readBytes), Count(figures.counters.writeBytes),
           Count(figures.counters.commands));
  else
    fprintf(stderr, "minnow-run: %s: after %llu layers and %llu tiles: %s\n", network.name.c_str(),
            Count(figures.layers), Count(figures.tiles),
            failure.empty() ? accelerator.problem().c_str() : failure.c_str());
  return complete;
}

} // namespace

int main(int argc, char **argv) {
  Options options;
  if (int code = parse(argc, argv, options))
    return code - 1;
  tb_device *device = nullptr;
  if (tb_open(options.device, &device) != TB_OK) {
    fprintf(stderr, "minnow-run: tb_open: %s\n", tb_error());
    return 3;
  }
  Accelerator accelerator(device, options.accelerator);
  bool complete = true;
  std::string failure;
  for (const Network &network : options.networks)
    complete = complete && runOne(accelerator, network, options.run, failure);
  tb_close(device);
  if (accelerator.wrong()) {
    fprintf(stderr, "minnow-run: %s (%llu wrong)\n", accelerator.problem().c_str(),
            Count(accelerator.wrong()));
    return accelerator.targetFailed() ? 3 : 1;
  }
  return complete ? 0 : failure.empty() ? 3 : 2;
}
