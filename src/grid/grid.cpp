#include "tessera/grid/grid.hpp"

#include <array>
#include <numeric>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/refuse.hpp"

namespace tessera {

namespace {

/// "one of 1, 2, 3, 6": the divisors of `world`.
std::string divisors_text(std::int64_t world) {
  std::string text;
  for (std::int64_t size = 1; size <= world; ++size) {
    if (world % size == 0) text += fmt::format("{}{}", text.empty() ? "" : ", ", size);
  }
  return world > 1 ? "one of " + text : text;
}

void require_divisor(std::string_view option, std::int64_t size, std::int64_t world) {
  if (size >= 1 && world % size == 0) return;
  throw refusal("{} = {} does not divide the {}", option, size, counted(world, "rank")).use("{}", divisors_text(world));
}

/// "true, false, 2 or 4": the values of shard.reshard_after_forward where sub-groups of these sizes are possible.
std::string choices_text(std::int64_t widest) {
  std::string text = "true, false";
  for (std::int64_t size = 2; size <= widest; ++size) {
    if (widest % size == 0) text += fmt::format(", {}", size);
  }
  return text.replace(text.rfind(", "), 2, " or ");
}

}  // namespace

std::string_view name_of(Group group) {
  constexpr std::array<std::string_view, 6> names{"self", "world", "shard", "replica", "node", "sub"};
  return names[static_cast<std::size_t>(group)];
}

ProcessGrid::ProcessGrid(std::int64_t world, std::int64_t ranks_per_node, std::int64_t group_size,
                         std::int64_t sub_size)
    : world_(world), ranks_per_node_(ranks_per_node), group_size_(group_size), sub_size_(sub_size) {
  TESSERA_ASSERT(world >= 1, "a world of {} ranks", world);
  require_divisor("grid.ranks_per_node", ranks_per_node, world);
  require_divisor("shard.group_size", group_size, world);
  if (sub_size >= 1 && group_size % sub_size == 0 && ranks_per_node % sub_size == 0) return;
  throw refusal("shard.reshard_after_forward = {} does not divide the {} of a shard group and the {} of a node",
                sub_size, counted(group_size, "rank"), ranks_per_node)
      .use("{}", choices_text(std::gcd(group_size, ranks_per_node)));
}

ProcessGrid ProcessGrid::on_nodes_of(std::int64_t ranks_per_node) const {
  ProcessGrid grid(world_, ranks_per_node, group_size_);
  grid.sub_size_ = sub_size_;
  return grid;
}

ProcessGrid::Run ProcessGrid::run_of(Group group, std::int64_t rank) const {
  switch (group) {
    case Group::self:
      break;
    case Group::world:
      return {0, 1, world_};
    case Group::shard:
      return {rank / group_size_ * group_size_, 1, group_size_};
    case Group::replica:
      return {rank % group_size_, group_size_, world_ / group_size_};
    case Group::node:
      return {rank / ranks_per_node_ * ranks_per_node_, 1, ranks_per_node_};
    case Group::sub:
      return {rank / sub_size_ * sub_size_, 1, sub_size_};
  }
  return {rank, 1, 1};
}

Groups ProcessGrid::larger_than_one(std::initializer_list<Group> groups) const {
  Groups set;
  for (const Group group : groups) {
    if (size(group) > 1) set = set.with(group);
  }
  return set;
}

std::vector<std::int64_t> ProcessGrid::members(Group group, std::int64_t rank) const {
  TESSERA_ASSERT(rank >= 0 && rank < world_, "rank {} of a world of {}", rank, world_);
  const Run run = run_of(group, rank);
  std::vector<std::int64_t> ranks;
  for (std::int64_t i = 0; i < run.count; ++i) ranks.push_back(run.first + i * run.stride);
  return ranks;
}

std::int64_t ProcessGrid::index_in(Group group, std::int64_t rank) const {
  const Run run = run_of(group, rank);
  return (rank - run.first) / run.stride;
}

bool ProcessGrid::within_node(Group group) const {
  const Run run = run_of(group, 0);
  return run.count == 1 || ranks_per_node_ == world_ || (run.stride == 1 && ranks_per_node_ % run.count == 0);
}

std::int64_t MicroBatchAssignment::micro_batch(const ProcessGrid& grid, std::int64_t K, std::int64_t rank,
                                               std::int64_t k) const {
  TESSERA_ASSERT(k >= 0 && k < K, "micro-step {} of {}", k, K);
  const std::int64_t F = grid.size(inner), f = grid.index_in(inner, rank);
  const std::int64_t first = (rank - f) * K;
  return reduced_each_micro_step ? first + k * F + f : first + f * K + k;
}

}  // namespace tessera
