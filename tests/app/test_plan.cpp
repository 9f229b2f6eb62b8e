#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "tessera/app/plan.hpp"
#include "tessera/base/error.hpp"
#include "tessera/training/resolve_model.hpp"
#include "tessera/training/session.hpp"

using namespace tessera;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string plan(const std::vector<std::string>& arguments) { return plan_text(parse_arguments(arguments)); }

/// Returns the message of the UsageError of planning.
std::string refusal(const std::vector<std::string>& arguments) {
  try {
    plan(arguments);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "nothing was refused";
}

Architecture resolved(const std::vector<std::string>& arguments) {
  return resolve_architecture(parse_arguments(arguments).model);
}

}  // namespace

TEST_CASE("every preset of every family is planned in every view") {
  for (const std::string& name : preset_names()) {
    for (const char* view : {"table", "schedule", "units"}) {
      INFO(name << " " << view);
      const std::string text =
          plan({"--model.preset=" + name, "--train.seq_len=128", std::string("--plan.view=") + view});
      REQUIRE(contains(text, name + ": "));
      REQUIRE(contains(text, "8 ranks (8 a node) x 1 micro-step x 4 sequences of 128"));
    }
  }
}

TEST_CASE("the table compares all strategies and marks the chosen one") {
  const std::string text = plan({"--shard.strategy=zero2", "--plan.ranks=4"});
  for (const char* name : {"ddp ", "zero1 ", "zero2 *", "zero3 ", "hsdp ", "hsdp-zero2 ", "hsdp-zero1 "})
    REQUIRE(contains(text, name));
  REQUIRE(contains(text, "zero2 over 4 ranks"));
  REQUIRE_FALSE(contains(text, "shard.reduce under"));
}

TEST_CASE("a plan for GPUs has their sums, unless run.deterministic says otherwise") {
  const auto on = [](const std::vector<std::string>& words) {
    std::vector<std::string> all = {"--train.accumulation=4", "--shard.strategy=ddp", "--plan.view=schedule"};
    all.insert(all.end(), words.begin(), words.end());
    return plan(all);
  };
  CHECK(on({"--run.device=cuda"}) == on({"--run.device=cuda", "--run.deterministic=false"}));
  CHECK(on({"--run.device=cuda"}) != on({"--run.device=cuda", "--run.deterministic=true"}));
  CHECK(on({"--run.device=cpu"}) == on({"--run.device=cpu", "--run.deterministic=true"}));
}

TEST_CASE("under accumulation both settings of shard.reduce are priced") {
  const std::string text = plan({"--train.accumulation=4"});
  REQUIRE(contains(text, "shard.reduce under 4 micro-steps"));
  REQUIRE(contains(text, "  micro_step "));
  REQUIRE(contains(text, "  step "));
  REQUIRE(contains(text, "accumulation over 4 micro-steps keeps"));
}

TEST_CASE("nodes: as given, or the largest divisor of the ranks up to 8") {
  const auto ranks = [](std::int64_t world) { return planned_ranks_per_node(parse_arguments({}), world); };
  REQUIRE(ranks(1) == 1);
  REQUIRE(ranks(6) == 6);
  REQUIRE(ranks(8) == 8);
  REQUIRE(ranks(12) == 6);
  REQUIRE(ranks(16) == 8);
  REQUIRE(ranks(13) == 1);
  REQUIRE(planned_ranks_per_node(parse_arguments({"--grid.ranks_per_node=4"}), 16) == 4);
  REQUIRE(contains(plan({"--shard.strategy=hsdp", "--plan.ranks=16"}),
                   "hsdp over 16 ranks (2 replicas of shard groups of 8)"));
  REQUIRE(contains(plan({"--shard.strategy=hsdp", "--plan.ranks=16", "--grid.ranks_per_node=4"}),
                   "(4 replicas of shard groups of 4)"));
}

TEST_CASE("what cannot be planned is refused with the option's name") {
  REQUIRE(contains(refusal({"--train.seq_len=257"}), "train.seq_len = 257"));
  REQUIRE(contains(refusal({"--train.seq_len=257"}), "context"));
  REQUIRE(contains(refusal({"--shard.strategy=hsdp", "--shard.group_size=3"}), "shard.group_size = 3"));
  REQUIRE(contains(refusal({"--grid.ranks_per_node=3"}), "grid.ranks_per_node = 3"));
  REQUIRE(contains(refusal({"--model.preset=gpt3"}), "model.preset = gpt3"));
  REQUIRE(contains(refusal({"--model.width=130", "--model.heads=4"}), "model.width = 130"));
}

TEST_CASE("plan.memory decides the exit: a usage error that says what would help") {
  REQUIRE(run_plan(parse_arguments({"--plan.memory=8GB", "--plan.view=units"})) == 0);
  try {
    run_plan(
        parse_arguments({"--plan.memory=40MB", "--shard.strategy=ddp", "--train.micro_batch=16", "--plan.view=units"}));
    FAIL("it does not fit");
  } catch (const UsageError& error) {
    const std::string text = error.what();
    INFO(text);
    REQUIRE(error.code() == ExitCode::usage);
    REQUIRE(contains(text, "plan.memory = 40.0 MB"));
    REQUIRE(contains(text, "too much (peak at"));
    REQUIRE((contains(text, "Would fit:") || contains(text, "would fit:")));
  }
}

TEST_CASE("explicit sizes replace the preset's; GPT-2's rules follow them") {
  const Architecture nano = preset("nano");
  Architecture a = resolved({"--model.layers=3"});
  REQUIRE(a.layers == 3);
  REQUIRE(a.width == nano.width);
  a = resolved({"--model.width=96", "--model.heads=6"});
  REQUIRE(a.kv_heads == 6);
  REQUIRE(a.ffn_width == 4 * 96);
  REQUIRE(resolved({"--model.width=96", "--model.ffn_width=100"}).ffn_width == 100);
  REQUIRE(resolved({"--model.preset=qwen2-0.5b", "--model.layers=2"}).ffn_width == preset("qwen2-0.5b").ffn_width);
  REQUIRE(resolved({"--model.dropout=0.1"}).dropout == 0.1);
  REQUIRE_THROWS_AS(resolved({"--model.preset=llama-1b", "--model.dropout=0.1"}), UsageError);
}

TEST_CASE("a family with its sizes is a model of that family") {
  const std::vector<std::string> sizes{"--model.layers=2", "--model.heads=4", "--model.width=64", "--model.vocab=100",
                                       "--model.context=32"};
  for (const Family family : {Family::gpt2, Family::qwen2, Family::llama}) {
    auto arguments = sizes;
    arguments.push_back("--model.family=" + name_of(family));
    const Architecture a = resolved(arguments);
    REQUIRE(a.family == family);
    REQUIRE(a.layers == 2);
    REQUIRE(a.kv_heads == 4);
    REQUIRE(a.ffn_width == 256);
    REQUIRE(a.vocab == 100);
    REQUIRE(a.norm == (family == Family::gpt2 ? NormKind::layer_norm : NormKind::rms_norm));
  }
}

TEST_CASE("a Hugging Face folder is planned by its config.json") {
  const auto folder = std::filesystem::temp_directory_path() / ("tessera-test-plan-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json")
      << R"({"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 64, "vocab_size": 101,
                                            "activation_function": "gelu_new"})";
  const Architecture a = resolved({"--model.from=" + folder.string()});
  REQUIRE(a.layers == 2);
  REQUIRE(a.context == 64);
  REQUIRE(contains(plan({"--model.from=" + folder.string()}), "4 sequences of 64"));
  std::filesystem::remove_all(folder);
  REQUIRE(contains(refusal({"--model.from=" + folder.string()}), folder.string()));
}
