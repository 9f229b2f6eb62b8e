// A calibration over a tiny ladder. No time of a kernel is asserted.

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <cstring>
#include <set>
#include <thread>
#include <variant>

#include "bench/bench_options.hpp"
#include "bench/calibration.hpp"
#include "bench/kernel_ladder.hpp"
#include "local_world/local_world.hpp"
#include "temporary_folder.hpp"

using namespace tessera;
using namespace tessera::test;
using tessera::testing::TemporaryFolder;

namespace {

LadderSizes tiny() {
  return {{16, 32}, {16, 32},           {16},     {16, 32},           {64, 128}, {2}, {16, 32},
          {16},     {1 << 14, 1 << 15}, {16, 32}, {1 << 12, 1 << 14}, 16 << 20,  0};
}

Cluster calibrated(std::int64_t ranks, std::int64_t per_node) {
  Cluster result;
  run_ranks(ranks, per_node, [&](RankContext& context) {
    MachineShape machine;
    machine.machine_ranks = static_cast<int>(ranks);
    const Cluster mine = calibrate(context, small_run(), machine, tiny());
    if (context.rank() == 0) result = mine;
  });
  return result;
}

template <std::size_t... I>
std::vector<KernelArguments> one_of_each(std::index_sequence<I...>) {
  return {KernelArguments(std::in_place_index<I>)...};
}

/// Returns the price of every kernel of the interface that a step may call, in fp32.
std::vector<std::string> every_kernel() {
  std::vector<KernelArguments> calls = one_of_each(std::make_index_sequence<std::variant_size_v<KernelArguments>>());
  float number = 0;
  const View view{&number, DType::fp32, 1};
  LinearForward forward;
  forward.activated = view;
  LinearBackward backward;
  backward.before_gelu = view;
  Rotate rotary;
  rotary.inverse = true;
  HeadLoss head;
  head.input_gradient = view;
  ParameterUpdate muon;
  muon.rule = UpdateRule::muon;
  Orthogonalize matrix;
  matrix.input = view;
  calls.insert(calls.end(), {forward, backward, rotary, head, muon, matrix});
  // Generation, checks and weights in fp8 have no prices of their own.
  const std::set<std::string> without{"attention cached", "checksum", "largest magnitude", "to codes"};
  std::vector<std::string> names;
  for (const KernelArguments& arguments : calls) {
    const auto call = describe(arguments);
    if (call && !without.contains(call->name)) names.push_back(price_name(*call));
  }
  return names;
}

}  // namespace

TEST_CASE("names of prices") {
  KernelCall call;
  call.name = "linear forward", call.dtype = DType::bf16;
  CHECK(price_name(call) == "linear forward.bf16");
  call.has_gelu = true;
  CHECK(price_name(call) == "linear forward gelu.bf16");
  CHECK(price_name(call, PricedBy::host) == "host linear forward gelu.bf16");
  CHECK(price_name(OperationKind::exchange, true) == "exchange.node");
  const std::vector<std::string> names = every_kernel();
  for (const char* name : {"head.fp32", "head loss.fp32", "rotary.fp32", "linear backward gelu.fp32"}) {
    INFO(name);
    CHECK(std::ranges::count(names, name) >= 1);
  }
}

TEST_CASE("a calibration has a price for everything that a step does") {
  const int ranks = GENERATE(1, 2);
  const Cluster cluster = calibrated(ranks, ranks);
  for (const std::string& name : every_kernel()) {
    INFO(name);
    CHECK(cluster.prices.contains(name));
    const auto dot = name.find(".fp32");
    if (dot != std::string::npos && !name.starts_with("orthogonalize"))
      CHECK(cluster.prices.contains(name.substr(0, dot) + ".bf16"));
  }
  for (const char* name :
       {"host adamw.fp32", "host adamw.bf16", "host cast.fp32", "host cast.bf16", "copy.to_host", "copy.to_device"}) {
    INFO(name);
    CHECK(cluster.prices.contains(name));
  }
  for (const char* name : {"all-gather.node", "reduce-scatter.node", "all-reduce.node", "exchange.node"}) {
    INFO(name);
    CHECK(cluster.prices.contains(name) == (ranks > 1));
  }
  for (const auto& [name, table] : cluster.prices) {
    INFO(name);
    CHECK(table.uncertainty >= 0.02);
    for (const double seconds : table.points()) CHECK((seconds > 0 && std::isfinite(seconds)));
  }
  CHECK(cluster.peak.at("fp32") > 0);
  CHECK(cluster.peak.at("bf16") > 0);
  CHECK(cluster.threads == 1);
  CHECK(cluster.memory > 0);
  CHECK(cluster.compute_under_copies >= 1);
  CHECK(cluster.fp8_matmuls > 0.1);
  CHECK(cluster.fp8_matmuls < 10);
  CHECK(cluster.fp8_matmuls != 1);
  CHECK(cluster.compute_under_collectives >= 1);
  CHECK(cluster.segment >= cluster.issue);
  CHECK(cluster.step > 0);
  CHECK(cluster.step < 1);
}

TEST_CASE("kernels that share a machine are priced alone and together") {
  const Cluster cluster = calibrated(2, 2);
  for (const char* name : {"linear forward.fp32", "adamw.bf16", "copy.to_host", "host adamw.fp32"}) {
    INFO(name);
    const PriceTable& table = cluster.price(name);
    CHECK(table.axes()[0].axis == PriceAxis::ranks);
    CHECK(table.axes()[0].values == std::vector<double>{1, 2});
    CHECK(table.points().size() % 2 == 0);
  }
}

TEST_CASE("calls of the first rank alone are made by no other, and are its price") {
  std::array<std::int64_t, 3> made{};
  run_ranks(3, 3, [&](RankContext& context) {
    const auto device = make_cpu_device();
    const auto stream = device->make_caller_stream("timed");
    std::int64_t& mine = made[static_cast<std::size_t>(context.rank())];
    std::vector<PricedCalls> calls{{"wait", {{PriceAxis::bytes, {1}}}, {[&](Stream&) { ++mine; }}}};
    time_calls(context, *device, *stream, calls, 0, 0, Callers::first);
    CHECK(calls[0].seconds[0].empty() == (context.rank() > 0));
    CHECK(price_of(context, calls[0]).points()[0] > 0);
  });
  CHECK(made[0] >= 3);
  CHECK(made[1] + made[2] == 0);
}

TEST_CASE("preparations run before each call, and their time does not count") {
  std::string done;
  run_ranks(1, 1, [&](RankContext& context) {
    const auto device = make_cpu_device();
    const auto stream = device->make_caller_stream("timed");
    const auto note = [&](char name, int milliseconds) {
      return [&done, name, milliseconds](Stream&) {
        done += name;
        std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
      };
    };
    std::vector<PricedCalls> calls{
        {"two", {{PriceAxis::bytes, {1, 2}}}, {note('a', 0), note('b', 0)}, {note('-', 100), StreamWork()}}};
    time_calls(context, *device, *stream, calls, 0);
    CHECK(price_of(context, calls[0]).points()[0] < 0.1);
  });
  CHECK(done.substr(0, 12) == "-ab-ab-ab-ab");
}

TEST_CASE("calls of a step's forward and backward are made twice if a cache holds their data") {
  const auto device = make_cpu_device();
  ThreadPool pool(1);
  const auto kernels = make_cpu_kernels(pool);
  LadderSizes sizes = tiny();
  sizes.cached = 4 * (16 * 16 + 16 * 16 + 16 * 16 + 16 + 16 * 16);  // the smallest linear's, with its residual
  KernelLadder ladder(*device, *kernels, sizes);
  const std::vector<PricedCalls> all = ladder.all(DType::fp32);
  const auto repeated = [&](const char* name) {
    const auto price = std::ranges::find(all, name, &PricedCalls::name);
    REQUIRE(price != all.end());
    return std::ranges::count_if(price->before, [](const StreamWork& work) { return work != nullptr; });
  };
  CHECK(repeated("linear forward.fp32") == 1);
  CHECK(repeated("adamw.fp32") == 0);
  CHECK(repeated("cast.fp32") == 0);
}

TEST_CASE("a walk through memory goes on from where it returned to") {
  const auto device = make_cpu_device();
  RotatingMemory memory(*device, MemoryKind::device, 4096);
  memory.next(100);
  const std::int64_t place = memory.place();
  std::byte* const there = memory.next(1000);
  memory.return_to(place);
  CHECK(memory.next(1000) == there);
}

TEST_CASE("axes of a calibration are those of the ladder") {
  const Cluster cluster = calibrated(1, 1);
  const PriceTable& linear = cluster.price("linear backward.bf16");
  REQUIRE(linear.axes().size() == 3);
  CHECK(linear.axes()[0].axis == PriceAxis::tokens);
  CHECK(linear.axes()[0].values == std::vector<double>{16, 32});
  const PriceTable& head = cluster.price("head.fp32");
  CHECK(head.axes()[2].values == std::vector<double>{64, 128});
  CHECK(cluster.price("attention backward.fp32").axes()[0].axis == PriceAxis::rows);
  CHECK(cluster.price("attention backward.fp32").axes()[2].axis == PriceAxis::head_width);
  const PriceTable& cast = cluster.price("cast.bf16");
  CHECK(cast.axes()[0].axis == PriceAxis::bytes);
  CHECK(cast.axes()[0].values == std::vector<double>{6 << 14, 6 << 15});
  CHECK(cluster.price("adamw.bf16").axes()[0].values == std::vector<double>{26 << 14, 26 << 15});
  CHECK(cluster.price("orthogonalize.fp32").axes()[0].axis == PriceAxis::flops);
  const Cluster pair = calibrated(2, 2);
  const PriceTable& gather = pair.price("all-gather.node");
  CHECK(gather.axes()[0].values == std::vector<double>{2});
  CHECK(gather.axes()[1].values == std::vector<double>{2048, 8192});  // half of each message
}

TEST_CASE("ranks on several nodes have prices within a node and across") {
  const Cluster cluster = calibrated(4, 2);
  CHECK(cluster.price("all-gather.node").axes()[0].values == std::vector<double>{2});
  CHECK(cluster.price("all-gather.network").axes()[0].values == std::vector<double>{4});
  CHECK(cluster.ranks_per_node == 2);
}

TEST_CASE("what a calibration measured reads back") {
  const Cluster cluster = calibrated(1, 1);
  const std::string text = cluster_text(cluster, "# One rank.\n");
  const TemporaryFolder folder;
  const Cluster again = read_cluster(folder.write("machine.ini", text));
  CHECK(cluster_text(again, "# One rank.\n") == text);
  CHECK(again.prices.size() == cluster.prices.size());
}

TEST_CASE("memory that calls walk through is used again only after all of it") {
  const auto device = make_cpu_device();
  RotatingMemory memory(*device, MemoryKind::device, 1024);
  std::byte* const first = memory.next(100);
  CHECK(memory.next(512) == first + 256);
  CHECK(memory.next(512) == first);
  CHECK(memory.next(1024) == first);
  CHECK_THROWS_AS(memory.next(1025), InternalError);
}

TEST_CASE("memory of calls holds many moderate numbers, negative ones where they may be") {
  const auto device = make_cpu_device();
  for (const bool may_be_negative : {true, false}) {
    RotatingMemory memory(*device, MemoryKind::device, 4000, may_be_negative);
    std::vector<float> values(1000);
    std::memcpy(values.data(), memory.next(4000), 4000);
    const auto negative = std::ranges::count_if(values, [](float value) { return value < 0; });
    CHECK(std::abs(negative - (may_be_negative ? 500 : 0)) < 100);
    CHECK(std::ranges::all_of(values, [](float x) { return std::abs(x) >= 1.0f / 128 && std::abs(x) < 2; }));
    CHECK(std::set(values.begin(), values.end()).size() > 990);
  }
}
