#pragma once
// Groups of ranks. Pure arithmetic, the same on every rank.

#include <cstdint>
#include <string_view>
#include <vector>

namespace tessera {

/// Groups of ranks by name.
enum class Group : std::uint8_t { self, world, shard, replica, node };

std::string_view name_of(Group group);

/// world = shard group x replica group. Shard groups are contiguous ranks, so that they lie inside a node when they
/// fit; nodes are contiguous ranks too.
class ProcessGrid {
 public:
  /// UsageError when `ranks_per_node` or `group_size` is below 1 or does not divide `world`.
  ProcessGrid(std::int64_t world, std::int64_t ranks_per_node, std::int64_t group_size);

  std::int64_t world() const { return world_; }
  std::int64_t ranks_per_node() const { return ranks_per_node_; }
  std::int64_t nodes() const { return world_ / ranks_per_node_; }
  std::int64_t shard_group_size() const { return group_size_; }                     ///< F
  std::int64_t replicas() const { return world_ / group_size_; }                    ///< R = world / F
  std::int64_t shard_index(std::int64_t rank) const { return rank % group_size_; }  ///< f, place in the shard group
  std::int64_t replica_index(std::int64_t rank) const {
    return rank / group_size_;
  }  ///< rho, place in the replica group
  std::int64_t node_of(std::int64_t rank) const { return rank / ranks_per_node_; }

  std::int64_t size(Group group) const;
  /// Returns the ranks of `rank`'s group, in the group's order.
  std::vector<std::int64_t> members(Group group, std::int64_t rank) const;
  /// Returns whether every group of this kind lies inside one node.
  bool within_node(Group group) const;

 private:
  std::int64_t world_, ranks_per_node_, group_size_;
};

}  // namespace tessera
