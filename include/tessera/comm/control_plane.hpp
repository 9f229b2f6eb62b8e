#pragma once
// Messages between ranks outside of the step: start-up, agreeing on hashes and errors, collecting dumps.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "tessera/comm/notice.hpp"
#include "tessera/comm/transport.hpp"

namespace tessera {

/// How long a rank waits for a message of another, and the phase that the ranks are in meanwhile.
struct PeerWaits {
  std::string phase = "the ranks started";  ///< for the message
  double seconds = 300;                     ///< 0 = no limit
  std::string option;                       ///< the option that sets it; empty: none does
  std::vector<std::string> hosts;           ///< of the transport's ranks; may be empty
};

/// Puts the ranks in another phase during its lifetime. Phases follow each other, or nest.
class WaitPhase {
 public:
  /// `waits`: of a plane that this thread uses.
  WaitPhase(PeerWaits& waits, std::string phase, double seconds, std::string option);
  ~WaitPhase();
  WaitPhase(const WaitPhase&) = delete;
  WaitPhase& operator=(const WaitPhase&) = delete;

 private:
  PeerWaits& waits_;
  std::string phase_, option_;
  double seconds_;
};

/// Small messages between ranks: trees and stars over single messages. All calls block. Those from `barrier` on are
/// collective over the plane's ranks, in the same order on all of them. Every wait ends with PeerError when a rank has
/// failed, and with CommunicationError when a rank does not answer in time.
class ControlPlane {
 public:
  /// `transport` and `notice` must outlive the plane. `waits` is shared with its parts.
  ControlPlane(Transport& transport, FailureNotice& notice,
               std::shared_ptr<PeerWaits> waits = std::make_shared<PeerWaits>());

  int rank() const { return static_cast<int>(rank_); }
  int size() const { return static_cast<int>(ranks_.size()); }
  PeerWaits& waits() { return *waits_; }
  /// Makes a plane over some of this plane's ranks (given in this plane's numbers, in order; the caller among them).
  /// Not collective, but calls on both planes must come in the same order on all ranks of both.
  ControlPlane part(const std::vector<std::int64_t>& ranks) const;

  void send(int to, std::span<const std::byte> block);
  /// Receives a block of 1 GiB at most.
  std::vector<std::byte> receive(int from);
  /// Receives exactly into `block`; CommunicationError when the sizes differ.
  void receive(int from, std::span<std::byte> block);

  void barrier();
  /// Sends root's text to all ranks.
  std::string broadcast(const std::string& text, int root = 0);
  /// Replaces all ranks' bytes by root's; sizes must be equal.
  void broadcast(std::span<std::byte> block, int root = 0);
  /// Sends root's texts to all ranks.
  std::vector<std::string> broadcast(const std::vector<std::string>& texts, int root = 0);
  /// Collects all ranks' texts in rank order, on rank 0 only (elsewhere empty) or everywhere.
  std::vector<std::string> gather(const std::string& text);
  std::vector<std::string> all_gather(const std::string& text) { return broadcast(gather(text)); }
  /// The same for a vector of values, of any length on each rank. Ranks run the same program, so that values go between
  /// them as they lie in memory.
  template <class Values>
  requires std::is_trivially_copyable_v<typename Values::value_type> std::vector<Values> gather(const Values& values) {
    return from_texts<Values>(gather(as_text(values)));
  }
  template <class Values>
  requires std::is_trivially_copyable_v<typename Values::value_type> std::vector<Values> all_gather(
      const Values& values) {
    return from_texts<Values>(all_gather(as_text(values)));
  }
  std::int64_t sum(std::int64_t value);
  std::int64_t maximum(std::int64_t value);
  /// Adds doubles in a fixed order: the same bits at every call with the same world size.
  double sum(double value);
  double maximum(double value);

 private:
  ControlPlane(Transport& transport, FailureNotice& notice, std::vector<std::int64_t> ranks, std::int64_t rank,
               std::shared_ptr<PeerWaits> waits);
  void finish(MessageSlot slot, std::int64_t peer);
  [[noreturn]] void give_up(std::int64_t peer, double seconds) const;
  void send_bytes(int to, const void* data, std::int64_t bytes);
  void receive_bytes(int from, void* data, std::int64_t bytes);
  std::int64_t receive_length(int from);
  template <class Values>
  static std::string as_text(const Values& values) {
    const auto bytes = std::as_bytes(std::span(values));
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  template <class Values>
  static std::vector<Values> from_texts(const std::vector<std::string>& texts) {
    std::vector<Values> all;
    for (const std::string& text : texts) {
      Values& values = all.emplace_back(text.size() / sizeof(typename Values::value_type));
      std::ranges::copy(text, reinterpret_cast<char*>(values.data()));
    }
    return all;
  }
  template <class T, class F>
  T reduce(T value, F&& combine);

  Transport* transport_;
  FailureNotice* notice_;
  std::vector<std::int64_t> ranks_;  ///< the transport's rank of each of the plane's
  std::int64_t rank_;
  std::shared_ptr<PeerWaits> waits_;
  int behind_ = 0;  ///< how many ranks the awaited one may itself wait for
};

}  // namespace tessera
