#include "tessera/engine/player.hpp"

namespace tessera {

void Player::play(const Play& segment, const TokenFeed& feed) {
  if (!schedule_.fresh) return play_segment(segment, feed);
  bool& left = resources_.has_left_updates;
  Play now = segment;
  if (segment.segment == schedule_.step.front().segment) {
    if (!std::exchange(left, false)) now.segment = schedule_.fresh;
  } else if (left) {
    finish_step();
  }
  play_segment(now, feed);
  if (segment.segment == schedule_.step.back().segment) left = true;
}

void Player::finish_step() {
  if (!std::exchange(resources_.has_left_updates, false)) return;
  for (const Play& segment : schedule_.finish) play_segment(segment, {});
  synchronize();
  times().take();
}

}  // namespace tessera
