// tapeback targets.
#include "tests/tools/RunJson.h"
#include "llvm/ADT/StringRef.h"

using namespace llvm;
using namespace tapeback::test;

TEST_CASE("targets lists every scheme with what is here") {
  JsonResult result = runJson({"targets"});
  CHECK_MESSAGE(result.run.exited(0), result.run);
  const json::Array *schemes = result.object.getArray("schemes");
  REQUIRE(schemes);
  bool null = false, edu = false;
  for (const json::Value &value : *schemes) {
    const json::Object &scheme = *value.getAsObject();
    CHECK(scheme.getString("syntax").has_value());
    CHECK(scheme.getString("summary").has_value());
    REQUIRE(scheme.getArray("here"));
    for (const json::Value &here : *scheme.getArray("here")) {
      const json::Object &instance = *here.getAsObject();
      REQUIRE(instance.getBoolean("usable").has_value());
      // What cannot be driven says why.
      CHECK(*instance.getBoolean("usable") == !instance.getString("why_not").has_value());
      null = null || instance.getString("uri") == "null:";
      edu = edu || instance.getString("uri") == "model:edu";
    }
  }
  CHECK(null);
  CHECK(edu);
}

TEST_CASE("without QEMU the reason is given") {
  RunOptions options;
  options.environment = {{"PATH", "/nonexistent"}};
  RunResult result = runTapeback({"targets"}, options);
  CHECK_MESSAGE(result.exited(0), result);
  CHECK_MESSAGE(StringRef(result.out).contains("cannot be driven"), result);
  CHECK_MESSAGE(StringRef(result.out).contains("hint: "), result);
  RunResult open = runTapeback({"targets", "qemu:edu"}, options);
  CHECK_MESSAGE(open.exited(4), open);
}

TEST_CASE("one target is opened and described") {
  JsonResult null = runJson({"targets", "null:"});
  CHECK_MESSAGE(null.run.exited(0), null.run);
  REQUIRE(null.at("capabilities"));
  CHECK(null.at("capabilities")->getBoolean("answers") == false);
  JsonResult model = runJson({"targets", "model:edu"});
  CHECK_MESSAGE(model.run.exited(0), model.run);
  REQUIRE(model.at("capabilities"));
  CHECK(model.at("capabilities")->getBoolean("answers") == true);
  CHECK(model.text("name") == "edu");
  REQUIRE(model.object.getArray("options"));
  CHECK(model.object.getArray("options")->size() == 2);
  CHECK_MESSAGE(StringRef(model.text("plugin_options")).contains("factorial-time"), model.run);
  CHECK(!null.object.get("options"));
  RunResult text = runTapeback({"targets", "model:minnow"});
  CHECK_MESSAGE(StringRef(text.out).contains("timeout=MS"), text);
  CHECK_MESSAGE(StringRef(text.out).contains("memory-latency"), text);
  // Those it has are not taken for a question.
  RunResult faulty = runTapeback({"targets", "model:edu?fault=factorial&operand=3"});
  CHECK_MESSAGE(StringRef(faulty.out).contains("dma-last-byte") == false, faulty);
  CHECK_MESSAGE(StringRef(faulty.out).contains("factorial-time"), faulty);
  for (const char *bad : {"nothing:", "null", "", "model:no-such-model", "null:?nonsense=1"}) {
    JsonResult result = runJson({"targets", bad});
    CHECK_MESSAGE(result.run.exited(2), result.run);
  }
}
