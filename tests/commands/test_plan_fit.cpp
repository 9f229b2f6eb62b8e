// plan.view = fit: against every combination of a small space, tried one by one.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "commands/plan_text.hpp"
#include "simulate/simulated_run.hpp"
#include "temporary_folder.hpp"
#include "tessera/fit/fastest.hpp"
#include "tessera/fit/fit.hpp"
#include "tessera/resolve/resolved_run.hpp"

using namespace tessera;
using test::plan_text;
using namespace tessera::testing;
using Catch::Contains;

namespace {

using Words = std::vector<std::string>;

Cluster fit_machine() {
  Cluster cluster = machine_of({});
  cluster.ranks_per_node = 2;
  return cluster;
}

/// A run whose configurations differ in memory and time.
Words fit_words(std::int64_t memory) {
  return {"--model.layers=2",
          "--train.seq_len=64",
          "--plan.ranks=4",
          "--data.val_fraction=0",
          "--run.device=cpu",
          "--run.queues=parallel",
          fmt::format("--plan.memory={}", memory)};
}

RunShape own_shape(const Options& options) { return ResolvedRun(options, {Purpose::sweep, 4, {}}).shape; }

struct Tried {
  std::int64_t bytes = 0;
  double seconds = 0;
};

Tried tried(const Words& words) {
  const Options options = on_cluster(parse_arguments(words), fit_machine(), 4);
  const ResolvedRun run(options, {Purpose::sweep, 4, {options.plan.memory, 0, "memory"}});
  return {limited_bytes(run.planned.schedule, run.planned.plan),
          predict(run.planned.schedule, run.planned.plan, run.options, fit_machine()).step_seconds};
}

/// Every combination of a space, as a user types it, without those that are refused.
std::vector<Tried> brute_force(std::int64_t memory) {
  std::vector<Tried> all;
  for (const char* strategy : {"ddp", "zero2", "zero3", "hsdp"}) {
    for (const char* wrap : {"block", "model"}) {
      for (const char* checkpoint : {"none", "block"}) {
        for (const char* prefetch : {"0", "1"}) {
          Words words = fit_words(memory);
          words.insert(words.end(), {fmt::format("--shard.strategy={}", strategy), fmt::format("--shard.wrap={}", wrap),
                                     fmt::format("--memory.checkpoint={}", checkpoint)});
          if (std::string(strategy) != "ddp") words.push_back(fmt::format("--shard.prefetch_forward={}", prefetch));
          all.push_back(tried(words));
        }
      }
    }
  }
  return all;
}

const std::vector<SearchedOption> kFitSpace = {{"shard.strategy", "", {"ddp", "zero2", "zero3", "hsdp"}},
                                               {"shard.wrap", "", {"block", "model"}},
                                               {"memory.checkpoint", "", {"none", "block"}},
                                               {"shard.prefetch_forward", "", {"0", "1"}, 2}};

FitSearch found(std::int64_t memory, const std::vector<SearchedOption>& space) {
  const Options options = on_cluster(parse_arguments(fit_words(memory)), fit_machine(), 4);
  return search_fit(options, own_shape(options), fit_machine(), space);
}

}  // namespace

TEST_CASE("No combination that fits is faster than what is found, but for equals that take more memory") {
  std::int64_t least = std::numeric_limits<std::int64_t>::max(), most = 0;
  for (const Tried& one : brute_force(std::int64_t{1} << 40)) {
    least = std::min(least, one.bytes);
    most = std::max(most, one.bytes);
  }
  for (const std::int64_t memory : {least, (2 * least + most) / 3, (least + most) / 2, most}) {
    INFO(memory << " bytes");
    const std::vector<Tried> all = brute_force(memory);
    double fastest = std::numeric_limits<double>::infinity();
    for (const Tried& one : all) {
      if (one.bytes <= memory) fastest = std::min(fastest, one.seconds);
    }
    const FitSearch search = found(memory, kFitSpace);
    CHECK_FALSE(search.in_stages);
    CHECK(search.rows.size() == 4 + 3 * 8);  // ddp gathers nothing ahead
    const FitRow& best = search.rows.front();
    CHECK(best.bytes <= memory);
    CHECK(search.least_seconds == Approx(fastest).epsilon(1e-9));
    CHECK(best.prediction->step_seconds <= (1 + kSameTime) * fastest);
    for (const Tried& one : all) {  // bytes of the search were planned quickly
      if (one.seconds < (1 + kSameTime) * fastest)
        CHECK(static_cast<double>(best.bytes) <=
              1.03 * static_cast<double>(one.bytes) + 0.01 * static_cast<double>(memory));
    }
    // Its words are what a user would type.
    Words words = fit_words(memory);
    words.insert(words.end(), best.words.begin(), best.words.end());
    const Tried typed = tried(words);
    CHECK(typed.bytes <= best.bytes);  // which may be planned quickly
    CHECK(typed.seconds == Approx(best.prediction->step_seconds));
    for (const FitRow& row : search.rows) CHECK(row.prediction.has_value() == (row.bytes <= memory));
  }
  CHECK_THROWS_AS(found(least - 1, kFitSpace), DoesNotFit);
}

TEST_CASE("A space that is too large is searched in stages, and says so") {
  const Options options = on_cluster(parse_arguments(fit_words(1 << 30)), fit_machine(), 4);
  const FitSearch search = search_fit(options, own_shape(options), fit_machine(), searched_options(options));
  CHECK(search.in_stages);
  const Tried given = tried(fit_words(1 << 30));
  CHECK(search.least_seconds <= given.seconds);
  for (const FitRow& row : search.rows) {  // of equals the first has the fewest options
    const FitRow& best = search.rows.front();
    const bool is_equal = row.prediction && row.bytes == best.bytes &&
                          row.prediction->step_seconds <= (1 + kSameTime) * search.least_seconds;
    if (is_equal) CHECK(best.words.size() <= row.words.size());
  }
  const std::string text = fit_search_text(search, options);
  CHECK_THAT(text, Contains("in stages, so not every combination"));
  CHECK_THAT(text, Contains(fmt::format("{} configurations", search.rows.size())));
}

TEST_CASE("plan.view = fit ends with the command of the fastest, and says why the others lost") {
  const TemporaryFolder folder;
  folder.write("machine.ini", cluster_text(fit_machine(), "# a machine of rates\n"));
  Words words = fit_words(8'000'000);
  words.insert(words.end(), {"--plan.view=fit", "--plan.cluster=" + (folder.path() / "machine.ini").string()});
  const std::string text = plan_text(parse_arguments(words));
  INFO(text);
  CHECK_THAT(text, Contains("does not fit by ") && Contains("% slower: ") && !Contains("-0.0%") && !Contains(" 0.0%"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 100);
  std::string command = text.substr(text.find("\nmpiexec ") + 1);
  for (std::size_t at = 0; (at = command.find(" \\\n    ")) != std::string::npos;) command.replace(at, 7, " ");
  CHECK_THAT(command, Catch::StartsWith("mpiexec -n 4 tessera train --"));
  std::istringstream stream(command.substr(command.find(" --") + 1));
  Words typed{"--plan.ranks=4"};
  for (std::string word; stream >> word;) typed.push_back(word);
  words.emplace_back("--plan.format=json");
  const auto fit = nlohmann::json::parse(plan_text(parse_arguments(words))).at("fit");
  const Tried again = tried(typed);
  CHECK(fit.at("fastest")[0].at("prediction").at("step_seconds").get<double>() == Approx(again.seconds));
  CHECK(fit.at("fastest")[0].at("to_allocate") >= again.bytes);
  CHECK(fit.at("command").get<std::string>() + "\n" == command);
  CHECK(fit.contains("needed"));  // of the run as given
}

TEST_CASE("plan.view = fit and timeline want prices, and fit wants a memory") {
  const auto message = [](const Words& words) -> std::string {
    try {
      return plan_text(parse_arguments(words));
    } catch (const UsageError& error) {
      return error.what();
    }
  };
  CHECK_THAT(message({"--plan.view=fit", "--plan.memory=1GB"}),
             Contains("plan.view = fit") && Contains("plan.cluster"));
  CHECK_THAT(message({"--plan.view=timeline"}), Contains("plan.view = timeline") && Contains("plan.cluster"));
  const TemporaryFolder folder;
  folder.write("machine.ini", cluster_text(fit_machine(), "# no memory\n"));
  const std::string file = "--plan.cluster=" + (folder.path() / "machine.ini").string();
  CHECK_THAT(message({"--plan.view=fit", file}), Contains("Give plan.memory"));
  CHECK_THAT(message({"--plan.view=timeline", file}), Contains("compute  "));
}
