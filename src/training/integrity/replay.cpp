#include "training/integrity/replay.hpp"

#include <algorithm>

#include "tessera/base/format.hpp"
#include "tessera/schedule/print.hpp"

namespace tessera {

Replay::Replay(const StepSchedule& schedule, Resources& resources, Player& player)
    : schedule_(schedule),
      resources_(resources),
      player_(player),
      stream_(resources.device->make_caller_stream("checksums")),
      hosts_(resources.context.control().all_gather(resources.context.host())),
      made_(made_values(schedule, schedule.step.front().segment)) {
  if (schedule.fresh) fresh_ = made_values(schedule, schedule.fresh);
}

const std::vector<MadeValue>& Replay::made_in(OperationId id) const {
  const Segment& first = schedule_.segments[schedule_.step.front().segment];
  return id >= first.first && id <= first.last() ? made_ : fresh_;
}

void Replay::look(OperationId id) {
  const std::vector<MadeValue>& made = made_in(id);
  auto* const sums = reinterpret_cast<std::uint64_t*>(resources_.address(schedule_.reserved(Reserved::replay_sums)));
  for (auto one = std::ranges::lower_bound(made, id, {}, &MadeValue::operation);
       one != made.end() && one->operation == id; ++one) {
    const Value& value = schedule_.value(one->value);
    const std::byte* const data = resources_.address(value.storage);
    constexpr std::int64_t kWord = 4;
    const std::int64_t bytes = numbers_of(schedule_, value) * size_of(value.dtype());
    const std::int64_t words = bytes / kWord, rest = bytes % kWord;
    std::uint64_t* const sum = sums + (one - made.begin());
    resources_.compute->kernels(Queue::compute).run(*stream_, AddChecksum{data, words, 0, sum});
    if (rest == 0) continue;
    stream_->synchronize();
    std::uint64_t with_rest = 0, last = 0;
    resources_.device->copy(&with_rest, sum, sizeof with_rest);
    resources_.device->copy(&last, data + words * kWord, rest);
    with_rest += last * checksum_weight(words);
    resources_.device->copy(sum, &with_rest, sizeof with_rest);
  }
  stream_->synchronize();  // what it read may be overwritten now
}

void Replay::play(std::int64_t ahead, const TokenFeed& feed) {
  const PlayPurpose purpose = ahead == 0 ? PlayPurpose::step : PlayPurpose::aside;
  if (ahead != 1)
    player_.play(schedule_.prologue, purpose);  // the play before has used up units that were gathered early
  std::byte* const sums = resources_.address(schedule_.reserved(Reserved::replay_sums));
  const auto bytes = static_cast<std::int64_t>(made_.size() * sizeof(std::uint64_t));
  resources_.compute->kernels(Queue::compute).run(*stream_, FillZero{sums, bytes});
  stream_->synchronize();
  std::function<void(OperationId)> watcher = player_.watch({});
  player_.watch([&](OperationId id) {
    if (watcher) watcher(id);
    look(id);
  });
  player_.play(schedule_.step.front(), purpose, feed);
  player_.synchronize();
  player_.watch(std::move(watcher));
  Sums& made = played_[static_cast<std::size_t>(ahead)];
  made.resize(made_.size());
  resources_.device->copy(made.data(), sums, bytes);
}

std::string Replay::difference(const std::function<void()>& play_third) {
  ControlPlane& control = resources_.context.control();
  const auto world = static_cast<std::int64_t>(hosts_.size());
  const auto total = [](const Sums& sums) {
    std::uint64_t all = 0;
    for (std::size_t i = 0; i < sums.size(); ++i) all += sums[i] * checksum_weight(static_cast<std::int64_t>(i));
    return all;
  };
  const std::vector<Sums> totals = control.all_gather(Sums{total(played_[0]), total(played_[1])});
  std::vector<std::int64_t> owners;  // of micro-batches of which two ranks made different things
  for (std::int64_t rank = 0; rank < world; ++rank) {
    const Sums& own = totals[static_cast<std::size_t>(rank)];
    const Sums& before = totals[static_cast<std::size_t>((rank + world - 1) % world)];
    if (own[0] != before[1]) owners.push_back(rank);
  }
  if (owners.empty()) return {};
  play_third();
  std::vector<std::vector<Sums>> of_ranks(hosts_.size());
  for (const Sums& mine : played_) {
    const std::vector<Sums> all = control.all_gather(mine);
    for (std::size_t rank = 0; rank < all.size(); ++rank) of_ranks[rank].push_back(all[rank]);
  }
  return joined(
      owners, [&](std::int64_t owner) { return describe(owner, of_ranks); }, "; ");
}

/// Says where the makers of a micro-batch first differ, and who is wrong if two others agree.
std::string Replay::describe(std::int64_t owner, const std::vector<std::vector<Sums>>& of_ranks) const {
  const auto world = static_cast<std::int64_t>(hosts_.size());
  const auto maker = [&](std::int64_t ahead) { return static_cast<std::size_t>((owner + 2 * world - ahead) % world); };
  const auto named = [&](std::int64_t ahead) {
    return fmt::format("rank {} ({})", maker(ahead), hosts_[maker(ahead)]);
  };
  const Sums &own = of_ranks[maker(0)][0], &second = of_ranks[maker(1)][1], &third = of_ranks[maker(2)][2];
  const auto at = static_cast<std::size_t>(std::ranges::mismatch(own, second).in1 - own.begin());
  const std::string where =
      fmt::format("{} makes other bits in {}, of the micro-batch of rank {}, ",
                  describe_operation(schedule_, made_[at].operation), name_of_value(schedule_, made_[at].value), owner);
  const bool agrees_with_own = third[at] == own[at], agrees_with_second = third[at] == second[at];
  if (maker(0) == maker(1)) return where + fmt::format("each time on {}", named(0));
  if (agrees_with_second) return where + fmt::format("on {} than on {}", named(0), named(1));
  if (agrees_with_own && maker(2) != maker(0)) return where + fmt::format("on {} than on {}", named(1), named(0));
  return where + fmt::format("on {} and {}, of which one is wrong", named(0), named(1));
}

}  // namespace tessera
