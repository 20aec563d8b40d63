// `replay --explain-policy`: by which policy each register is replayed, and how many packets each rule
// decided.
#pragma once

#include "replayer/Replay.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace tapeback {

/// A table for people: registers with class, policy, masks and the rules that decided, then kinds of packets
/// that concern none, then all rules with what they mean.
void printPolicies(llvm::raw_ostream &os, const ReplayReport &result, TapeSource &source);
/// "policy": {"registers": […], "kinds": […], "rules": […]}.
void writePolicies(llvm::json::OStream &os, const ReplayReport &result, TapeSource &source);

} // namespace tapeback
