#include <catch2/catch.hpp>
#include <random>
#include <regex>

#include "plan_run.hpp"
#include "temporary_folder.hpp"
#include "tessera/record/account.hpp"
#include "tessera/text/corpus.hpp"
#include "training/session_case.hpp"

using namespace tessera;
using namespace tessera::testing;
using Catch::Contains;

namespace {

/// Returns what rank 0 of a run says before step 1.
std::string account_of(Options options, std::int64_t world, std::int64_t ranks_per_node, const MachineShape& machine) {
  const PlannedRun planned = plan_run(options, small_gpt2(), world, ranks_per_node);
  std::string text;
  run_ranks(world, ranks_per_node, [&](RankContext& context) {
    const Dataset data =
        open_dataset(options, planned.schedule.model.architecture.vocab, planned.schedule.model.sequence);
    TrainingSession session(context, options, planned, data, machine, {});
    std::string own =
        account_before(options, planned, data, session.length(), session.resources(), session.player(), machine);
    if (context.rank() == 0) text = std::move(own);
  });
  return text;
}

MachineShape machine_of(int ranks, int cores) {
  MachineShape machine;
  machine.machine_ranks = ranks, machine.machine_cores = cores;
  return machine;
}

}  // namespace

TEST_CASE("The account of a run says its sizes, its grid and what a step does") {
  Options options = base_options();
  options.train.accumulation = 3;
  options.shard.strategy = Strategy::zero3;
  const std::string text = account_of(options, 4, 2, machine_of(2, 4));
  static_assert(67 * 21 + 12 * 21 + 2 * (42 + 22 * 63 + 22 * 21 + 42 + 22 * 50 + 51 * 21) + 42 == 9907);
  CHECK_THAT(text,
             Contains("model      gpt2, 9.907K parameters: 2 layers, width 21, 3 heads, vocabulary 67, sequence 9\n"));
  CHECK_THAT(text, Contains("grid       4 ranks (2 per node), shard group 4, 1 replica; 1 thread per rank, "));
  CHECK_THAT(text, Contains("batch      216 tokens per step: 4 ranks x 3 micro-steps x 2 sequences x 9 tokens\n"));
  // 4,800 tokens have 533 samples of 9, and one more token.
  CHECK_THAT(
      text, Contains("4.8K tokens for training, 1.2K for validation, order ") && Contains("; 6 steps = 0.27 epochs\n"));
  // 1,200 tokens have 133; an evaluation takes its number of micro-batches of 2 on any number of ranks.
  CHECK_THAT(text, Contains("\nevaluation 32 of 133 sequences, every 100 steps\n"));
  options.train.eval_batches = 1000;
  options.train.eval_every = 0;
  CHECK_THAT(account_of(options, 1, 1, machine_of(1, 4)), Contains("\nevaluation 133 of 133 sequences\n"));
  CHECK_THAT(text, !Contains("warning") && !Contains("documents"));
  options.shard.reshard_after_forward.ranks = 2;
  CHECK_THAT(account_of(options, 4, 2, machine_of(2, 4)),
             Contains("shard group 4 (after forward units stay split over 2 ranks), 1 replica;"));
}

TEST_CASE("The parts of the memory in the account are its total, and nothing moves on one rank") {
  for (const std::int64_t world : {1, 2}) {
    Options options = base_options();
    options.shard.strategy = Strategy::ddp;
    const std::string text = account_of(options, world, world, machine_of(static_cast<int>(world), 2));
    CAPTURE(text);
    std::smatch line;
    REQUIRE(
        std::regex_search(text, line, std::regex("memory     ([0-9.]+) kB per rank.*(parameters ([0-9.]+) kB.*)\n")));
    const double total = std::stod(line[1]), parameters = std::stod(line[3]);
    const std::string parts = line[2];
    const std::regex number("([0-9.]+) kB");
    double sum = 0;
    for (std::sregex_iterator part(parts.begin(), parts.end(), number), end; part != end; ++part)
      sum += std::stod((*part)[1]);
    CHECK(sum == Approx(total).margin(1));
    std::smatch sent;
    REQUIRE(std::regex_search(text, sent, std::regex("; ([0-9.]+ k?B) sent per rank and step")));
    // Of two ranks, each sends half of the gradients twice: to be summed, and the sums.
    CHECK(sent[1] == (world == 1 ? "0 B" : fmt::format("{:.1f} kB", parameters)));
    CHECK((text.find("(exposed: ") == std::string::npos) == (world == 1));
  }
}

TEST_CASE("A machine with fewer cores than compute threads is warned of") {
  Options options = base_options();
  options.run.threads = 2;
  CHECK_THAT(account_of(options, 2, 2, machine_of(2, 3)),
             Contains("\nwarning    4 compute threads on 3 cores: ranks will wait for each other\n"));
  CHECK_THAT(account_of(options, 2, 2, machine_of(2, 4)), !Contains("warning"));
}

TEST_CASE("The account of a run whose state is on the host says what is copied and what AdamW takes there") {
  Options options = base_options();
  options.shard.strategy = Strategy::zero3;
  CHECK_THAT(account_of(options, 2, 2, machine_of(2, 2)), !Contains("offload"));
  options.shard.offload = Offload::optimizer;
  const std::string text = account_of(options, 2, 2, machine_of(2, 2));
  CAPTURE(text);
  std::smatch line;
  REQUIRE(std::regex_search(
      text, line,
      std::regex(
          "\noffload    optimizer: the state of ([0-9.]+)K of ([0-9.]+)K elements on the host, ([0-9.]+) kB copied "
          "per step; AdamW there takes [0-9.]+ [mun]?s per step \\([0-9.]+[KMB]? elements/s on 1 thread of this "
          "rank\\)\n")));
  CHECK(line[1] == line[2]);
  CHECK(std::stod(line[3]) == Approx(8 * std::stod(line[1])).epsilon(0.01));
  CHECK_THAT(text, !Contains("activations:"));
  options.memory.checkpoint = ActivationCheckpointing::block;
  options.memory.offload_activations = true;
  const std::string both = account_of(options, 2, 2, machine_of(2, 2));
  CAPTURE(both);
  CHECK_THAT(both, Contains(line[3].str() + " kB copied per step; AdamW"));
  CHECK_THAT(both, Contains("\noffload    activations: 1 input of recomputed blocks on the host until backward, "));
}

TEST_CASE("Documents that no sample holds are counted where documents are kept apart") {
  const TemporaryFolder folder;
  std::mt19937 draw(5);
  for (int round = 0; round < 4; ++round) {
    Options options = base_options();
    std::string lines;
    int longer = 0;
    const int documents = 40 + round;
    for (int i = 0; i < documents; ++i) {
      const auto length = static_cast<std::size_t>(1 + draw() % (round == 0 ? 9 : 30));
      longer += length > 9 ? 1 : 0;  // train.seq_len
      lines += R"({"text": ")" + std::string(length, '1') + "\"}\n";
    }
    options.data.source = folder.write(fmt::format("{}.jsonl", round), lines).string();
    options.data.cache = (folder / "cache").string();
    options.data.separator = "none";
    options.data.document_mask = Tristate::yes;
    const std::string text = account_of(options, 1, 1, machine_of(1, 2));
    const std::string said = fmt::format(
        "\ndocuments  {} of {} have more than train.seq_len = 9 tokens, so that no sample holds them whole\n", longer,
        documents);
    CHECK((text.find(said) != std::string::npos) == (longer > 0));
    CHECK((text.find("\ndocuments ") != std::string::npos) == (longer > 0));
  }
}
