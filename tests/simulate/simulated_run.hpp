#pragma once
// Planned runs, and a machine whose prices follow from rates.

#include "tessera/model/family.hpp"
#include "tessera/schedule/planned_run.hpp"
#include "tessera/simulate/cluster.hpp"

namespace tessera::testing {

inline PlannedRun planned(const std::string& preset_name, const SchedulePolicy& policy, std::int64_t world,
                          std::int64_t micro_batch = 2, std::int64_t sequence = 64,
                          DeviceKind device = DeviceKind::cpu) {
  RunShape shape;
  shape.architecture = preset(preset_name);
  shape.micro_batch = micro_batch;
  shape.sequence = sequence;
  shape.world = world;
  shape.ranks_per_node = std::min<std::int64_t>(world, 8);
  if (rules_of(policy.strategy).is_hybrid()) shape.ranks_per_node = std::max<std::int64_t>(1, shape.ranks_per_node / 2);
  shape.policy = policy;
  shape.policy.evaluation = shape.policy.snapshot = false;
  shape.device = device;
  return plan_shape(shape, {false, 0});
}

inline PlannedRun planned(const std::string& preset_name, Strategy strategy, std::int64_t world) {
  SchedulePolicy policy;
  policy.strategy = strategy;
  policy.accumulation = 2;
  policy.reduce_each_micro_step = rules_of(strategy).reduces_each_micro_step();
  return planned(preset_name, policy, world);
}

/// FLOP/s and bytes/s for everything.
struct Rates {
  double flops = 1e11, memory = 1e10, link = 1e9;
};

inline Cluster machine_of(const Rates& rates) {
  Cluster cluster;
  cluster.name = "rates", cluster.file = "rates.ini";
  cluster.peak["fp32"] = rates.flops;
  const auto proportional = [](PriceAxis axis, double rate) {
    PriceTable table({{axis, {1}}}, {1 / rate});
    table.uncertainty = 0.1;
    return table;
  };
  for (const char* kernel :
       {"linear forward", "linear forward gelu", "linear backward", "linear backward gelu", "attention forward",
        "attention backward", "own attention forward", "own attention backward", "head", "head loss", "orthogonalize"})
    for (const char* type : {"fp32", "bf16"})
      cluster.prices[std::string(kernel) + "." + type] = proportional(PriceAxis::flops, rates.flops);
  for (const char* kernel : {"embedding forward", "embedding backward", "norm forward", "norm backward", "gelu",
                             "rotary", "swiglu", "swiglu backward", "dropout", "cast", "add", "square sum", "adamw",
                             "muon", "muon direction", "host adamw", "host cast"})
    for (const char* type : {"fp32", "bf16"})
      cluster.prices[std::string(kernel) + "." + type] = proportional(PriceAxis::bytes, rates.memory);
  for (const char* collective : {"all-gather", "reduce-scatter", "all-reduce", "exchange"})
    for (const char* where : {"node", "network"})
      cluster.prices[std::string(collective) + "." + where] = proportional(PriceAxis::bytes, rates.link);
  for (const char* copy : {"copy.to_host", "copy.to_device"})
    cluster.prices[copy] = proportional(PriceAxis::bytes, rates.link);
  return cluster;
}

}  // namespace tessera::testing
