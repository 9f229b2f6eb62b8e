#include "bench/kernel_player.hpp"

#include <set>

#include "tessera/base/counter_rng.hpp"
#include "tessera/base/math.hpp"
#include "tessera/engine/backend.hpp"
#include "tessera/engine/state.hpp"
#include "tessera/model/initialize.hpp"

namespace tessera {

namespace {

ResourceSettings settings_of(const Options& options, const MachineShape& machine) {
  ResourceSettings settings = resource_settings(options, machine);
  settings.queue_mode = QueueMode::serial;
  settings.comm.emulate = settings.copies = {};  // only kernels are timed
  return settings;
}

OptimizerSettings optimizer_of(const StepSchedule& schedule, const OptimOptions& options) {
  return {options, schedule.grid.world() * schedule.policy.accumulation * schedule.model.tokens(), false};
}

}  // namespace

KernelPlayer::KernelPlayer(RankContext& context, const Options& options, const MachineShape& machine,
                           StepSchedule schedule)
    : run_(with_one_block(std::move(schedule))),
      resources_(backend_of(options), context, run_.schedule, run_.plan, settings_of(options, machine)),
      stream_(device().make_caller_stream("bench")),
      optimizer_(optimizer_of(run_.schedule, options.optim), static_cast<std::uint64_t>(options.run.seed)),
      bound_(bind(run_.schedule, resources_, optimizer_)),
      runner_(run_.schedule, bound_, resources_, 0),
      operations_(counted_operations(run_.schedule, run_.schedule.step)),
      clock_(device(), *stream_) {
  set_constants(run_.schedule, resources_);
  set_weights(static_cast<std::uint64_t>(options.run.seed));
  set_tokens(static_cast<std::uint64_t>(options.run.seed));
  // At a rate of 0 the weights stay as they are, however often a GPU repeats an update.
  optimizer_.begin_step(1, {0, 1, 1}, optimizer_.settings().global_tokens);
  optimizer_.scalars().learning_rate = 0;
  device().copy(bound_.scalars, &optimizer_.scalars(), sizeof(StepScalars));
  // Untimed, because a clock that knows a stretch plays its graph instead of the call. An evaluation has matmuls of its
  // own, whose algorithms are chosen by this.
  for (const auto* plays : {&run_.schedule.prologue, &run_.schedule.evaluation}) {
    for (const CountedOperation& one : counted_operations(run_.schedule, *plays)) play(one.operation, false);
  }
  stream_->synchronize();
}

void KernelPlayer::set_weights(std::uint64_t seed) {
  std::set<float*> done;
  for (const UnitId unit : schedule().layout.trained()) {
    const StateSlice slice = state_slice(schedule(), resources_, unit);
    if (!done.insert(slice.master()).second) continue;
    std::vector<float> values(static_cast<std::size_t>(slice.count));
    for (const TensorRun& run : slice.runs) {
      const auto out =
          std::span(values).subspan(static_cast<std::size_t>(run.offset), static_cast<std::size_t>(run.count));
      initialize_slice(schedule().model.tensors[run.tensor], run.tensor, seed, run.first, out);
    }
    device().copy(slice.master(), values.data(), slice.count * size_of(DType::fp32));
  }
}

void KernelPlayer::set_tokens(std::uint64_t seed) {
  const ModelParts& model = schedule().model;
  std::vector<std::int32_t> tokens, targets;
  for (std::int64_t i = 0; i < model.tokens(); ++i) {
    const auto bits = philox(seed, RandomUse::synthetic_data, 0, static_cast<std::uint64_t>(i));
    tokens.push_back(static_cast<std::int32_t>(bits[0] % model.architecture.vocab));
    targets.push_back(static_cast<std::int32_t>(bits[1] % model.architecture.vocab));
  }
  tokens.insert(tokens.end(), targets.begin(), targets.end());
  // As many documents as a sample may have, of equal length.
  const std::int64_t documents =
      model.most_documents > 0 ? model.most_documents / model.batch : most_documents_of(DataOptions(), model.sequence);
  for (std::int64_t i = 0; model.documents && i < model.tokens(); ++i)
    tokens.push_back(static_cast<std::int32_t>(i % model.sequence % ceil_div(model.sequence, documents)));
  tokens.resize(static_cast<std::size_t>(model.input_integers()));
  fill_borders(model, tokens.data());
  for (const auto* plays : {&schedule().step, &schedule().evaluation}) {
    for (const CountedOperation& one : counted_operations(schedule(), *plays)) {
      const Operation& op = schedule().operation(one.operation);
      if (!takes_tokens(schedule(), op)) continue;
      device().copy(resources_.address(schedule().value(op.writes[0]).storage), tokens.data(),
                    static_cast<std::int64_t>(tokens.size() * sizeof tokens[0]));
    }
  }
}

Implementation KernelPlayer::description() const {
  Implementation all = resources_.compute->description();
  if (device().identity().empty()) all.text += fmt::format(", threads: {}", resources_.settings.threads);
  return all;
}

void KernelPlayer::play() {
  for (const CountedOperation& one : operations_) times_.set_count(one.count), play(one.operation, true);
  if (auto* const transport = resources_.communicators->transport())
    transport->watch_until_done(*stream_, "the kernels of a step");
}

void KernelPlayer::play(OperationId id, bool is_timed) {
  const Operation& op = schedule().operation(id);
  if (takes_input(op)) return;
  const bool is_host = op.queue == Queue::host && traits_of(device().kind()).has_own_memory;
  if (is_host) stream_->synchronize();
  if (is_host || !is_timed) return runner_.run(id, *stream_);
  runner_.run(id, *stream_,
              [&](Kernels& kernels, const KernelArguments& call) { times_.run(clock_, kernels, *stream_, call); });
}

}  // namespace tessera
