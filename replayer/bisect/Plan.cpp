// Which way of looking at the states is the cheapest one that these two targets allow.
#include "replayer/bisect/Bisection.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>

namespace tapeback {

const char *bisectMethodName(BisectPlan::Method method) {
  switch (method) {
  case BisectPlan::Method::Observed: return "observed";
  case BisectPlan::Method::Snapshot: return "deep-snapshot";
  case BisectPlan::Method::Lockstep: return "deep-lockstep";
  case BisectPlan::Method::Search: return "deep-search";
  }
  return "observed";
}

llvm::Error Bisection::prepare() {
  ReplayOptions replayOptions;
  replayOptions.player = options.player;
  if (llvm::Error error = refuseForbiddenWrites(source, replayOptions))
    return error;
  llvm::Expected<StartState> begins = findStartState(source, options.fromReset);
  if (!begins)
    return begins.takeError();
  start = std::move(*begins);
  report.coverage.windows = source.reader().summary().windows;
  if (options.deep) {
    if (llvm::Error error = findBoundaries())
      return error;
    if (llvm::Error error = takeBaseline())
      return error;
    if (!isFree && !whyNoSnapshots.empty())
      if (llvm::Error error = countKeyframes())
        return error;
  }
  makePlan();
  return llvm::Error::success();
}

void Bisection::makePlan() {
  BisectPlan &plan = report.plan;
  plan.ways.clear();
  plan.method = BisectPlan::Method::Observed;
  plan.packets = source.reader().summary().packets;
  plan.windows = report.coverage.windows;
  plan.places = boundaries.size();
  uint64_t passes = std::max(1u, options.runs.value_or(2)), all = plan.packets;
  plan.ways.push_back({BisectPlan::Method::Observed, options.deep ? "shows no states" : "", passes * all});
  if (!options.deep)
    return;
  std::string none = !bothAnswer            ? "a target does not answer"
                     : options.intermittent ? "a failure that comes and goes is searched by runs of its own"
                                            : "";
  // What was seen to differ is looked for inside a window: a prefix for every place, or a way back.
  uint64_t inside = std::min<uint64_t>(32, plan.windows ? all / plan.windows + 1 : 1);
  uint64_t halvings = uint64_t(std::ceil(std::log2(double(std::max<uint64_t>(1, plan.places))))) + 1;
  bool each = plan.places <= 256 && plan.places * all / 2 <= options.maxPrefixPackets;
  uint64_t verification = each ? plan.places * all / 2 : all;
  // With keyframes most probes inside a window begin near it.
  uint64_t insideSearch = inside * (2 * plan.keyframes > plan.keyframesTried
                                        ? std::min(all, 4 * (all / std::max<uint64_t>(1, plan.windows) + 1))
                                        : all);
  auto add = [&](BisectPlan::Method method, const std::string &why, uint64_t packets) {
    plan.ways.push_back({method, none.empty() ? why : none, packets});
  };
  add(BisectPlan::Method::Snapshot, whyNoSnapshots, options.runs.value_or(1) * all + all / 4);
  add(BisectPlan::Method::Lockstep, isFree ? "" : "a target cannot be looked into without side effect",
      (passes + 1 + inside) * all);
  add(BisectPlan::Method::Search, isFree ? "the states are free to be looked at in the pass itself" : "",
      passes * all + insideSearch + halvings * all / 2 + verification);
  llvm::stable_sort(plan.ways, [](const BisectPlan::Way &left, const BisectPlan::Way &right) {
    return left.packets < right.packets;
  });
  for (const BisectPlan::Way &way : plan.ways)
    if (way.whyNot.empty()) {
      plan.method = way.method;
      break;
    }
}

llvm::Expected<BisectPlan> Bisection::plan() {
  if (llvm::Error error = prepare())
    return error;
  return report.plan;
}

llvm::Expected<BisectPlan> planBisect(TapeSource &source, const Endpoints &endpoints,
                                      const BisectOptions &options) {
  return Bisection(source, endpoints, options).plan();
}

} // namespace tapeback
