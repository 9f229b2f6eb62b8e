#include <catch2/catch.hpp>

#include "examine_fit.hpp"
#include "tessera/base/format.hpp"

using namespace tessera;

namespace {

RunShape nano(Strategy strategy, std::int64_t micro_batch = 8) {
  RunShape shape;
  shape.architecture = preset("nano");
  shape.micro_batch = micro_batch;
  shape.sequence = 256;
  shape.world = 4;
  shape.ranks_per_node = 2;
  shape.policy.strategy = strategy;
  return shape;
}

std::int64_t bytes_of(const RunShape& shape) { return plan_shape(shape).plan.total(); }

const FitChange* find(const FitAnswer& answer, const std::string& option) {
  for (const FitChange& change : answer.changes) {
    if (change.option.rfind(option, 0) == 0) return &change;
  }
  return nullptr;
}

}  // namespace

TEST_CASE("a run fits exactly what it needs, and not a byte less") {
  const RunShape shape = nano(Strategy::zero2);
  const std::int64_t needed = bytes_of(shape);
  REQUIRE(examine_fit(shape, needed).fits());
  REQUIRE(examine_fit(shape, needed).changes.empty());
  const FitAnswer answer = examine_fit(shape, needed - 1);
  REQUIRE_FALSE(answer.fits());
  REQUIRE(answer.needed == needed);
  REQUIRE_FALSE(answer.changes.empty());
  REQUIRE_NOTHROW(require_fit(examine_fit(shape, needed), "plan.memory"));
  REQUIRE_THROWS_AS(require_fit(answer, "plan.memory"), DoesNotFit);
}

TEST_CASE("what is said to fit does: each change is planned again") {
  const RunShape shape = nano(Strategy::ddp);
  const std::int64_t allowed = bytes_of(shape) * 7 / 10;
  const FitAnswer answer = examine_fit(shape, allowed);
  REQUIRE_FALSE(answer.fits());
  for (const FitChange& change : answer.changes) REQUIRE(change.bytes <= allowed);

  RunShape changed = shape;
  changed.policy.recomputation = Recomputation::all_blocks();
  REQUIRE((find(answer, "memory.checkpoint=block") != nullptr) == (bytes_of(changed) <= allowed));
  changed = shape;
  changed.policy.compute = DType::bf16;
  REQUIRE((find(answer, "precision.compute=bf16") != nullptr) == (bytes_of(changed) <= allowed));
  for (const Strategy strategy : {Strategy::zero1, Strategy::zero2, Strategy::zero3}) {
    const auto* change = find(answer, fmt::format("shard.strategy={}", name_of(strategy)));
    REQUIRE((change != nullptr) == (bytes_of(with_strategy(shape, strategy)) <= allowed));
  }
}

TEST_CASE("the micro-batch offered is the largest that fits") {
  for (const std::int64_t micro_batch : {2, 3, 8, 13}) {
    const RunShape shape = nano(Strategy::zero3, micro_batch);
    for (const double share : {0.9, 0.6, 0.4}) {
      const auto allowed = static_cast<std::int64_t>(share * static_cast<double>(bytes_of(shape)));
      const FitAnswer answer = examine_fit(shape, allowed);
      INFO("micro-batch " << micro_batch << ", " << share);
      std::int64_t largest = 0;
      for (std::int64_t b = 1; b < micro_batch; ++b) {
        if (bytes_of(nano(Strategy::zero3, b)) <= allowed) largest = b;
      }
      const auto* change = find(answer, "train.micro_batch=");
      REQUIRE((change != nullptr) == (largest > 0));
      if (change != nullptr) REQUIRE(change->option == fmt::format("train.micro_batch={}", largest));
    }
  }
}

TEST_CASE("where no single option is enough, several together, or the least there is") {
  const RunShape shape = nano(Strategy::ddp, 32);
  RunShape least = with_strategy(shape, Strategy::zero3);
  least.policy.recomputation = Recomputation::all_blocks();
  least.micro_batch = 1;
  const std::int64_t allowed = bytes_of(least) + 1000;
  const FitAnswer answer = examine_fit(shape, allowed);
  REQUIRE(answer.changes.empty());
  REQUIRE(answer.together.find(" with ") != std::string::npos);
  REQUIRE(describe_fit(answer).find(answer.together) != std::string::npos);

  const FitAnswer hopeless = examine_fit(shape, 1000);
  REQUIRE(hopeless.changes.empty());
  REQUIRE(hopeless.together.empty());
  REQUIRE_FALSE(hopeless.smallest.empty());
  REQUIRE(describe_fit(hopeless).find("more ranks") != std::string::npos);
}

TEST_CASE("what documents take is in the plan, and a refusal says how many there are and what takes less") {
  RunShape shape = nano(Strategy::ddp);
  shape.device = DeviceKind::cuda, shape.policy.compute = DType::bf16;
  shape.attention = GpuAttention::deterministic_cudnn;
  const std::int64_t whole = bytes_of(shape);
  shape.documents = true, shape.most_documents = 40;
  const std::int64_t many = bytes_of(shape);
  REQUIRE(many > 2 * whole);
  shape.most_documents = 41;  // each takes as much
  REQUIRE(bytes_of(shape) > many);
  const std::string said = describe_fit(examine_fit(shape, many));
  REQUIRE(said.find("with 328 documents of a micro-batch") != std::string::npos);
  REQUIRE(said.find("run.attention=own (") != std::string::npos);
  REQUIRE(said.find("train.micro_batch=7 (") != std::string::npos);
}

TEST_CASE("the least that is named is the least of all combinations") {
  const RunShape shape = nano(Strategy::zero2, 4);
  const FitAnswer hopeless = examine_fit(shape, 1000);
  std::int64_t least = bytes_of(shape);
  for (int bits = 0; bits < 64; ++bits) {
    RunShape other = (bits & 1) != 0 ? with_strategy(shape, Strategy::zero3) : shape;
    if ((bits & 2) != 0) other.policy.recomputation = Recomputation::all_blocks();
    if ((bits & 4) != 0) other.policy.compute = DType::bf16;
    if ((bits & 8) != 0) other.policy.reduce = DType::bf16;
    if ((bits & 16) != 0) other.micro_batch = 1;
    if ((bits & 32) != 0 && (bits & 1) != 0) other.policy.limit_all_gathers = 1;
    least = std::min(least, bytes_of(other));
  }
  REQUIRE(hopeless.smallest.ends_with(fmt::format("({})", format_bytes(least))));
  REQUIRE(describe_fit(hopeless).find("The least over strategies") != std::string::npos);
  const FitAnswer fits = examine_fit(shape, least + least / 50);  // and it is found among those that fit
  REQUIRE((!fits.changes.empty() || !fits.together.empty()));
}

TEST_CASE("the message says how much, where, and what would help") {
  FitAnswer answer;
  answer.needed = 31'200'000'000, answer.allowed = 24'000'000'000;
  answer.peak = "backward h.11.mlp";
  answer.changes = {{"memory.checkpoint=block", 18'300'000'000}, {"train.micro_batch=2", 21'000'000'000}};
  REQUIRE(describe_fit(answer) ==
          "needs 31.2 GB per rank, 24.0 GB allowed: 7.20 GB too much (peak at backward h.11.mlp). Would fit: "
          "memory.checkpoint=block (18.3 GB), "
          "train.micro_batch=2 (21.0 GB), train.accumulation then keeps the batch");
  answer.allowed = 32'000'000'000;
  REQUIRE(describe_fit(answer) == "needs 31.2 GB per rank, 32.0 GB allowed: fits, 800 MB to spare");
}

TEST_CASE("where a copy of the state for asynchronous checkpoints is too much, that is what to do without") {
  RunShape shape = nano(Strategy::zero2);
  const std::int64_t without = bytes_of(shape);
  shape.policy.snapshot = true;
  REQUIRE(bytes_of(shape) > without);
  const FitAnswer answer = examine_fit(shape, without);
  REQUIRE_FALSE(answer.fits());
  REQUIRE(answer.changes.front().option == "checkpoint.async=false");
  REQUIRE(answer.changes.front().bytes <= without);
  shape.device = DeviceKind::cuda;  // the copy is not in its memory
  RunShape in_the_step = shape;
  in_the_step.policy.snapshot = false;
  const PlannedRun planned = plan_shape(in_the_step);
  REQUIRE(examine_fit(shape, limited_bytes(planned.schedule, planned.plan)).fits());
}

TEST_CASE("what rests on the host must fit the machine beside the other ranks, on CPUs with the device's") {
  RunShape shape;
  shape.architecture = preset("nano");
  shape.micro_batch = 1, shape.sequence = 64, shape.world = 2, shape.ranks_per_node = 2;
  shape.policy.offload = Offload::optimizer;
  for (const DeviceKind device : {DeviceKind::cpu, DeviceKind::cuda}) {
    shape.device = device;
    const PlannedRun planned = plan_shape(shape);
    const std::int64_t on_host = planned.plan.at(MemorySpace::host).total();
    const std::int64_t needed = machine_bytes(planned.schedule, planned.plan);
    REQUIRE(needed == (device == DeviceKind::cuda ? on_host : planned.plan.total()));
    REQUIRE(limited_bytes(planned.schedule, planned.plan) == planned.plan.at(MemorySpace::device).total());
    REQUIRE_NOTHROW(require_machine_fit(planned.schedule, planned.plan, needed, 2));
    REQUIRE_THROWS_WITH(require_machine_fit(planned.schedule, planned.plan, needed - 1, 2),
                        Catch::Contains("for each of its 2 ranks") && Catch::Contains("shard.offload_fraction") &&
                            Catch::Contains("the run does not fit in it"));
  }
}

TEST_CASE("a GPU's run that does not fit is told to offload; on a CPU that would win nothing") {
  RunShape shape;
  shape.architecture = preset("nano");
  shape.micro_batch = 1, shape.sequence = 64;
  for (const DeviceKind device : {DeviceKind::cuda, DeviceKind::cpu}) {
    shape.device = device;
    RunShape offloaded = shape;
    offloaded.policy.offload = Offload::optimizer;
    const PlannedRun planned = plan_shape(offloaded, {false, 0});
    const FitAnswer answer = examine_fit(shape, limited_bytes(planned.schedule, planned.plan));
    const bool told = std::ranges::count(answer.changes, "shard.offload=optimizer", &FitChange::option) == 1;
    CHECK(told == (device == DeviceKind::cuda));
  }
  shape.architecture.layers = 12;
  shape.micro_batch = 32, shape.world = shape.ranks_per_node = 8;  // gradients of one rank are more than inputs
  const auto tells = [](const RunShape& run) {
    RunShape with = run;
    with.policy.offload_activations = true;
    const PlannedRun planned = plan_shape(with, {false, 0});
    const FitAnswer answer = examine_fit(run, limited_bytes(planned.schedule, planned.plan));
    return find(answer, "memory.offload_activations=true") != nullptr;
  };
  for (const DeviceKind device : {DeviceKind::cuda, DeviceKind::cpu}) {
    shape.device = device;
    shape.policy.recomputation = {};
    CHECK_FALSE(tells(shape));
    shape.policy.recomputation = Recomputation::all_blocks();
    CHECK(tells(shape) == (device == DeviceKind::cuda));
  }
}
