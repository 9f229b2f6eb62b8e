// plan.view = largest: models between the published ones, and the largest that fits.
#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "commands/plan_text.hpp"
#include "tessera/fit/largest_model.hpp"
#include "tessera/resolve/resolved_run.hpp"

using namespace tessera;
using Catch::Contains;
using test::plan_text;

namespace {

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("The models of a family grow in every step, are possible, and have the published ones among them") {
  for (const std::string& name : preset_names()) {
    if (name == "nano") continue;
    INFO(name);
    const Architecture own = preset(name);
    const std::vector<Architecture> models = models_like(own);
    CHECK(std::ranges::find(models, own) != models.end());
    for (std::size_t i = 0; i < models.size(); ++i) {
      REQUIRE_NOTHROW(validate(models[i]));
      if (i == 0) continue;
      REQUIRE(models[i].layers >= models[i - 1].layers);
      REQUIRE(models[i].width >= models[i - 1].width);
      REQUIRE(models[i].ffn_width >= models[i - 1].ffn_width);
      REQUIRE(models[i].head_width() == own.head_width());
      // No proportion is far from that of a published model: 2048 by 16 is the widest for its depth.
      if (models[i].width >= 2048) REQUIRE(models[i].width <= 145 * models[i].layers);
    }
  }
}

TEST_CASE("The largest model fits, the next one does not, and its bytes add up") {
  for (const Words& more : {Words{"--model.preset=gpt2-124m"}, Words{"--model.preset=qwen3-0.6b", "--plan.ranks=8"}}) {
    Words words{"--plan.ranks=4", "--train.seq_len=128", "--plan.memory=3GB", "--data.val_fraction=0",
                "--run.device=cpu"};
    words.insert(words.end(), more.begin(), more.end());
    const Options options = parse_arguments(words);
    const ResolvedRun run(options, {Purpose::plan, options.plan.ranks, {options.plan.memory, 0, "memory"}});
    const std::vector<Architecture> models = models_like(run.architecture);
    const std::vector<LargestRow> rows = largest_models(run.shape, options);
    REQUIRE(rows.size() == all_strategies().size());
    for (const LargestRow& row : rows) {
      INFO(name_of(row.strategy));
      REQUIRE(row.impossible.empty());
      CHECK(row.total == row_of_model(run.shape, row.model, row.strategy).total);
      CHECK(row.total <= options.plan.memory);
      CHECK(row.state + row.activations + row.reserve == row.total);
      const auto next = std::ranges::find(models, row.model) + 1;
      REQUIRE(next < models.end());
      CHECK(row_of_model(run.shape, *next, row.strategy).total > options.plan.memory);
    }
    CHECK(rows[3].parameters > rows[0].parameters);  // zero3 and ddp
  }
}

TEST_CASE("plan.view = largest needs a memory, and says what does not fit at all") {
  CHECK_THROWS_WITH(plan_text(parse_arguments({"--plan.view=largest"})), Contains("Give plan.memory"));
  CHECK_THROWS_WITH(plan_text(parse_arguments({"--plan.view=largest", "--plan.memory=1GB",
                                               "--memory.checkpoint=selective", "--memory.checkpoint_blocks=0,2"})),
                    Contains("Use all or M/N"));
  const Words words{"--plan.view=largest", "--train.seq_len=128", "--plan.memory=1MB"};
  CHECK_THAT(plan_text(parse_arguments(words)), Contains("ddp: even width"));
  Words with_json = words;
  with_json.back() = "--plan.memory=400MB";
  with_json.emplace_back("--plan.format=json");
  const auto json = nlohmann::json::parse(plan_text(parse_arguments(with_json))).at("largest");
  CHECK(json.at("allowed") == 400'000'000);
  for (const auto& row : json.at("strategies")) CHECK(row.at("total") <= 400'000'000);
}
