#include "comm/point_to_point/point_to_point_communicator.hpp"

#include <cstring>

#include "comm/tree_sum.hpp"
#include "tessera/base/error.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kChunk = std::int64_t{1}
                                << 22;  ///< longest message: far below MPI's 2^31 - 1, and progress shows
constexpr int kTagsPerKind = 2048;      ///< tags repeat after this many collectives
constexpr int kKinds = 7;               ///< of Collective, and the comparison of calls
static_assert(kKinds * kTagsPerKind <= Transport::kMaxTag);
static_assert(sizeof(std::int64_t) == 8);

/// The data that neighbours compare.
struct Heading {
  std::int64_t number;
  std::uint64_t shape;
  bool operator==(const Heading&) const = default;
};

}  // namespace

PointToPointCommunicator::PointToPointCommunicator(RankContext& context, std::vector<std::int64_t> members,
                                                   std::string name, const CommunicatorOptions& options)
    : GroupCommunicator(context, std::move(members), std::move(name), options.timeout_seconds),
      transport_(context.open_transport(members_)),
      own_(options.external_workspace ? 0 : static_cast<std::size_t>(staging_bytes(size_))),
      staging_(own_),
      sources_(static_cast<std::size_t>(size_)) {}

void PointToPointCommunicator::set_workspace(std::span<std::byte> scratch) {
  if (own_.empty()) staging_ = scratch;
}

std::int64_t PointToPointCommunicator::block() const {
  const std::int64_t bytes = static_cast<std::int64_t>(staging_.size()) / size_ / 64 * 64;
  TESSERA_ASSERT(bytes > 0, "'{}' is to add up in {} bytes", name_, staging_.size());
  return bytes;
}

void PointToPointCommunicator::perform(const CollectiveCall& call) {
  begin_call(call);
  try {
    compare_with_neighbour();
    tag_ = static_cast<int>(call.collective) * kTagsPerKind + static_cast<int>(number_ % kTagsPerKind);
    GroupCommunicator::perform(call);
    finish_all();
  } catch (...) {
    transport_->cancel();
    under_way_ = 0;
    throw;
  }
}

void PointToPointCommunicator::compare_with_neighbour() {
  const std::int64_t before = (index_ + size_ - 1) % size_;
  const Heading mine{number_, call_.packed()};
  Heading theirs{};
  tag_ = (kKinds - 1) * kTagsPerKind;
  receive(before, &theirs, sizeof theirs);
  send((index_ + 1) % size_, &mine, sizeof mine);
  finish_all();
  if (theirs == mine) return;
  throw CommunicationError(
      "collective {} of '{}': rank {} is in {}, rank {} in number {}, {}. All ranks must make the "
      "same calls.",
      number_, name_, world_rank(index_), call_.text(), world_rank(before), theirs.number,
      CollectiveCall::unpacked(theirs.shape).text());
}

void PointToPointCommunicator::start(std::int64_t peer, void* data, std::int64_t bytes, bool receives) {
  const int to = static_cast<int>(peer);
  std::int64_t begin = 0;
  do {  // an empty message is a message too
    make_room(1);
    const std::int64_t now = std::min(kChunk, bytes - begin);
    std::byte* const here = static_cast<std::byte*>(data) + begin;
    const MessageSlot slot =
        receives ? transport_->start_receive(to, tag_, here, now) : transport_->start_send(to, tag_, here, now);
    pending_[under_way_++] = {slot, peer};
    begin += now;
  } while (begin < bytes);
}

/// Receives and sends in turn: a window full of receives alone would leave no rank a message to wait for.
void PointToPointCommunicator::trade(std::int64_t from, void* received, std::int64_t to, const void* sent,
                                     std::int64_t bytes) {
  std::int64_t begin = 0;
  do {
    const std::int64_t now = std::min(kChunk, bytes - begin);
    receive(from, static_cast<std::byte*>(received) + begin, now);
    send(to, static_cast<const std::byte*>(sent) + begin, now);
    begin += now;
  } while (begin < bytes);
}

/// Waits until `messages` more fit into the window.
void PointToPointCommunicator::make_room(std::size_t messages) {
  for (PollPause wait(notice_); under_way_ + messages > kWindow;) {
    if (poll()) {
      wait.restart();
      continue;
    }
    if (deadline_.passed()) timed_out();
    wait.pause();
  }
}

/// Removes finished messages from the window; returns whether there were any.
bool PointToPointCommunicator::poll() {
  const std::size_t before = under_way_;
  for (std::size_t i = 0; i < under_way_;) {
    if (transport_->finished(pending_[i].slot)) {
      pending_[i] = pending_[--under_way_];
    } else {
      ++i;
    }
  }
  return under_way_ < before;
}

void PointToPointCommunicator::timed_out() {
  std::vector<std::int64_t> missing;
  for (std::size_t i = 0; i < under_way_; ++i) missing.push_back(world_rank(pending_[i].peer));
  std::sort(missing.begin(), missing.end());
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  throw TimeoutError("collective {} of '{}' ({}): {} did not arrive within {} s", number_, name_, call_.text(),
                     rank_list(missing), timeout_seconds_);
}

void PointToPointCommunicator::all_gather(const CollectiveCall& call) {
  auto* const whole = static_cast<std::byte*>(call.to);
  const std::int64_t bytes = call.bytes();
  for (std::int64_t step = 1; step < size_; ++step) {
    const std::int64_t to = (index_ + step) % size_, from = (index_ + size_ - step) % size_;
    trade(from, whole + from * bytes, to, whole + index_ * bytes, bytes);
  }
}

void PointToPointCommunicator::reduce_scatter(const CollectiveCall& call) {
  const std::int64_t element = size_of(call.wire), staged_bytes = block(), most = staged_bytes / element;
  const auto slice = [&](std::int64_t member, std::int64_t begin) {
    return static_cast<const std::byte*>(call.from) + (member * call.elements + begin) * element;
  };
  for (std::int64_t begin = 0; begin < call.elements; begin += most) {
    const std::int64_t now = std::min(most, call.elements - begin);
    for (std::int64_t step = 1; step < size_; ++step) {
      const std::int64_t to = (index_ + step) % size_, from = (index_ + size_ - step) % size_;
      std::byte* const staged = staging_.data() + from * staged_bytes;
      sources_[static_cast<std::size_t>(from)] = staged;
      trade(from, staged, to, slice(to, begin), now * element);
    }
    sources_[static_cast<std::size_t>(index_)] = slice(index_, begin);
    finish_all();
    tree_sum(sources_.data(), size_, call.wire, static_cast<std::byte*>(call.to) + begin * size_of(call.result),
             call.result, now);
  }
}

/// Reduces in a binomial tree: a member's parent has its lowest set bit cleared.
void PointToPointCommunicator::reduce_to_first(std::int64_t* values, std::int64_t count, Reduction reduction) {
  const std::int64_t bytes = count * 8;
  auto* const theirs = reinterpret_cast<std::int64_t*>(staging_.data());
  for (std::int64_t bit = 1; bit < size_; bit *= 2) {
    if (index_ & bit) {
      send(index_ - bit, values, bytes);
      finish_all();
      return;
    }
    if (index_ + bit >= size_) continue;
    receive(index_ + bit, theirs, bytes);
    finish_all();
    reduce_into(values, theirs, count, reduction);
  }
}

void PointToPointCommunicator::broadcast_block(std::byte* data, std::int64_t bytes, std::int64_t root) {
  const std::int64_t place = (index_ + size_ - root) % size_;  // members counted from the root
  std::int64_t bit = 1;
  while (bit < size_ && !(place & bit)) bit *= 2;
  if (place != 0) {
    receive((place - bit + root) % size_, data, bytes);
    finish_all();
  }
  for (bit /= 2; bit >= 1; bit /= 2) {
    if (place + bit < size_) send((place + bit + root) % size_, data, bytes);
  }
}

void PointToPointCommunicator::all_reduce(const CollectiveCall& call) {
  const std::int64_t room = static_cast<std::int64_t>(staging_.size()) / 8;
  TESSERA_ASSERT(room > 0, "'{}' is to add up in {} bytes", name_, staging_.size());
  auto* const values = static_cast<std::int64_t*>(call.to);
  for (std::int64_t begin = 0; begin < call.elements; begin += room) {
    const std::int64_t now = std::min(room, call.elements - begin);
    reduce_to_first(values + begin, now, call.reduction());
    broadcast_block(reinterpret_cast<std::byte*>(values + begin), now * 8, 0);
    finish_all();
  }
}

/// Sends pieces, so that the far end of the tree starts before the root has sent everything.
void PointToPointCommunicator::broadcast(const CollectiveCall& call) {
  constexpr std::int64_t piece = std::int64_t{1} << 22;
  for (std::int64_t begin = 0; begin < call.bytes(); begin += piece) {
    broadcast_block(static_cast<std::byte*>(call.to) + begin, std::min(piece, call.bytes() - begin), call.root());
  }
}

/// All members walk the list in its order, so that the two ends of a message meet.
void PointToPointCommunicator::exchange(const CollectiveCall& call) {
  for (const ExchangeRun& run : call.runs) {
    const std::int64_t bytes = run.elements * size_of(call.wire);
    if (run.sender == index_ && run.receiver == index_) {
      std::memcpy(call.target_of(run), call.source_of(run), static_cast<std::size_t>(bytes));
    } else if (run.receiver == index_) {
      receive(run.sender, call.target_of(run), bytes);
    } else if (run.sender == index_) {
      send(run.receiver, call.source_of(run), bytes);
    }
  }
}

/// Uses dissemination: after round i a member has heard, through others, of 2^(i+1) members.
void PointToPointCommunicator::barrier(const CollectiveCall&) {
  for (std::int64_t distance = 1; distance < size_; distance *= 2) {
    receive((index_ + size_ - distance) % size_, nullptr, 0);
    send((index_ + distance) % size_, nullptr, 0);
    finish_all();
  }
}

}  // namespace tessera
