#include "tessera/optimizer/run_length.hpp"

#include <algorithm>
#include <utility>

#include "tessera/base/math.hpp"

namespace tessera {

RunPosition in_samples_of(std::int64_t sequence, RunPosition position) {
  const std::int64_t before = std::exchange(position.sequence, sequence);
  if (before == 0 || before == sequence) return position;
  position.next_sample = checked_multiply(position.next_sample, before) / sequence;
  position.first_batch = std::max<std::int64_t>(1, checked_multiply(position.first_batch, before) / sequence);
  return position;
}

RunLength::RunLength(std::int64_t steps, std::int64_t samples, std::int64_t batch, const RunPosition& from)
    : from_(from), batch_(batch), steps_(steps), schedule_steps_(steps), counts_samples_(samples > 0) {
  if (from_.first_batch == 0) from_.first_batch = batch;
  if (!counts_samples_) return;
  steps_ = from.step + ceil_div(std::max<std::int64_t>(0, samples - from.next_sample), batch);
  schedule_steps_ = ceil_div(samples, from_.first_batch);
}

RateProgress RunLength::progress(std::int64_t step) const {
  const auto done = static_cast<double>(step);
  if (!counts_samples_) return {done - 1, done, static_cast<double>(steps_)};
  // Exact where the batch never changed: then these are the numbers of steps.
  const auto in_steps = [&](std::int64_t samples) {
    return static_cast<double>(samples) / static_cast<double>(from_.first_batch);
  };
  return {in_steps(samples_after(step - 1)), in_steps(samples_after(step)), in_steps(samples())};
}

}  // namespace tessera
