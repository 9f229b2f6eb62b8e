#pragma once
// Runs whole training sessions in tests: ranks as threads, small models, results that can be compared bit by bit.

#include <mutex>
#include <vector>

#include "local_world/local_world.hpp"
#include "tessera/fit/decide_fit.hpp"
#include "tessera/model/initialize.hpp"
#include "tessera/schedule/verify.hpp"
#include "tessera/text/corpus.hpp"
#include "tessera/training/session.hpp"

namespace tessera::testing {

/// The results of a run: losses and norms of all steps, and all parameters at its end.
struct RunOutcome {
  std::vector<double> losses, norms;
  std::vector<double> evaluations;
  IndexedVector<TensorId, std::vector<float>> weights;    ///< per tensor, as in the file formats
  IndexedVector<TensorId, std::vector<float>> gradients;  ///< per tensor, of the first step
  std::int64_t skipped = 0;
  std::int64_t bytes_sent = 0;  ///< by rank 0 in its last step, parameters and gradients
  std::int64_t bytes_planned = 0;
};

/// A small GPT-2 with odd sizes.
inline Architecture small_gpt2() {
  Architecture a = preset("nano");
  a.layers = 2;
  a.heads = 3;
  a.kv_heads = 3;
  a.width = 21;
  a.ffn_width = 50;
  a.vocab = 67;
  a.context = 12;
  return a;
}

/// The same as a Qwen2 (grouped queries, biases on q, k, v, tied head), a Llama (scaled positions, untied head), a
/// Qwen3 (norms of heads, which are wider than width / heads) or a Gemma 3 (that and a window in the first layer).
inline Architecture small_model(Family family) {
  if (family == Family::gpt2) return small_gpt2();
  const bool qwen2 = family == Family::qwen2;
  Architecture a{{}, rules_of(family).form};
  a.layers = 2;
  a.heads = qwen2 ? 3 : 4;
  a.kv_heads = qwen2 ? 1 : 2;
  a.width = qwen2 ? 18 : 24;
  a.ffn_width = 35;
  a.vocab = 67;
  a.context = 12;
  a.rope_theta = 20;
  if (family == Family::llama) a.rope_scaling = {30, 4, 1, 4};
  if (family == Family::qwen3 || family == Family::gemma3) a.head_dim = 10;
  if (family == Family::gemma3) a.window = 4, a.full_every = 2;
  return a;
}

inline Options base_options() {
  Options options =
      parse_arguments({"--data.source=synthetic", "--data.synthetic_tokens=6000", "--data.val_fraction=0.2",
                       "--train.seq_len=9", "--train.micro_batch=2", "--train.steps=6", "--optim.lr=0.01",
                       "--run.threads=1", "--optim.warmup_steps=2", "--run.timeout=60"});
  return options;
}

inline IndexedVector<TensorId, std::vector<float>> empty_tensors(const ModelParts& model) {
  IndexedVector<TensorId, std::vector<float>> tensors;
  for (const ParameterTensor& tensor : model.tensors)
    tensors.emplace_back(static_cast<std::size_t>(tensor.elements), std::nanf(""));
  return tensors;
}

/// Returns the usual initial weights, but another gain of the last norm: gradients of the token table grow with it.
inline TensorSource with_last_gain(const Architecture& architecture, float gain) {
  return [tensors = parameter_tensors(architecture), gain](TensorId tensor, std::int64_t first, std::span<float> out) {
    const ParameterTensor& t = tensors[tensor];
    initialize_slice(t, tensor, 1, first, out);
    if (t.name == "transformer.ln_f.weight") std::fill(out.begin(), out.end(), gain);
  };
}

/// Copies this rank's master slices into full tensors, of what trains.
inline void collect_weights(const StepSchedule& schedule, const Resources& resources,
                            IndexedVector<TensorId, std::vector<float>>& tensors) {
  for (const UnitId unit : schedule.layout.units.ids()) {
    if (!schedule.unit(unit).trains) continue;
    const StateSlice slice = state_slice(schedule, resources, unit);
    std::vector<float> values(static_cast<std::size_t>(slice.count));
    resources.device->copy(values.data(), slice.master(), slice.count * size_of(DType::fp32));
    for (const TensorRun& run : slice.runs) {
      std::copy_n(values.begin() + run.offset, run.count, tensors[run.tensor].begin() + run.first);
    }
  }
}

inline void collect_gradients(const StepSchedule& schedule, const Resources& resources,
                              IndexedVector<TensorId, std::vector<float>>& tensors) {
  for (const UnitId unit : schedule.layout.units.ids()) {
    if (!schedule.unit(unit).trains) continue;
    const GradientSlice slice = gradient_slice(schedule, resources, unit);
    if (slice.dtype != DType::fp32) continue;
    std::vector<float> values(static_cast<std::size_t>(slice.count));
    resources.device->copy(values.data(), slice.data, slice.count * size_of(DType::fp32));
    for (const TensorRun& run : slice.runs) {
      std::copy_n(values.begin() + run.offset, run.count, tensors[run.tensor].begin() + run.first);
    }
  }
}

/// Returns the bytes that this rank has sent of parameters, gradients and matrices.
inline std::int64_t bytes_sent_by(const TrainingSession& session) {
  std::int64_t bytes = 0;
  for (const Collective c : {Collective::all_gather, Collective::reduce_scatter, Collective::exchange})
    bytes += session.resources().communicators->counts()[static_cast<std::size_t>(c)].bytes;
  return bytes;
}

/// One rank's part of a run: trains options.train.steps steps. Slices of gradients and weights go into `outcome` under
/// `mutex`; losses, norms and counts too on the rank that `reports`.
inline void train_rank(RankContext& context, const Options& options, const PlannedRun& planned,
                       const MachineShape& machine, const TensorSource& weights, bool reports, RunOutcome& outcome,
                       std::mutex& mutex) {
  const Dataset data =
      open_dataset(options, planned.schedule.model.architecture.vocab, planned.schedule.model.sequence);
  TrainingSession session(context, options, planned, data, machine, weights);
  for (std::int64_t step = 0; step < session.steps(); ++step) {
    const bool is_last = step + 1 == session.steps();  // whose bytes are counted: with its own updates
    if (is_last) session.player().finish_step();
    const std::int64_t before = bytes_sent_by(session);
    const StepResult result = session.train_step([&] {
      if (step != 0) return;
      const std::lock_guard lock(mutex);
      collect_gradients(planned.schedule, session.resources(), outcome.gradients);
    });
    if (is_last) session.player().finish_step();
    const std::int64_t sent = bytes_sent_by(session) - before;
    const bool evaluates = !data.validation().empty() && options.train.eval_every > 0 && step + 1 < session.steps() &&
                           (step + 1) % options.train.eval_every == 0;
    if (evaluates) {
      const double loss = session.evaluate(options.train.eval_batches).at(0).loss;
      if (reports) outcome.evaluations.push_back(loss);
    }
    if (!reports) continue;
    outcome.losses.push_back(result.loss);
    outcome.norms.push_back(result.grad_norm);
    outcome.bytes_sent = sent;
  }
  if (!data.validation().empty()) {
    const double loss = session.evaluate(options.train.eval_batches).at(0).loss;
    if (reports) outcome.evaluations.push_back(loss);
  }
  const std::lock_guard lock(mutex);
  collect_weights(planned.schedule, session.resources(), outcome.weights);
  if (reports) outcome.skipped = session.optimizer().skipped_steps();
}

/// Returns the outcome that train_rank fills, before it starts.
inline RunOutcome empty_outcome(const PlannedRun& planned) {
  RunOutcome outcome;
  outcome.weights = empty_tensors(planned.schedule.model);
  outcome.gradients = empty_tensors(planned.schedule.model);
  outcome.bytes_planned = planned.schedule.wire_bytes_per_step();
  return outcome;
}

/// Runs body(context, session) on every rank of a plan, as threads, each with a session of its own.
template <class Body>
void with_sessions(const Options& options, const PlannedRun& planned, const MachineShape& machine, Body&& body) {
  const StepSchedule& schedule = planned.schedule;
  run_ranks(schedule.grid.world(), schedule.grid.ranks_per_node(), [&](RankContext& context) {
    const Dataset data = open_dataset(options, schedule.model.architecture.vocab, schedule.model.sequence);
    TrainingSession session(context, options, planned, data, machine);
    body(context, session);
  });
}

template <class Body>
void with_sessions(const Options& options, const PlannedRun& planned, Body&& body) {
  with_sessions(options, planned, {}, body);
}

/// Trains options.train.steps steps on `world` ranks as threads.
inline RunOutcome train_locally(const Options& options, const Architecture& architecture, std::int64_t world,
                                std::int64_t ranks_per_node, const MachineShape& machine = {},
                                const TensorSource& weights = {}, std::int64_t bucket = kOffloadBucket,
                                const std::function<bool(const ParameterTensor&)>& trains = {}) {
  std::mutex mutex;
  RunShape shape = run_shape(options, {architecture, world, ranks_per_node});
  shape.policy.offload_bucket = bucket;
  shape.trains = trains;
  shape = with_copies_kept(shape, options, [] { return FitLimits(); });
  const PlannedRun planned = plan_shape(shape);
  require_verified(planned.schedule, planned.plan);
  RunOutcome outcome = empty_outcome(planned);
  run_ranks(world, ranks_per_node, [&](RankContext& context) {
    train_rank(context, options, planned, machine, weights, context.rank() == 0, outcome, mutex);
  });
  return outcome;
}

}  // namespace tessera::testing
