#pragma once
// Talk between ranks outside of the step: start-up, agreeing on hashes and errors, collecting dumps.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/comm/notice.hpp"
#include "tessera/comm/transport.hpp"

namespace tessera {

/// All calls block, and those of the second half are collective over the plane's ranks, in the same order on all of
/// them. Every wait ends with PeerError when a rank has failed. For small things: trees and stars over single messages.
class ControlPlane {
 public:
  /// `transport` must outlive the plane; `notice` too.
  ControlPlane(Transport& transport, FailureNotice& notice);

  int rank() const { return static_cast<int>(rank_); }
  int size() const { return static_cast<int>(ranks_.size()); }
  /// A plane over some of this plane's ranks (given in this plane's numbers, in order; the caller among them). Not
  /// collective; but calls on both planes must come in an order that all ranks of both share.
  ControlPlane part(const std::vector<std::int64_t>& ranks) const;

  void send(int to, std::span<const std::byte> block);
  std::vector<std::byte> receive(int from);
  /// Receives exactly into `block`; CommunicationError when the sizes differ.
  void receive(int from, std::span<std::byte> block);

  void barrier();
  /// Everybody gets root's text.
  std::string broadcast(const std::string& text, int root = 0);
  /// Everybody's bytes become root's; sizes must be equal.
  void broadcast(std::span<std::byte> block, int root = 0);
  /// All ranks' texts in rank order, on rank 0 only (elsewhere empty) or everywhere.
  std::vector<std::string> gather(const std::string& text);
  std::vector<std::string> all_gather(const std::string& text);
  std::int64_t sum(std::int64_t value);
  std::int64_t maximum(std::int64_t value);
  /// Doubles are added in a fixed order: the same bits at every call with the same world size.
  double sum(double value);
  double maximum(double value);

 private:
  ControlPlane(Transport& transport, FailureNotice& notice, std::vector<std::int64_t> ranks, std::int64_t rank);
  void finish(MessageSlot slot);
  void send_bytes(int to, const void* data, std::int64_t bytes);
  void receive_bytes(int from, void* data, std::int64_t bytes);
  template <class T, class F>
  T reduce(T value, F&& combine);

  Transport* transport_;
  FailureNotice* notice_;
  std::vector<std::int64_t> ranks_;  ///< the transport's rank of each of ours
  std::int64_t rank_;
};

}  // namespace tessera
