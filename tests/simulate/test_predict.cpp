#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "simulated_run.hpp"
#include "tessera/simulate/predict.hpp"

using namespace tessera;
using namespace tessera::testing;
using Catch::Contains;

namespace {

Prediction predicted(const PlannedRun& run, const Rates& rates, QueueMode queues = QueueMode::parallel) {
  Options options;
  options.run.queues = queues;
  return predict(run.schedule, run.plan, options, machine_of(rates));
}

}  // namespace

TEST_CASE("A serial step takes its FLOPs, bytes and sent bytes at the machine's rates") {
  const PlannedRun run = planned("nano", Strategy::zero3, 4);
  const auto seconds = [&](Rates rates) { return predicted(run, rates, QueueMode::serial).step_seconds; };
  const double all = seconds({});
  // What a rate is doubled for takes half of its time, so the halves add up to half of the whole.
  const double compute = all - seconds({2e11, 1e10, 1e9}), memory = all - seconds({1e11, 2e10, 1e9}),
               link = all - seconds({1e11, 1e10, 2e9});
  CHECK(compute + memory + link == Approx(all / 2));
  const auto flops = static_cast<double>(run.schedule.model.training_flops() * run.schedule.policy.accumulation);
  CHECK(2 * compute == Approx(flops / 1e11));
  CHECK(2 * link >= static_cast<double>(run.schedule.wire_bytes_per_step()) / 1e9);
  CHECK(2 * link < 1.01 * static_cast<double>(run.schedule.wire_bytes_per_step()) / 1e9);
  const Prediction p = predicted(run, {}, QueueMode::serial);
  CHECK(p.mfu == Approx(flops / 1e11 / all));
  CHECK(p.tokens_per_second == Approx(4 * 2 * 2 * 64 / all));
  CHECK(p.uncertainty == Approx(0.1).epsilon(1e-6));
}

TEST_CASE("What limits a step is named") {
  const PlannedRun run = planned("nano", Strategy::zero3, 4);
  CHECK(predicted(run, {1e9, 1e12, 1e12}).limit == "compute");
  CHECK(predicted(run, {1e15, 1e8, 1e12}).limit == "memory bandwidth");
  CHECK(predicted(run, {1e12, 1e12, 1e7}).limit == "link");
}

TEST_CASE("Sharding more sends more: a slow link ranks the strategies by their bytes") {
  double last = 0;
  for (const Strategy strategy : {Strategy::zero1, Strategy::zero2, Strategy::zero3}) {
    const double seconds = predicted(planned("nano", strategy, 4), {1e12, 1e12, 1e7}).step_seconds;
    CHECK(seconds > last);
    last = seconds;
  }
}

TEST_CASE("comm.emulate is the least that a collective takes") {
  const PlannedRun run = planned("nano", Strategy::zero3, 4);
  Options options;
  options.run.queues = QueueMode::serial;
  const double before = predict(run.schedule, run.plan, options, machine_of({1e11, 1e10, 1e15})).step_seconds;
  options.comm.emulate = {1e-3, 0};
  std::int64_t collectives = 0;
  for (const Play& play : run.schedule.step)
    for (const OperationId id : run.schedule.segments[play.segment].operations())
      collectives += run.schedule.communicates(run.schedule.operation(id));
  const double after = predict(run.schedule, run.plan, options, machine_of({1e11, 1e10, 1e15})).step_seconds;
  CHECK(after - before == Approx(1e-3 * static_cast<double>(collectives)).epsilon(1e-3));
}

TEST_CASE("A kernel's price may depend on how many ranks of a node work") {
  Cluster cluster = machine_of({});
  PriceTable& norm = cluster.prices["norm forward.fp32"];
  const PriceTable::Axis bytes = norm.axes()[0];
  const double seconds = norm.points()[0];
  norm = PriceTable({{PriceAxis::ranks, {1, 4}}, bytes}, {seconds, 5 * seconds});
  const auto norms = [&](std::int64_t ranks) {
    const PlannedRun run = planned("nano", Strategy::ddp, ranks);
    const auto norm_time = [&](const Cluster& on) {
      return predict(run.schedule, run.plan, {}, on).timeline.time[static_cast<std::size_t>(TimeCategory::forward)];
    };
    return norm_time(cluster) / norm_time(machine_of({}));
  };
  CHECK(norms(1) == Approx(1));
  CHECK(norms(4) > 1.001);
}

TEST_CASE("Collectives that overlap with compute are slower, but not those of an emulated link") {
  const PlannedRun run = planned("nano", Strategy::zero3, 4);
  Cluster cluster = machine_of({1e15, 1e15, 1e8});
  cluster.collectives_under_compute = 2;
  const auto seconds_with = [&](QueueMode queues, Emulation emulate = {}) {
    Options options;
    options.run.queues = queues, options.comm.emulate = emulate;
    return predict(run.schedule, run.plan, options, cluster).step_seconds;
  };
  const double serial = seconds_with(QueueMode::serial);
  CHECK(seconds_with(QueueMode::parallel) == Approx(2 * serial).epsilon(0.1));
  CHECK(seconds_with(QueueMode::parallel, {1e-9, 0}) == Approx(serial).epsilon(0.1));  // an emulated link sleeps
}

TEST_CASE("A collective that sleeps does not slow compute down") {
  const PlannedRun run = planned("nano", Strategy::zero3, 4);
  Cluster cluster = machine_of({1e9, 1e9, 1e15});
  Options options;
  options.run.queues = QueueMode::parallel;
  options.comm.emulate = {1e-3, 0};
  const double undisturbed = predict(run.schedule, run.plan, options, cluster).step_seconds;
  cluster.compute_under_collectives = 10;
  CHECK(predict(run.schedule, run.plan, options, cluster).step_seconds == Approx(undisturbed).epsilon(0.01));
  options.comm.emulate = {};
  for (auto& [name, table] : cluster.prices) {
    if (!name.ends_with(".node")) continue;
    table = PriceTable(table.axes(), std::vector<double>(table.points().size(), 1e-3));
  }
  CHECK(predict(run.schedule, run.plan, options, cluster).step_seconds > 1.1 * undisturbed);
}

TEST_CASE("On a GPU a deterministic step has its prices of attention backward, and of matmuls that nobody timed") {
  const PlannedRun run = planned("nano", Strategy::ddp, 1);
  Cluster cluster = machine_of({});
  cluster.device = DeviceKind::cuda, cluster.untimed_matmuls = 1.5;
  Options options;
  options.run.graph = true;
  const auto seconds = [&](Tristate mode, const char* algorithms) {
    options.run.deterministic = mode, options.run.algorithms = algorithms;
    return predict(run.schedule, run.plan, options, cluster).step_seconds;
  };
  const double fast = seconds(Tristate::no, ""), timed = seconds(Tristate::yes, "FILE"),
               ordered = seconds(Tristate::yes, "");
  CHECK(timed == Approx(fast));  // in fp32 attention is by own kernels anyway
  cluster.untimed_matmuls = 2;
  CHECK(seconds(Tristate::yes, "") - ordered == Approx(ordered - timed));
  CHECK(ordered > 1.2 * timed);
  const PlannedRun half = [] {
    SchedulePolicy policy;
    policy.strategy = Strategy::ddp, policy.compute = policy.reduce = DType::bf16;
    return planned("nano", policy, 1);
  }();
  cluster.prices["own attention backward.bf16"] = cluster.prices["attention backward.bf16"];
  cluster.prices["own attention forward.bf16"] = cluster.prices["attention forward.bf16"];
  cluster.deterministic_attention = 3;
  const auto half_seconds = [&](GpuAttention attention) {
    PlannedRun run_of_it = half;
    run_of_it.schedule.model.attention = attention;
    return predict(run_of_it.schedule, run_of_it.plan, options, cluster).step_seconds;
  };
  CHECK(half_seconds(GpuAttention::own) == Approx(half_seconds(GpuAttention::cudnn)));
  const auto more = [&] { return half_seconds(GpuAttention::deterministic_cudnn) - half_seconds(GpuAttention::cudnn); };
  const double of_backward = more();
  CHECK(of_backward > 0.01 * half_seconds(GpuAttention::cudnn));
  cluster.prices["attention forward.bf16"] = PriceTable({{PriceAxis::flops, {1}}}, {1e-9});
  CHECK(more() == Approx(of_backward));
  const double whole = half_seconds(GpuAttention::cudnn), own = half_seconds(GpuAttention::own);
  cluster.documents_attention = 0.1;
  CHECK(half_seconds(GpuAttention::cudnn) == whole);
  const auto seconds_apart = [&](GpuAttention attention) {
    PlannedRun run_of_it = half;
    run_of_it.schedule.model.attention = attention, run_of_it.schedule.model.most_documents = 7;
    return predict(run_of_it.schedule, run_of_it.plan, options, cluster).step_seconds;
  };
  CHECK(seconds_apart(GpuAttention::cudnn) < 0.99 * whole);
  CHECK(seconds_apart(GpuAttention::own) == own);
}

TEST_CASE("Linears in fp8 have their factor on a GPU, and its conversions are priced by their bytes") {
  const auto seconds = [](DeviceKind device, bool in_fp8, double factor, double conversion = 0) {
    SchedulePolicy policy;
    policy.strategy = Strategy::ddp, policy.compute = policy.reduce = DType::bf16;
    if (in_fp8) policy.fp8 = Fp8Linears{}, policy.keeps_activated = true;
    const PlannedRun run = planned("nano", policy, 1, 2, 32, device);
    Cluster cluster = machine_of({});
    cluster.device = device, cluster.fp8_matmuls = factor;
    if (conversion > 0) cluster.prices["to fp8.bf16"] = PriceTable({{PriceAxis::bytes, {1}}}, {conversion});
    for (const char* direction : {"forward", "backward"}) {
      const std::string name = fmt::format("attention {}.bf16", direction);
      cluster.prices["own " + name] = cluster.prices[name];
    }
    return predict(run.schedule, run.plan, {}, cluster).step_seconds;
  };
  const double exact = seconds(DeviceKind::cuda, false, 0.5), slow = seconds(DeviceKind::cuda, true, 1);
  CHECK(exact == Approx(seconds(DeviceKind::cuda, false, 1)));
  CHECK(slow > exact);
  CHECK(seconds(DeviceKind::cuda, true, 0.5) < 0.95 * slow);
  CHECK(seconds(DeviceKind::cpu, true, 0.5) == Approx(seconds(DeviceKind::cpu, true, 1)));
  for (const DeviceKind device : {DeviceKind::cpu, DeviceKind::cuda})
    CHECK(seconds(device, true, 1, 1e3) > 1e3);  // a price of their own
}

TEST_CASE("Sizes of attention may have the names of linears' sizes") {
  const PlannedRun run = planned("nano", Strategy::ddp, 1);
  const auto seconds = [&](PriceAxis rows, PriceAxis sequence, PriceAxis width) {
    Cluster cluster = machine_of({});
    cluster.prices["attention forward.fp32"] = PriceTable({{rows, {1}}, {sequence, {1}}, {width, {1}}}, {1e-3});
    return predict(run.schedule, run.plan, {}, cluster).step_seconds;
  };
  const double named = seconds(PriceAxis::rows, PriceAxis::sequence, PriceAxis::head_width);
  CHECK(named > 1e-3);
  CHECK(seconds(PriceAxis::tokens, PriceAxis::in, PriceAxis::out) == named);
}

TEST_CASE("A missing price is named with its file") {
  const PlannedRun run = planned("nano", Strategy::ddp, 2);
  Cluster cluster = machine_of({});
  cluster.prices.erase("norm backward.fp32");
  CHECK_THROWS_WITH(predict(run.schedule, run.plan, {}, cluster),
                    Contains("rates.ini") && Contains("norm backward.fp32"));
}

TEST_CASE("16,384 ranks of a 70B shape are predicted without memory for it") {
  RunShape shape;
  shape.architecture = preset("llama-8b");
  shape.architecture.layers = 80, shape.architecture.width = 8192, shape.architecture.heads = 64;
  shape.architecture.ffn_width = 28672;
  shape.micro_batch = 1, shape.sequence = 4096, shape.world = 16384, shape.ranks_per_node = 8;
  shape.policy.strategy = Strategy::hsdp;
  shape.policy.compute = DType::bf16;
  shape.device = DeviceKind::cuda;
  const PlannedRun run = plan_shape(shape, {false, 0});
  Cluster cluster = machine_of({4e14, 2e12, 2e11});
  cluster.device = DeviceKind::cuda;
  cluster.peak["bf16"] = 9.89e14;
  const Prediction p = predict(run.schedule, run.plan, {}, cluster);
  CHECK(p.mfu > 0.1);
  CHECK(p.mfu < 0.41);
  const auto json = prediction_json(p);
  CHECK(json["limit"] == p.limit);
  double booked = json["host_seconds"];
  for (const auto& [name, one] : json["classes"].items()) booked += one["seconds"].get<double>();
  CHECK(booked == Approx(p.step_seconds));
}

TEST_CASE("Prices of another host are named where the step uses the host") {
  Cluster cluster = machine_of({});
  const auto remark = [&](DeviceKind device, Offload offload) {
    SchedulePolicy policy;
    policy.offload = offload;
    return remark_on_host(cluster, planned("nano", policy, 2, 2, 64, device).schedule, "CPU A");
  };
  CHECK_THAT(remark(DeviceKind::cuda, Offload::optimizer),
             Contains("a host that the file does not name, and this one has CPU A"));
  CHECK(remark(DeviceKind::cuda, Offload::none).empty());
  CHECK(remark(DeviceKind::cpu, Offload::optimizer).empty());
  cluster.host = "CPU B";
  CHECK_THAT(remark(DeviceKind::cuda, Offload::optimizer), Contains("of a host with CPU B, and"));
  cluster.host = "CPU A";
  CHECK(remark(DeviceKind::cuda, Offload::optimizer).empty());
}
