// shard.reshard_after_forward = N on emulated GPUs: the bits of one GPU. Copies and gradients cross the borders of
// segments, with evaluations between captured and replayed steps.

#include <catch2/catch.hpp>

#include "gpu_case.hpp"

using namespace tessera;
using namespace tessera::testing;

TEST_CASE("slices that stay after forward leave no trace on GPUs") {
  Options options = gpu_options();
  options.train.eval_every = 2;
  options.train.micro_batch = 1;
  options.train.accumulation = 8;
  options.train.eval_batches = 1;
  options.shard.strategy = Strategy::ddp;
  const Architecture architecture = tiny_gpt2();
  const RunOutcome alone = train_locally(options, architecture, 1, 1);
  options.train.accumulation = 2;
  options.shard.strategy = Strategy::zero3;
  options.shard.reshard_after_forward.ranks = 2;
  const GpuCount gpus(4);
  for (const CommBackend backend : {CommBackend::staged, CommBackend::nccl}) {
    options.comm.backend = backend;
    INFO(name_of(backend));
    const RunOutcome run = train_locally(options, architecture, 4, 4);
    CHECK(same_run(run, alone));
    CHECK(run.bytes_sent == run.bytes_planned);
  }
}
