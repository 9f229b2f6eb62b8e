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

void SharedCommunicator::enter(const CallShape& shape, std::int64_t offset) {
  begin_call(shape);
  offset_ = offset;
  MemberFlags& mine = block_.member(index_);
  mine.shape.store(shape.packed(), std::memory_order_relaxed);
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
  if (theirs != shape_.packed()) {
    throw CommunicationError(
        "collective {} of '{}': rank {} is in {}, rank {} in {}. All ranks must make the same calls.", number_, name_,
        self, shape_.text(), other, CallShape::unpacked(theirs).text());
  }
  if (their_offset != offset_) {
    throw CommunicationError(
        "collective {} of '{}' ({}): the buffer lies at offset {} on rank {} and at {} on rank {}. "
        "The memory plan must give all ranks the same offsets.",
        number_, name_, shape_.text(), offset_, self, their_offset, other);
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
  throw TimeoutError("collective {} of '{}' ({}): {} did not {} within {} s", number_, name_, shape_.text(),
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

void SharedCommunicator::all_gather(Stream&, void* whole, std::int64_t elements_per_rank, DType dtype) {
  const CountedCall counted(counters_, Collective::all_gather,
                            bytes_sent(Collective::all_gather, size_, elements_per_rank, dtype));
  const std::int64_t bytes = elements_per_rank * size_of(dtype);
  const std::int64_t offset = region_.offset_of(whole, size_ * bytes);
  enter({.kind = CallKind::all_gather, .wire = dtype, .result = dtype, .elements = elements_per_rank}, offset);
  // Each rank starts at its neighbour, so that not all read the same memory at once.
  for (std::int64_t step = 1; step < size_; ++step) {
    const std::int64_t member = (index_ + step) % size_;
    wait_for_entry(member);
    const std::int64_t slice = member * bytes;
    copy(static_cast<std::byte*>(whole) + slice, peers_[static_cast<std::size_t>(member)] + offset + slice, bytes);
  }
  leave_and_wait();
}

void SharedCommunicator::reduce_scatter(Stream&, const void* contribution, DType wire_dtype, void* shard,
                                        DType shard_dtype, std::int64_t elements_per_rank) {
  const CountedCall counted(counters_, Collective::reduce_scatter,
                            bytes_sent(Collective::reduce_scatter, size_, elements_per_rank, wire_dtype));
  const std::int64_t element = size_of(wire_dtype), shard_element = size_of(shard_dtype);
  const std::int64_t offset = region_.offset_of(contribution, size_ * elements_per_rank * element);
  enter({.kind = CallKind::reduce_scatter, .wire = wire_dtype, .result = shard_dtype, .elements = elements_per_rank},
        offset);
  wait_for_all_entries();
  const std::int64_t slice = offset + index_ * elements_per_rank * element;
  in_pieces(elements_per_rank, element, [&](std::int64_t begin, std::int64_t end, int worker) {
    const void** const sources = sources_.data() + worker * size_;
    for (std::int64_t s = 0; s < size_; ++s) sources[s] = peers_[static_cast<std::size_t>(s)] + slice + begin * element;
    tree_sum(sources, size_, wire_dtype, static_cast<std::byte*>(shard) + begin * shard_element, shard_dtype,
             end - begin);
  });
  leave_and_wait();
}

void SharedCommunicator::all_reduce(Stream&, std::int64_t* values, std::int64_t count, Reduction reduction) {
  const CountedCall counted(counters_, Collective::all_reduce,
                            bytes_sent(Collective::all_reduce, size_, count, DType::int64));
  constexpr std::int64_t room = GroupBlock::kStagingPerMember / static_cast<std::int64_t>(sizeof(std::int64_t));
  const auto staged = [&](std::int64_t member) {
    return reinterpret_cast<std::int64_t*>(block_.staging() + member * GroupBlock::kStagingPerMember);
  };
  for (std::int64_t begin = 0; begin < count; begin += room) {
    const std::int64_t now = std::min(room, count - begin);
    std::copy_n(values + begin, now, staged(index_));
    enter({.kind = CallKind::all_reduce,
           .wire = DType::int64,
           .result = DType::int64,
           .detail = static_cast<std::int64_t>(reduction),
           .elements = count},
          0);
    for (std::int64_t step = 1; step < size_; ++step) {
      const std::int64_t member = (index_ + step) % size_;
      wait_for_entry(member);
      reduce_into(values + begin, staged(member), now, reduction);
    }
    leave_and_wait();
  }
}

void SharedCommunicator::broadcast(Stream&, void* data, std::int64_t bytes, int root) {
  TESSERA_ASSERT(root >= 0 && root < size_, "a broadcast from member {} of {}", root, size_);
  const CountedCall counted(counters_, Collective::broadcast,
                            bytes_sent(Collective::broadcast, size_, bytes, DType::byte));
  for (std::int64_t begin = 0; begin < bytes; begin += block_.staging_bytes()) {
    const auto now = static_cast<std::size_t>(std::min(block_.staging_bytes(), bytes - begin));
    std::byte* const here = static_cast<std::byte*>(data) + begin;
    if (index_ == root) std::memcpy(block_.staging(), here, now);
    enter({.kind = CallKind::broadcast, .detail = root, .elements = bytes}, 0);
    if (index_ != root) {
      wait_for_entry(root);
      std::memcpy(here, block_.staging(), now);
    }
    leave_and_wait();
  }
}

void SharedCommunicator::exchange(Stream&, const void* sent, void* received, std::span<const ExchangeRun> runs,
                                  DType dtype) {
  const CountedCall counted(counters_, Collective::exchange, bytes_sent(runs, dtype));
  const std::int64_t offset = region_.offset_of(sent, sent_extent(runs, index_) * size_of(dtype));
  enter(shape_of(runs, dtype), offset);
  wait_for_all_entries();
  for (const ExchangeRun& run : runs) {
    if (run.receiver != index_) continue;
    const std::byte* const from = source_of(run, peers_[static_cast<std::size_t>(run.sender)] + offset, dtype);
    copy(target_of(run, received, dtype), from, run.elements * size_of(dtype));
  }
  leave_and_wait();
}

void SharedCommunicator::barrier(Stream&) {
  enter({}, 0);
  wait_for_all_entries();
  leave_and_wait();
}

}  // namespace tessera
