#include "schedule/rules.hpp"

#include "tessera/config/validate.hpp"

namespace tessera {

StrategyRules rules_of(const SchedulePolicy& policy) {
  const ParameterLife whole_or_again = policy.reshard_after_forward ? ParameterLife::phase : ParameterLife::micro_step;
  switch (policy.strategy) {
    //                               state          parameters           inner         outer           limited
    case Strategy::ddp:
      return {Group::self, ParameterLife::rest, Group::world, Group::self, false};
    case Strategy::zero1:
      return {Group::shard, ParameterLife::rest, Group::shard, Group::self, false};
    case Strategy::zero2:
      return {Group::shard, ParameterLife::step, Group::shard, Group::self, false};
    case Strategy::zero3:
      return {Group::shard, whole_or_again, Group::shard, Group::self, policy.reshard_after_forward};
    case Strategy::hsdp:
      return {Group::shard, whole_or_again, Group::shard, Group::replica, policy.reshard_after_forward};
    case Strategy::hsdp_zero2:
      return {Group::shard, ParameterLife::step, Group::shard, Group::replica, false};
  }
  throw InternalError("no rules for strategy {}", static_cast<int>(policy.strategy));
}

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

GridShape grid_for(Strategy strategy, std::int64_t world, std::int64_t ranks_per_node, std::int64_t group_size) {
  GridShape grid;
  grid.world = world;
  grid.ranks_per_node = ranks_per_node > 0 ? ranks_per_node : world;
  grid.shard = shard_group_size(strategy, world, grid.ranks_per_node, group_size);
  if (world % grid.shard != 0) {
    throw UsageError("shard.group_size = {} does not divide the world of {} ranks: it must divide it", grid.shard,
                     world);
  }
  grid.replica = world / grid.shard;
  return grid;
}

}  // namespace tessera
