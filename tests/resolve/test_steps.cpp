// The steps from options to a run: their order, whom they are for, and what they note.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "local_world/local_world.hpp"
#include "temporary_folder.hpp"
#include "tessera/base/error.hpp"
#include "tessera/resolve/resolved_run.hpp"

using namespace tessera;
using Catch::Contains;
using testing::TemporaryFolder;

namespace {

ResolvedRun planned(const std::vector<std::string>& arguments, Purpose purpose = Purpose::plan) {
  return ResolvedRun(parse_arguments(arguments), {purpose, 4, {.device = 50'000'000, .name = "a limit"}});
}

/// Resolves a training on two ranks; returns rank 0's options and what was decided.
std::pair<Options, std::vector<Decision>> trained(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--model.preset=nano", "--data.synthetic_tokens=20000", "--run.device=cpu"});
  std::pair<Options, std::vector<Decision>> result;
  run_ranks(2, 2, [&](RankContext& context) {
    const Options given = parse_arguments(arguments);
    const ResolvedRun run(given, {Purpose::bench, context, {}});
    if (context.rank() == 0) result = {run.options, run.decisions};
  });
  return result;
}

}  // namespace

TEST_CASE("Every step has a name of its own and says why it is there") {
  std::vector<std::string_view> names;
  for (const ResolveStep& step : resolve_steps()) {
    CHECK_FALSE(step.why.empty());
    CHECK(step.apply != nullptr);
    names.push_back(step.name);
  }
  std::ranges::sort(names);
  CHECK(std::ranges::adjacent_find(names) == names.end());
}

TEST_CASE("A plan goes through the steps that need neither ranks nor data") {
  const ResolvedRun run = planned({"--model.preset=nano"});
  CHECK(run.world == 4);
  CHECK(run.ranks_per_node == 4);
  CHECK(run.data == nullptr);
  CHECK(run.weights == nullptr);
  CHECK(run.architecture.layers == run.planned.schedule.model.architecture.layers);
  CHECK_THAT(describe_decisions(run.decisions), Contains("run.device = c"));
}

TEST_CASE("A rank that has all state keeps its 16-bit copies where they fit, unless it is told to drop them") {
  const auto keeps = [](std::int64_t ranks, std::int64_t limit, std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--model.preset=nano", "--run.device=cpu"});
    const ResolvedRun run(parse_arguments(arguments), {Purpose::plan, ranks, {.device = limit, .name = "a limit"}});
    const bool kept = run.shape.policy.keeps_copies;
    CHECK((life_of(run.shape.policy) == ParameterLife::rest) == kept);
    return std::pair(kept, limited_bytes(run.planned.schedule, run.planned.plan));
  };
  const std::string bf16 = "--precision.compute=bf16", drop = "--shard.reshard_after_forward=true";
  const auto [kept, most] = keeps(1, 0, {bf16});
  CHECK(kept);
  const auto [dropped, least] = keeps(1, 0, {bf16, drop});
  CHECK_FALSE(dropped);
  REQUIRE(least < most);
  CHECK(keeps(1, least + (most - least) / 2, {bf16}) == std::pair(false, least));
  CHECK(keeps(1, 2 * most, {bf16}) == std::pair(true, most));
  CHECK(keeps(2, 0, {bf16, "--shard.strategy=hsdp", "--shard.group_size=1"}).first);
  CHECK_FALSE(keeps(2, 0, {bf16}).first);
  CHECK_FALSE(keeps(1, 0, {}).first);
  CHECK_FALSE(keeps(1, 0, {bf16, "--shard.offload=optimizer"}).first);
}

TEST_CASE("What memory decides is noted as the choice that it took") {
  const ResolvedRun run = planned(
      {"--model.preset=nano", "--memory.checkpoint=fit", "--train.micro_batch=8", "--run.device=cpu"}, Purpose::sweep);
  CHECK(run.options.memory.checkpoint != ActivationCheckpointing::fit);
  CHECK(limited_bytes(run.planned.schedule, run.planned.plan) <= 50'000'000);
  const auto noted = std::ranges::find(run.decisions, "memory.checkpoint", &Decision::option);
  REQUIRE(noted != run.decisions.end());
  CHECK(noted->step == "fit");
}

TEST_CASE("A training whose length is left to memory takes its model's context where that fits") {
  const auto [options, decisions] = trained({"--train.seq_len=fit"});
  CHECK(options.train.seq_len == preset("nano").context);
  const auto noted = std::ranges::find(decisions, "train.seq_len", &Decision::option);
  REQUIRE(noted != decisions.end());
  CHECK(noted->step == "length");
}

TEST_CASE("The least offload that fits is decided by plan.memory, or by what the device has") {
  const std::vector<std::string> fit{"--shard.offload=optimizer", "--shard.offload_fraction=fit"};
  std::vector<std::string> given = fit;
  given.insert(given.end(), {"--model.preset=nano", "--train.micro_batch=8", "--run.device=cpu"});
  const ResolvedRun run = planned(given, Purpose::sweep);
  CHECK_FALSE(run.options.shard.offload_fraction.fits);
  const auto [options, decisions] = trained(fit);  // a machine has enough for all of it
  CHECK_FALSE(options.shard.offload_fraction.fits);
  CHECK(options.shard.offload_fraction.value == 0);
  const auto noted = std::ranges::find(decisions, "shard.offload_fraction", &Decision::option);
  REQUIRE(noted != decisions.end());
  CHECK(noted->step == "fit");
}

TEST_CASE("A training's options are what repeats it, and every change is noted with its step") {
  const auto [options, decisions] = trained({"--shard.strategy=zero3"});
  CHECK(options.train.seq_len > 0);
  CHECK(options.model.layers > 0);
  CHECK(options.run.threads > 0);
  CHECK(options.run.queues != QueueMode::automatic);
  CHECK(options.shard.reduce == ReduceWhen::micro_step);
  const auto step_of = [&](const std::string& option) {
    const auto found = std::ranges::find(decisions, option, &Decision::option);
    return found == decisions.end() ? std::string_view("none") : found->step;
  };
  CHECK(step_of("run.deterministic") == "device");
  CHECK(step_of("train.seq_len") == "sizes");
  CHECK(step_of("model.layers") == "sizes");
  CHECK(step_of("shard.reduce") == "strategy");
  CHECK(step_of("run.threads") == "threads");
  CHECK(step_of("train.steps") == "none");
  CHECK_THAT(describe_decisions(decisions), Contains("train.seq_len = ") && !Contains("model."));
}

TEST_CASE("What machines that are not alike decide for themselves stays open in the options of all ranks") {
  const auto resolved = [](int cores_of_first, const std::string& threads) {
    std::vector<Options> all(2);
    std::vector<ResourceSettings> settings(2);
    run_ranks(2, 1, [&](RankContext& context) {
      MachineShape machine;
      machine.machine_cores = context.rank() == 0 ? cores_of_first : 1;
      const ResolvedRun run(parse_arguments({"--model.preset=nano", "--data.synthetic_tokens=20000", "--run.device=cpu",
                                             "--run.threads=" + threads}),
                            {Purpose::bench, context, machine});
      const auto rank = static_cast<std::size_t>(context.rank());
      all[rank] = run.options, settings[rank] = resource_settings(run.options, run.machine);
    });
    CHECK(write_ini(all[0]) == write_ini(all[1]));
    return std::tuple(all[0].run, settings[0], settings[1]);
  };
  const auto [alike, ours, theirs] = resolved(1, "0");
  CHECK((alike.threads == 1 && alike.queues == QueueMode::serial));
  const auto [unlike, first, second] = resolved(2, "1");
  CHECK((unlike.threads == 1 && unlike.queues == QueueMode::automatic));
  CHECK((first.queue_mode == QueueMode::parallel && second.queue_mode == QueueMode::serial));
  if (allowed_cores() < 2) return;
  const auto [open, two, one] = resolved(2, "0");
  CHECK((open.threads == 0 && open.queues == QueueMode::serial));
  CHECK((two.threads == 2 && one.threads == 1));
}

TEST_CASE("Options that are resolved again stay as they are") {
  Options first;
  run_ranks(1, 1, [&](RankContext& context) {
    first = ResolvedRun(parse_arguments({"--model.preset=nano", "--data.synthetic_tokens=20000"}),
                        {Purpose::bench, context, {}})
                .options;
    const ResolvedRun again(first, {Purpose::bench, context, {}});
    CHECK(again.options == first);
    CHECK(again.decisions.empty());
  });
}

TEST_CASE("A run that does not fit is an error of its own kind") {
  run_ranks(1, 1, [&](RankContext& context) {
    const Options options =
        parse_arguments({"--model.preset=nano", "--data.synthetic_tokens=20000", "--plan.memory=100kB"});
    try {
      const ResolvedRun run(options, {Purpose::bench, context, {}});
      FAIL("it fits");
    } catch (const DoesNotFit& error) {
      CHECK(error.code() == ExitCode::does_not_fit);
      CHECK_THAT(error.what(),
                 Contains("plan.memory = 100 kB is too little, so the run does not fit in it. The run needs"));
    }
  });
}

TEST_CASE("A file of algorithms is named by its hash, and another file is refused") {
  const std::filesystem::path file = std::filesystem::temp_directory_path() / fmt::format("algorithms-{}", ::getpid());
  const auto step = std::ranges::find(resolve_steps(), "algorithms", &ResolveStep::name);
  ResolvedRun run = planned({"--model.preset=nano", "--run.device=cuda", "--precision.compute=bf16"});
  run.options.run.algorithms = file.string();
  ResolveSite site{Purpose::bench, 1, {}};
  CHECK_THROWS_WITH(step->apply(run, site), Contains(file.string()));
  site.makes_algorithms = true;
  step->apply(run, site);
  CHECK(run.machine.algorithm_source == AlgorithmSource::timed);
  std::ofstream(file) << "GPU, cuBLASLt 13.1.0\n";
  step->apply(run, site);
  CHECK(run.machine.algorithm_source == AlgorithmSource::given);
  CHECK(run.options.run.algorithms_hash.size() == 16);
  step->apply(run, site);  // the same file again
  std::ofstream(file) << "GPU, cuBLASLt 13.2.0\n";
  CHECK_THROWS_WITH(step->apply(run, site), Contains("asks for " + run.options.run.algorithms_hash));
  run.options.run.algorithms.clear();
  CHECK_THROWS_WITH(step->apply(run, site), Contains("run.algorithms names no file"));
  std::filesystem::remove(file);
}

TEST_CASE("Rank 0 decides whether a file of algorithms is there") {
  const TemporaryFolder full, empty;
  full.write("algorithms.txt", "GPU\n");
  const auto step = std::ranges::find(resolve_steps(), "algorithms", &ResolveStep::name);
  const auto applied = [&](const TemporaryFolder& first, const TemporaryFolder& second, const std::string& algorithms) {
    std::vector<AlgorithmSource> found(2);
    run_ranks(2, 2, [&](RankContext& context) {
      context.control().waits().seconds = 20;
      const std::string folder = (context.rank() == 0 ? first : second).path().string();
      ResolvedRun run = planned({"--model.preset=nano", "--run.device=cuda", "--run.dir=" + folder});
      run.options.run.algorithms = algorithms.empty() ? folder + "/algorithms.txt" : algorithms;
      ResolveSite site{algorithms.empty() ? Purpose::machine : Purpose::train, context, {}};
      site.makes_algorithms = algorithms.empty();
      step->apply(run, site);
      found[static_cast<std::size_t>(context.rank())] = run.machine.algorithm_source;
      context.control().barrier();
    });
    return found;
  };
  for (const std::string algorithms : {"auto", ""}) {
    CHECK(applied(empty, full, algorithms) == std::vector{AlgorithmSource::timed, AlgorithmSource::timed});
    CHECK_THROWS_WITH(applied(full, empty, algorithms), Contains((empty.path() / "algorithms.txt").string()));
  }
}

TEST_CASE("A run keeps its own algorithms: made once, named by their hash, never made again where some were kept") {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / fmt::format("own-{}", ::getpid());
  std::filesystem::create_directory(folder);
  const auto step = std::ranges::find(resolve_steps(), "algorithms", &ResolveStep::name);
  const auto applied = [&](Purpose purpose, const std::string& kept, const std::string& hash = "") {
    ResolvedRun run = planned({"--model.preset=nano", "--run.device=cuda", "--run.dir=" + folder.string()});
    run.options.run.algorithms = "auto", run.options.run.algorithms_hash = hash;
    run.machine.algorithms = kept;
    run_ranks(1, 1, [&](RankContext& context) { step->apply(run, ResolveSite{purpose, context, {}}); });
    return std::pair{run.machine, run.options.run.algorithms_hash};
  };
  CHECK(applied(Purpose::train, "").first.algorithm_source == AlgorithmSource::timed);
  CHECK(applied(Purpose::eval, "").first.algorithm_source == AlgorithmSource::kept);
  CHECK_THROWS_WITH(applied(Purpose::machine, ""), Contains("only a training"));
  CHECK(applied(Purpose::train, "kept").first.algorithm_source == AlgorithmSource::kept);
  CHECK_THROWS_WITH(applied(Purpose::train, "", "0123456789abcdef"), Contains("algorithms.txt is not there"));
  std::ofstream(folder / "algorithms.txt") << "GPU\n";
  const auto [machine, hash] = applied(Purpose::train, "");
  CHECK((machine.algorithm_source == AlgorithmSource::kept && machine.algorithms == "GPU\n"));
  CHECK(hash == hash_of_algorithms("GPU\n"));
  CHECK(applied(Purpose::train, "GPU\nmore\n", hash).first.algorithms == "GPU\nmore\n");
  CHECK_THROWS_WITH(applied(Purpose::train, "", "0123456789abcdef"), Contains("asks for 0123456789abcdef"));
  std::filesystem::remove_all(folder);
}
