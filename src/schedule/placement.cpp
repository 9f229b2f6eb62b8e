#include "tessera/schedule/placement.hpp"

#include <array>

#include "tessera/base/error.hpp"
#include "tessera/schedule/operation.hpp"

namespace tessera {

std::vector<Redistribution> redistribute(const Placement& from, const Placement& to) {
  constexpr std::array inside_out{Group::sub, Group::shard, Group::world, Group::replica};
  std::vector<Redistribution> steps;
  Placement now = from;
  const auto add = [&](OperationKind kind, Group group) { steps.push_back({kind, group, now}); };
  for (const Group group : inside_out) {
    if (!now.partial.has(group) || to.partial.has(group)) continue;
    now.partial = now.partial.without(group);
    if (to.shard.has(group)) now.shard = now.shard.with(group);
    add(to.shard.has(group) ? OperationKind::reduce_scatter : OperationKind::all_reduce, group);
  }
  if (to.shard.has(Group::sub) && !now.shard.has(Group::sub)) {
    now.shard = now.shard.with(Group::sub);
    add(OperationKind::slice, Group::sub);
  }
  for (auto group = inside_out.rbegin(); group != inside_out.rend(); ++group) {
    if (!now.shard.has(*group) || to.shard.has(*group)) continue;
    now.shard = now.shard.without(*group);
    add(OperationKind::gather, *group);
  }
  TESSERA_ASSERT(now.shard == to.shard && now.partial == to.partial, "no collective makes such a placement");
  if (steps.empty() && from.dtype != to.dtype) add(OperationKind::cast, Group::self);
  if (!steps.empty()) steps.back().result.dtype = to.dtype;
  return steps;
}

}  // namespace tessera
