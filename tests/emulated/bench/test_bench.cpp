// The benches on emulated GPUs: the same tables as on cores. Times mean nothing here, but counts and checks do.

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>

#include "bench/bench_options.hpp"
#include "bench/calibration.hpp"
#include "bench/kernel_ladder.hpp"
#include "bench/kernel_player.hpp"
#include "bench/tables.hpp"
#include "gpu_emulator/libraries/cublaslt/cublaslt.hpp"
#include "gpu_emulator/runtime/enqueue.hpp"
#include "local_world/local_world.hpp"
#include "plan_run.hpp"
#include "tessera/backend/cuda_device.hpp"
#include "tessera/bench/timed_algorithms.hpp"
#include "tessera/comm/make_communicator.hpp"
#include "tessera/resolve/architecture.hpp"
#include "tessera/resolve/resolved_run.hpp"
#include "tessera/schedule/planned_run.hpp"

using namespace tessera;
using namespace tessera::testing;
using namespace tessera::test;

namespace {

/// Ceilings in no time.
const RateSizes kSmall{{{32, 16, 24}, {8, 8, 8}}, 4096, 1e-3};

Options tiny_run(DeviceChoice device, const std::string& family) {
  Options options = small_run();
  options.model = ModelOptions{};
  options.model.family = family;
  options.model.layers = 2, options.model.heads = 2, options.model.width = 16;
  options.model.vocab = 37, options.model.context = 8;
  if (family != "gpt2") options.model.kv_heads = 1, options.model.ffn_width = 24;
  options.train.seq_len = 7;
  options.run.device = device;
  options.run.deterministic = Tristate::yes;
  options.memory.keep_activated = Tristate::yes;  // on cores too
  options.run.share_gpu = true;
  options.run.timeout = 60;
  options.data.synthetic_tokens = 3000;
  options.bench.steps = 2, options.bench.warmup = 1;
  return options;
}

std::string table_on(DeviceChoice device, const std::string& family) {
  std::string table;
  run_ranks(1, 1,
            [&](RankContext& context) { table = kernel_table(context, tiny_run(device, family), {}, kSmall).text; });
  return table;
}

/// Of each kernel's line what no clock decides: name, shape, calls; bytes and GFLOP.
std::vector<std::vector<std::string>> counts_of(const std::string& table) {
  std::vector<std::vector<std::string>> counts;
  std::istringstream lines(table.substr(table.find("kernel  ")));
  std::string line;
  for (std::getline(lines, line); std::getline(lines, line) && !line.empty();) {
    std::vector<std::string>& cells = counts.emplace_back();
    for (std::size_t at = 2, end = 0; at < line.size(); at = line.find_first_not_of(' ', end)) {
      end = std::min(line.find("  ", at), line.size());
      cells.push_back(line.substr(at, end - at));
    }
    REQUIRE(cells.size() >= 9);
    cells.erase(cells.end() - 2, cells.end());      // shares of the ceilings
    cells.erase(cells.end() - 5, cells.end() - 2);  // times
  }
  return counts;
}

bool has_no_number_missing(const std::string& text) {
  return text.find("nan") == std::string::npos && text.find("inf") == std::string::npos &&
         text.find('?') == std::string::npos;
}

}  // namespace

TEST_CASE("bench kernels counts the same on a GPU as on cores, and times every kernel") {
  const auto* family = GENERATE("gpt2", "qwen2");
  const std::string on_cores = table_on(DeviceKind::cpu, family), on_gpu = table_on(DeviceKind::cuda, family);
  CAPTURE(on_cores, on_gpu);
  REQUIRE(counts_of(on_gpu).size() > 12);
  CHECK(counts_of(on_gpu) == counts_of(on_cores));
  CHECK(on_gpu.find("emulated GPU") != std::string::npos);
  CHECK(has_no_number_missing(on_gpu));
  CHECK(lines_of(on_gpu, "memory-bound and below 80%").size() == 1);
  CHECK(lines_of(on_gpu, "held after the kernels: matmuls").size() == 1);
  for (const std::string& row : lines_of(on_gpu, "linear forward")) {
    for (const double share : last_numbers(row, 2)) CHECK(share >= 0);
  }
}

TEST_CASE("bench kernels times matmuls with the algorithms that training would choose") {
  const bool deterministic = GENERATE(true, false);
  run_ranks(1, 1, [&](RankContext& context) {
    Options options = tiny_run(DeviceKind::cuda, "gpt2");
    options.run.deterministic = deterministic ? Tristate::yes : Tristate::no;
    emulator::take_matmul_launches();
    kernel_table(context, options, {}, kSmall);
  });
  bool tried_others = false;
  for (const auto& [place, launches] : emulator::take_matmul_launches()) tried_others |= place.second != 0;
  CHECK(tried_others == !deterministic);
}

TEST_CASE("bench kernels times the algorithms of all matmuls of a training and its evaluation") {
  Options options = tiny_run(DeviceKind::cuda, GENERATE("gpt2", "qwen2"));
  options.run.deterministic = Tristate::yes;
  // In bf16 GELUs are in matmuls, which an evaluation does not keep.
  options.precision.compute = GENERATE(DType::fp32, DType::bf16);
  // With dropout, only evaluation adds residuals in matmuls.
  if (options.model.family == "gpt2" && options.precision.compute == DType::fp32) options.model.dropout = 0.1;
  MachineShape machine;
  machine.algorithm_source = AlgorithmSource::timed;
  run_ranks(1, 1, [&](RankContext& context) {
    emulator::take_matmul_launches();
    machine.algorithms = kernel_table(context, options, machine, kSmall).algorithms;
  });
  bool tried_others = false;
  for (const auto& [place, launches] : emulator::take_matmul_launches()) tried_others |= place.second != 0;
  CHECK(tried_others);
  machine.algorithm_source = AlgorithmSource::given;
  options.train.steps = 1;
  const Architecture architecture = resolve_architecture(options.model);
  for (const Strategy strategy : {Strategy::ddp, Strategy::zero3}) {
    options.shard.strategy = strategy;
    const PlannedRun planned = plan_run(options, architecture, 1, 1);
    run_ranks(1, 1, [&](RankContext& context) {
      const Dataset data = open_dataset(options, architecture.vocab, planned.schedule.model.sequence);
      TrainingSession session(context, options, planned, data, machine);
      session.train_step();
      session.evaluate(1);
      CHECK(session.resources().compute->gemm_algorithms() == machine.algorithms);
    });
  }
}

TEST_CASE("bench kernels computes the same loss on a GPU as on cores, however often it repeats calls") {
  double losses[2] = {};
  for (const DeviceChoice device : {DeviceKind::cpu, DeviceKind::cuda}) {
    run_ranks(1, 1, [&](RankContext& context) {
      const Options options = tiny_run(device, "gpt2");
      KernelPlayer player(context, options, {},
                          plan_shape(run_shape(options, {resolve_architecture(options.model), 1, 1})).schedule);
      for (int repetition = 0; repetition < 5; ++repetition) {
        player.play();
        player.clock().take();
      }
      StepScalars scalars;
      player.device().copy(&scalars, player.resources().address(player.schedule().reserved(Reserved::scalars)),
                           sizeof scalars);
      CHECK(scalars.skip == 0);
      losses[device == DeviceKind::cuda ? 1 : 0] =
          scalars.micro_loss / static_cast<double>(player.schedule().model.tokens());
    });
  }
  CHECK(losses[0] == Approx(std::log(37.0)).epsilon(0.05));
  CHECK(losses[1] == Approx(losses[0]).epsilon(1e-6));
}

TEST_CASE("a clock's stretches are those of its stream, in order, and forgotten once read") {
  const auto device = make_cuda_device(0);
  const auto stream = device->make_stream("test");
  StreamClock clock(*device, *stream);
  const auto memory = device->allocate(MemoryKind::device, std::int64_t{1} << 22);
  double nothing = 1, copies = 1;  // the least of several rounds: a machine may be busy with other things
  for (int round = 0; round < 5; ++round) {
    clock.begin();
    clock.end();
    clock.begin();
    for (int i = 0; i < 8; ++i)
      device->copy(*stream, memory->data(), memory->data() + memory->size() / 2, memory->size() / 2);
    clock.end();
    const std::vector<double> seconds = clock.take();
    REQUIRE(seconds.size() == 2);
    nothing = std::min(nothing, seconds[0]);
    copies = std::min(copies, seconds[1]);
  }
  CHECK(nothing >= 0);
  CHECK(copies > nothing);
  CHECK(clock.take().empty());
}

TEST_CASE("a clock runs work twice, then replays copies of it") {
  const auto device = make_cuda_device(0);
  const auto stream = device->make_stream("test");
  StreamClock clock(*device, *stream);
  const auto memory = device->allocate(MemoryKind::device, 64);
  int submitted = 0;
  const auto play_round = [&] {
    clock.time([&] {
      ++submitted;
      device->copy(*stream, memory->data(), memory->data() + 32, 32);
    });
    CHECK(clock.take().size() == 1);
  };
  play_round();
  play_round();
  CHECK(submitted == 2);
  play_round();
  const int captured = submitted - 2;
  CHECK((captured >= 1 && captured <= 8));
  play_round();
  CHECK(submitted == 2 + captured);  // the graph of the round before
}

TEST_CASE("short work is copied until its launch hardly counts") {
  CHECK(StreamClock::copies_for(5e-6) == 8);
  CHECK(StreamClock::copies_for(1.2e-4) == 8);
  CHECK(StreamClock::copies_for(5e-4) == 2);
  CHECK(StreamClock::copies_for(0.1) == 1);
  CHECK(StreamClock::copies_for(0) == 8);
}

TEST_CASE("bench comm measures what GPUs have to talk by") {
  const auto backend = GENERATE(CommBackend::automatic, CommBackend::staged);
  emulator::set_device_count(2);
  Options options = tiny_run(DeviceKind::cuda, "gpt2");
  options.comm.backend = backend;
  options.bench.max_bytes = 4096;
  options.bench.steps = 1;
  std::string table;
  run_ranks(2, 2, [&](RankContext& context) {
    const SharedRegion none(context, 64);
    CommunicatorOptions messages;
    messages.force_pairwise = true;
    const auto reference = make_communicator(context, ProcessGrid(2, 2, 2), Group::world, none, "mpi", messages);
    const std::string text = comm_table(context, options, {}, *reference).text;
    if (context.rank() == 0) table = text;
  });
  emulator::set_device_count(1);
  CAPTURE(table);
  const bool nccl = backend != CommBackend::staged;
  CHECK((table.find("NCCL") != std::string::npos) == nccl);
  CHECK(table.find("staged through") != std::string::npos);
  for (const char* collective : {"all_gather ", "reduce_scatter ", "all_reduce "}) {
    const auto rows = lines_of(table, collective);
    CHECK(rows.size() == 2 * (nccl ? 3U : 2U));  // 1 and 4 KiB
    for (const std::string& row : rows) {
      for (const double number : last_numbers(row, 4)) CHECK((std::isfinite(number) && number >= 0));
    }
  }
}

TEST_CASE("ranks that share a GPU share its memory") {
  Options options = tiny_run(DeviceKind::cuda, "gpt2");
  options.comm.backend = CommBackend::staged;
  options.model.width = 1024, options.model.heads = 8;
  const auto needed = [&] {
    const PlannedRun planned = plan_run(options, resolve_architecture(options.model), 2, 2);
    return limited_bytes(planned.schedule, planned.plan);
  };
  constexpr std::int64_t kHalf = std::int64_t{2} << 30, kKept = kHalf / 4;  // of the emulated GPU
  while (needed() <= kHalf - kKept) ++options.model.layers;
  REQUIRE(needed() < 2 * kHalf - kKept);
  CHECK_THROWS_WITH(run_ranks(2, 2,
                              [&](RankContext& context) {
                                const ResolvedRun run(options, {Purpose::bench, context, {}});
                              }),
                    Catch::Contains("of free memory on the GPU") && Catch::Contains("does not fit"));
}

TEST_CASE("a plan that leaves a GPU's libraries no room is refused before anything is allocated") {
  Options options = tiny_run(DeviceKind::cuda, "gpt2");
  options.model.width = 1024, options.model.heads = 8;
  const auto needed = [&] {
    const PlannedRun planned = plan_run(options, resolve_architecture(options.model), 1, 1);
    return limited_bytes(planned.schedule, planned.plan);
  };
  constexpr std::int64_t kGiB = std::int64_t{1} << 30;  // the emulated GPU has four, and one is kept
  while (needed() <= 3 * kGiB) ++options.model.layers;
  REQUIRE(needed() < 4 * kGiB - kGiB / 4);
  CHECK_THROWS_WITH(run_ranks(1, 1,
                              [&](RankContext& context) {
                                const ResolvedRun run(options, {Purpose::bench, context, {}});
                              }),
                    Catch::Contains("1.07 GB kept for libraries and collectives") && Catch::Contains("does not fit"));
}

TEST_CASE("ceilings are measured in what a session leaves of a GPU") {
  constexpr std::int64_t kGB = 1'000'000'000;
  run_ranks(1, 1, [&](RankContext& context) {
    CHECK(gpu_rate_sizes(context, 84 * kGB, 80 * kGB).matmuls.front().tokens == 8192);
  });
  std::array<RateSizes, 2> beside;
  run_ranks(2, 2, [&](RankContext& context) {  // all ranks measure what fits the fullest GPU
    const auto rank = static_cast<std::size_t>(context.rank());
    beside[rank] = gpu_rate_sizes(context, 84 * kGB, rank == 0 ? 80 * kGB : kGB);
  });
  for (const RateSizes& sizes : beside) {
    CHECK(sizes.matmuls.front().tokens == 4096);
    CHECK(2 * sizes.copy_bytes <= kGB / 2);
  }
}

TEST_CASE("bench step on a GPU: tokens a second, both ways of counting, and the step that was timed") {
  Options options = tiny_run(DeviceKind::cuda, "gpt2");
  options.bench.warmup = GENERATE(0, 1, 3);
  std::string account, text;
  run_ranks(1, 1, [&](RankContext& context) {
    StepBench bench(context, options, {});
    account = bench.account();
    text = bench.measure(kSmall).text;
  });
  CAPTURE(account, text);
  CHECK(account.find("emulated GPU") != std::string::npos);
  CHECK(account.find("1.07 GB of the GPU kept free for libraries and NCCL") != std::string::npos);
  CHECK(lines_of(text, "step       median").size() == 1);
  CHECK(text.find("tokens/s") != std::string::npos);
  CHECK(lines_of(text, "MFU        6N + 12 x heads' width x keys seen in each layer").size() == 1);
  // Steps 1 and 2 are timed: both are measured, or the second is, or it is the last of the warm-up that was timed.
  const std::string timed = options.bench.warmup == 0 ? "of 2 steps" : "of 1 steps";
  CHECK(text.find(timed) != std::string::npos);
  CHECK(lines_of(text, "forward").size() == 1);
  CHECK(lines_of(text, "backward").size() == 1);
  CHECK(has_no_number_missing(text));
}

TEST_CASE("a run's own algorithms are for the attention that it has, with documents apart too") {
  Options options = tiny_run(DeviceKind::cuda, "gpt2");
  options.run.deterministic = Tristate::yes, options.precision.compute = DType::bf16;
  options.data.document_mask = GENERATE(Tristate::no, Tristate::yes);
  MachineShape machine;
  machine.algorithm_source = AlgorithmSource::timed;
  const Architecture architecture = resolve_architecture(options.model);
  PlannedRun planned = plan_run(options, architecture, 1, 1);
  run_ranks(1, 1, [&](RankContext& context) {
    const std::string made = timed_algorithms(context, options, machine);
    MachineShape later;
    later.algorithms = made;
    const Resources resources(backend_of(options), context, planned.schedule, planned.plan,
                              resource_settings(options, later));
    CHECK_THAT(resources.compute->gemm_remark(), Catch::Contains("as kept"));
    CHECK(resources.compute->gemm_algorithms() == made);
  });
}

TEST_CASE("a GPU's calibration leaves out the largest matmuls in fp32") {
  const LadderSizes sizes{{16, 32}, {16, 32},           {16},     {16, 32},           {64, 128}, {2}, {16, 32},
                          {16},     {1 << 14, 1 << 15}, {16, 32}, {1 << 12, 1 << 14}, 16 << 20,  0};
  Cluster cluster;
  Options options = tiny_run(DeviceKind::cuda, "gpt2");
  const auto measure = [&](RankContext& context) { cluster = calibrate(context, options, MachineShape{}, sizes); };
  options.run.deterministic = Tristate::yes;
  CHECK_THROWS_AS(run_ranks(1, 1, measure), UsageError);
  options.run.deterministic = Tristate::no;
  run_ranks(1, 1, measure);
  const auto sizes_of = [&](const char* name) { return cluster.price(name).axes()[0].values; };
  CHECK(sizes_of("linear forward.bf16") == std::vector<double>{16, 32});
  CHECK(sizes_of("linear forward.fp32") == std::vector<double>{16});
  CHECK(sizes_of("head.fp32") == std::vector<double>{16});
  CHECK(sizes_of("adamw.fp32").size() == 2);
  CHECK(cluster.prices.contains("own attention backward.bf16"));
  CHECK(cluster.prices.contains("host adamw.fp32"));
  CHECK(cluster.fp8_matmuls != 1);
  CHECK(cluster.prices.contains("to fp8.bf16"));
  CHECK(cluster.prices.lower_bound("fp8 ") == cluster.prices.lower_bound("fp9"));
  emulator::set_capability(8, 6);  // its tensor cores do not multiply 8-bit floats
  run_ranks(1, 1, measure);
  emulator::set_capability(9, 0);
  CHECK(cluster.fp8_matmuls == 1);
  CHECK_FALSE(cluster.prices.contains("to fp8.bf16"));
}

TEST_CASE("bench kernels times linears in fp8 and their conversions, and the same linears without") {
  Options options = tiny_run(DeviceKind::cuda, GENERATE("gpt2", "qwen2"));
  options.precision.compute = DType::bf16, options.precision.linear = LinearPrecision::fp8;
  options.precision.fp8_smallest = 0;
  static_cast<void>(emulator::take_fp8_launches());
  std::string table;
  run_ranks(1, 1, [&](RankContext& context) { table = kernel_table(context, options, {}, kSmall).text; });
  CAPTURE(table);
  const auto launches = emulator::take_fp8_launches();
  CHECK((launches[0] > 0 && launches[1] > 0));
  std::size_t in_fp8 = 0, without = 0;
  for (const char* const direction : {"linear forward", "linear backward"}) {
    for (const std::string& row : lines_of(table, direction))
      ++(row.find(", fp8") != std::string::npos ? in_fp8 : without);
  }
  CHECK(in_fp8 > 0);
  CHECK(in_fp8 == without);
  CHECK(lines_of(table, "to fp8").size() > 2);
  CHECK(has_no_number_missing(table));
  MachineShape machine;  // a file of algorithms is for the linears in fp8 alone
  machine.algorithm_source = AlgorithmSource::timed;
  run_ranks(1, 1, [&](RankContext& context) {
    machine.algorithms = kernel_table(context, options, machine, kSmall).algorithms;
    machine.algorithm_source = AlgorithmSource::given;
    CHECK(lines_of(kernel_table(context, options, machine, kSmall).text, "linears ").size() == 2);  // and their sum
  });
}
