// The schedule as JSON: units, segments with their operations, plays, bytes sent.
#include "tessera/schedule/print_json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "schedule/liveness.hpp"
#include "tessera/schedule/formula.hpp"

namespace tessera {

using Json = nlohmann::ordered_json;

namespace {

/// Returns the FLOPs of the parts' matmuls; nothing for an operation that is not a part's.
std::optional<std::int64_t> flops_of(const StepSchedule& s, const Operation& op) {
  if (!computes_part(op)) return std::nullopt;
  return cost_of(s, op).flops;
}

Json operation_json(const StepSchedule& s, const SegmentLife& life, OperationId id) {
  const Operation& op = s.operation(id);
  Json json{{"id", id.number()},
            {"kind", name_of(op.kind)},
            {"queue", name_of(op.queue)},
            {"group", name_of(op.group)},
            {"name", describe_operation(s, id)},
            {"unit", op.unit ? Json(s.unit(op.unit).name) : Json()},
            {"part", op.part ? Json(s.part(op.part).name) : Json()}};
  OperationNames names = names_of(s, life, id, [&](ValueId v) { return name_of_value(s, v); });
  json["reads"] = std::move(names.reads);
  json["writes"] = std::move(names.writes);
  json["releases"] = std::move(names.releases);
  json["waits"] = Json::array();
  for (const OperationId other : waits_of(s, id)) json["waits"].push_back(other.number());
  json["after"] = Json::array();
  for (const Edge& edge : op.after)
    json["after"].push_back({{"operation", edge.operation.number()}, {"reason", name_of(edge.reason)}});
  json["wire_bytes"] = op.wire_bytes;
  json["alive_bytes"] = life.alive_bytes(id);
  if (const auto flops = flops_of(s, op)) json["flops"] = *flops;
  return json;
}

Json segments_json(const StepSchedule& s) {
  const auto presence = presence_of(s);
  Json segments = Json::array();
  for (const SegmentId i : s.segments.ids()) {
    const Segment& segment = s.segments[i];
    const SegmentLife life(s, segment, presence[i]);
    Json operations = Json::array();
    for (const OperationId id : segment.operations()) operations.push_back(operation_json(s, life, id));
    segments.push_back(
        {{"name", segment.name}, {"role", name_of(segment.role)}, {"operations", std::move(operations)}});
  }
  return segments;
}

Json plays_json(const std::vector<Play>& plays) {
  Json list = Json::array();
  for (const Play& play : plays) list.push_back({{"segment", play.segment.number()}, {"micro_step", play.micro_step}});
  return list;
}

/// Returns the units, each with the parts that read it.
Json units_json(const StepSchedule& s) {
  const std::int64_t members = s.grid.size(rules_of(s.policy.strategy).state);
  Json units = Json::array();
  for (const Unit& unit : s.layout.units) {
    units.push_back({{"name", unit.name},
                     {"elements", unit.elements},
                     {"padded", unit.padded},
                     {"share", unit.share(members)},
                     {"tensors", unit.tensors.size()},
                     {"block", unit.is_block},
                     {"parts", Json::array()}});
  }
  for (const Part& part : s.model.parts) {
    for (const UnitId unit : s.layout.units_of(part.tensors))
      units[static_cast<std::size_t>(unit.number())]["parts"].push_back(part.name);
  }
  return units;
}

/// Adds bytes sent per step and rank: in all, what is saved, the formula and the collectives.
void add_communication(const StepSchedule& s, Json& json) {
  json["wire_bytes_per_step"] = s.wire_bytes_per_step();
  json["savings"] = Json::array();
  for (const Saving& saving : s.savings) json["savings"].push_back({{"name", saving.name()}, {"bytes", saving.bytes}});
  Json terms = Json::array();
  for (const FormulaTerm& term : formula_terms(s)) {
    terms.push_back({{"name", term.name},
                     {"times", term.times},
                     {"group", name_of(term.group)},
                     {"ranks", s.grid.size(term.group)},
                     {"elements", term.elements},
                     {"dtype", name_of(term.dtype)},
                     {"bytes", term.bytes}});
  }
  json["formula"] = {{"bytes", formula_wire_bytes(s)}, {"terms", std::move(terms)}};
  json["collectives"] = Json::array();
  for (const Traffic& traffic : traffic_of(s)) {
    json["collectives"].push_back({{"name", traffic.name},
                                   {"group", name_of(traffic.group)},
                                   {"ranks", traffic.ranks},
                                   {"calls", traffic.calls},
                                   {"bytes", traffic.bytes},
                                   {"in_formula", traffic.in_formula}});
  }
}

Json storages_json(const StepSchedule& s, const MemoryPlan& plan) {
  Json storages = Json::array();
  for (const StorageId i : s.storages.ids()) {
    const Storage& storage = s.storages[i];
    storages.push_back({{"name", storage.name},
                        {"bytes", storage.bytes},
                        {"region", name_of(storage.region)},
                        {"space", name_of(storage.space)},
                        {"category", name_of(storage.category)},
                        {"address", plan.offset[i]}});
  }
  return storages;
}

Json architecture_json(const Architecture& a) {
  Json json;
  for (const ModelSize& size : kModelSizes) json[size.option] = a.*size.field;
  return json;
}

}  // namespace

Json schedule_json(const StepSchedule& s, const MemoryPlan& plan) {
  Json json{{"format", kScheduleFormat},
            {"strategy", name_of(s.policy.strategy)},
            {"ranks", s.grid.world()},
            {"ranks_per_node", s.grid.ranks_per_node()},
            {"groups", groups_json(s)},
            {"accumulation", s.policy.accumulation},
            {"micro_batch", s.model.batch},
            {"sequence", s.model.sequence},
            {"parameters", s.model.parameter_count()},
            {"flops_per_token", s.model.training_flops() / s.model.tokens()},
            {"architecture", architecture_json(s.model.architecture)},
            {"compute", name_of(s.policy.compute)},
            {"reduce", name_of(s.policy.reduce)},
            {"gather_limit", s.policy.limit_all_gathers},
            {"gradient_limit", s.gradient_limit},
            {"prefetch_forward", s.policy.prefetch.forward},
            {"prefetch_backward", s.policy.prefetch.backward},
            {"units", units_json(s)},
            {"segments", segments_json(s)},
            {"prologue", plays_json(s.prologue)},
            {"step", plays_json(s.step)},
            {"finish", plays_json(s.finish)},
            {"fresh", s.fresh ? Json(s.fresh.number()) : Json()},
            {"evaluation", plays_json(s.evaluation)},
            {"snapshot", plays_json(s.snapshot)}};
  if (s.generation_parts) {
    const ModelParts& prefill = s.generation_parts->prefill;
    json["generation"] = plays_json(s.generation);
    json["generation_shape"] = {{"batch", prefill.batch}, {"chunk", prefill.sequence}, {"positions", prefill.cache}};
  }
  add_communication(s, json);
  json["memory"] = memory_json(s, plan);
  json["storages"] = storages_json(s, plan);
  return json;
}

std::string schedule_json_text(const StepSchedule& s, const MemoryPlan& plan) {
  return json_text(schedule_json(s, plan));
}

std::string json_text(const Json& document) { return document.dump(-1, ' ', true, Json::error_handler_t::replace); }

}  // namespace tessera
