#include "training/integrity/integrity.hpp"

#include <algorithm>

#include "training/integrity/nan_search.hpp"

namespace tessera {

Integrity::Integrity(const RunOptions& options, const StepSchedule& schedule, Resources& resources, Player& player,
                     StepSamples& samples, std::int64_t step)
    : options_(options),
      schedule_(schedule),
      resources_(resources),
      player_(player),
      samples_(samples),
      checked_(step),
      replayed_(step) {
  if (schedule.reserved(Reserved::state_sums)) check_.emplace(schedule, resources);
  if (schedule.reserved(Reserved::replay_sums)) replay_.emplace(schedule, resources, player);
}

TokenFeed Integrity::feed_of(std::int64_t step, std::int64_t micro_step, std::int64_t rank) {
  return [=, this](std::int32_t* tokens, std::int32_t* targets) {
    return samples_.feed(step, micro_step, rank, tokens, targets);
  };
}

void Integrity::check_state(std::int64_t done) {
  if (!check_) return;
  player_.finish_step();
  player_.synchronize();
  const std::vector<std::string> found = check_->differences();
  if (found.empty()) {
    checked_ = done;
    return;
  }
  constexpr std::size_t kNamed = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(kNamed, found.size()); ++i) text += (i > 0 ? "; " : "") + found[i];
  if (found.size() > kNamed) text += fmt::format("; and {} more", found.size() - kNamed);
  throw CorruptionError("memory or a processor changed bits, after step {} and at the latest in step {}: {}", checked_,
                        done + 1, text);
}

void Integrity::play_twice(std::int64_t step, const TokenFeed& own) {
  const auto feed_ahead = [&](std::int64_t ahead) {
    return feed_of(step, 0, (resources_.context.rank() + ahead) % schedule_.grid.world());
  };
  replay_->play(1, feed_ahead(1));
  replay_->play(0, own);
  const std::string found = replay_->difference([&] { replay_->play(2, feed_ahead(2)); });
  if (!found.empty()) {
    trusted_ = replayed_;
    throw CorruptionError("a processor or memory made wrong bits in the first micro-step of step {}: {}", step, found);
  }
  replayed_ = step;
}

/// The inputs are still those of the step. Its update is not played again: if what was bad does not repeat, it would
/// change the state.
std::string Integrity::locate_nan(std::int64_t step) {
  NanSearch search(schedule_, resources_);
  player_.watch([&](OperationId id) { search.look(id); });
  for (const Play& play : schedule_.step) {
    if (schedule_.segments[play.segment].role == SegmentRole::update) continue;
    search.begin(play);
    player_.play(play, PlayPurpose::aside, feed_of(step, play.micro_step, resources_.context.rank()));
    player_.synchronize();
  }
  player_.watch({});
  player_.play(schedule_.prologue, PlayPurpose::aside);  // the next step has used up units that were gathered early
  return search.found(resources_.context, samples_.first_of(step));
}

}  // namespace tessera
