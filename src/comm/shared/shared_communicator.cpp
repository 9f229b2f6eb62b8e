#include "comm/shared/shared_communicator.hpp"

#include <algorithm>
#include <cstring>

#include "comm/tree_sum.hpp"
#include "tessera/backend/cores.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/math.hpp"

namespace tessera {

namespace {

/// The piece that one thread of a pool takes at a time: large enough to be worth a claim, small enough to share evenly.
constexpr std::int64_t kPieceBytes = std::int64_t{256} << 10;

bool may_spin(const RankContext& context, const CommunicatorOptions& options) {
  const std::int64_t threads = options.threads_on_cores > 0 ? options.threads_on_cores : context.ranks_per_node();
  return threads <= allowed_cores();
}

}  // namespace

SharedCommunicator::SharedCommunicator(RankContext& context, std::vector<std::int64_t> members,
                                       const SharedRegion& region, std::string name, const CommunicatorOptions& options)
    : GroupCommunicator(context, std::move(members), std::move(name), options.timeout_seconds),
      region_(region),
      options_(options),
      spin_(may_spin(context, options)),
      block_(context, members_, index_) {
  for (const std::int64_t member : members_) peers_.push_back(region.peer(member));
  sources_.resize(static_cast<std::size_t>(size_ * (options.pool ? options.pool->threads() : 1)));
}

void SharedCommunicator::enter(const CollectiveCall& call, std::int64_t offset) {
  begin_call(call);
  offset_ = offset;
  MemberFlags& mine = block_.member(index_);
  mine.shape.store(call.packed(), std::memory_order_relaxed);
  mine.offset.store(offset, std::memory_order_relaxed);
  publish(mine.entered, round(), mine.sleepers);
}

void SharedCommunicator::wait_for_entry(std::int64_t member) {
  if (member == index_) return;
  MemberFlags& flags = block_.member(member);
  if (!wait_until_reached(flags.entered, round(), flags.sleepers, spin_, deadline_, notice_)) timed_out(true);
  check_same_call(member);
}

// A member cannot be past this collective while this rank is in it, so its shape and offset are those of this one.
void SharedCommunicator::check_same_call(std::int64_t member) {
  const MemberFlags& flags = block_.member(member);
  const std::uint64_t theirs = flags.shape.load(std::memory_order_relaxed);
  const std::int64_t their_offset = flags.offset.load(std::memory_order_relaxed);
  const std::int64_t other = world_rank(member), self = world_rank(index_);
  if (theirs != call_.packed()) {
    throw CommunicationError(
        "collective {} of '{}': rank {} is in {}, rank {} in {}. All ranks must make the same calls.", number_, name_,
        self, call_.text(), other, CollectiveCall::unpacked(theirs).text());
  }
  if (their_offset != offset_) {
    throw CommunicationError(
        "collective {} of '{}' ({}): the buffer lies at offset {} on rank {} and at {} on rank {}. "
        "The memory plan must give all ranks the same offsets.",
        number_, name_, call_.text(), offset_, self, their_offset, other);
  }
}

void SharedCommunicator::wait_for_all_entries() {
  for (std::int64_t step = 1; step < size_; ++step) wait_for_entry((index_ + step) % size_);
}

void SharedCommunicator::leave_and_wait() {
  MemberFlags& mine = block_.member(index_);
  publish(mine.left, round(), mine.sleepers);
  for (std::int64_t step = 1; step < size_; ++step) {
    MemberFlags& flags = block_.member((index_ + step) % size_);
    if (!wait_until_reached(flags.left, round(), flags.sleepers, spin_, deadline_, notice_)) timed_out(false);
  }
}

void SharedCommunicator::timed_out(bool at_entry) {
  std::vector<std::int64_t> missing;
  for (std::int64_t member = 0; member < size_; ++member) {
    const MemberFlags& flags = block_.member(member);
    const std::uint32_t state = at_entry ? flags.entered.load() : flags.left.load();
    if (static_cast<std::int32_t>(state - round()) < 0) missing.push_back(world_rank(member));
  }
  throw TimeoutError("collective {} of '{}' ({}): {} did not {} within {} s", number_, name_, call_.text(),
                     rank_list(missing), at_entry ? "arrive" : "finish", options_.timeout_seconds);
}

template <class F>
void SharedCommunicator::in_pieces(std::int64_t elements, std::int64_t bytes_per_element, F&& work) {
  const std::int64_t piece = kPieceBytes / bytes_per_element;
  if (!options_.pool || elements <= piece) return work(std::int64_t{0}, elements, 0);
  options_.pool->parallel_for(ceil_div(elements, piece), [&](std::int64_t task, int worker) {
    work(task * piece, std::min(elements, (task + 1) * piece), worker);
  });
}

void SharedCommunicator::copy(std::byte* to, const std::byte* from, std::int64_t bytes) {
  in_pieces(bytes, 1, [&](std::int64_t begin, std::int64_t end, int) {
    if (end > begin) std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
  });
}

void SharedCommunicator::all_gather(const CollectiveCall& call) {
  auto* const whole = static_cast<std::byte*>(call.to);
  const std::int64_t bytes = call.bytes(), offset = region_.offset_of(whole, size_ * bytes);
  enter(call, offset);
  // Each rank starts at its neighbour, so that not all read the same memory at once.
  for (std::int64_t step = 1; step < size_; ++step) {
    const std::int64_t member = (index_ + step) % size_;
    wait_for_entry(member);
    const std::int64_t slice = member * bytes;
    copy(whole + slice, peers_[static_cast<std::size_t>(member)] + offset + slice, bytes);
  }
  leave_and_wait();
}

void SharedCommunicator::reduce_scatter(const CollectiveCall& call) {
  const std::int64_t element = size_of(call.wire), shard_element = size_of(call.result);
  const std::int64_t offset = region_.offset_of(call.from, size_ * call.bytes());
  enter(call, offset);
  wait_for_all_entries();
  const std::int64_t slice = offset + index_ * call.bytes();
  in_pieces(call.elements, element, [&](std::int64_t begin, std::int64_t end, int worker) {
    const void** const sources = sources_.data() + worker * size_;
    for (std::int64_t s = 0; s < size_; ++s) sources[s] = peers_[static_cast<std::size_t>(s)] + slice + begin * element;
    tree_sum(sources, size_, call.wire, static_cast<std::byte*>(call.to) + begin * shard_element, call.result,
             end - begin);
  });
  leave_and_wait();
}

void SharedCommunicator::all_reduce(const CollectiveCall& call) {
  constexpr std::int64_t room = GroupBlock::kStagingPerMember / static_cast<std::int64_t>(sizeof(std::int64_t));
  auto* const values = static_cast<std::int64_t*>(call.to);
  const auto staged = [&](std::int64_t member) {
    return reinterpret_cast<std::int64_t*>(block_.staging() + member * GroupBlock::kStagingPerMember);
  };
  for (std::int64_t begin = 0; begin < call.elements; begin += room) {
    const std::int64_t now = std::min(room, call.elements - begin);
    std::copy_n(values + begin, now, staged(index_));
    enter(call, 0);
    for (std::int64_t step = 1; step < size_; ++step) {
      const std::int64_t member = (index_ + step) % size_;
      wait_for_entry(member);
      reduce_into(values + begin, staged(member), now, call.reduction());
    }
    leave_and_wait();
  }
}

void SharedCommunicator::broadcast(const CollectiveCall& call) {
  for (std::int64_t begin = 0; begin < call.bytes(); begin += block_.staging_bytes()) {
    const auto now = static_cast<std::size_t>(std::min(block_.staging_bytes(), call.bytes() - begin));
    std::byte* const here = static_cast<std::byte*>(call.to) + begin;
    if (index_ == call.root()) std::memcpy(block_.staging(), here, now);
    enter(call, 0);
    if (index_ != call.root()) {
      wait_for_entry(call.root());
      std::memcpy(here, block_.staging(), now);
    }
    leave_and_wait();
  }
}

void SharedCommunicator::exchange(const CollectiveCall& call) {
  const std::int64_t offset = region_.offset_of(call.from, call.sent_extent(index_));
  enter(call, offset);
  wait_for_all_entries();
  for (const ExchangeRun& run : call.runs) {
    if (run.receiver != index_) continue;
    const std::byte* const from = call.source_of(run, peers_[static_cast<std::size_t>(run.sender)] + offset);
    copy(call.target_of(run), from, run.elements * size_of(call.wire));
  }
  leave_and_wait();
}

void SharedCommunicator::barrier(const CollectiveCall& call) {
  enter(call, 0);
  wait_for_all_entries();
  leave_and_wait();
}

}  // namespace tessera
