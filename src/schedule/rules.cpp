#include "tessera/config/validate.hpp"
#include "tessera/schedule/build.hpp"

namespace tessera {

SchedulePolicy policy_from(const Options& options) {
  SchedulePolicy policy;
  policy.strategy = options.shard.strategy;
  policy.wrap = options.shard.wrap;
  policy.min_params = options.shard.min_params;
  policy.reshard_after_forward = options.shard.reshard_after_forward;
  policy.prefetch_forward = options.shard.prefetch_forward;
  policy.prefetch_backward = options.shard.prefetch_backward;
  policy.limit_all_gathers = options.shard.limit_all_gathers;
  policy.reduce_each_micro_step =
      resolved_reduce(options.shard.reduce, options.shard.strategy) == ReduceWhen::micro_step;
  policy.tied_reduce = options.shard.tied_reduce;
  policy.checkpoint_blocks = options.memory.checkpoint == Checkpointing::block;
  policy.accumulation = options.train.accumulation;
  policy.compute = options.precision.compute;
  policy.reduce = options.precision.reduce;
  policy.deterministic = is_deterministic(options.run);
  policy.evaluation = options.data.val_fraction > 0;
  policy.snapshot = options.checkpoint.async;
  if (options.run.device == DeviceChoice::cuda)
    policy.transfer = options.comm.backend == CommBackend::staged ? Transfer::staged : Transfer::nccl;
  return policy;
}

}  // namespace tessera
