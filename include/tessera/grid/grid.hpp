#pragma once
// Which ranks belong together. Pure arithmetic, the same on every rank.

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

namespace tessera {

/// Groups of ranks by name, a shard group before the replicas of its members. A sub-group is a part of both a shard
/// group and a node.
enum class Group : std::uint8_t { self, world, shard, replica, node, sub };

std::string_view name_of(Group group);

/// A set of groups: over which a value is sharded, or whose sum is still missing. Groups of one rank are never in it.
struct Groups {
  std::uint8_t bits = 0;
  bool empty() const { return bits == 0; }
  bool has(Group group) const { return (bits >> static_cast<unsigned>(group)) & 1u; }
  Groups with(Group group) const { return {static_cast<std::uint8_t>(bits | (1u << static_cast<unsigned>(group)))}; }
  Groups without(Group group) const {
    return {static_cast<std::uint8_t>(bits & ~(1u << static_cast<unsigned>(group)))};
  }
  bool operator==(const Groups&) const = default;
};

/// world = shard group x replica group. Shard groups are contiguous ranks, so that they lie inside a node when they
/// fit; nodes and sub-groups are contiguous ranks too. A replica group has the ranks of the same index in their shard
/// groups.
class ProcessGrid {
 public:
  /// One rank.
  ProcessGrid() = default;
  /// UsageError when `ranks_per_node` or `group_size` is below 1 or does not divide `world`, or `sub_size` does not
  /// divide both; the message lists the sizes that do.
  ProcessGrid(std::int64_t world, std::int64_t ranks_per_node, std::int64_t group_size, std::int64_t sub_size = 1);
  /// Returns the same groups on other nodes, which sub-groups may then cross.
  ProcessGrid on_nodes_of(std::int64_t ranks_per_node) const;

  std::int64_t world() const { return world_; }
  std::int64_t ranks_per_node() const { return ranks_per_node_; }
  std::int64_t size(Group group) const { return run_of(group, 0).count; }
  /// Those of the groups that have more than one rank.
  Groups larger_than_one(std::initializer_list<Group> groups) const;
  /// The ranks of `rank`'s group, in the group's order.
  std::vector<std::int64_t> members(Group group, std::int64_t rank) const;
  /// Where `rank` stands in its group, from 0.
  std::int64_t index_in(Group group, std::int64_t rank) const;
  /// Whether every group of this kind lies inside one node.
  bool within_node(Group group) const;

 private:
  /// The ranks first, first + stride, ...
  struct Run {
    std::int64_t first = 0, stride = 1, count = 1;
  };
  Run run_of(Group group, std::int64_t rank) const;

  std::int64_t world_ = 1, ranks_per_node_ = 1, group_size_ = 1, sub_size_ = 1;
};

/// How the micro-batches of a step are assigned to ranks and micro-steps: in the order in which gradients are summed,
/// so that a step's gradient is one tree over micro-batches 0..N-1 for every strategy (src/README.md).
struct MicroBatchAssignment {
  Group inner = Group::world;  ///< the group that sums gradients first: shard or world
  bool reduced_each_micro_step = true;

  /// Returns the number of the micro-batch, in [0, world * K), of `rank` at micro-step k in [0, K). For member f of F
  /// in group rho of kind `inner`: rho*K*F + k*F + f if reduced each micro-step. Reduced once: rho*K*F + f*K + k.
  std::int64_t micro_batch(const ProcessGrid& grid, std::int64_t K, std::int64_t rank, std::int64_t k) const;
};

}  // namespace tessera
