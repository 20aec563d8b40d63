// A rate as the contract's JSON: the same in every verb that counts runs.
#pragma once

#include "replayer/repeat/Interval.h"
#include "llvm/Support/JSON.h"

namespace tapeback {

/// Into the object that is open. Of no runs there is no rate.
inline void writeRateOf(llvm::json::OStream &os, llvm::StringRef of, uint64_t hits, uint64_t counted,
                        const RateInterval &interval) {
  os.attribute("of", of);
  os.attribute("hits", hits);
  os.attribute("counted", counted);
  os.attribute("rate", counted ? llvm::json::Value(interval.rate) : llvm::json::Value(nullptr));
  os.attribute("low", interval.low);
  os.attribute("high", interval.high);
  os.attribute("interval", "wilson");
  os.attribute("confidence", 0.95);
}

/// `first_half`: of the runs in their order.
inline void writeHalf(llvm::json::OStream &os, uint64_t hits, uint64_t counted) {
  os.attributeObject("first_half", [&] {
    os.attribute("hits", hits);
    os.attribute("counted", counted);
  });
}

} // namespace tapeback
