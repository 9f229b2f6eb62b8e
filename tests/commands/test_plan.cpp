#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <regex>

#include "commands/plan_text.hpp"
#include "message_of.hpp"
#include "sanitized.hpp"
#include "simulate/simulated_run.hpp"
#include "temporary_folder.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/commands/commands.hpp"
#include "tessera/model/architecture.hpp"
#include "tessera/training/session.hpp"

using namespace tessera;
using test::plan_text;
using namespace tessera::testing;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string plan(const std::vector<std::string>& arguments) { return plan_text(parse_arguments(arguments)); }

/// Returns the message of the UsageError of planning.
std::string refused(const std::vector<std::string>& arguments) {
  return test::message_of<UsageError>([&] { plan(arguments); });
}

}  // namespace

TEST_CASE("every preset of every family is planned in every view") {
  for (const std::string& name : preset_names()) {
    for (const std::string view : {"table", "schedule", "units"}) {
      if (kSanitized && view == "table") continue;  // plans every strategy
      INFO(name << " " << view);
      const std::string text = plan({"--model.preset=" + name, "--train.seq_len=128", "--plan.view=" + view});
      REQUIRE(contains(text, name + ": "));
      REQUIRE(contains(text, "8 ranks (8 per node) x 1 micro-step x 4 sequences of 128"));
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
  REQUIRE(contains(refused({"--train.seq_len=257"}), "train.seq_len = 257 is longer than the model's context"));
  REQUIRE(contains(refused({"--shard.strategy=hsdp", "--shard.group_size=3"}), "shard.group_size = 3"));
  REQUIRE(contains(refused({"--model.width=130", "--model.heads=4"}), "model.width = 130"));
}

TEST_CASE("plan.memory decides the exit: an error of its own kind that says what would help") {
  REQUIRE(run_plan(parse_arguments({"--plan.memory=8GB", "--plan.view=units"}), "") == 0);
  try {
    run_plan(
        parse_arguments({"--plan.memory=40MB", "--shard.strategy=ddp", "--train.micro_batch=16", "--plan.view=units"}),
        "");
    FAIL("it does not fit");
  } catch (const DoesNotFit& error) {
    const std::string text = error.what();
    INFO(text);
    REQUIRE(error.code() == ExitCode::does_not_fit);
    REQUIRE(contains(text, "plan.memory = 40.0 MB"));
    REQUIRE(contains(text, "too much (peak at"));
    REQUIRE((contains(text, "Would fit:") || contains(text, "would fit:")));
  }
}

TEST_CASE("plan.format = json has the rows of the text, in bytes") {
  const std::vector<std::string> words{"--plan.ranks=4", "--shard.strategy=zero2", "--train.accumulation=3"};
  auto with_json = words;
  with_json.emplace_back("--plan.format=json");
  const std::string text = plan(words), printed = plan(with_json);
  REQUIRE(std::ranges::count(printed, '\n') == 1);
  const auto json = nlohmann::ordered_json::parse(printed);
  CHECK(json.at("format") == "tessera-schedule-1");
  CHECK(json.at("model") == "nano");
  CHECK(json.at("fit").is_null());
  const auto bytes = [](const nlohmann::ordered_json& number) { return format_bytes(number.get<std::int64_t>()); };
  const auto has = [&](const std::string& row) { return std::regex_search(text, std::regex(row)); };
  REQUIRE(json.at("strategies").size() == all_strategies().size());
  for (const auto& row : json.at("strategies")) {
    INFO(row.dump());
    const bool chosen = row.at("strategy") == "zero2";
    REQUIRE(row.at("chosen") == chosen);
    const std::string title = row.at("strategy").get<std::string>() + (chosen ? R"( \*)" : "");
    std::string at_peak = fmt::format("\n *{} +{} x {}", title, row.at("groups").at("shard").get<int>(),
                                      row.at("groups").at("replica").get<int>());
    std::string own_peaks = "\n *" + title;
    std::int64_t sum = row.at("idle").get<std::int64_t>() + row.at("host").get<std::int64_t>();
    for (const auto& [category, of] : row.at("categories").items()) {
      at_peak += " +" + bytes(of);
      own_peaks += " +" + bytes(row.at("own_peaks").at(category));
      sum += of.get<std::int64_t>();
    }
    CHECK(sum == row.at("to_allocate"));
    CHECK(has(at_peak + " +" + bytes(row.at("idle")) + " +" + bytes(row.at("to_allocate")) + "\n"));
    CHECK(has(fmt::format("{} +{} +{}\n", own_peaks, bytes(row.at("wire_bytes_per_step")),
                          row.at("collectives").get<int>())));
    if (chosen) CHECK(row.at("wire_bytes_per_step") == json.at("wire_bytes_per_step"));
    if (chosen) CHECK(row.at("categories") == json.at("memory").at("categories"));
  }
  REQUIRE(json.at("reductions").size() == 2);
  for (const auto& row : json.at("reductions")) {
    CHECK(has(fmt::format("  {} +{} to allocate, {} sent per step, {} of gradient sums{}\n",
                          row.at("reduce").get<std::string>(), bytes(row.at("to_allocate")),
                          bytes(row.at("wire_bytes_per_step")), bytes(row.at("accumulators")),
                          row.at("chosen") ? R"( \*)" : "")));
  }
}

TEST_CASE("train.seq_len = fit plans the longest samples, and lists those of every strategy") {
  const std::vector<std::string> words{"--plan.ranks=4", "--plan.memory=18MB", "--train.seq_len=fit",
                                       "--memory.checkpoint=fit"};
  auto with_json = words;
  with_json.emplace_back("--plan.format=json");
  const std::string text = plan(words);
  const auto json = nlohmann::ordered_json::parse(plan(with_json));
  REQUIRE(json.at("longest").size() == all_strategies().size());
  std::int64_t ddp = 0, zero3 = 0;
  for (const auto& row : json.at("longest")) {
    INFO(row.dump());
    const std::string strategy = row.at("strategy");
    if (row.contains("impossible")) {
      CHECK(contains(text, strategy + ": " + row.at("impossible").get<std::string>()));
      continue;
    }
    const auto tokens = row.at("tokens").get<std::int64_t>();
    CHECK(row.at("bytes") <= 18'000'000);
    CHECK(std::regex_search(text, std::regex(fmt::format("\n *{} +{} +{} +{}", strategy, tokens,
                                                         format_bytes(row.at("bytes").get<std::int64_t>()),
                                                         row.at("recomputation").get<std::string>()))));
    if (strategy == "ddp") ddp = tokens;
    if (strategy == "zero3") zero3 = tokens;
  }
  CHECK(zero3 > ddp);
  CHECK(contains(text, fmt::format("train.seq_len = {}", zero3)));
  CHECK_FALSE(nlohmann::ordered_json::parse(plan({"--plan.format=json"})).contains("longest"));
}

TEST_CASE("plan.format = json says what does not fit and what would") {
  const auto document = [](const std::vector<std::string>& words) {
    return nlohmann::ordered_json::parse(plan(words));
  };
  const auto fit =
      document({"--plan.format=json", "--plan.memory=40MB", "--shard.strategy=ddp", "--train.micro_batch=16"})
          .at("fit");
  INFO(fit.dump());
  CHECK(fit.at("fits") == false);
  CHECK(fit.at("allowed") == 40'000'000);
  CHECK(fit.at("needed") > 40'000'000);
  for (const auto& change : fit.at("changes")) CHECK(change.at("bytes") <= 40'000'000);
  CHECK((!fit.at("changes").empty() || !fit.at("together").is_null()));
  CHECK(document({"--plan.format=json", "--plan.memory=8GB"}).at("fit").at("fits") == true);
}

TEST_CASE("a plan with state on the host says what moves and what is copied, and finds the least that fits") {
  const std::string text = plan_text(parse_arguments({"--shard.offload=optimizer", "--plan.ranks=2"}));
  CHECK(contains(text, "shard.offload = optimizer: the state of "));
  CHECK(contains(text, "gradients to the host, 1 x 4 bytes an element"));
  CHECK(contains(text, "parameters to the device, 1 x 4 bytes an element"));
  CHECK(contains(text, "on the host of a node, by its 2 ranks: "));
  CHECK(contains(text, "host: in addition to what is allocated on the device"));
  CHECK_FALSE(contains(plan_text(parse_arguments({"--plan.ranks=2"})), "offload"));
  const std::string inputs =
      plan_text(parse_arguments({"--memory.checkpoint=block", "--memory.offload_activations=true"}));
  CHECK(
      contains(inputs, "memory.offload_activations: the 3 inputs of recomputed blocks wait for backward on the host"));
  CHECK(contains(inputs, "inputs of blocks to the host, 3 x 4 bytes an element"));
  CHECK_FALSE(contains(inputs, "shard.offload"));
  const auto memory_of = [](std::vector<std::string> arguments) {
    arguments.emplace_back("--plan.format=json");
    arguments.emplace_back("--train.micro_batch=1");
    return nlohmann::ordered_json::parse(plan_text(parse_arguments(arguments))).at("memory");
  };
  const std::int64_t all = memory_of({}).at("limited"), least = memory_of({"--shard.offload=optimizer"}).at("limited");
  REQUIRE(least < all);
  const auto fitted = memory_of({"--shard.offload=optimizer", "--shard.offload_fraction=fit",
                                 "--plan.memory=" + std::to_string((all + least) / 2)});
  CHECK(fitted.at("limited").get<std::int64_t>() <= (all + least) / 2);
  CHECK(fitted.at("offload").at("elements").get<std::int64_t>() > 0);
  CHECK(fitted.at("offload").at("elements") < fitted.at("offload").at("of"));
}

TEST_CASE("a plan counts the copies of checkpoints that a node keeps in memory") {
  const std::vector<std::string> arguments{"--model.preset=gpt2-124m", "--plan.ranks=16",
                                           "--checkpoint.keep_near=auto"};
  // 8 of 16 ranks, two copies: the bytes of one checkpoint, 124.44M parameters of 12 bytes.
  CHECK(contains(plan(arguments), "on the host of a node, for two checkpoints near: 1.49 GB (checkpoint.keep_near ="));
  CHECK_FALSE(contains(plan({"--plan.ranks=16"}), "checkpoints near"));
}

TEST_CASE("plan.cluster predicts every strategy's step, on the file's device and in its memory") {
  const TemporaryFolder folder;
  Cluster cluster = machine_of({});
  cluster.memory = std::int64_t{24} << 30, cluster.ranks_per_node = 4;
  folder.write("machine.ini", cluster_text(cluster, "# a machine of rates\n"));
  const std::string file = "--plan.cluster=" + (folder.path() / "machine.ini").string();
  const std::string text = plan({file, "--plan.ranks=8", "--model.preset=nano", "--shard.strategy=zero3"});
  CHECK(contains(text, "predicted with " + (folder.path() / "machine.ini").string()));
  CHECK(contains(text, "8 ranks (4 per node)"));
  const auto json = nlohmann::json::parse(
      plan({file, "--plan.ranks=8", "--model.preset=nano", "--shard.strategy=zero3", "--plan.format=json"}));
  const auto& prediction = json.at("prediction");
  CHECK(prediction.at("step_seconds").get<double>() > 0);
  CHECK(json.at("fit").at("allowed") == cluster.memory);
  for (const auto& row : json.at("strategies")) {
    INFO(row.dump());
    const auto& one = row.at("prediction");
    CHECK(one.at("limit").is_string());
    if (row.at("chosen").get<bool>()) CHECK(one == prediction);
  }
  CHECK(nlohmann::json::parse(plan({"--plan.format=json", "--model.preset=nano"})).at("prediction").is_null());
  CHECK_THAT(refused({file, "--run.device=cuda"}), Catch::Contains("has the prices of cpu"));
  CHECK_THAT(refused({"--plan.cluster=" + (folder.path() / "none.ini").string()}), Catch::Contains("none.ini"));
}

namespace {

/// A file of prices in a folder of its own.
struct PricedMachine {
  explicit PricedMachine(std::int64_t ranks_per_node) {
    Cluster cluster = machine_of({});
    cluster.ranks_per_node = ranks_per_node, cluster.threads = 3;
    folder.write("machine.ini", cluster_text(cluster, "# a machine of rates\n"));
  }
  std::string option() const { return "--plan.cluster=" + (folder.path() / "machine.ini").string(); }
  /// The names in the table of times, in its order; whole lines where there are no times.
  std::vector<std::string> ranked(std::vector<std::string> words) const {
    words.insert(words.end(), {option(), "--plan.ranks=4"});
    const std::string text = plan(words);
    std::istringstream lines(text.substr(text.find("the fastest first\n")));
    std::vector<std::string> names;
    std::string line;
    std::getline(lines, line), std::getline(lines, line);  // titles
    while (std::getline(lines, line) && !line.empty()) {
      const std::string row = line.substr(2);
      names.push_back(contains(row, ":") ? row : row.substr(0, row.find(' ')));
    }
    return names;
  }
  TemporaryFolder folder;
};

}  // namespace

TEST_CASE("only strategies that fit are ranked by time, and those that repeat another are left out") {
  const auto sorted = [](std::vector<std::string> names) {
    std::ranges::sort(names);
    return names;
  };
  const PricedMachine one_node(4), two_nodes(2);
  CHECK(sorted(one_node.ranked({})) == std::vector<std::string>{"ddp", "zero1", "zero2", "zero3"});
  CHECK(two_nodes.ranked({}).size() == all_strategies().size());
  CHECK(sorted(one_node.ranked({"--shard.strategy=hsdp"})).front() == "ddp");  // the chosen one stays
  CHECK(one_node.ranked({"--shard.strategy=hsdp"}).size() == 5);
  const auto strategies = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{one_node.option(), "--plan.ranks=4", "--plan.format=json"};
    words.insert(words.end(), more.begin(), more.end());
    return nlohmann::json::parse(plan(words)).at("strategies");
  };
  const auto rows = strategies({});
  CHECK(rows[4].at("repeats") == "zero3");
  CHECK_FALSE(rows[0].contains("fits"));
  const std::string least = std::to_string(rows[3].at("to_allocate").get<std::int64_t>());
  const std::vector<std::string> few = one_node.ranked({"--plan.memory=" + least});
  CHECK(few.front() == "zero3");
  CHECK_THAT(few.back(), Catch::Contains(": does not fit, needs "));
  CHECK(few.size() == 4);
  CHECK(strategies({"--plan.memory=" + least})[0].at("fits") == false);
}

TEST_CASE("a plan says how long the run is, where its steps are known") {
  const PricedMachine machine(4);
  const auto length = [&](std::vector<std::string> words) {
    words.insert(words.end(), {machine.option(), "--plan.ranks=4", "--train.micro_batch=2", "--train.seq_len=64"});
    const std::string text = plan(words);
    words.emplace_back("--plan.format=json");
    const auto json = nlohmann::json::parse(plan(words));
    if (!json.at("length").is_null()) {
      const double seconds = json.at("length").at("seconds");
      CHECK(seconds == Approx(json.at("length").at("steps").get<double>() *
                              json.at("prediction").at("step_seconds").get<double>()));
      CHECK(json.at("length").at("core_hours").get<double>() == Approx(seconds * 4 * 3 / 3600));
      CHECK(contains(text, " steps = "));
    }
    return json.at("length");
  };
  CHECK(length({"--train.tokens=10e6"}).at("steps") == 19532);  // of 4 x 2 x 64 tokens
  CHECK(length({"--train.steps=7"}).at("tokens") == 7 * 512);
  CHECK(length({}).is_null());
  CHECK(length({"--train.epochs=2"}).is_null());
  CHECK(contains(plan({"--train.tokens=10e6", "--train.seq_len=64"}), "\n4,883 steps = 10.0M tokens\n"));
  CHECK(contains(refused({"--train.tokens=500", "--optim.warmup_steps=9"}), "train.tokens = 500"));
}
