#pragma once
// Which stream plays which lane.

#include <array>
#include <memory>

#include "tessera/engine/player.hpp"

namespace tessera {

/// Compute runs on the caller's thread, which issues everything in list order. Communication runs there too (serial),
/// on one thread of its own (parallel; merging lanes is legal, because list order is issue order), or on a thread per
/// lane (chaos).
class Player::Lanes {
 public:
  explicit Lanes(LaneMode mode) : caller_(make_serial_stream("compute")) {
    stream_.fill(caller_.get());
    if (mode == LaneMode::serial) return;
    for (const Lane lane : {Lane::gather, Lane::reduce, Lane::replica}) {
      if (mode == LaneMode::chaos || workers_.empty()) {
        workers_.push_back(make_host_stream(mode == LaneMode::chaos ? std::string(name_of(lane)) : "communication"));
      }
      stream_[static_cast<std::size_t>(lane)] = workers_.back().get();
    }
  }

  Stream& of(Lane lane) { return *stream_[static_cast<std::size_t>(lane)]; }
  bool on_caller(Lane lane) const { return stream_[static_cast<std::size_t>(lane)] == caller_.get(); }

  /// Waits for all lanes and rethrows what their work threw.
  void join() {
    caller_->synchronize();
    for (auto& worker : workers_) worker->synchronize();
  }

  /// Waits for all lanes after a failure; what they throw is known already.
  void drain() {
    auto quietly = [](Stream& stream) {
      try {
        stream.synchronize();
      } catch (const std::exception&) {
        return;
      }
    };
    quietly(*caller_);
    for (auto& worker : workers_) quietly(*worker);
  }

 private:
  std::unique_ptr<Stream> caller_;
  std::vector<std::unique_ptr<Stream>> workers_;
  std::array<Stream*, kLanes> stream_{};
};

}  // namespace tessera
