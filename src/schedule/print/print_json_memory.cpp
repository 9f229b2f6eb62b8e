// Memory and the comparison of strategies, as JSON.
#include <nlohmann/json.hpp>

#include "tessera/schedule/formula.hpp"
#include "tessera/schedule/print_json.hpp"

namespace tessera {

using Json = nlohmann::ordered_json;

namespace {

Json regions_json(const MemoryPlan& plan) {
  Json regions = Json::array();
  for (const MemorySpace space : {MemorySpace::device, MemorySpace::host}) {
    for (int r = 0; r < kRegions; ++r) {
      const RegionPlan& region = plan.region(space, static_cast<RegionKind>(r));
      if (space == MemorySpace::host && region.bytes == 0) continue;
      regions.push_back({{"region", name_of(static_cast<RegionKind>(r))},
                         {"space", name_of(space)},
                         {"bytes", region.bytes},
                         {"lower_bound", region.lower_bound}});
    }
  }
  return regions;
}

Json copies_json(const StepSchedule& s) {
  const OffloadAccount account = offload_account(s);
  return {{"mode", name_of(s.policy.offload)},
          {"elements", account.elements},
          {"of", account.of},
          {"host_bytes", account.on_host},
          {"device_bytes_less", account.off_device},
          {"host_gradient_bytes", account.gradients},
          {"inputs", s.offloaded_inputs},
          {"input_bytes", s.offloaded_inputs * bytes_of_input(s)},
          {"inputs_in_flight", s.policy.inputs_in_flight},
          {"copied_bytes_per_step", s.copied_bytes_per_step()}};
}

}  // namespace

Json groups_json(const StepSchedule& s) {
  return {{"world", s.grid.size(Group::world)},
          {"shard", s.grid.size(Group::shard)},
          {"replica", s.grid.size(Group::replica)},
          {"sub", s.grid.size(Group::sub)}};
}

Json categories_json(const CategoryBytes& bytes) {
  Json json = Json::object();
  for (std::size_t c = 0; c < kCategories; ++c) json[std::string(name_of(static_cast<Category>(c)))] = bytes[c];
  return json;
}

Json memory_json(const StepSchedule& s, const MemoryPlan& plan) {
  const SpacePlan& device = plan.at(MemorySpace::device);
  return {{"to_allocate", device.total()},
          {"host", plan.at(MemorySpace::host).total()},
          {"limited", limited_bytes(s, plan)},
          {"lower_bound", plan.lower_bound()},
          {"peak_operation", device.peak_operation.number()},
          {"peak", describe_operation(s, device.peak_operation)},
          {"categories", categories_json(device.at_peak)},
          {"own_peaks", categories_json(device.own_peak)},
          {"idle", device.idle_at_peak()},
          {"host_categories", Json(host_memory(s))},
          {"accumulators", accumulator_bytes(s)},
          {"offload", copies_json(s)},
          {"regions", regions_json(plan)}};
}

Json strategies_json(const std::vector<StrategyRow>& rows) {
  Json list = Json::array();
  for (const StrategyRow& row : rows) {
    Json json{{"strategy", name_of(row.strategy)}, {"chosen", row.chosen}};
    if (!row.impossible.empty()) {
      json["impossible"] = row.impossible;
      list.push_back(std::move(json));
      continue;
    }
    const SpacePlan& device = row.plan.at(MemorySpace::device);
    json["groups"] = groups_json(row.schedule);
    json["categories"] = categories_json(device.at_peak);
    json["idle"] = device.idle_at_peak();
    json["host"] = limited_host_bytes(row.schedule, row.plan);
    json["host_beside"] = row.plan.at(MemorySpace::host).total() - limited_host_bytes(row.schedule, row.plan);
    json["to_allocate"] = limited_bytes(row.schedule, row.plan);
    json["own_peaks"] = categories_json(device.own_peak);
    json["wire_bytes_per_step"] = row.schedule.wire_bytes_per_step();
    json["collectives"] = collectives_per_step(row.schedule);
    list.push_back(std::move(json));
  }
  return list;
}

}  // namespace tessera
