// Runs `tapeback … --json` and insists on the contract: exactly one object, its schema first.
#pragma once

#include "tests/support/RunProgram.h"
#include "llvm/Support/JSON.h"
#include <doctest/doctest.h>
#include <string>
#include <vector>

namespace tapeback::test {

inline RunResult runTapeback(std::vector<std::string> args, const RunOptions &options = {}) {
  args.insert(args.begin(), tapebackProgram());
  return runProgram(args, options);
}

struct JsonResult {
  RunResult run;
  llvm::json::Object object;

  const llvm::json::Object *at(llvm::StringRef key) const { return object.getObject(key); }
  std::string text(llvm::StringRef key) const { return object.getString(key).value_or("(absent)").str(); }
  int64_t number(llvm::StringRef key) const { return object.getInteger(key).value_or(-1); }
  std::string errorCode() const {
    const llvm::json::Object *error = at("error");
    return error ? error->getString("code").value_or("(absent)").str() : "(no error)";
  }
};

/// `args[0]` is the verb. Checks that standard output is one object that starts with the verb's schema, that
/// there is an error object, whole and with a verdict, exactly if standard error says "error:".
inline JsonResult runJson(std::vector<std::string> args, const RunOptions &options = {}) {
  std::string verb = args.at(0);
  args.push_back("--json");
  JsonResult result{runTapeback(args, options), {}};
  CAPTURE(result.run);
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(result.run.out);
  if (!value) {
    FAIL_CHECK("standard output is not one JSON value: " << llvm::toString(value.takeError()) << "\n"
                                                         << result.run);
    return result;
  }
  llvm::json::Object *object = value->getAsObject();
  REQUIRE(object);
  result.object = std::move(*object);
  llvm::StringRef head = llvm::StringRef(result.run.out).ltrim("{ \n");
  CHECK_MESSAGE(head.starts_with("\"schema\": \"tapeback." + verb + "/1\""), result.run);
  // The verdict goes with the exit code.
  std::string verdict = result.text("verdict");
  CHECK_MESSAGE((verdict == "match"        ? result.run.exit == 0
                 : verdict == "divergence" ? result.run.exit == 1
                 : verdict == "incomplete" ? result.run.exit == 5
                                           : verdict == "error" && result.run.exit > 1),
                result.run);
  CHECK(result.object.get("reproduced"));
  CHECK(result.object.get("signature"));
  const llvm::json::Object *error = result.at("error");
  CHECK_MESSAGE((error != nullptr) == llvm::StringRef(result.run.err).contains(": error: "), result.run);
  if (error) {
    for (const char *key : {"code", "message", "where", "hint"})
      CHECK_MESSAGE(error->getString(key).has_value(), key);
    CHECK_MESSAGE(!error->getString("code").value_or("").empty(), result.run);
    CHECK_MESSAGE(!error->getString("message").value_or("").empty(), result.run);
    CHECK_MESSAGE(result.run.exit != 0, result.run);
  }
  return result;
}

} // namespace tapeback::test
