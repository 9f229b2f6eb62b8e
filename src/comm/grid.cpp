#include "tessera/comm/grid.hpp"

#include "tessera/base/error.hpp"

namespace tessera {

std::string_view name_of(Group group) {
  switch (group) {
    case Group::self:
      return "self";
    case Group::world:
      return "world";
    case Group::shard:
      return "shard";
    case Group::replica:
      return "replica";
    case Group::node:
      return "node";
  }
  return "?";
}

ProcessGrid::ProcessGrid(std::int64_t world, std::int64_t ranks_per_node, std::int64_t group_size)
    : world_(world), ranks_per_node_(ranks_per_node), group_size_(group_size) {
  TESSERA_ASSERT(world >= 1, "a world of {} ranks", world);
  if (ranks_per_node < 1 || world % ranks_per_node != 0) {
    throw UsageError("grid.ranks_per_node = {} does not divide the world of {} ranks: nodes must be of equal size",
                     ranks_per_node, world);
  }
  if (group_size < 1 || world % group_size != 0) {
    throw UsageError("shard.group_size = {} does not divide the world of {} ranks: shard groups must be of equal size",
                     group_size, world);
  }
}

std::int64_t ProcessGrid::size(Group group) const {
  switch (group) {
    case Group::self:
      return 1;
    case Group::world:
      return world_;
    case Group::shard:
      return group_size_;
    case Group::replica:
      return replicas();
    case Group::node:
      return ranks_per_node_;
  }
  return 0;
}

std::vector<std::int64_t> ProcessGrid::members(Group group, std::int64_t rank) const {
  TESSERA_ASSERT(rank >= 0 && rank < world_, "rank {} of a world of {}", rank, world_);
  std::int64_t first = rank, stride = 1;
  switch (group) {
    case Group::self:
      break;
    case Group::world:
      first = 0;
      break;
    case Group::shard:
      first = replica_index(rank) * group_size_;
      break;
    case Group::replica:
      first = shard_index(rank), stride = group_size_;
      break;
    case Group::node:
      first = node_of(rank) * ranks_per_node_;
      break;
  }
  std::vector<std::int64_t> ranks;
  for (std::int64_t i = 0; i < size(group); ++i) ranks.push_back(first + i * stride);
  return ranks;
}

bool ProcessGrid::within_node(Group group) const {
  switch (group) {
    case Group::self:
    case Group::node:
      return true;
    case Group::world:
      return nodes() == 1;
    case Group::shard:
      return ranks_per_node_ % group_size_ == 0 || nodes() == 1;
    case Group::replica:
      return replicas() == 1 || nodes() == 1;
  }
  return false;
}

}  // namespace tessera
