#include "tessera/record/rank_reports.hpp"

#include <cmath>

#include "tessera/telemetry/process_memory.hpp"

namespace tessera {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kCheapness = 200;

/// Adds up each rank's steps, names the rank that is slowing the others down, and spreads each step over the ranks.
void add_overlap(const std::vector<std::vector<OverlapTimes>>& ranks, const std::vector<std::int64_t>& steps,
                 RankRow& row) {
  std::vector<OverlapTimes> sums(ranks.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    for (const OverlapTimes& times : ranks[rank]) sums[rank] += times;
  row.straggler = find_straggler(sums);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    std::vector<OverlapTimes> of_step;
    for (const std::vector<OverlapTimes>& rank : ranks) of_step.push_back(rank.at(i));
    OverlapRow one{steps[i], find_straggler(of_step), {}};
    for (std::size_t kind = 0; kind < kOverlapKinds; ++kind) {
      std::vector<double> values;
      for (const OverlapTimes& times : of_step) values.push_back(times.seconds[kind]);
      one.times.push_back(spread_of(std::move(values)));
    }
    row.overlap.push_back(std::move(one));
  }
}

}  // namespace

void MemorySamples::sample(bool must) {
  const auto start = Clock::now();
  if (!must && start - last_ < kCheapness * cost_) return;
  const std::int64_t now = proportional_set_size();
  process_ = now < 0 ? -1 : now - before_;
  const std::optional<std::int64_t> of_gpu = device_.memory_taken();
  if (of_gpu || now >= 0) {
    const auto used = static_cast<double>(of_gpu.value_or(process_));
    peak_ = std::fmax(peak_, used);
    sum_ += used;
    ++samples_;
  }
  last_ = Clock::now();
  cost_ = last_ - start;
}

double MemorySamples::average() const {
  return samples_ > 0 ? sum_ / static_cast<double>(samples_) : RankValues::kUnknown;
}

void MemorySamples::clear() {
  process_ = -1;
  sum_ = 0;
  samples_ = 0;
}

RankReports::RankReports(World& world, const StepSchedule& schedule, const Resources& resources,
                         std::int64_t memory_before, DeviceMonitor* monitor)
    : world_(world),
      schedule_(schedule),
      resources_(resources),
      monitor_(monitor),
      memory_(*resources.device, memory_before) {}

void RankReports::add(const StepReport& report) {
  ++steps_;
  loss_scale_ = report.result.loss_scale;
  for (std::size_t i = 0; i < communication_.size(); ++i) communication_[i] += report.communication[i];
  if (!report.times.measured) return;
  ++timed_steps_;
  for (std::size_t i = 0; i < nanoseconds_.size(); ++i) nanoseconds_[i] += report.times.nanoseconds[i];
  overlap_steps_.push_back(report.step);
  overlap_.push_back(overlap_of(report.times));
}

/// Returns the norm of each unit's gradient in the last step, on rank 0. Each element was counted on one rank, in a sum
/// of integers that every norm operation copied, so that two copies differ by exactly what one unit added.
std::vector<double> RankReports::gather_layer_norms() const {
  std::vector<ExactSum> sums(schedule_.layout.units.size());
  std::vector<ExactSum> mine(sums.size());
  resources_.device->copy(mine.data(), resources_.address(schedule_.reserved(Reserved::unit_sums)),
                          static_cast<std::int64_t>(mine.size() * sizeof(ExactSum)));
  for (const std::vector<ExactSum>& of_rank : world_.control().gather(mine))
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i].add(of_rank[i]);
  std::vector<double> norms(sums.size());
  ExactSum before{};
  for (const Play& play : schedule_.step) {
    for (const OperationId id : schedule_.segments[play.segment].operations()) {
      const Operation& op = schedule_.operation(id);
      if (op.kind != OperationKind::norm) continue;
      const auto unit = static_cast<std::size_t>(op.unit.number());
      ExactSum added = sums[unit];
      for (std::size_t i = 0; i < ExactSum::kBins; ++i) added.bins[i] -= before.bins[i];
      added.non_finite -= before.non_finite;
      norms[unit] = std::sqrt(added.value()) / loss_scale_;
      before = sums[unit];
    }
  }
  return norms;
}

std::optional<RankRow> RankReports::gather(std::int64_t step, bool measures) {
  memory_.sample(measures);
  RankValues mine;
  for (std::size_t i = 0; i < nanoseconds_.size(); ++i)
    mine.times[i] = timed_steps_ > 0 ? static_cast<double>(nanoseconds_[i]) * 1e-9 : RankValues::kUnknown;
  mine.communication = communication_;
  mine.process = memory_.process();
  mine.memory_peak = memory_.peak();
  mine.memory_average = memory_.average();
  if (monitor_ != nullptr) mine.device = monitor_->sample();
  RankRow row{step, steps_, timed_steps_, {}, {}, {}};
  steps_ = timed_steps_ = 0;
  nanoseconds_ = {};
  communication_ = {};
  memory_.clear();
  for (const auto& values : world_.control().gather(std::vector{mine})) row.ranks.push_back(values[0]);
  if (const auto overlap = world_.control().gather(overlap_); !overlap.empty())
    add_overlap(overlap, overlap_steps_, row);
  if (schedule_.reserved(Reserved::unit_sums)) row.layer_norms = gather_layer_norms();
  overlap_steps_.clear();
  overlap_.clear();
  return world_.rank() == 0 ? std::optional(std::move(row)) : std::nullopt;
}

}  // namespace tessera
