// The schedule as JSON says what the schedule and its memory plan say.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "all_policies.hpp"
#include "json_case.hpp"
#include "tessera/base/math.hpp"
#include "tessera/config/choices.hpp"
#include "tessera/schedule/build.hpp"
#include "tessera/schedule/formula.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

/// Calls f for a share of all policies that are possible.
void for_some_policies(const std::function<void(const Planned&)>& f) {
  int draw = 0, seen = 0;
  for_each_policy([&](const PolicyCase& c) {
    if (++draw % 23 != 0) return;
    INFO(c.describe());
    const auto schedule = c.schedule_of();
    if (!schedule) return;
    f(planned(*schedule));
    ++seen;
  });
  REQUIRE(seen >= 10);
}

std::int64_t sum(const Json& numbers) {
  std::int64_t total = 0;
  for (const Json& number : numbers) total += number.get<std::int64_t>();
  return total;
}

}  // namespace

TEST_CASE("the JSON has every operation once, in order, as the schedule has it") {
  for_some_policies([](const Planned& p) {
    const StepSchedule& s = p.schedule;
    const std::vector<Json> operations = operations_of(p.json);
    REQUIRE(operations.size() == s.operations.size());
    for (std::size_t i = 0; i < operations.size(); ++i) {
      const Json& json = operations[i];
      const Operation& op = s.operation(OperationId(i));
      const auto id = OperationId(i);
      REQUIRE(json.at("id") == i);
      REQUIRE(json.at("kind") == name_of(op.kind));
      REQUIRE(json.at("queue") == name_of(op.queue));
      REQUIRE(json.at("group") == name_of(op.group));
      REQUIRE(json.at("name") == describe_operation(s, id));
      REQUIRE(json.at("unit") == (op.unit ? Json(s.unit(op.unit).name) : Json()));
      REQUIRE(json.at("part") == (op.part ? Json(s.part(op.part).name) : Json()));
      REQUIRE(json.at("wire_bytes") == op.wire_bytes);
      REQUIRE(json.at("after").size() == op.after.size());
      const auto reads = json.at("reads").get<std::vector<std::string>>();
      const auto writes = json.at("writes").get<std::vector<std::string>>();
      for (const ValueId v : op.reads) REQUIRE(std::ranges::count(reads, name_of_value(s, v)) == 1);
      for (const Update& u : op.updates) {
        REQUIRE(std::ranges::count(reads, name_of_value(s, u.before)) == 1);
        REQUIRE(std::ranges::count(writes, name_of_value(s, u.after)) == 1);
      }
      const bool of_part = op.kind == OperationKind::forward || op.kind == OperationKind::recompute ||
                           op.kind == OperationKind::backward;
      REQUIRE(json.contains("flops") == of_part);
    }
  });
}

TEST_CASE("waits of the JSON point backwards inside a segment, to other queues") {
  for_some_policies([](const Planned& p) {
    std::size_t waits = 0, edges = 0;
    for (const Json& segment : p.json.at("segments")) {
      std::map<int, std::string> queue_of;
      for (const Json& operation : segment.at("operations")) {
        const int id = operation.at("id");
        for (const Json& other : operation.at("waits")) {
          REQUIRE(queue_of.contains(other.get<int>()));
          REQUIRE(queue_of.at(other) != operation.at("queue"));
          ++waits;
        }
        std::vector<int> wanted;
        for (const OperationId other : waits_of(p.schedule, OperationId(id))) wanted.push_back(other.number());
        REQUIRE(operation.at("waits") == Json(wanted));
        for (const Json& edge : operation.at("after")) {
          REQUIRE(queue_of.contains(edge.at("operation").get<int>()));
          REQUIRE(std::set<std::string>{"prefetch", "limit", "staging"}.contains(edge.at("reason")));
          ++edges;
        }
        queue_of[id] = operation.at("queue");
      }
    }
    REQUIRE(waits > 0);
    std::size_t known = 0;
    for (const Operation& op : p.schedule.operations) known += op.after.size();
    REQUIRE(edges == known);
  });
}

TEST_CASE("bytes of the JSON add up: sent in a step, by the formula less savings, by collectives") {
  for_some_policies([](const Planned& p) {
    const Json& json = p.json;
    std::int64_t sent = 0, scalars = 0, flops = 0;
    for (const Json& play : json.at("step")) {
      for (const Json& operation : json.at("segments").at(play.at("segment").get<std::size_t>()).at("operations")) {
        const std::int64_t bytes = operation.at("wire_bytes");
        (operation.at("kind") == "all-reduce" ? scalars : sent) += bytes;
        if (operation.at("kind") == "forward" || operation.at("kind") == "backward")
          flops += operation.at("flops").get<std::int64_t>();
      }
    }
    REQUIRE(json.at("wire_bytes_per_step") == sent);
    REQUIRE(sent == p.schedule.wire_bytes_per_step());
    REQUIRE(flops == p.schedule.policy.accumulation * p.schedule.model.training_flops());
    std::int64_t saved = 0, terms = 0, counted = 0, apart = 0;
    for (const Json& saving : json.at("savings")) saved += saving.at("bytes").get<std::int64_t>();
    for (const Json& term : json.at("formula").at("terms")) {
      const std::int64_t ranks = term.at("ranks"),
                         size = size_of(*read_choice<DType>(term.at("dtype").get<std::string>()));
      const auto times = term.at("times").get<std::int64_t>(), elements = term.at("elements").get<std::int64_t>();
      REQUIRE(term.at("bytes") == times * (elements / ranks * (ranks - 1) * size));
      terms += term.at("bytes").get<std::int64_t>();
    }
    REQUIRE(json.at("formula").at("bytes") == terms);
    REQUIRE(terms == formula_wire_bytes(p.schedule));
    REQUIRE(terms - saved == sent);
    for (const Json& collective : json.at("collectives"))
      (collective.at("in_formula") ? counted : apart) += collective.at("bytes").get<std::int64_t>();
    REQUIRE(counted == sent);
    REQUIRE(apart == scalars);
  });
}

TEST_CASE("memory of the JSON adds up, and storages lie inside their regions") {
  for_some_policies([](const Planned& p) {
    const Json& memory = p.json.at("memory");
    const SpacePlan& device = p.plan.at(MemorySpace::device);
    REQUIRE(memory.at("to_allocate") == device.total());
    REQUIRE(sum(memory.at("categories")) + memory.at("idle").get<std::int64_t>() == device.total());
    for (std::size_t c = 0; c < kCategories; ++c) {
      REQUIRE(memory.at("categories").at(std::string(name_of(static_cast<Category>(c)))) == device.at_peak[c]);
      REQUIRE(memory.at("own_peaks").at(std::string(name_of(static_cast<Category>(c)))) == device.own_peak[c]);
    }
    REQUIRE(memory.at("host") == p.plan.at(MemorySpace::host).total());
    std::int64_t rounding = 0;
    for (const Storage& storage : p.schedule.storages)
      rounding += storage.space == MemorySpace::host ? round_up(storage.bytes, kStorageAlignment) - storage.bytes : 0;
    // Some share addresses.
    REQUIRE(sum(memory.at("host_categories")) + rounding >= memory.at("host").get<std::int64_t>());
    REQUIRE_FALSE(memory.at("host_categories").contains(""));
    const std::vector<Json> operations = operations_of(p.json);
    std::int64_t largest = 0;
    for (const Json& operation : operations)
      largest = std::max(largest, operation.at("alive_bytes").get<std::int64_t>());
    REQUIRE(operations.at(memory.at("peak_operation")).at("name") == memory.at("peak"));
    REQUIRE(operations.at(memory.at("peak_operation")).at("alive_bytes") == largest);
    REQUIRE(largest == sum(memory.at("categories")));

    std::map<std::pair<std::string, std::string>, std::int64_t> regions;
    for (const Json& region : memory.at("regions"))
      regions[{region.at("region"), region.at("space")}] = region.at("bytes");
    const Json& storages = p.json.at("storages");
    REQUIRE(storages.size() == p.schedule.storages.size());
    for (std::size_t i = 0; i < storages.size(); ++i) {
      const Json& storage = storages[i];
      const StorageId id(i);
      REQUIRE(storage.at("name") == p.schedule.storage(id).name);
      REQUIRE(storage.at("category") == name_of(p.schedule.storage(id).category));
      REQUIRE(storage.at("bytes") == p.schedule.storage(id).bytes);
      REQUIRE(storage.at("address") == p.plan.offset[id]);
      REQUIRE(storage.at("address").get<std::int64_t>() + storage.at("bytes").get<std::int64_t>() <=
              regions.at({storage.at("region"), storage.at("space")}));
    }
  });
}

TEST_CASE("a strategy that is impossible has its reason in place of numbers") {
  std::vector<StrategyRow> rows(2);
  rows[0] = {Strategy::hsdp, false, "shard.group_size = 3 does not divide the world", {}, {}, {}};
  rows[1].strategy = Strategy::zero2;
  rows[1].chosen = true;
  rows[1].schedule = toy(Strategy::zero2);
  rows[1].plan = plan_memory(rows[1].schedule);
  const Json json = Json::parse(json_text(strategies_json(rows)));
  REQUIRE(json.size() == 2);
  REQUIRE(json[0] == Json{{"strategy", "hsdp"}, {"chosen", false}, {"impossible", rows[0].impossible}});
  REQUIRE_FALSE(json[1].contains("impossible"));
  REQUIRE(json[1].at("chosen") == true);
  REQUIRE(json[1].at("to_allocate") == rows[1].plan.total());
}

TEST_CASE("text that is not UTF-8 does not stop the JSON") {
  REQUIRE(json_text({{"model", "a\xff"}}) == R"({"model":"a\ufffd"})");
}

TEST_CASE("a tied table names both of its readers, and the JSON of a large model stays small") {
  const Planned p = planned(toy(Strategy::zero3));
  REQUIRE(p.json.at("format") == "tessera-schedule-1");
  REQUIRE(p.json.at("groups") == Json{{"world", 4}, {"shard", 4}, {"replica", 1}, {"sub", 1}});
  REQUIRE(p.json.at("units").at(0).at("name") == "wte");
  REQUIRE(p.json.at("units").at(0).at("parts") == Json{"embed", "head"});

  const auto bytes_an_operation = [](std::int64_t layers) {
    Architecture a = preset("gpt2-124m");
    a.layers = layers;
    const auto model = declare_parts(a, 1, 64, DType::fp32);
    const StepSchedule s = build_schedule(model, grid_for(Strategy::zero3, 8, 8, 0), SchedulePolicy{});
    return schedule_json_text(s, plan_memory(s, {false, 0})).size() / s.operations.size();
  };
  const std::size_t few = bytes_an_operation(4), many = bytes_an_operation(32);
  INFO(few << " and " << many << " bytes an operation");
  REQUIRE(many < few + few / 4);
  REQUIRE(many < 1000);
}
