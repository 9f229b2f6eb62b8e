// State on the host: what moves, what is copied, and schedules that forget a copy.
#include <catch2/catch.hpp>

#include "all_policies.hpp"
#include "mutants.hpp"
#include "schedule/order.hpp"
#include "tessera/base/math.hpp"
#include "tessera/fit/decide_fit.hpp"
#include "tessera/schedule/build.hpp"
#include "tessera/schedule/formula.hpp"
#include "tessera/schedule/memory_plan.hpp"
#include "tessera/schedule/planned_run.hpp"
#include "tessera/schedule/print.hpp"
#include "tessera/schedule/verify.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

struct Case {
  Strategy strategy = Strategy::zero3;
  std::int64_t world = 4;
  DType compute = DType::fp32;
  Offload offload = Offload::optimizer;
  double fraction = 1;
  std::int64_t bucket = 64;
  bool snapshot = false;
  bool in_fp8 = false;
};

StepSchedule schedule_of_case(const Case& c) {
  SchedulePolicy policy;
  policy.strategy = c.strategy;
  policy.reduce_each_micro_step = rules_of(c.strategy).reduces_each_micro_step();
  policy.compute = policy.reduce = c.compute;
  policy.offload = c.offload;
  policy.offload_fraction = c.fraction;
  policy.offload_bucket = c.bucket;
  policy.snapshot = c.snapshot;
  ToyShape shape;
  shape.compute = c.compute;
  const std::int64_t group = rules_of(c.strategy).is_hybrid() && c.world > 1 ? 2 : 0;
  ModelParts model = toy_model(shape);
  if (c.in_fp8) model = in_fp8(std::move(model)), policy.fp8 = Fp8Linears{};
  return build_schedule(model, grid_for(c.strategy, c.world, c.world, group), policy);
}

template <class F>
void for_each_case(F&& f) {
  for (const StrategyRules& rules : all_strategies()) {
    for (const std::int64_t world : {1, 4}) {
      for (const DType compute : {DType::fp32, DType::bf16}) {
        for (const Offload offload : {Offload::optimizer, Offload::params}) {
          if (offload == Offload::params && rules.life == ParameterLife::rest) continue;
          for (const bool in_fp8 : {false, true}) {
            Case c{rules.strategy, world, compute, offload};
            c.in_fp8 = in_fp8;
            INFO(rules.name << " world " << world << " " << name_of(compute) << " " << name_of(offload) << " "
                            << in_fp8);
            f(c);
          }
        }
      }
    }
  }
}

/// Bytes of state and copies that rest in a memory space.
std::int64_t at_rest(const StepSchedule& s, MemorySpace space) {
  std::int64_t bytes = 0;
  for (const Storage& storage : s.storages) {
    const bool rests = storage.always_live && storage.carried;
    const bool is_state = storage.category == Category::parameters || storage.category == Category::optimizer_state;
    if (rests && is_state && storage.space == space) bytes += storage.bytes;
  }
  return bytes;
}

/// The first operation of a kind on a queue that `wanted` takes.
template <class F>
OperationId find(const StepSchedule& s, OperationKind kind, Queue queue, F&& wanted) {
  for (const OperationId id : s.operations.ids()) {
    if (s.operation(id).kind == kind && s.operation(id).queue == queue && wanted(s.operation(id))) return id;
  }
  throw InternalError("no such operation");
}

OperationId find(const StepSchedule& s, OperationKind kind, Queue queue) {
  return find(s, kind, queue, [](const Operation&) { return true; });
}

}  // namespace

TEST_CASE("what rests on the device shrinks, and on the host grows, by the formula's bytes") {
  for_each_case([](Case c) {
    const StepSchedule with = schedule_of_case(c);
    REQUIRE(verify_schedule(with).empty());
    c.offload = Offload::none;
    const StepSchedule without = schedule_of_case(c);
    const OffloadAccount account = offload_account(with);
    REQUIRE(account.elements == account.of);
    REQUIRE(at_rest(without, MemorySpace::device) - at_rest(with, MemorySpace::device) == account.off_device);
    REQUIRE(at_rest(with, MemorySpace::host) == account.on_host);
    REQUIRE(account.off_device >= 8 * account.elements);
    const MemoryPlan plan = plan_memory(with), before = plan_memory(without);
    REQUIRE(check_memory_plan(with, plan).empty());
    if (c.compute != DType::fp32) return;  // slices of 16 bits are rounded up to the alignment
    const auto rest = [](const MemoryPlan& p, MemorySpace space) { return p.region(space, RegionKind::at_rest).bytes; };
    if (rules_of(c.strategy).life != ParameterLife::rest || c.world == 1)
      REQUIRE(rest(before, MemorySpace::device) - rest(plan, MemorySpace::device) == account.off_device);
    REQUIRE(rest(plan, MemorySpace::host) == account.on_host);
  });
}

TEST_CASE("a step copies 8 bytes an element in fp32, 4 in 16 bits, and more where each gather loads") {
  for_each_case([](const Case& c) {
    const StepSchedule s = schedule_of_case(c);
    std::int64_t saved = 0, down = 0, up = 0;
    for (const Saving& saving : s.copy_savings) saved += saving.bytes;
    for (const Play& play : s.step) {
      for (const OperationId id : s.segments[play.segment].operations())
        (s.operation(id).kind == OperationKind::store ? down : up) += copied_bytes(s, s.operation(id));
    }
    const std::int64_t elements = offload_account(s).elements;
    const std::int64_t loads =
        c.offload == Offload::params && rules_of(c.strategy).life == ParameterLife::phase ? 2 : 1;
    REQUIRE(up == loads * elements * size_of(c.compute) - saved);
    REQUIRE((down == elements * 4 || down == elements * size_of(c.compute)));
    REQUIRE(down + up == s.copied_bytes_per_step());
    if (c.offload == Offload::optimizer) REQUIRE(saved == 0);
    REQUIRE(print_memory(s, plan_memory(s)).find(fmt::format("shard.offload = {}", name_of(c.offload))) !=
            std::string::npos);
  });
}

TEST_CASE("a fraction is whole units, the last ones first") {
  for (const auto& [fraction, least] : {std::pair{0.0, 0.0}, {0.01, 0.01}, {0.5, 0.5}, {1.0, 1.0}}) {
    const StepSchedule s = schedule_of_case({.fraction = fraction});
    const OffloadAccount account = offload_account(s);
    const double part = static_cast<double>(account.elements) / static_cast<double>(account.of);
    CHECK(part >= least);
    if (fraction == 0) CHECK_FALSE(s.offloaded_from);
    if (fraction == 1) CHECK(s.offloaded_from.number() == 0);
    if (s.offloaded_from && fraction < 1) {  // with one unit less it would be too little
      const double unit = static_cast<double>(s.unit(s.offloaded_from).share(4)) / static_cast<double>(account.of);
      CHECK(part - unit < least);
    }
    for (const Operation& op : s.operations) {
      if (op.kind == OperationKind::update) CHECK((op.queue == Queue::host) == s.is_offloaded(op.unit));
    }
  }
  CHECK(copy_terms(schedule_of_case({.fraction = 0})).empty());
}

TEST_CASE("an update on the host reads only what a store brought, and gathers only what a load did") {
  const StepSchedule right = schedule_of_case({});
  REQUIRE(verify_schedule(right).empty());
  const OperationId update = find(right, OperationKind::update, Queue::host);
  const auto of_bucket = [&](const Operation& op) {
    return op.unit == right.operation(update).unit && op.bucket == right.operation(update).bucket;
  };
  const OperationId store = find(right, OperationKind::store, Queue::store,
                                 [&](const Operation& op) { return op.unit == right.operation(update).unit; });

  StepSchedule from_device = right;  // the update reads the device's gradient
  from_device.operations[update].reads[0] = right.operation(store).reads[0];
  CHECK(rejected(from_device, "which lies on the device"));

  StepSchedule device_scalars = right;  // and the device's clip coefficient
  device_scalars.operations[update].reads[1] =
      right.operation(find(right, OperationKind::clip, Queue::compute)).writes[0];
  CHECK(rejected(device_scalars, "which lies on the device"));

  StepSchedule on_device = right;  // the device updates state of the host
  on_device.operations[update].queue = Queue::compute;
  CHECK(rejected(on_device, "which lies on the host"));

  StepSchedule in_part = right;
  in_part.operations[store].bucket.first += 64;
  CHECK(rejected(in_part, "stores other elements than the gradient's"));

  StepSchedule not_loaded = right;
  const OperationId load = find(right, OperationKind::load, Queue::load,
                                [&](const Operation& op) { return op.unit && of_bucket(op) && !op.updates.empty(); });
  not_loaded.operations[load].bucket = {};
  CHECK_FALSE(verify_schedule(not_loaded).empty());

  StepSchedule early = right;  // loads before the bucket is updated
  early.operations[load].reads[0] = right.operation(update).updates[0].before;
  CHECK_FALSE(verify_schedule(early).empty());
}

TEST_CASE("a unit's forward waits for its own update and for none of a unit that is used later") {
  for_each_case([](const Case& c) {
    const StepSchedule s = schedule_of_case(c);
    const Segment& first = s.segments[s.step.front().segment];
    const SegmentOrder order(s, first);
    std::map<UnitId, OperationId> updates, uses;
    std::vector<UnitId> in_order;
    for (const OperationId id : first.operations()) {
      const Operation& op = s.operation(id);
      if (op.kind == OperationKind::update && updates.insert_or_assign(op.unit, id).second) in_order.push_back(op.unit);
      if (op.kind != OperationKind::forward) continue;
      for (const UnitId unit : s.layout.units_of(s.part(op.part).tensors)) uses.try_emplace(unit, id);
    }
    REQUIRE(in_order.size() == s.layout.units.size());
    for (std::size_t i = 0; i < in_order.size(); ++i) {
      if (!uses.contains(in_order[i])) continue;  // the head's
      const OperationId use = uses.at(in_order[i]);
      REQUIRE(order.before(updates.at(in_order[i]), use));
      // One unit more is gathered ahead.
      for (std::size_t later = i + 3; later < in_order.size(); ++later)
        REQUIRE_FALSE(order.before(updates.at(in_order[later]), use));
    }
    // Done apart, it is the same work.
    const auto work_of = [&](std::vector<SegmentId> segments) {
      std::multiset<std::tuple<OperationKind, Queue, UnitId, PartId, std::int64_t>> work;
      for (const SegmentId segment : segments) {
        for (const OperationId id : s.segments[segment].operations()) {
          const Operation& op = s.operation(id);
          work.emplace(op.kind, op.queue, op.unit, op.part, op.bucket.first);
        }
      }
      return work;
    };
    REQUIRE(work_of({s.step.front().segment}) == work_of({s.finish.front().segment, s.fresh}));
  });
  CHECK_FALSE(schedule_of_case({.offload = Offload::none}).fresh);
}

TEST_CASE("updates that are left are done once, in time") {
  const StepSchedule right = schedule_of_case({.snapshot = true});
  StepSchedule twice = right;  // the step after `finish` does them again
  twice.fresh = right.step.front().segment;
  CHECK(rejected(twice, "expects host grad wte to be there"));
  StepSchedule never = right;
  never.step.front().segment = right.fresh;
  CHECK(rejected(never, "was not updated in the step"));
  StepSchedule unfinished = right;
  unfinished.finish.clear();
  CHECK(rejected(unfinished, "stores state of another version"));
  // A step that leaves the gradient of the step before.
  const Segment& first = right.segments[right.step.front().segment];
  const auto is_store = [&](OperationId id) { return right.operation(id).kind == OperationKind::store; };
  const OperationId store = *std::ranges::find_if(first.operations(), is_store);
  const ValueId stored = right.operation(store).writes[0];
  const auto found = std::ranges::find_if(
      first.carried_in, [&](ValueId v) { return right.value(v).storage == right.value(stored).storage; });
  REQUIRE(found != first.carried_in.end());
  StepSchedule stale = right;
  redirect(stale, stored, *found);
  CHECK(rejected(without_operation(stale, store), "updates with a gradient of another step"));
}

TEST_CASE("a gradient is copied to the host while the last backward goes on, before it is measured") {
  for_each_case([](const Case& c) {
    const StepSchedule s = schedule_of_case(c);
    const Segment& last = s.segments[s.step[s.step.size() - 2].segment];
    const SegmentOrder order(s, last);
    std::map<UnitId, OperationId> stores;
    OperationId backward;
    for (const OperationId id : last.operations()) {
      if (s.operation(id).kind == OperationKind::store) REQUIRE(stores.emplace(s.operation(id).unit, id).second);
      if (s.operation(id).kind == OperationKind::backward) backward = id;
    }
    REQUIRE(stores.size() == s.layout.units.size());
    const UnitId last_block = s.layout.units.end_id() - 2;
    REQUIRE(stores.at(last_block) < backward);
    for (const OperationId id : last.operations()) {
      const Operation& op = s.operation(id);
      if (op.kind != OperationKind::norm) continue;
      REQUIRE_FALSE(order.before(id, stores.at(op.unit)));
      REQUIRE_FALSE(order.before(stores.at(last_block), id));
    }
  });
}

TEST_CASE("buffers of buckets are waited for") {
  const StepSchedule right = schedule_of_case({.compute = DType::bf16});
  int edges = 0;
  for (const OperationId id : right.operations.ids()) {
    for (const Edge& edge : right.operation(id).after) {
      if (edge.reason != EdgeReason::staging || right.operation(id).bucket.count == 0) continue;
      StepSchedule mutant = right;
      std::erase(mutant.operations[id].after, edge);
      INFO(name_of(right.operation(id).kind));
      if (++edges % 5 == 1) CHECK(rejected(mutant, "race for buffer of"));
    }
  }
  CHECK(edges > 10);
}

TEST_CASE("a snapshot's store comes before the next update of what it reads") {
  // The stores of the snapshot in the update's own segment, on their queue: without an edge the update overtakes them.
  StepSchedule s = schedule_of_case({.fraction = 0.3, .snapshot = true});
  const Segment snapshot = s.segments[s.snapshot.at(0).segment];
  const SegmentId updating = s.step.back().segment;
  const OperationId first_update = find(s, OperationKind::update, Queue::compute);
  const UnitId unit = s.operation(first_update).unit;
  Operation store;
  for (const OperationId id : snapshot.operations()) {
    if (s.operation(id).unit == unit) store = s.operation(id);
  }
  store.reads = {s.operation(first_update).updates[0].before, s.operation(first_update).updates[1].before};
  // It comes before the update: everything after shifts by one.
  const auto insert = [&](StepSchedule schedule, bool waits) {
    const OperationId at = first_update;
    for (Value& value : schedule.values) {
      if (value.maker && value.maker >= at) ++value.maker;
    }
    for (Operation& op : schedule.operations) {
      for (Edge& edge : op.after) {
        if (edge.operation >= at) ++edge.operation;
      }
    }
    for (const SegmentId id : schedule.segments.ids()) {
      Segment& each = schedule.segments[id];
      if (id == updating)
        ++each.count;
      else if (each.first > at)
        ++each.first;
    }
    Value copy = schedule.value(store.writes[0]);
    copy.maker = at;
    schedule.values.push_back(copy);
    Operation inserted = store;
    inserted.writes = {schedule.values.end_id() - 1};
    schedule.operations.insert(schedule.operations.begin() + at.number(), inserted);
    schedule.snapshot.clear();
    if (waits) schedule.operations[at + 1].after.push_back({at, EdgeReason::staging});
    return schedule;
  };
  CHECK(verify_schedule(insert(s, true)).empty());
  CHECK(rejected(insert(s, false), "race for master"));
  // And a store that reads masters of the step after.
  StepSchedule late = insert(s, true);
  std::swap(late.operations[first_update], late.operations[first_update + 1]);
  late.operations[first_update].after.clear();
  CHECK(rejected(late, "which is not there"));
}

TEST_CASE("strategies that keep full parameters offload no parameters, and say so") {
  for (const StrategyRules& rules : all_strategies()) {
    if (rules.life != ParameterLife::rest) continue;
    REQUIRE_THROWS_WITH(schedule_of_case({.strategy = rules.strategy, .offload = Offload::params}),
                        Catch::Contains(fmt::format("shard.strategy = {}", rules.name)));
  }
}

TEST_CASE("the least offload that fits is found, and one unit less does not fit") {
  RunShape shape;
  shape.architecture = preset("nano");
  shape.micro_batch = 1, shape.sequence = 64;
  shape.policy.offload = Offload::optimizer;
  const auto bytes = [&](double fraction) {
    RunShape with = shape;
    with.policy.offload_fraction = fraction;
    const PlannedRun planned = plan_shape(with, {false, 0});
    return limited_bytes(planned.schedule, planned.plan);
  };
  CHECK(least_offload(shape, bytes(0)) == 0);
  const std::int64_t between = (bytes(0) + bytes(1)) / 2;
  const double least = least_offload(shape, between);
  CHECK((least > 0 && least < 1));
  CHECK(bytes(least) <= between);
  CHECK(least_offload(shape, 1) == 1);
}
