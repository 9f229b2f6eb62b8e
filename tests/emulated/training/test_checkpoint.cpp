// Checkpoints do not depend on the device: the other kind reads them back to the bit.
#include "gpu_case.hpp"
#include "training/checkpoint_case.hpp"

using namespace tessera;
using namespace tessera::testing;

TEST_CASE("a checkpoint of GPUs resumes on CPUs and the reverse, with the same bits of state", "[long]") {
  const GpuCount gpus(2);
  Options options = gpu_options();
  options.train.micro_batch = 1;
  const Shape two{Strategy::zero3, 2, 2, 0, Wrap::block, 6};
  const Shape three{Strategy::zero2, 3, 3, 0, Wrap::model, 6};
  const Shape one{Strategy::ddp, 1, 1, 0, Wrap::block, 6};
  struct Move {
    DeviceChoice device;  ///< that writes; the other one reads
    Shape from, to;
    std::int64_t writers;
  };
  const Move moves[] = {{DeviceKind::cuda, two, three, 0},  // every rank writes
                        {DeviceKind::cuda, two, one, 1},    // the second rank sends its part to the first
                        {DeviceKind::cpu, three, two, 0},
                        {DeviceKind::cpu, two, one, 1}};
  for (const Move& move : moves) {
    INFO("from " << (move.device == DeviceKind::cuda ? "GPUs" : "CPUs") << ", " << move.from.text() << " -> "
                 << move.to.text());
    const RunPlace place;
    options.checkpoint.writers_per_node = move.writers;
    options.checkpoint.async = move.writers == 0;
    options.run.device = move.device;
    options.optim.moments = move.writers == 0 ? StateType::bf16 : StateType::fp32;
    const Outcome before = run(options, move.from, place.path(), 2, 2, tiny_gpt2());
    Options there = resumed(options);
    there.run.device = move.device == DeviceKind::cuda ? DeviceKind::cpu : DeviceKind::cuda;
    const Outcome after = run(there, move.to, place.path(), 2, 0, tiny_gpt2());
    REQUIRE(after.first_step == 3);
    require_same_state(before, after);
  }
}

TEST_CASE("a GPU's run that stopped goes on to the bit") {
  const Options options = gpu_options();
  const Shape one{Strategy::zero3, 1, 1, 0, Wrap::block, 1};
  const RunPlace place;
  const Outcome whole = run(options, one, place.path(), 4, 2, tiny_gpt2());
  const Outcome rest = run(resumed(options), one, place.path(), 4, 0, tiny_gpt2());
  REQUIRE(rest.first_step == 3);
  for (const auto& [step, loss] : rest.losses) CHECK(loss == whole.losses.at(step));
  require_same_state(whole, rest);
}

TEST_CASE("snapshots of GPUs, also as a graph, are of their steps", "[long]") {
  const GpuCount gpus(2);
  Options options = gpu_options();
  options.train.micro_batch = 1;
  options.train.steps = 5;
  options.checkpoint.async = true;
  options.checkpoint.keep = 0;
  const Shape two{Strategy::zero2, 2, 2, 0, Wrap::block, 2};
  options.comm.backend = CommBackend::nccl;  // staged collectives cannot be captured
  const RunPlace place;
  const Outcome whole = run_saving(options, two, place.path(), 5, {1, 3, 4}, tiny_gpt2());
  for (const std::int64_t step : {4, 3}) {  // replayed, captured; going on from 3 sets 4 aside
    INFO("from step " << step);
    const auto folder = place.path() / fmt::format("checkpoints/step-{:08}", step);
    const Outcome rest = run(resumed(options, folder.string()), two, place.path(), 5, 0, tiny_gpt2());
    REQUIRE(rest.first_step == step + 1);
    require_same_state(whole, rest);
  }
}
