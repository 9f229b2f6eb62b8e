#pragma once
// A toy's schedule with its plan and its JSON.

#include <nlohmann/json.hpp>

#include "tessera/schedule/build.hpp"
#include "tessera/schedule/print_json.hpp"
#include "toy_model.hpp"

namespace tessera::testing {

using Json = nlohmann::json;

struct Planned {
  StepSchedule schedule;
  MemoryPlan plan;
  Json json;  ///< as a reader gets it
};

inline Planned planned(StepSchedule schedule) {
  MemoryPlan plan = plan_memory(schedule, {false, 0});
  Json json = Json::parse(schedule_json_text(schedule, plan));
  return {std::move(schedule), std::move(plan), std::move(json)};
}

inline StepSchedule toy(Strategy strategy, std::int64_t accumulation = 1) {
  SchedulePolicy policy;
  policy.strategy = strategy;
  policy.accumulation = accumulation;
  policy.reduce_each_micro_step = rules_of(strategy).reduces_each_micro_step();
  return build_schedule(toy_model(), grid_for(strategy, 4, 2, 0), policy);
}

/// Returns all operations, whatever their segment.
inline std::vector<Json> operations_of(const Json& document) {
  std::vector<Json> operations;
  for (const Json& segment : document.at("segments")) {
    for (const Json& operation : segment.at("operations")) operations.push_back(operation);
  }
  return operations;
}

}  // namespace tessera::testing
