#pragma once
// Which stream plays which lane.

#include <array>
#include <memory>
#include <vector>

#include "tessera/engine/player.hpp"

namespace tessera {

/// On CPUs compute runs on the caller's thread, which issues everything in list order; communication runs there too
/// (serial), on one thread of its own (parallel; merging lanes is legal, because list order is issue order), or on a
/// thread per lane (chaos). On a GPU all are streams, one for all (serial) or one per lane; the caller only submits.
class Player::Lanes {
 public:
  Lanes(Device& device, LaneMode mode)
      : on_host_(device.kind() == DeviceKind::cpu),
        caller_(on_host_ ? make_serial_stream("compute") : device.make_stream("compute")) {
    stream_.fill(caller_.get());
    if (mode == LaneMode::serial) return;
    const bool one_for_all = on_host_ && mode != LaneMode::chaos;
    for (const Lane lane : {Lane::gather, Lane::reduce, Lane::replica}) {
      if (!one_for_all || others_.empty()) {
        others_.push_back(
            device.make_stream(one_for_all ? "communication" : std::string(name_of(lane)), StreamPriority::high));
        if (!on_host_) ends_.push_back(device.make_event());
      }
      stream_[static_cast<std::size_t>(lane)] = others_.back().get();
    }
    if (!on_host_) border_ = device.make_event();
  }

  Stream& of(Lane lane) { return *stream_[static_cast<std::size_t>(lane)]; }
  /// The stream of compute, which also loads and stores, and which a segment's borders join into.
  Stream& compute() { return *caller_; }
  /// Whether a lane's work is done, when it was submitted: on the caller's thread.
  bool on_caller(Lane lane) const { return on_host_ && stream_[static_cast<std::size_t>(lane)] == caller_.get(); }

  /// A segment starts: what is submitted from here on comes after all that was.
  void fork() {
    if (ends_.empty()) return;
    caller_->record(*border_);
    for (auto& other : others_) other->wait(*border_);
  }

  /// A segment ends. On CPUs: waits for all lanes and rethrows what their work threw. On a GPU compute goes on when the
  /// others are done, and the caller does not wait.
  void join() {
    if (on_host_) return synchronize();
    for (std::size_t i = 0; i < others_.size(); ++i) {
      others_[i]->record(*ends_[i]);
      caller_->wait(*ends_[i]);
    }
  }

  /// The caller waits for everything.
  void synchronize() {
    caller_->synchronize();
    for (auto& other : others_) other->synchronize();
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
    for (auto& other : others_) quietly(*other);
  }

 private:
  bool on_host_;
  std::unique_ptr<Stream> caller_;
  std::vector<std::unique_ptr<Stream>> others_;
  std::unique_ptr<Event> border_;             ///< GPU: where a segment starts
  std::vector<std::unique_ptr<Event>> ends_;  ///< GPU: of the others, where it ends
  std::array<Stream*, kLanes> stream_{};
};

}  // namespace tessera
