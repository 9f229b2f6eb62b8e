// A prediction before the first step: how it is made, described and recorded.
#include "tessera/record/prediction.hpp"

#include <algorithm>
#include <limits>

#include "tessera/base/clock.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/telemetry/provenance.hpp"

namespace tessera {

std::optional<RunPrediction> predict_run(const PlannedRun& planned, const Options& options) {
  if (options.plan.cluster.empty()) return std::nullopt;
  const Cluster cluster = read_cluster(options.plan.cluster);
  const DeviceKind device = planned.schedule.model.device;
  if (cluster.device != device)
    throw refuse("plan.cluster", cluster.file)
        .because("it has the prices of {}, and this run computes on {}", name_of(cluster.device), name_of(device))
        .use("the prices of this machine (`tessera bench calibrate` measures them), or leave it out");
  return RunPrediction{predict(planned.schedule, planned.plan, options, cluster),
                       cluster.name,
                       cluster.file,
                       cluster.hash,
                       cluster.threads,
                       options.run.threads,
                       unix_time(),
                       remark_on_host(cluster, planned.schedule, cpu_model())};
}

std::string describe(const RunPrediction& prediction) {
  const Prediction& step = prediction.step;
  std::string line = fmt::format("predicted  {} a step +- {:.0f}%, {} tokens/s, limited by {} ({}: {})",
                                 format_seconds(step.step_seconds), 100 * step.uncertainty,
                                 format_rate(step.tokens_per_second), step.limit, prediction.file, prediction.machine);
  if (prediction.threads != prediction.run_threads)
    line += fmt::format("\nwarning    the prices are for {} per rank, and this run has {}",
                        counted(prediction.threads, "thread"), prediction.run_threads);
  if (!prediction.remark.empty()) line += "\nwarning    " + prediction.remark;
  return line;
}

std::string cost_of_own_attention(const PlannedRun& planned, const Options& options) {
  PlannedRun run = planned;
  const auto seconds = [&](GpuAttention attention) {
    run.schedule.model.attention = attention;
    const auto predicted = predict_run(run, options);
    return predicted ? predicted->step.step_seconds : 0;
  };
  try {
    const bool fixed = is_deterministic(options.run);
    const double library = seconds(fixed ? GpuAttention::deterministic_cudnn : GpuAttention::cudnn);
    if (library == 0) return {};
    return fmt::format(
        "\nattention  by own kernels: a step takes {:.2f} times as long as with cuDNN's, as plan.cluster "
        "predicts",
        seconds(GpuAttention::own) / library);
  } catch (const UsageError&) {
    return {};  // a price is not there
  }
}

std::vector<double> expected_seconds(const Prediction& prediction, const StepSchedule& schedule) {
  std::vector<double> seconds(schedule.operations.size() + schedule.segments.size());
  const auto note = [&](std::size_t row, double took) { seconds[row] = std::max(seconds[row], took); };
  std::vector<double> began(schedule.step.size(), std::numeric_limits<double>::infinity());
  for (const TimelineSpan& span : prediction.timeline.spans) {
    const auto play = static_cast<std::size_t>(span.play);
    began[play] = std::min(began[play], span.begin);
    note(static_cast<std::size_t>(span.operation.number()), span.end - span.begin);
    note(schedule.operations.size() + static_cast<std::size_t>(schedule.step[play].segment.number()),
         span.end - began[play]);
  }
  return seconds;
}

std::vector<AttributeGroup> prediction_groups(const RunPrediction& prediction) {
  const Prediction& step = prediction.step;
  AttributeGroup time{"prediction/time", {}}, operations{"prediction/operations", {}},
      uncertainty{"prediction/uncertainty", {}};
  for (std::size_t i = 0; i < kTimeCategories; ++i) {
    const std::string name = name_of(static_cast<TimeCategory>(i));
    time.values.emplace_back(name, step.timeline.time[i]);
    operations.values.emplace_back(name, step.timeline.operations[i]);
    uncertainty.values.emplace_back(name, step.class_uncertainty[i]);
  }
  return {{"prediction",
           {{"step_seconds", step.step_seconds},
            {"uncertainty", step.uncertainty},
            {"tokens_per_second", step.tokens_per_second},
            {"mfu", step.mfu},
            {"limit", step.limit},
            {"host_seconds", step.timeline.host},
            {"machine", prediction.machine},
            {"cluster", prediction.file},
            {"cluster_hash", "xxh3:" + prediction.hash},
            {"predicted_at", format_utc(prediction.unix_time)}}},
          std::move(time),
          std::move(operations),
          std::move(uncertainty)};
}

}  // namespace tessera
