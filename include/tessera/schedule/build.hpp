#pragma once
// The builder: the one place where a sharding strategy is a set of rules. It is a pure function of the model's
// declaration, the grid's shape and the policy: it makes no ranks and touches no device.

#include "tessera/config/recomputation.hpp"
#include "tessera/schedule/schedule.hpp"

namespace tessera {

/// What carries collectives between the ranks of a GPU run; `host` is for a CPU's run, where the host does it.
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
  Wrap wrap = Wrap::block;
  std::int64_t min_params = 1'000'000;
  bool reshard_after_forward = true;
  bool keeps_copies = false;  ///< where one rank has all state, copies in the compute type stay, whatever the strategy
  std::int64_t prefetch_forward = 1, prefetch_backward = 1;  ///< block units ahead; 0 = off
  std::int64_t limit_all_gathers = 2;                        ///< block units gathered at a time (zero3, hsdp)
  bool reduce_each_micro_step = true;
  Recomputation recomputation = {};
  std::int64_t accumulation = 1;
  DType compute = DType::fp32, reduce = DType::fp32;
  bool deterministic = true;      ///< the fixed tree over micro-steps (several accumulators) instead of a running sum
  bool adds_in_backward = false;  ///< a running sum: backward adds to it what it makes, where no sum over ranks is due
  bool evaluation = true;         ///< include the evaluation segment
  bool snapshot = false;          ///< include the snapshot segment (checkpoint.async)
  bool unit_norms = false;        ///< norms leave what they have summed up after each unit (metrics.layer_norms)
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
  Transfer transfer = Transfer::host;  ///< decides what collectives need in addition to the values that they move
};

/// Returns how long the policy lets the full parameters of units live.
inline ParameterLife life_of(const SchedulePolicy& policy) {
  return policy.keeps_copies ? ParameterLife::rest : rules_of(policy.strategy).life_with(policy.reshard_after_forward);
}

/// Returns whether shard.limit_all_gathers applies.
inline bool gathers_are_limited(const SchedulePolicy& policy) { return life_of(policy) == ParameterLife::phase; }

/// Builds the schedule. If nothing of the model trains, it has no steps: it is for evaluation or generation. Where the
/// grid has sub-groups, slices of gathered units stay after forward. Throws UsageError if the policy is impossible (a
/// limit below what one part reads).
StepSchedule build_schedule(const ModelParts& model, const ProcessGrid& grid, const SchedulePolicy& policy);

/// One term of the strategy's formula (README.md, Strategies): the bytes that each rank sends per step for one purpose.
struct FormulaTerm {
  std::string_view name;      ///< "gathers of parameters"
  std::int64_t times = 0;     ///< per step
  Group group = Group::self;  ///< over which
  std::int64_t elements = 0;  ///< padded
  DType dtype = DType::fp32;
  std::int64_t bytes = 0;  ///< times x elements x size of dtype x (n - 1) / n, n the group's ranks
};

inline constexpr std::string_view kMatricesTerm = "matrices to owners and back";

/// Returns the bytes of all terms.
std::int64_t bytes_of(const std::vector<FormulaTerm>& terms);

/// Returns the terms that are not zero.
std::vector<FormulaTerm> formula_terms(const StepSchedule& schedule);

/// Returns their sum: the bytes that each rank sends per step by the formula, before savings.
std::int64_t formula_wire_bytes(const StepSchedule& schedule);

/// What offloading moves, by the formula.
struct OffloadAccount {
  std::int64_t elements = 0, of = 0;  ///< of a rank's slices: those whose state is kept on the host; those of all units
  std::int64_t on_host = 0;           ///< bytes kept there: 12 per element, and the 16-bit copy that is loaded
  std::int64_t off_device = 0;        ///< bytes freed on the device: that state, less the copy there that gathers read
  std::int64_t gradients = 0;         ///< bytes of their gradients, on the host from backward to their update
};
OffloadAccount offload_account(const StepSchedule& schedule);

/// Returns the terms of what each rank copies between device and host per step for offloaded state, before savings.
std::vector<FormulaTerm> copy_terms(const StepSchedule& schedule);

/// Returns how many inputs of recomputed blocks are copied to the host in a micro-step. These are all but one: with a
/// recomputed MLP, the last block's input is needed right after the head. Blocks before `first` have no backward.
std::int64_t inputs_to_offload(const Recomputation& recomputation, std::int64_t layers, std::int64_t first = 0);

/// Returns the same terms as copy_terms() for these inputs.
std::vector<FormulaTerm> input_copy_terms(const StepSchedule& schedule);
/// Returns the bytes of one of these inputs.
std::int64_t bytes_of_input(const StepSchedule& schedule);

}  // namespace tessera
