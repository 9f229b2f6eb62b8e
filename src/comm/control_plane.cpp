#include "tessera/comm/control_plane.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "comm/wait.hpp"
#include "tessera/base/error.hpp"

namespace tessera {

namespace {

constexpr int kTag = 0;
constexpr std::int64_t kLargestMessage = std::int64_t{1} << 30;  ///< MPI counts have 31 bits
/// Extra patience per rank that the awaited rank may itself wait for, so the rank nearest to a silent one names it.
constexpr double kPatience = 0.02;

std::vector<std::int64_t> all_ranks(std::int64_t size) {
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

WaitPhase::WaitPhase(PeerWaits& waits, std::string phase, double seconds, std::string option)
    : waits_(waits),
      phase_(std::exchange(waits.phase, std::move(phase))),
      option_(std::exchange(waits.option, std::move(option))),
      seconds_(std::exchange(waits.seconds, seconds)) {}

WaitPhase::~WaitPhase() {
  waits_.phase = std::move(phase_);
  waits_.option = std::move(option_);
  waits_.seconds = seconds_;
}

ControlPlane::ControlPlane(Transport& transport, FailureNotice& notice, std::shared_ptr<PeerWaits> waits)
    : ControlPlane(transport, notice, all_ranks(transport.size()), transport.rank(), std::move(waits)) {}

ControlPlane::ControlPlane(Transport& transport, FailureNotice& notice, std::vector<std::int64_t> ranks,
                           std::int64_t rank, std::shared_ptr<PeerWaits> waits)
    : transport_(&transport), notice_(&notice), ranks_(std::move(ranks)), rank_(rank), waits_(std::move(waits)) {}

ControlPlane ControlPlane::part(const std::vector<std::int64_t>& ranks) const {
  std::vector<std::int64_t> mapped;
  mapped.reserve(ranks.size());
  for (const std::int64_t rank : ranks) mapped.push_back(ranks_.at(static_cast<std::size_t>(rank)));
  const auto place = std::find(ranks.begin(), ranks.end(), rank_);
  TESSERA_ASSERT(place != ranks.end(), "rank {} makes a plane that it is not on", rank_);
  return {*transport_, *notice_, std::move(mapped), place - ranks.begin(), waits_};
}

void ControlPlane::give_up(std::int64_t peer, double seconds) const {
  const auto place = static_cast<std::size_t>(peer);
  throw TimeoutError(
      "rank {}{} did not answer within {:.4g} s{} while {}. It hangs or was stopped, or its disk or network does not "
      "answer.",
      peer, place < waits_->hosts.size() ? fmt::format(" ({})", waits_->hosts[place]) : "", seconds,
      waits_->option.empty() ? "" : fmt::format(" ({})", waits_->option), waits_->phase);
}

void ControlPlane::finish(MessageSlot slot, std::int64_t peer) {
  const double seconds = waits_->seconds * (1 + kPatience * behind_);
  PeerDeadline deadline(seconds);
  try {
    for (PollPause wait(*notice_); !transport_->finished(slot);) {
      if (deadline.passed()) give_up(peer, seconds);
      wait.pause();
    }
  } catch (...) {
    transport_->cancel();
    throw;
  }
}

void ControlPlane::send_bytes(int to, const void* data, std::int64_t bytes) {
  const int peer = static_cast<int>(ranks_.at(static_cast<std::size_t>(to)));
  for (std::int64_t at = 0; at < bytes; at += kLargestMessage) {
    finish(transport_->start_send(peer, kTag, static_cast<const std::byte*>(data) + at,
                                  std::min(kLargestMessage, bytes - at)),
           peer);
  }
}

void ControlPlane::receive_bytes(int from, void* data, std::int64_t bytes) {
  const int peer = static_cast<int>(ranks_.at(static_cast<std::size_t>(from)));
  for (std::int64_t at = 0; at < bytes; at += kLargestMessage) {
    finish(transport_->start_receive(peer, kTag, static_cast<std::byte*>(data) + at,
                                     std::min(kLargestMessage, bytes - at)),
           peer);
  }
}

void ControlPlane::send(int to, std::span<const std::byte> block) {
  const auto bytes = static_cast<std::int64_t>(block.size());
  send_bytes(to, &bytes, sizeof bytes);
  send_bytes(to, block.data(), bytes);
}

std::int64_t ControlPlane::receive_length(int from) {
  std::int64_t bytes = 0;
  receive_bytes(from, &bytes, sizeof bytes);
  return bytes;
}

std::vector<std::byte> ControlPlane::receive(int from) {
  const std::int64_t bytes = receive_length(from);
  if (bytes < 0 || bytes > kLargestMessage) {
    throw CommunicationError("rank {} announced a block of {} bytes ({} at most), so ranks are out of step", from,
                             bytes, kLargestMessage);
  }
  std::vector<std::byte> block(static_cast<std::size_t>(bytes));
  receive_bytes(from, block.data(), bytes);
  return block;
}

void ControlPlane::receive(int from, std::span<std::byte> block) {
  const std::int64_t bytes = receive_length(from);
  if (bytes != static_cast<std::int64_t>(block.size())) {
    throw CommunicationError("rank {} sent {} bytes where {} were expected, so ranks are out of step", from, bytes,
                             block.size());
  }
  receive_bytes(from, block.data(), bytes);
}

// Binomial trees, rooted at rank 0 of the plane: a rank's parent has its lowest set bit cleared.
template <class T, class F>
T ControlPlane::reduce(T value, F&& combine) {
  const auto as_bytes = [](T& v) { return std::as_writable_bytes(std::span(&v, 1)); };
  for (std::int64_t bit = 1; bit < size(); bit *= 2) {
    if (rank_ & bit) {
      send(static_cast<int>(rank_ - bit), as_bytes(value));
      break;
    }
    if (rank_ + bit < size()) {
      T other{};
      behind_ = std::countr_zero(static_cast<std::uint64_t>(bit));  // the depth of the other's subtree
      receive(static_cast<int>(rank_ + bit), as_bytes(other));
      value = combine(value, other);
    }
  }
  behind_ = 0;
  broadcast(as_bytes(value));
  return value;
}

void ControlPlane::broadcast(std::span<std::byte> block, int root) {
  const std::int64_t place = (rank_ - root + size()) % size();  // ranks counted from the root
  const auto rank_at = [&](std::int64_t p) { return static_cast<int>((p + root) % size()); };
  std::int64_t bit = 1;
  for (; bit < size() && !(place & bit); bit *= 2) {
  }
  // The root may wait for the depth of a tree before it sends, and every rank on the way to here after it.
  behind_ = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(size()))) +
            std::popcount(static_cast<std::uint64_t>(place));
  if (place != 0) receive(rank_at(place - bit), block);
  behind_ = 0;
  for (bit /= 2; bit >= 1; bit /= 2) {
    if (place + bit < size()) send(rank_at(place + bit), block);
  }
}

std::string ControlPlane::broadcast(const std::string& text, int root) {
  auto length = static_cast<std::int64_t>(text.size());
  broadcast(std::as_writable_bytes(std::span(&length, 1)), root);
  std::string result = rank_ == root ? text : std::string(static_cast<std::size_t>(length), '\0');
  broadcast(std::as_writable_bytes(std::span(result)), root);
  return result;
}

void ControlPlane::barrier() { sum(std::int64_t{0}); }

std::vector<std::string> ControlPlane::gather(const std::string& text) {
  if (rank_ != 0) {
    send(0, bytes_of(text));
    return {};
  }
  std::vector<std::string> all{text};
  for (int from = 1; from < size(); ++from) all.push_back(text_of(receive(from)));
  return all;
}

std::vector<std::string> ControlPlane::broadcast(const std::vector<std::string>& texts, int root) {
  // Joins all texts in one: "length:bytes" each.
  std::string joined;
  for (const std::string& part : texts) joined += fmt::format("{}:", part.size()) + part;
  joined = broadcast(joined, root);
  std::vector<std::string> all;
  for (std::size_t at = 0; at < joined.size();) {
    const std::size_t colon = joined.find(':', at);
    const std::size_t length = std::stoull(joined.substr(at, colon - at));
    all.push_back(joined.substr(colon + 1, length));
    at = colon + 1 + length;
  }
  return all;
}

std::int64_t ControlPlane::sum(std::int64_t value) {
  return reduce(value, [](std::int64_t a, std::int64_t b) { return a + b; });
}
std::int64_t ControlPlane::maximum(std::int64_t value) {
  return reduce(value, [](std::int64_t a, std::int64_t b) { return std::max(a, b); });
}
double ControlPlane::sum(double value) {
  return reduce(value, [](double a, double b) { return a + b; });
}
double ControlPlane::maximum(double value) {
  return reduce(value, [](double a, double b) { return std::max(a, b); });
}

}  // namespace tessera
