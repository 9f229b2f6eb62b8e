// Compares predicted times with measured ones.
#include <algorithm>
#include <cmath>

#include "tessera/base/format.hpp"
#include "tessera/base/text_table.hpp"
#include "tessera/record/prediction.hpp"
#include "tessera/telemetry/overlap.hpp"

namespace tessera {

namespace {

constexpr std::size_t kMostSteps = 256;
constexpr double kLeastShare = 0.01;  ///< of the predicted step; less is not worth a sentence

/// Returns whether a difference is beyond what was stated.
bool differs(const PredictedTime& time, double step_seconds) {
  const double apart = std::abs(time.measured - time.predicted);
  return apart > time.uncertainty * time.predicted && apart >= kLeastShare * step_seconds;
}

/// "1.80 times its price: 12.3 ms a step instead of 6.8 ms".
std::string times_as_long(const PredictedTime& time, std::string_view than) {
  if (time.predicted <= 0) return fmt::format("{} a step, and nothing was predicted", format_seconds(time.measured));
  return fmt::format("{:.2f} times {}: {} a step instead of {}", time.measured / time.predicted, than,
                     format_seconds(time.measured), format_seconds(time.predicted));
}

std::string_view subject(TimeCategory category) {
  switch (category) {
    case TimeCategory::data:
      return "reading tokens";
    case TimeCategory::optimizer:
      return "the optimizer";
    case TimeCategory::exposed_gather:
      return "all-gather";
    case TimeCategory::exposed_reduce_scatter:
      return "reduce-scatter";
    case TimeCategory::exposed_all_reduce:
      return "all-reduce";
    case TimeCategory::exposed_other:
      return "copies and the host's operations";
    default:
      return name_of(category);
  }
}

/// For what overlaps with compute, the operations themselves come first: if they kept their price, compute waited for
/// them longer because they were hidden less.
std::string difference_of(TimeCategory category, const Prediction& prediction, const StepMedians& medians) {
  const auto i = static_cast<std::size_t>(category);
  const double uncertainty = prediction.class_uncertainty[i];
  const PredictedTime operations{"", prediction.timeline.operations[i], medians.operations[i], uncertainty},
      time{"", prediction.timeline.time[i], medians.time[i], uncertainty};
  if (differs(operations, prediction.step_seconds))
    return fmt::format("{} took {}", subject(category), times_as_long(operations, "its price"));
  if (differs(time, prediction.step_seconds))
    return fmt::format("compute waited for {} {}", subject(category), times_as_long(time, "as long as predicted"));
  return {};
}

}  // namespace

StepMedians medians_of(std::vector<double> seconds, const std::vector<TimedStep>& timed) {
  StepMedians medians{.steps = seconds.size(), .timed = timed.size()};
  medians.time.fill(StepMedians::kUnknown);
  medians.operations.fill(StepMedians::kUnknown);
  if (!seconds.empty()) medians.seconds = spread_of(std::move(seconds)).median;
  if (timed.empty()) return medians;
  const auto over_steps = [&](auto&& of_step) {
    std::vector<double> values;
    for (const TimedStep& step : timed) values.push_back(of_step(step));
    return spread_of(std::move(values)).median;
  };
  for (std::size_t i = 0; i < kTimeCategories; ++i) {
    medians.time[i] = over_steps([i](const TimedStep& step) { return 1e-9 * double(step.times.nanoseconds[i]); });
    medians.operations[i] = over_steps([i](const TimedStep& step) { return 1e-9 * double(step.times.operations[i]); });
  }
  medians.host = over_steps([](const TimedStep& step) {
    double rest = step.seconds;
    for (const std::int64_t nanoseconds : step.times.nanoseconds) rest -= 1e-9 * static_cast<double>(nanoseconds);
    return std::max(rest, 0.0);
  });
  return medians;
}

void MeasuredSteps::add(double seconds, const StepTimeTotals& times) {
  const auto keep = [&](std::deque<Step>& steps) {
    steps.push_back({steps_, {seconds, times}});
    if (steps.size() > kMostSteps) steps.pop_front();
  };
  keep(last_);
  if (times.measured) keep(timed_);
  ++steps_;
}

StepMedians MeasuredSteps::medians() const {
  const std::int64_t warmup = std::min(std::clamp<std::int64_t>(steps_ / 5, 1, 10), steps_ - 1);
  std::vector<double> seconds;
  for (const Step& step : last_) {
    if (step.number >= warmup) seconds.push_back(step.step.seconds);
  }
  std::vector<TimedStep> timed;
  for (const Step& step : timed_) {
    if (step.number >= warmup) timed.push_back(step.step);
  }
  return medians_of(std::move(seconds), timed);
}

std::vector<PredictedTime> compared_times(const Prediction& prediction, const StepMedians& medians) {
  std::vector<PredictedTime> times{{"step", prediction.step_seconds, medians.seconds, prediction.uncertainty}};
  for (std::size_t i = 0; i < kTimeCategories; ++i) {
    const double predicted = prediction.timeline.time[i], measured = medians.time[i];
    if (predicted > 0 || measured > 0)
      times.push_back({name_of(static_cast<TimeCategory>(i)), predicted, measured, prediction.class_uncertainty[i]});
  }
  times.push_back({"host", prediction.timeline.host, medians.host, 0});
  return times;
}

std::vector<std::string> differences(const Prediction& prediction, const StepMedians& medians) {
  std::vector<std::string> found;
  const std::vector<PredictedTime> times = compared_times(prediction, medians);
  if (differs(times.front(), prediction.step_seconds))
    found.push_back(fmt::format("a step took {}, beyond +- {:.0f}%", times_as_long(times.front(), "its prediction"),
                                100 * prediction.uncertainty));
  for (std::size_t i = 0; i < kTimeCategories; ++i) {
    const std::string sentence = difference_of(static_cast<TimeCategory>(i), prediction, medians);
    if (!sentence.empty()) found.push_back(sentence);
  }
  if (differs(times.back(), prediction.step_seconds))
    found.push_back(fmt::format("the host took {}", times_as_long(times.back(), "as long as predicted")));
  return found;
}

std::string comparison(const RunPrediction& prediction, const StepMedians& medians) {
  if (medians.steps == 0) return {};
  TextTable table({"", ">predicted", ">+-", ">measured", ">ratio"});
  for (const PredictedTime& time : compared_times(prediction.step, medians)) {
    const bool known = !std::isnan(time.measured);
    table.row({time.name, format_seconds(time.predicted),
               time.uncertainty > 0 ? fmt::format("{:.0f}%", 100 * time.uncertainty) : "",
               known ? format_seconds(time.measured) : "",
               known && time.predicted > 0 ? fmt::format("{:.2f}", time.measured / time.predicted) : ""});
  }
  std::string text =
      fmt::format("compared   seconds a step of rank 0, the median of {}", counted(medians.steps, "step"));
  text += medians.timed == 0 ? "; no operations were timed"
          : medians.timed == medians.steps
              ? ""
              : fmt::format(", by category of {} whose operations were timed", counted(medians.timed, "step"));
  text += "\n" + table.text();
  const std::vector<std::string> sentences = differences(prediction.step, medians);
  for (const std::string& sentence : sentences) text += fmt::format("finding    {}\n", sentence);
  if (sentences.empty()) text += "finding    none: no difference is beyond what the prices state\n";
  text.pop_back();
  return text;
}

}  // namespace tessera
