#include "training/step_samples.hpp"

#include <algorithm>

namespace tessera {

static_assert(kUncounted == kUncountedToken, "kernels and data agree on targets that do not count");

StepSamples::StepSamples(const Options& options, const StepSchedule& schedule, const Dataset& data,
                         const RunPosition& from, std::int64_t rank)
    : options_(options),
      schedule_(schedule),
      data_(data),
      from_(from),
      row_(static_cast<std::size_t>(schedule.model.sequence) + 1),
      row_ahead_(row_.size()),
      reader_(data.source(), data.train(), data.vocab(), schedule.model.batch, [this, rank](std::int64_t request) {
        count_ahead(request);
        return first_of_request(request, rank);
      }) {}

/// Maps request q of a rank's reader to micro-step q mod K of step q div K, counted from where the session started.
std::int64_t StepSamples::first_of_request(std::int64_t request, std::int64_t rank) const {
  const std::int64_t K = schedule_.policy.accumulation;
  const std::int64_t number = schedule_.micro_batches().micro_batch(schedule_.grid, K, rank, request % K);
  return from_.next_sample + first_sample_of(request / K, schedule_.grid.world() * K, number, schedule_.model.batch);
}

std::int64_t StepSamples::first_of(std::int64_t step, std::int64_t micro_step, std::int64_t rank) const {
  return first_of_request((step - 1 - from_.step) * schedule_.policy.accumulation + micro_step, rank);
}

void StepSamples::count(std::int64_t step, std::span<std::int32_t> row, std::vector<std::int64_t>& counted) const {
  const std::int64_t first = first_of(step);
  counted.assign(std::max<std::size_t>(data_.mixture().size(), 1), 0);
  if (data_.mixture().empty()) {
    counted[0] = counted_targets(data_.source(), data_.train(), first, per_step(), row);
    return;
  }
  for (std::int64_t sample = first; sample < first + per_step(); ++sample)
    counted[data_.train().source_of(sample)] += counted_targets(data_.source(), data_.train(), sample, 1, row);
}

/// Counts the targets of a step when the reader comes to its first micro-batch.
void StepSamples::count_ahead(std::int64_t request) {
  const std::int64_t K = schedule_.policy.accumulation, step = from_.step + 1 + request / K;
  if (request % K != 0) return;
  count(step, row_ahead_, counting_);
  const std::lock_guard lock(mutex_);
  auto place = std::ranges::find_if(counted_, [&](const Counted& one) { return one.step < begun_; });
  if (place == counted_.end()) place = counted_.emplace(counted_.end());
  place->step = step, place->targets = counting_;
}

void StepSamples::counted_targets_of(std::int64_t step, std::vector<std::int64_t>& counted) {
  {
    const std::lock_guard lock(mutex_);
    begun_ = step;
    if (const auto ahead = std::ranges::find(counted_, step, &Counted::step); ahead != counted_.end()) {
      counted = ahead->targets;
      return;
    }
  }
  count(step, row_, counted);
}

std::string StepSamples::places_of(std::int64_t step) const {
  const std::int64_t first = first_of(step);
  std::string lines;
  for (std::int64_t sample = first; sample < first + per_step(); ++sample) {
    lines += fmt::format("sample {}: {}\n", sample, place_of(data_.source(), data_.train().ranges(sample)));
  }
  return lines;
}

DataPosition StepSamples::position_after(std::int64_t step) const {
  DataPosition position;
  position.known = true;
  position.fingerprint = fmt::format("{:016x}", data_.fingerprint());
  position.order = name_of(data_.train().order());
  position.sequence = schedule_.model.sequence;
  position.global_batch = per_step();
  position.data_seed = options_.data.seed;
  position.run_seed = options_.run.seed;
  position.next_sample = first_of(step + 1);
  position.first_batch = from_.first_batch > 0 ? from_.first_batch : per_step();
  return position;
}

std::int64_t StepSamples::feed(std::int32_t* tokens, std::int32_t* targets) {
  const Batch batch = reader_.take();
  std::ranges::copy(batch.tokens, tokens);
  std::ranges::copy(batch.targets, targets);
  if (schedule_.model.documents) std::ranges::copy(batch.positions, targets + batch.targets.size());
  return batch.first_sample;
}

std::int64_t StepSamples::feed(std::int64_t step, std::int64_t micro_step, std::int64_t rank, std::int32_t* tokens,
                               std::int32_t* targets) {
  const ModelParts& model = schedule_.model;
  const std::int64_t first = first_of(step, micro_step, rank);
  fill_batch(data_.source(), data_.train(), data_.vocab(), first, model.batch, row_, tokens, targets,
             model.documents ? targets + model.tokens() : nullptr);
  return first;
}

}  // namespace tessera
