#pragma once
// The policy of a schedule, and the bounds that go with it.

#include <cstdint>
#include <optional>

#include "tessera/config/enums.hpp"
#include "tessera/config/recomputation.hpp"
#include "tessera/grid/strategy.hpp"
#include "tessera/model/layer.hpp"

namespace tessera {

/// Says who carries collectives between the ranks of a GPU run; `host` is for a CPU's run, where the host does it.
enum class Transfer : std::uint8_t { host, nccl, staged };

/// The sizes of generation.
struct GenerationShape {
  std::int64_t batch = 1;      ///< sequences per rank at a time
  std::int64_t chunk = 1;      ///< tokens of each prompt that one play takes
  std::int64_t positions = 1;  ///< of the longest sequence: prompt and continuation; at least `chunk`
};

/// Elements of a bucket of offloaded state: 16 MiB in fp32.
inline constexpr std::int64_t kOffloadBucket = std::int64_t{1} << 22;

/// Inputs of recomputed blocks that may wait to be copied to the host at a time. As many may be back on the device: the
/// one in use and the next.
inline constexpr std::int64_t kInputsInFlight = 2;

/// Everything that shapes a schedule in addition to the model and the grid.
struct SchedulePolicy {
  Strategy strategy = Strategy::zero3;
  OptimizerName optimizer = OptimizerName::adamw;
  DType moments = DType::fp32;  ///< in which its states are kept
  Wrap wrap = Wrap::block;
  std::int64_t min_params = 1'000'000;
  bool reshard_after_forward = true;
  bool keeps_copies = false;  ///< where one rank has all state, copies of masters stay, whatever the strategy
  struct Prefetch {
    std::int64_t forward = 1, backward = 1;
  };
  Prefetch prefetch = {};              ///< how many block units before its first reader a gather may be issued; 0 = off
  std::int64_t limit_all_gathers = 2;  ///< block units gathered at a time (zero3, hsdp); 0 = no limit
  bool reduce_each_micro_step = true;
  Recomputation recomputation = {};
  std::int64_t accumulation = 1;
  DType compute = DType::fp32, reduce = DType::fp32;
  bool deterministic = true;      ///< the fixed tree over micro-steps (several accumulators) instead of a running sum
  bool adds_in_backward = false;  ///< a running sum: backward adds to it what it makes, where no sum over ranks is due
  bool evaluation = true;         ///< include the evaluation segment
  bool snapshot = false;          ///< include the snapshot segment (checkpoint.async)
  bool unit_norms = false;        ///< norms leave what they have summed up after each unit (metrics.layer_norms)
  bool sample_losses = false;     ///< the losses of a step's samples are kept (mixtures)
  bool state_sums = false;        ///< updates keep checksums of the state (run.check_every)
  bool replays = false;           ///< checksums of what a micro-step computes have a place (run.replay_every)
  bool token_losses = false;      ///< the head leaves each token's loss as well (eval.choices)
  std::optional<GenerationShape> generation;  ///< include the segments that generate text
  Offload offload = Offload::none;            ///< what is kept on the host
  double offload_fraction = 1.0;              ///< of the elements; unit by unit, the last ones first
  std::int64_t offload_bucket = kOffloadBucket;
  bool offload_activations = false;  ///< inputs of recomputed blocks wait for backward on the host
  std::int64_t inputs_in_flight = kInputsInFlight;
  bool has_fp32_logits = false;        ///< although `compute` may have 16 bits (precision.logits)
  bool keeps_activated = false;        ///< MLP parts save what they have activated (memory.keep_activated)
  std::int64_t mlp_chunk = 0;          ///< tokens that an MLP takes at a time; 0: all (memory.mlp_chunk)
  std::optional<Fp8Linears> fp8 = {};  ///< none: linears multiply numbers of `compute` (precision.linear)
  Transfer transfer = Transfer::host;  ///< decides what collectives need in addition to the values that they move
};

/// Returns how long the policy lets the full parameters of units live.
inline ParameterLife life_of(const SchedulePolicy& policy) {
  return policy.keeps_copies ? ParameterLife::rest : rules_of(policy.strategy).life_with(policy.reshard_after_forward);
}

/// Returns whether shard.limit_all_gathers applies.
inline bool gathers_are_limited(const SchedulePolicy& policy) { return life_of(policy) == ParameterLife::phase; }

}  // namespace tessera
