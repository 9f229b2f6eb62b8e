// Which algorithms matmuls run with: rank 0's on all ranks, and those of the run's earlier part after a
// restart.
#include <cublasLt.h>

#include <catch2/catch.hpp>
#include <set>

#include "gpu_case.hpp"
#include "gpu_emulator/libraries/cublaslt/cublaslt.hpp"
#include "plan_run.hpp"
#include "tessera/text/corpus.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

/// The results that a run of one step and an evaluation leaves on rank 0.
struct Left {
  std::string kept, description;
  std::map<int, std::set<int>> variants;  ///< by device: those that were launched
};

Left run(const Options& options, std::int64_t world, const std::string& kept = {},
         const Architecture& architecture = tiny_gpt2(), AlgorithmSource source = AlgorithmSource::kept) {
  const PlannedRun planned = plan_run(options, architecture, world, world);
  Left left;
  static_cast<void>(emulator::take_matmul_launches());
  run_ranks(world, world, [&](RankContext& context) {
    const Dataset data = open_dataset(options, architecture.vocab, planned.schedule.model.sequence);
    MachineShape machine;
    if (context.rank() == 0) machine.algorithms = kept;
    machine.algorithm_source = source;
    if (source == AlgorithmSource::given) machine.algorithms = kept;
    TrainingSession session(context, options, planned, data, machine);
    session.train_step();
    session.evaluate(1);
    if (context.rank() != 0) return;
    left.kept = session.resources().compute->gemm_algorithms();
    left.description = session.resources().description.text;
  });
  for (const auto& [where, count] : emulator::take_matmul_launches()) left.variants[where.first].insert(where.second);
  return left;
}

/// The heuristics' favourites on two devices, until the end of a test.
class Favourites {
 public:
  Favourites(int first, int second) { set(first, second); }
  ~Favourites() {
    set(0, 0);
    emulator::set_fast_matmul(-1);
  }
  static void set(int first, int second) {
    emulator::set_favourite_matmul(0, first);
    emulator::set_favourite_matmul(1, second);
  }
  Favourites(const Favourites&) = delete;
  Favourites& operator=(const Favourites&) = delete;
};

Options one_step() {
  Options options = gpu_options();
  options.train.steps = 1;
  options.optim.warmup_steps = 0;
  options.shard.strategy = Strategy::zero2;
  return options;
}

using Devices = std::map<int, std::set<int>>;

}  // namespace

TEST_CASE("all ranks run the algorithms that rank 0 chose") {
  const GpuCount gpus(2);
  const Favourites favourites(1, 2);
  for (const CommBackend backend : {CommBackend::staged, CommBackend::nccl}) {
    Options options = one_step();
    options.comm.backend = backend;
    CHECK(run(options, 2).variants == Devices{{0, {1}}, {1, {1}}});
  }
}

TEST_CASE("a run keeps its algorithms, and its next part runs them whatever the library prefers then") {
  const GpuCount gpus(2);
  const Favourites favourites(2, 0);
  const Left first = run(one_step(), 2);
  CHECK_THAT(first.kept, Catch::Contains("emulated GPU") && Catch::Contains("cuBLASLt"));
  CHECK(std::count(first.kept.begin(), first.kept.end(), '\n') > 5);
  CHECK_THAT(first.description, !Catch::Contains("algorithms"));
  Favourites::set(1, 1);
  const Left next = run(one_step(), 2, first.kept);
  CHECK(next.variants == Devices{{0, {2}}, {1, {2}}});
  CHECK(next.kept == first.kept);
  CHECK_THAT(next.description, Catch::Contains("GEMM algorithms as kept"));
}

TEST_CASE("algorithms for TF32 are kept beside those for full fp32, and neither serves the other") {
  const Favourites favourites(1, 1);
  Options options = one_step();
  const Left full = run(options, 1);
  options.precision.matmul = MatmulPrecision::tf32;
  Favourites::set(2, 2);
  const Left rounded = run(options, 1, full.kept);
  CHECK(rounded.variants == Devices{{0, {2}}});
  CHECK(std::count(rounded.kept.begin(), rounded.kept.end(), '\n') ==
        2 * std::count(full.kept.begin(), full.kept.end(), '\n') - 1);  // one header
  Favourites::set(0, 0);
  CHECK(run(options, 1, rounded.kept).variants == Devices{{0, {2}}});
  options.precision.matmul = MatmulPrecision::fp32;
  CHECK(run(options, 1, rounded.kept).variants == Devices{{0, {1}}});
}

TEST_CASE("algorithms of another library, or damaged ones, are chosen anew, and the run says so") {
  const Favourites favourites(2, 2);
  const std::string kept = run(one_step(), 1).kept;
  Favourites::set(1, 1);
  std::string other = kept;
  other.replace(other.find("cuBLASLt "), 9, "cuBLASLt 9");
  const Left after_update = run(one_step(), 1, other);
  CHECK(after_update.variants == Devices{{0, {1}}});
  CHECK_THAT(after_update.description, Catch::Contains("chosen anew") && Catch::Contains("cuBLASLt 9"));
  for (const std::string& damaged : {kept.substr(0, kept.size() - 7), kept + "12 : 1\n", kept + "1 x : 1 0\n"}) {
    const Left left = run(one_step(), 1, damaged);
    CHECK(left.variants == Devices{{0, {1}}});
    CHECK_THAT(left.description, Catch::Contains("chosen anew") && Catch::Contains("is damaged"));
  }
}

TEST_CASE("given algorithms serve every strategy and world, and what they lack or refuse is an error") {
  const GpuCount gpus(2);
  const Favourites favourites(1, 1);
  Options options = one_step();
  emulator::set_fast_matmul(2);
  const Left made = run(options, 1, {}, tiny_gpt2(), AlgorithmSource::timed);
  emulator::set_fast_matmul(-1);
  const auto given = [&](const std::string& text, std::int64_t world) {
    return run(options, world, text, tiny_gpt2(), AlgorithmSource::given);
  };
  for (const Strategy strategy : {Strategy::ddp, Strategy::zero3}) {
    options.shard.strategy = strategy;
    const Left left = given(made.kept, 2);
    CHECK(left.variants.at(0) == left.variants.at(1));
    CHECK(left.variants.at(0).contains(2));  // the matmuls that could be timed
    CHECK(left.kept == made.kept);
    CHECK_THAT(left.description, Catch::Contains("GEMM algorithms as given"));
  }
  std::string other = made.kept;
  other.replace(other.find("cuBLASLt "), 9, "cuBLASLt 9");
  CHECK_THROWS_WITH(given(other, 1), Catch::Contains("cuBLASLt 9") && Catch::Contains("cannot run here"));
  CHECK_THROWS_AS(given(made.kept.substr(0, made.kept.size() - 7), 1), IoError);
  const std::string shorter = made.kept.substr(0, made.kept.rfind('\n', made.kept.size() - 2) + 1);
  for (const std::string& text : {shorter, made.kept.substr(0, made.kept.find('\n'))})
    CHECK_THROWS_WITH(given(text, 1), Catch::Contains("has no algorithm for it"));
}

TEST_CASE("without run.deterministic candidates are timed, and the fastest is kept") {
  const Favourites favourites(0, 0);
  emulator::set_fast_matmul(2);
  Options options = one_step();
  options.run.deterministic = Tristate::no;
  const std::string kept = run(options, 1).kept;
  emulator::set_fast_matmul(-1);
  CHECK(run(options, 1, kept).variants.at(0).contains(2));
  options.run.deterministic = Tristate::yes;
  const auto launched = run(options, 1, kept).variants.at(0);
  CHECK(launched.contains(2));        // the matmuls that could be timed
  CHECK_FALSE(launched.contains(1));  // nobody's
  emulator::set_fast_matmul(2);
  CHECK(run(options, 1).variants == Devices{{0, {0}}});  // the favourite, however slow
}

TEST_CASE("a gradient that is added runs what was timed for the same gradient when it was stored") {
  const Favourites favourites(0, 0);
  emulator::set_fast_matmul(2);
  Options options = one_step();
  options.run.deterministic = Tristate::no;
  Architecture architecture = tiny_gpt2();  // with inputs that several linears share: q, k, v; gate, up
  architecture.family = Family::qwen2;
  architecture.norm = NormKind::rms_norm;
  architecture.positions = PositionKind::rotary;
  architecture.mlp = MlpKind::swiglu;
  architecture.linear_bias = false;
  const std::string kept = run(options, 1, {}, architecture).kept;
  emulator::set_fast_matmul(-1);
  CHECK(run(options, 1, kept, architecture).variants == Devices{{0, {2}}});
}

TEST_CASE("the library's GELU serves GPT-2's widths as it serves others") {
  Options options = one_step();
  options.run.deterministic = Tristate::no;
  options.run.graph = false;
  options.precision.compute = DType::bf16;
  const auto launches = [&](std::int64_t ffn_width) {
    Architecture architecture = tiny_gpt2();
    architecture.ffn_width = ffn_width;
    static_cast<void>(emulator::take_epilogue_launches(CUBLASLT_EPILOGUE_GELU_AUX_BIAS));
    train_locally(options, architecture, 1, 1);
    return emulator::take_epilogue_launches(CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
  };
  const int of_any = launches(24);
  CHECK(of_any > 0);
  CHECK(launches(1024) == of_any);  // 124M, 350M and 774M have multiples of it
}
