#include "tessera/engine/player.hpp"

namespace tessera {

void Player::play(const Play& segment, PlayPurpose purpose, const TokenFeed& feed) {
  Play now = segment;
  if (schedule_.fresh) {
    if (segment.segment != schedule_.step.front().segment) {
      finish_step();
    } else if (!std::exchange(resources_.has_left_updates, false)) {
      now.segment = schedule_.fresh;
    }
  }
  log_.count_times(purpose == PlayPurpose::step);
  play_segment(now, feed);
  if (schedule_.fresh && segment.segment == schedule_.step.back().segment) resources_.has_left_updates = true;
}

void Player::finish_step() {
  if (!std::exchange(resources_.has_left_updates, false)) return;
  log_.count_times(false);
  for (const Play& segment : schedule_.finish) play_segment(segment, {});
  synchronize();
}

}  // namespace tessera
