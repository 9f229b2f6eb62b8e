// The verifier's own test: schedules with one thing wrong must be rejected, by it or by the memory plan of the right
// schedule. Otherwise they must be proved to be as good as the right one.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <iostream>

#include "all_policies.hpp"
#include "mutants.hpp"
#include "sanitized.hpp"
#include "schedule/order.hpp"
#include "tessera/schedule/build.hpp"
#include "tessera/schedule/memory_plan.hpp"
#include "tessera/schedule/verify.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

struct Count {
  int made = 0, by_verifier = 0, by_plan = 0, redundant = 0;
};

struct Subject {
  StepSchedule schedule;
  MemoryPlan plan;
};

/// Returns true if the mutant is rejected; counts by whom.
bool rejected(const StepSchedule& mutant, const MemoryPlan& plan, Count& count) {
  ++count.made;
  if (!verify_schedule(mutant).empty()) return ++count.by_verifier, true;
  if (!check_memory_plan(mutant, plan).empty()) return ++count.by_plan, true;
  ++count.redundant;
  return false;
}

bool same_order(const StepSchedule& a, const StepSchedule& b) {
  for (const SegmentId i : a.segments.ids()) {
    const SegmentOrder x(a, a.segments[i]), y(b, b.segments[i]);
    for (const OperationId p : a.segments[i].operations()) {
      for (const OperationId q : a.segments[i].operations()) {
        if (x.before(p, q) != y.before(p, q)) return false;
      }
    }
  }
  return true;
}

/// The gradient that an update applies.
ValueId gradient_read(const StepSchedule& s, const Operation& update) {
  const auto found =
      std::ranges::find_if(update.reads, [&](ValueId v) { return s.value(v).kind == ValueKind::gradient; });
  REQUIRE(found != update.reads.end());
  return *found;
}

std::string text_of(const StepSchedule& s, OperationId id) {
  const Operation& op = s.operation(id);
  return fmt::format("operation {} {} {}", id, name_of(op.kind),
                     op.part   ? s.part(op.part).name
                     : op.unit ? s.unit(op.unit).name
                               : "");
}

void drop_operations(const Subject& subject, std::map<OperationKind, Count>& counts) {
  const StepSchedule& s = subject.schedule;
  for (const OperationId id : s.operations.ids()) {
    if (kSanitized && id.number() % 5 != 0) continue;
    INFO("without " << text_of(s, id));
    Count& count = counts[s.operation(id).kind];
    REQUIRE(rejected(without_operation(s, id), subject.plan, count));
    if (const auto bridged = bridged_operation(s, id)) {
      INFO("bridged");
      REQUIRE(rejected(*bridged, subject.plan, count));
    }
  }
}

void drop_edges(const Subject& subject, std::map<EdgeReason, Count>& counts) {
  const StepSchedule& s = subject.schedule;
  for (const OperationId id : s.operations.ids()) {
    for (std::size_t e = 0; e < s.operation(id).after.size(); ++e) {
      const StepSchedule mutant = without_edge(s, id, e);
      INFO(text_of(s, id) << " without its edge to " << s.operation(id).after[e].operation.number() << ", "
                          << name_of(s.operation(id).after[e].reason));
      if (rejected(mutant, subject.plan, counts[s.operation(id).after[e].reason])) continue;
      // Another wait implies this one.
      REQUIRE(same_order(s, mutant));
    }
  }
}

/// All pairs of neighbours (every 15th under sanitizers), and every 29th of the other pairs (every 5th with
/// TESSERA_LONG: tests/long.sh).
void swap_pairs(const Subject& subject, Count& neighbours, Count& others) {
  const StepSchedule& s = subject.schedule;
  const int others_stride = std::getenv("TESSERA_LONG") != nullptr ? 5 : 29;
  int draw = 0;
  for (const Segment& segment : s.segments) {
    for (const OperationId a : segment.operations()) {
      for (OperationId b = a + 1; b < segment.first + segment.count; ++b) {
        const bool next = b == a + 1;
        if (++draw % (!next ? others_stride : kSanitized ? 15 : 1) != 0) continue;
        INFO(segment.name << ": " << text_of(s, a) << " swapped with " << text_of(s, b));
        if (rejected(swapped(s, a, b), subject.plan, next ? neighbours : others)) continue;
        // Another legal order of the same work.
        REQUIRE(may_change_places(s, a, b));
      }
    }
  }
}

/// Changes the type of the norm's input against the gathered and applied one: an overflow would not be seen.
void retype_measured(const Subject& subject, Count& count) {
  const StepSchedule& s = subject.schedule;
  for (const Operation& op : s.operations) {
    if (op.kind != OperationKind::norm) continue;
    const ValueId measured = op.reads[0];
    const bool is_applied = std::ranges::any_of(s.operations, [&](const Operation& other) {
      return other.kind == OperationKind::update &&
             s.value(measured).storage == s.value(gradient_read(s, other)).storage;
    });
    if (is_applied) continue;  // one value: it has one type
    StepSchedule mutant = s;
    DType& type = mutant.values[measured].placement.dtype;
    type = type == DType::fp32 ? DType::bf16 : DType::fp32;
    INFO("another type for what the norm of " << s.unit(op.unit).name << " measures");
    REQUIRE(rejected(mutant, subject.plan, count));
  }
}

/// Small schedules over all strategies, with every kind of rule in play.
std::vector<PolicyCase> subjects() {
  std::vector<PolicyCase> cases;
  auto add = [&](Strategy strategy, std::int64_t world, std::int64_t group, auto change, std::int64_t sub = 0,
                 std::int64_t frozen_every = 0) {
    PolicyCase c;
    c.frozen_every = frozen_every;
    c.policy.strategy = strategy;
    c.grid = grid_for(strategy, world, world, group, sub);
    change(c.policy);
    cases.push_back(c);
  };
  for (const StrategyRules& rules : all_strategies()) {
    const Strategy strategy = rules.strategy;
    const std::int64_t group = rules.is_hybrid() ? 2 : 0;
    const bool each = rules.reduces_each_micro_step();
    add(strategy, 4, group, [&](SchedulePolicy& p) { p.reduce_each_micro_step = each, p.snapshot = true; });
    add(strategy, 4, group, [&](SchedulePolicy& p) {
      p.reduce_each_micro_step = each, p.accumulation = 4, p.compute = p.reduce = DType::bf16;
      p.fp8 = Fp8Linears{};
    });
    add(strategy, 4, group, [&](SchedulePolicy& p) {
      p.reduce_each_micro_step = !each, p.accumulation = 3, p.recomputation = Recomputation::all_blocks();
      p.offload_activations = true;
    });
    add(strategy, 4, group, [&](SchedulePolicy& p) {
      p.wrap = Wrap::size, p.min_params = 200, p.limit_all_gathers = 3, p.prefetch.forward = 2,
      p.recomputation = {false, true, 1, 2, {}};
    });
    add(strategy, 4, group,
        [&](SchedulePolicy& p) { p.wrap = Wrap::model, p.accumulation = 2, p.deterministic = false; });
    add(strategy, 4, group, [&](SchedulePolicy& p) {
      p.prefetch.forward = p.prefetch.backward = 0, p.recomputation = {true, false, 1, 1, {}};
      p.offload_activations = true;
    });
    add(strategy, 4, group, [&](SchedulePolicy& p) {
      p.prefetch.forward = p.prefetch.backward = 3, p.limit_all_gathers = 2,
      p.reshard_after_forward = strategy != Strategy::zero3;
    });
    add(strategy, 1, rules.is_hybrid() ? 1 : 0, [&](SchedulePolicy& p) { p.accumulation = 2, p.snapshot = true; });
    add(strategy, 1, rules.is_hybrid() ? 1 : 0, [&](SchedulePolicy& p) {
      p.accumulation = 3, p.compute = DType::bf16, p.deterministic = false;
      p.keeps_copies = p.adds_in_backward = true;
    });
    add(strategy, 4, group, [&](SchedulePolicy& p) {
      p.reduce_each_micro_step = false, p.accumulation = 3, p.deterministic = false, p.adds_in_backward = true;
    });
    add(strategy, 4, group, [&](SchedulePolicy& p) { p.optimizer = OptimizerName::muon, p.snapshot = true; });
    add(strategy, 1, rules.is_hybrid() ? 1 : 0, [&](SchedulePolicy& p) {
      p.optimizer = OptimizerName::muon, p.accumulation = 2, p.compute = p.reduce = DType::bf16;
    });
    add(strategy, 4, group, [&](SchedulePolicy& p) {
      p.optimizer = OptimizerName::muon, p.wrap = Wrap::size, p.min_params = 200, p.reduce_each_micro_step = !each;
      p.compute = p.reduce = DType::bf16;
    });
    if (rules.life == ParameterLife::phase) {
      add(
          strategy, 4, group, [&](SchedulePolicy& p) { p.accumulation = 2; }, 2);
      add(
          strategy, 4, group,
          [&](SchedulePolicy& p) {
            p.recomputation = Recomputation::all_blocks(), p.compute = DType::bf16, p.limit_all_gathers = 0;
            p.prefetch.forward = p.prefetch.backward = 2;
          },
          2);
      add(
          strategy, 4, group,
          [&](SchedulePolicy& p) {
            p.compute = DType::bf16, p.offload = Offload::params, p.offload_bucket = 128, p.fp8 = Fp8Linears{};
          },
          2);
    }
    if (rules.life != ParameterLife::rest) {
      add(strategy, 4, group, [&](SchedulePolicy& p) { p.accumulation = 2; });
    }
    for (const Offload offload : {Offload::optimizer, Offload::params}) {
      if (offload == Offload::params && rules.life == ParameterLife::rest) continue;
      add(strategy, 4, group, [&](SchedulePolicy& p) {
        p.reduce_each_micro_step = each, p.offload = offload, p.offload_bucket = 64, p.snapshot = true;
        p.fp8 = Fp8Linears{};
      });
      add(strategy, 2, rules.is_hybrid() ? 1 : 0, [&](SchedulePolicy& p) {
        p.offload = offload, p.offload_bucket = 128, p.offload_fraction = 0.4, p.accumulation = 2,
        p.compute = p.reduce = DType::bf16;
      });
      add(strategy, 1, rules.is_hybrid() ? 1 : 0, [&](SchedulePolicy& p) { p.offload = offload; });
    }
    if (rules.is_hybrid()) add(strategy, 4, 1, [&](SchedulePolicy& p) { p.accumulation = 2; });
    add(
        strategy, 4, group,
        [&](SchedulePolicy& p) { p.reduce_each_micro_step = each, p.snapshot = true, p.fp8 = Fp8Linears{}; }, 0, 2);
    add(
        strategy, 4, group,
        [&](SchedulePolicy& p) {
          p.accumulation = 3, p.compute = DType::bf16, p.offload = Offload::optimizer, p.offload_bucket = 128;
          p.fp8 = Fp8Linears{};
        },
        0, 3);
    add(
        strategy, 4, group, [&](SchedulePolicy& p) { p.token_losses = true; }, 0, 1);
    for (const bool training : {true, false}) {
      add(
          strategy, 4, group,
          [&](SchedulePolicy& p) {
            p.reduce_each_micro_step = each;
            p.generation = GenerationShape{2, 3, 7};
            p.evaluation = training;
          },
          0, training ? 0 : 1);
    }
  }
  return cases;
}

template <class Key>
void report(const std::string& what, const std::map<Key, Count>& counts) {
  for (const auto& [key, c] : counts) {
    std::cout << fmt::format(
        "  {:<5}{:<15} {:>5} made, {:>5} rejected by the verifier, {:>4} by the memory plan, {:>4} redundant\n", what,
        name_of(key), c.made, c.by_verifier, c.by_plan, c.redundant);
  }
}

}  // namespace

TEST_CASE("no mutant of a schedule slips through") {
  std::map<OperationKind, Count> operations;
  std::map<EdgeReason, Count> edges;
  Count neighbours, others, retyped;
  std::uint64_t drawn = 0;
  for (const PolicyCase& c : subjects()) {
    if (drawn++ % (15 / draws(15, 3)) != 0) continue;
    ToyShape shape;
    shape.layers = c.policy.generation ? 2 : 4;
    shape.compute = c.policy.compute;
    shape.rotary = c.policy.accumulation > 1;
    INFO(c.describe());
    ModelParts model = c.policy.generation ? generating_model(c.policy.compute, c.policy.reduce) : toy_model(shape);
    model.documents = c.policy.accumulation == 3;
    if (c.policy.fp8) model = in_fp8(std::move(model));
    Subject subject{build_schedule(c.with_frozen(model), c.grid, c.policy), {}};
    subject.plan = plan_memory(subject.schedule, {true, 0});
    REQUIRE(verify_schedule(subject.schedule) == std::vector<std::string>());
    REQUIRE(check_memory_plan(subject.schedule, subject.plan).empty());
    drop_operations(subject, operations);
    drop_edges(subject, edges);
    swap_pairs(subject, neighbours, others);
    retype_measured(subject, retyped);
  }
  std::cout << "mutants of schedules:\n";
  report("drop", operations);
  report("edge", edges);
  for (const auto& [what, c] : {std::pair{"neighbours", neighbours}, std::pair{"other pairs", others}}) {
    std::cout << fmt::format(
        "  swap {:<15} {:>5} made, {:>5} rejected by the verifier, {:>4} by the memory plan, {:>4} legal orders\n",
        what, c.made, c.by_verifier, c.by_plan, c.redundant);
  }
  std::cout << fmt::format("  measured in another type {:>5} made, {:>5} rejected by the verifier\n", retyped.made,
                           retyped.by_verifier);
  REQUIRE(retyped.made > 0);
  REQUIRE(retyped.by_verifier == retyped.made);
  for (const auto& [kind, count] : operations) REQUIRE(count.redundant == 0);
  REQUIRE(operations.size() == kOperationKinds);  // every kind
  // A share of the schedules may have no gather at the limit.
  REQUIRE((draws(15, 3) < 15 || edges.size() == 3));
  REQUIRE(neighbours.redundant > 0);
  REQUIRE(neighbours.by_verifier > neighbours.redundant);
  REQUIRE(others.by_verifier > others.redundant);
}

TEST_CASE("attention within documents reads the positions that come with the tokens") {
  ModelParts model = toy_model({});
  model.documents = true;
  SchedulePolicy policy;
  policy.strategy = Strategy::zero3;
  policy.recomputation = Recomputation::all_blocks();
  const ProcessGrid grid = grid_for(Strategy::zero3, 2, 2, 0);
  const StepSchedule right = build_schedule(model, grid, policy);
  REQUIRE(verify_schedule(right).empty());
  int mutants = 0;
  for (const OperationId id : right.operations.ids()) {
    const Operation& op = right.operation(id);
    if (!op.part || right.part(op.part).kind != PartKind::attention) continue;
    StepSchedule mutant = right;
    REQUIRE(std::erase_if(mutant.operations[id].reads,
                          [&](ValueId v) { return right.value(v).kind == ValueKind::tokens; }) == 1);
    CHECK_FALSE(verify_schedule(mutant).empty());
    ++mutants;
  }
  CHECK(mutants > 4);
}

TEST_CASE("magnitudes of other parameters than a part reads are rejected") {
  SchedulePolicy policy;
  policy.compute = DType::bf16;
  const StepSchedule right = build_schedule(in_fp8(toy_model()), grid_for(Strategy::zero3, 3, 3, 0), policy);
  REQUIRE(verify_schedule(right).empty());
  const auto of_kind = [&](OperationKind kind, UnitId unit) {
    return *std::ranges::find_if(right.operations.ids(), [&](OperationId id) {
      const Operation& op = right.operation(id);
      return op.kind == kind && op.unit == unit;
    });
  };
  const auto first =
      *std::ranges::find_if(right.layout.units.ids(), [&](UnitId id) { return !right.unit(id).fp8_weights.empty(); });
  const UnitId second = first + 1;
  CHECK((right.unit(first).is_fp8() && right.unit(first).fp8_weights.size() == 4));
  const OperationId found = of_kind(OperationKind::magnitudes, first);
  const auto reject = [&](const char* problem, auto change) {
    StepSchedule mutant = right;
    change(mutant, mutant.operations[found]);
    CHECK(testing::rejected(mutant, problem));
  };
  reject("one magnitude for each weight", [](StepSchedule& s, Operation& op) { --s.values[op.writes[0]].elements; });
  reject("partial over the groups",
         [](StepSchedule& s, Operation& op) { s.values[op.writes[0]].placement.partial = {}; });
  reject("all parameters of the unit", [&](StepSchedule& s, Operation& op) {
    op.reads[0] = s.operation(of_kind(OperationKind::magnitudes, second)).reads[0];
  });
  const OperationId gather = *std::ranges::find_if(right.operations.ids(), [&](OperationId id) {
    return right.operation(id).kind == OperationKind::gather && right.operation(id).reads.size() == 2;
  });
  reject("magnitudes of what it makes codes of",
         [&](StepSchedule& s, Operation&) { s.operations[gather].reads.pop_back(); });
  reject("without the largest magnitudes of what it reads",
         [&](StepSchedule& s, Operation&) { s.operations[gather].reads[1] = s.operations[gather].reads[0]; });
  reject("in the type that compute reads", [&](StepSchedule& s, Operation&) {
    s.values[s.operations[gather].writes[0]].placement.dtype = DType::bf16;
    s.operations[gather].reads.pop_back();
  });
  reject("without its largest magnitudes", [](StepSchedule& s, Operation&) {
    const auto reader = std::ranges::find_if(s.operations.ids(), [&](OperationId id) {
      return s.operation(id).kind == OperationKind::backward && s.part(s.operation(id).part).block == 0;
    });
    std::erase_if(s.operations[*reader].reads, [&](ValueId v) { return s.value(v).kind == ValueKind::magnitudes; });
  });
}

TEST_CASE("codes by the magnitudes of the last step are rejected") {
  SchedulePolicy policy;
  policy.strategy = Strategy::ddp;
  const StepSchedule right = build_schedule(in_fp8(toy_model()), grid_for(Strategy::ddp, 1, 1, 0), policy);
  REQUIRE(verify_schedule(right).empty());
  const auto segment = std::ranges::find(right.segments, SegmentRole::update, &Segment::role);
  const auto found = *std::ranges::find_if(
      segment->operations(), [&](OperationId id) { return right.operation(id).kind == OperationKind::magnitudes; });
  const OperationId cast = found + 1;
  REQUIRE(right.operation(cast).kind == OperationKind::cast);
  StepSchedule mutant = swapped(right, found, cast);
  Value old = right.value(right.operation(cast).reads[1]);
  old.maker = {}, old.version = 0;
  mutant.operations[found].reads[1] = mutant.values.end_id();
  mutant.segments[SegmentId(segment - right.segments.begin())].carried_in.push_back(mutant.values.end_id());
  mutant.values.push_back(old);
  CHECK(testing::rejected(mutant, "without the largest magnitudes of what it reads"));
}

TEST_CASE("an exchange that moves anything else than the matrices of its unit is rejected") {
  SchedulePolicy policy;
  policy.optimizer = OptimizerName::muon;
  const StepSchedule right = build_schedule(toy_model(), grid_for(Strategy::zero3, 3, 3, 0), policy);
  REQUIRE(verify_schedule(right).empty());
  int mutants = 0;
  const auto reject = [&](OperationId id, std::size_t run, auto change) {
    StepSchedule mutant = right;
    change(mutant.operations[id].runs, mutant.operations[id].runs[run]);
    mutant.operations[id].wire_bytes = most_elements_sent(mutant.operations[id].runs) * size_of(DType::fp32);
    INFO(text_of(right, id) << ", run " << run);
    CHECK(testing::rejected(mutant, "an exchange moves"));
    ++mutants;
  };
  for (const OperationId id : right.operations.ids()) {
    const std::vector<ExchangeRun>& runs = right.operation(id).runs;
    for (std::size_t run = 0; run < runs.size(); ++run) {
      using Runs = std::vector<ExchangeRun>&;
      reject(id, run, [&](Runs all, ExchangeRun&) { all.erase(all.begin() + static_cast<std::ptrdiff_t>(run)); });
      reject(id, run, [&](Runs all, ExchangeRun& one) { all.push_back(one); });
      reject(id, run, [](Runs, ExchangeRun& one) { one.sender = (one.sender + 1) % 3; });
      reject(id, run, [](Runs, ExchangeRun& one) { one.receiver = (one.receiver + 1) % 3; });
      reject(id, run, [](Runs, ExchangeRun& one) { ++one.source; });
      reject(id, run, [](Runs, ExchangeRun& one) { ++one.target; });
      reject(id, run, [](Runs, ExchangeRun& one) { --one.elements; });
    }
  }
  CHECK(mutants > 100);
  for (const OperationId id : right.operations.ids()) {
    const Operation& op = right.operation(id);
    if (op.kind != OperationKind::exchange) continue;
    INFO(text_of(right, id));
    StepSchedule mutant = right;
    mutant.storages[right.value(op.reads[0]).storage].region = RegionKind::private_;
    CHECK(testing::rejected(mutant, "is not in the shared region"));
    mutant = right;
    mutant.values[op.writes[0]].elements -= 64;
    CHECK(testing::rejected(mutant, "between a slice's matrices and the fullest owner's"));
    mutant = right;
    mutant.operations[id].runs.push_back({0, 1, 0, 1 << 20, 64});
    CHECK(testing::rejected(mutant, "an exchange moves nothing else"));
  }
}
