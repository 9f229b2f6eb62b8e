#pragma once
// Which stream plays which lane.

#include <array>
#include <chrono>
#include <memory>

#include "tessera/engine/player.hpp"

namespace tessera {

/// Compute runs on the caller's thread, which issues everything in list order. Communication runs there too (serial), on one
/// thread of its own (parallel; merging lanes is legal, because list order is issue order), or on a thread per lane (chaos).
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

  /// Waits for all lanes; `waited(lane, nanoseconds)` hears how long each worker kept the caller waiting.
  template <class F>
  void join(F&& waited) {
    caller_->synchronize();
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      const auto start = std::chrono::steady_clock::now();
      workers_[i]->synchronize();
      const auto spent = std::chrono::steady_clock::now() - start;
      waited(i == 0 && workers_.size() > 1 ? Lane::gather : Lane::reduce, std::chrono::duration_cast<std::chrono::nanoseconds>(spent).count());
    }
  }

  /// Waits for all lanes after a failure; what they throw is known already.
  void drain() {
    for (auto& worker : workers_) {
      try {
        worker->synchronize();
      } catch (const std::exception&) {
        continue;
      }
    }
  }

 private:
  std::unique_ptr<Stream> caller_;
  std::vector<std::unique_ptr<Stream>> workers_;
  std::array<Stream*, kLanes> stream_{};
};

}  // namespace tessera
