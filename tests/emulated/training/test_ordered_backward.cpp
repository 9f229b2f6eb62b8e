// cuDNN's attention backward in a fixed order: deterministic runs take it by a file's verdict alone.
#include <catch2/catch.hpp>

#include "gpu_case.hpp"
#include "gpu_emulator/libraries/cudnn/cudnn.hpp"
#include "plan_run.hpp"
#include "tessera/kernels/attention_verdicts.hpp"
#include "tessera/text/corpus.hpp"

using namespace tessera;
using namespace tessera::testing;
using Catch::Contains;
using emulator::OrderedBackward;

namespace {

/// The emulated cuDNN, until the end of a test.
struct Library {
  explicit Library(OrderedBackward how = OrderedBackward::holds, std::size_t version = 92500) {
    emulator::set_ordered_backward(how);
    emulator::set_cudnn_version(version);
    emulator::take_ordered_backwards();
  }
  ~Library() {
    emulator::set_ordered_backward(OrderedBackward::holds);
    emulator::set_cudnn_version(92500);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
};

Options bf16_options() {
  Options options = gpu_options();
  options.precision.compute = DType::bf16;
  options.shard.strategy = Strategy::zero2;
  return options;
}

struct Tried {
  std::string table, description;
};

/// Trains one step, and returns what the last rank's session says of its attention.
Tried tried_session(const Options& options, std::int64_t world, const std::string& text, AlgorithmSource source) {
  const Architecture architecture = tiny_gpt2();
  const PlannedRun planned = plan_run(options, architecture, world, world);
  Tried said;
  run_ranks(world, world, [&](RankContext& context) {
    const Dataset data = open_dataset(options, architecture.vocab, planned.schedule.model.sequence);
    MachineShape machine;
    machine.algorithms = text, machine.algorithm_source = source;
    TrainingSession session(context, options, planned, data, machine);
    session.train_step();
    session.evaluate(1);
    if (context.rank() + 1 != world) return;
    const RankCompute& compute = *session.resources().compute;
    said = {compute.gemm_algorithms(), compute.description()};
  });
  return said;
}

Tried tried(std::int64_t world = 1) { return tried_session(bf16_options(), world, {}, AlgorithmSource::timed); }

/// The table with times that make the ordered backward the faster one, or the slower one.
std::string with_times(std::string table, bool faster) {
  const std::size_t row = table.find("\nattention "), at = table.find(" : ", row), end = table.find('\n', row + 1);
  REQUIRE(row != std::string::npos);
  const std::string same = table.substr(table.rfind(' ', end) + 1, end - table.rfind(' ', end) - 1);
  REQUIRE(same == "8");
  return table.replace(at, end - at, faster ? " : ordered 2000000 1500000 8" : " : own 2000000 2500000 8");
}

}  // namespace

TEST_CASE("a file's verdict gives deterministic runs cuDNN's backward, with the same bits everywhere") {
  const Library library;
  const GpuCount gpus(2);
  const Tried made = tried();
  const int trial = emulator::take_ordered_backwards();
  CHECK(trial >= 4 + AttentionVerdict::kRepetitions);
  CHECK_THAT(made.table,
             Contains("its backward by own kernels (run.deterministic)"));  // the header: before any verdict
  MachineShape machine;
  machine.algorithm_source = AlgorithmSource::given;
  machine.algorithms = with_times(made.table, true);
  Options options = bf16_options();
  CHECK_THAT(tried_session(options, 2, machine.algorithms, machine.algorithm_source).description,
             Contains("attention by cuDNN 9.25.0, its backward in a fixed order"));
  CHECK(tried_session(options, 2, machine.algorithms, machine.algorithm_source).table == machine.algorithms);
  emulator::take_ordered_backwards();
  const RunOutcome expected = train_locally(options, tiny_gpt2(), 2, 2, machine);
  CHECK(emulator::take_ordered_backwards() > 0);
  for (const Strategy strategy : {Strategy::ddp, Strategy::zero3}) {
    options.shard.strategy = strategy;
    CHECK(same_run(train_locally(options, tiny_gpt2(), 2, 2, machine), expected));
    CHECK(emulator::take_ordered_backwards() > 0);
  }
  machine.algorithms = with_times(made.table, false);
  CHECK_FALSE(same_run(train_locally(options, tiny_gpt2(), 2, 2, machine), expected));
  CHECK(emulator::take_ordered_backwards() == 0);
  CHECK_THAT(tried_session(options, 2, machine.algorithms, machine.algorithm_source).description,
             Contains("own kernels (run.algorithms: 2") && Contains("2.5") && Contains("8 of 8 times the same bits"));
}

TEST_CASE("rank 0 makes the verdict for all ranks") {
  const Library library;
  const GpuCount gpus(2);
  CHECK_THAT(tried(2).table, Contains("\nattention ") && Contains(" 8\n"));
  CHECK(emulator::take_ordered_backwards() <= 4 + AttentionVerdict::kRepetitions + 4);  // and two steps' on two ranks
}

TEST_CASE("a backward whose bits change, that is wrong, or that is not there, is not taken") {
  {
    const Library library(OrderedBackward::drifts);
    const Tried made = tried();
    CHECK_THAT(made.table, Contains(" : own "));
    CHECK_THAT(made.description, Contains("its backward by own kernels (run.algorithms: ") && Contains("2 of 8 times"));
  }
  {
    const Library library(OrderedBackward::errs);
    CHECK_THAT(tried().description, Contains("by own kernels (run.algorithms: ") && Contains("a wrong result"));
  }
  const Library library(OrderedBackward::holds, 91900);
  const Tried made = tried();
  CHECK_THAT(made.table, Contains(" : own "));
  CHECK_THAT(made.description, Contains("the library offers no ordered one"));
  CHECK(emulator::take_ordered_backwards() == 0);
}

TEST_CASE("without a row, and without run.deterministic, nothing is ordered; a damaged row is refused") {
  const Library library;
  const std::string made = with_times(tried().table, true);
  emulator::take_ordered_backwards();
  std::string without = made;
  const std::size_t row = without.find("\nattention ");
  without.erase(row, without.find('\n', row + 1) - row);
  CHECK_THAT(tried_session(bf16_options(), 1, without, AlgorithmSource::given).description,
             Contains("its backward by own kernels (run.deterministic)"));
  Options fast = bf16_options();
  fast.run.deterministic = Tristate::no;
  CHECK_THAT(tried_session(fast, 1, {}, AlgorithmSource::timed).table, !Contains("\nattention "));
  CHECK(emulator::take_ordered_backwards() == 0);
  std::string damaged = made;
  damaged.replace(damaged.find(" : ordered"), 10, " : own");
  CHECK_THROWS_AS(tried_session(bf16_options(), 1, damaged, AlgorithmSource::given), IoError);
}
