#pragma once
// Runs that write checkpoints and continue from them, and their final state.

#include <catch2/catch.hpp>
#include <cstring>
#include <set>

#include "plan_run.hpp"
#include "temporary_folder.hpp"
#include "tessera/config/describe.hpp"
#include "tessera/text/corpus.hpp"
#include "tessera/training/checkpoint_writer.hpp"
#include "tessera/training/resume.hpp"
#include "training/session_case.hpp"

namespace tessera::testing {

using RunPlace = TemporaryFolder;

/// The ranks that run it, and how.
struct Shape {
  Strategy strategy = Strategy::zero3;
  std::int64_t world = 2, ranks_per_node = 2, group = 0;
  Wrap wrap = Wrap::block;
  std::int64_t micro_batches = 4;  ///< world x accumulation
  std::string text() const {
    return fmt::format("{} world {} nodes of {} group {} wrap {}", name_of(strategy), world, ranks_per_node, group,
                       name_of(wrap));
  }
};

inline Options shaped(Options options, const Shape& shape) {
  options.shard.strategy = shape.strategy;
  options.shard.group_size = shape.group;
  options.shard.wrap = shape.wrap;
  options.train.accumulation = shape.micro_batches / shape.world;
  return options;
}

/// Parameters and moments of all tensors, and the steps of a run.
struct Outcome {
  std::map<std::int64_t, double> losses;
  std::array<IndexedVector<TensorId, std::vector<float>>, kStateKinds> state;
  std::vector<std::string> said, notes;  ///< of the start, and of checkpoints
  std::int64_t first_step = 0, steps = 0;
};

inline void collect_state(TrainingSession& session, Outcome& outcome) {
  for (const UnitId unit : session.schedule().layout.units.ids()) {
    if (!session.schedule().unit(unit).trains) continue;
    const StateSlice slice = state_slice(session.schedule(), session.resources(), unit);
    for (const StateVector& vector : slice.vectors) {
      auto& tensors = outcome.state[static_cast<std::size_t>(vector.kind)];
      each_run(slice, vector, [&](const TensorRun& run) {
        std::vector<std::byte> stored(static_cast<std::size_t>(run.count * size_of(vector.dtype)));
        session.resources().device->copy(stored.data(), vector.at(run.offset), std::ssize(stored));
        convert(stored.data(), vector.dtype, tensors[run.tensor].data() + run.first, DType::fp32, run.count);
      });
    }
  }
}

/// Starts by checkpoint.resume, trains until step `until`, makes checkpoints at the steps `saves`; with
/// checkpoint.async they are written while the run goes on.
inline Outcome run_saving(const Options& base, const Shape& shape, const std::filesystem::path& folder,
                          std::int64_t until, const std::set<std::int64_t>& saves,
                          const Architecture& architecture = small_gpt2(), const RunHdf5& hdf5 = run_hdf5_here) {
  const Options options = shaped(base, shape);
  const PlannedRun planned = plan_run(options, architecture, shape.world, shape.ranks_per_node);
  Outcome outcome;
  for (auto& kind : outcome.state) kind = empty_tensors(planned.schedule.model);
  std::mutex mutex;
  run_ranks(shape.world, shape.ranks_per_node, [&](RankContext& context) {
    const Dataset data = open_dataset(options, architecture.vocab, planned.schedule.model.sequence);
    const ResumeSettings resume{options, planned, data, folder, 2, [&](const std::string& line) {
                                  const std::lock_guard lock(mutex);
                                  outcome.said.push_back(line);
                                }};
    TrainingSession session(context, options, planned, data, {}, {}, state_loader(context, resume));
    CheckpointSettings settings;
    settings.options = options.checkpoint;
    settings.folder = folder / "checkpoints";
    settings.hdf5 = hdf5;
    for (const OptionValue& option : flat_options(options))
      settings.all_options.emplace_back(option.name, option.value);
    CheckpointWriter writer(context, session, settings);
    if (context.rank() == 0) outcome.first_step = session.first_step(), outcome.steps = session.steps();
    for (std::int64_t step = session.first_step(); step <= until; ++step) {
      const StepResult& result = session.train_step();
      if (context.rank() == 0) outcome.losses[step] = result.loss;
      if (saves.contains(step)) writer.begin();
    }
    writer.wait();
    session.player().finish_step();
    const std::lock_guard lock(mutex);
    while (const auto report = writer.finished())
      outcome.notes.insert(outcome.notes.end(), report->notes.begin(), report->notes.end());
    collect_state(session, outcome);
  });
  return outcome;
}

/// The same with a checkpoint at step `save` (0 = none).
inline Outcome run(const Options& base, const Shape& shape, const std::filesystem::path& folder, std::int64_t until,
                   std::int64_t save, const Architecture& architecture = small_gpt2()) {
  return run_saving(base, shape, folder, until, {save}, architecture);
}

inline void require_same_state(const Outcome& a, const Outcome& b) {
  for (std::size_t kind = 0; kind < kStateKinds; ++kind) {
    for (const TensorId i : a.state[kind].ids()) {
      INFO("kind " << kind << " tensor " << i.number());
      REQUIRE(std::memcmp(a.state[kind][i].data(), b.state[kind][i].data(), a.state[kind][i].size() * 4) == 0);
    }
  }
}

inline Options resumed(Options options, const std::string& how = "auto") {
  options.checkpoint.resume = how;
  return options;
}

}  // namespace tessera::testing
