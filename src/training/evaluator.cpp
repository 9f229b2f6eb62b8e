#include "tessera/training/evaluator.hpp"

#include <algorithm>

#include "tessera/base/exact_sum.hpp"
#include "tessera/data/reader.hpp"

namespace tessera {

Evaluator::Evaluator(RankContext& context, const StepSchedule& schedule, Optimizer& optimizer, Player& player,
                     std::int64_t vocab)
    : context_(context),
      schedule_(schedule),
      optimizer_(optimizer),
      player_(player),
      vocab_(vocab),
      row_(static_cast<std::size_t>(schedule.model.sequence) + 1) {}

/// Windows that do not fill a micro-batch are repeated in one, whose loss then counts in part. Groups are the largest
/// remaining divisors of the micro-batch, for example 15 of 16 windows as 8, 4, 2 and 1.
Evaluation Evaluator::evaluate(const ValidationSet& set, std::int64_t micro_batches) {
  Evaluation result;
  result.set = set.name;
  result.available = set.samples.samples_per_epoch();
  const std::int64_t batch = schedule_.model.batch;
  result.windows = evaluated_windows(set, batch, micro_batches);
  result.left_out = set.samples.targets_after(result.windows);
  const auto [known, is_new] = tokens_.try_emplace({&set, result.windows}, 0);
  if (is_new) known->second = evaluated_tokens(set, result.windows);
  result.tokens = known->second;
  double sum = 0;
  std::int64_t done = 0;
  for (std::int64_t together = batch; together > 0; --together) {
    if (batch % together != 0) continue;
    const std::int64_t count = (result.windows - done) / together;
    const std::int64_t copies = batch / together;
    const double loss = evaluate_groups(set, done, together, count);
    sum += copies == 1 ? loss : loss / static_cast<double>(copies);
    done += count * together;
  }
  optimizer_.scalars().counts_loss = 1;
  result.loss = sum / static_cast<double>(result.tokens);
  return result;
}

double Evaluator::evaluate_groups(const ValidationSet& set, std::int64_t first, std::int64_t together,
                                  std::int64_t count) {
  const std::int64_t world = schedule_.grid.world(), tokens = together * schedule_.model.sequence;
  ExactSum sum{};
  sum.clear();
  for (std::int64_t round = 0; round * world < count; ++round) {
    const std::int64_t number = round * world + context_.rank();
    optimizer_.scalars().counts_loss = number < count ? 1 : 0;  // the last round may have more ranks than groups
    player_.send_inputs();
    player_.play(schedule_.evaluation, PlayPurpose::aside, [&](std::int32_t* inputs, std::int32_t* targets) {
      const std::int64_t window = first + std::min(number, count - 1) * together;
      for (std::int64_t at = 0; at < schedule_.model.tokens(); at += tokens)
        fill_batch(*set.source, set.samples, vocab_, window, together, row_, inputs + at, targets + at,
                   schedule_.model.documents ? targets + schedule_.model.tokens() + at : nullptr);
      return window;
    });
    player_.receive_scalars();
    sum.add(player_.reduced_scalars().loss);
  }
  return sum.value();
}

}  // namespace tessera
