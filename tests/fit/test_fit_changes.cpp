#include <catch2/catch.hpp>

#include "fit/fit_changes.hpp"

using namespace tessera;
using Catch::Contains;

namespace {

RunShape shape_of(std::int64_t world, Strategy strategy = Strategy::zero1) {
  RunShape shape;
  shape.architecture = preset("nano");
  shape.micro_batch = 6;
  shape.sequence = 64;
  shape.world = shape.ranks_per_node = world;
  shape.policy.strategy = strategy;
  return shape;
}

std::vector<std::string> options_of(const RunShape& shape, std::int64_t allowed) {
  std::vector<std::string> options;
  for (const Change& change : single_changes(shape, allowed)) options.push_back(change.option);
  return options;
}

}  // namespace

TEST_CASE("changes come in the order of what they cost, and only those that a run can still make") {
  using Names = std::vector<std::string>;
  RunShape shape = shape_of(2);
  shape.policy.snapshot = true;
  CHECK(options_of(shape, 0) == Names{"checkpoint.async=false", "memory.checkpoint=block", "shard.strategy=zero2",
                                      "shard.strategy=zero3", "train.micro_batch=1", "precision.reduce=bf16",
                                      "precision.compute=bf16"});
  shape = shape_of(2, Strategy::zero3);
  shape.policy.limit_all_gathers = 3;
  CHECK(options_of(shape, 0).front() == "shard.limit_all_gathers=1");
  shape = shape_of(2);
  shape.device = DeviceKind::cuda, shape.attention = GpuAttention::deterministic_cudnn;
  CHECK(options_of(shape, 0).front() == "run.attention=own");
  shape.attention = GpuAttention::cudnn;
  CHECK(options_of(shape, 0).front() != "run.attention=own");
  shape.documents = true, shape.most_documents = 30;
  CHECK(options_of(shape, 0).front() == "run.attention=own");
  shape = shape_of(1);
  shape.policy.recomputation = Recomputation::all_blocks();
  shape.policy.compute = shape.policy.reduce = DType::bf16;
  CHECK(options_of(shape, 0) == Names{"train.micro_batch=1"});
  shape.micro_batch = 1;
  CHECK(options_of(shape, 0).empty());
  shape.architecture.context = shape.sequence = 8193;
  CHECK(options_of(shape, 0).empty());  // chunks need sums in fp32
  shape.policy.reduce = DType::fp32;
  CHECK(options_of(shape, 0) == Names{"memory.mlp_chunk=4096", "precision.reduce=bf16"});
  for (const Change& change : single_changes(shape, 0)) CHECK(*bytes_with(change) < *bytes_with({"", shape}));
  shape.policy.keeps_activated = true;
  CHECK(options_of(shape, 0)[1] == "memory.mlp_chunk=4096 with memory.keep_activated=false");
  shape.policy.fp8 = Fp8Linears{1024};
  CHECK(options_of(shape, 0) == Names{"memory.keep_activated=false", "precision.reduce=bf16"});
}

TEST_CASE("a change is planned as it is named") {
  const RunShape shape = shape_of(2);
  for (const Change& change : single_changes(shape, std::int64_t{1} << 40)) {
    INFO(change.option);
    if (change.option == "memory.checkpoint=block") CHECK(change.shape.policy.recomputation.is_all());
    if (change.option == "shard.strategy=zero3") CHECK(change.shape.policy.strategy == Strategy::zero3);
    if (change.option == "precision.reduce=bf16") CHECK(change.shape.policy.reduce == DType::bf16);
    if (change.option == "precision.compute=bf16") CHECK(change.shape.policy.compute == DType::bf16);
    if (change.option.starts_with("train.micro_batch=")) {
      CHECK(change.option == "train.micro_batch=5");  // the largest smaller one: all fit
      CHECK(change.shape.micro_batch == 5);
    }
    const PlannedRun planned = plan_shape(change.shape);
    REQUIRE(bytes_with(change).has_value());
    CHECK(*bytes_with(change) >= limited_bytes(planned.schedule, planned.plan));
  }
}

TEST_CASE("what is impossible with the other options has no bytes") {
  RunShape shape = shape_of(4, Strategy::hsdp);
  shape.group_size = 3;
  CHECK_FALSE(bytes_with({"", shape}).has_value());
  shape.group_size = 2;
  CHECK(bytes_with({"", shape}).has_value());
}

TEST_CASE("a combination makes no change that it does not need") {
  const RunShape shape = shape_of(2, Strategy::ddp);
  RunShape cheaper = shape;
  cheaper.policy.recomputation = Recomputation::all_blocks();
  FitAnswer answer;
  answer.needed = *bytes_with({"", shape});
  answer.allowed = *bytes_with({"", cheaper});
  REQUIRE(answer.allowed < answer.needed);
  combine(shape, answer);
  CHECK_THAT(answer.together, Catch::StartsWith("shard.strategy=zero3 (") && !Contains(" with "));
  CHECK(answer.smallest.empty());
  answer.together.clear();
  answer.allowed = 1;
  combine(shape, answer);
  CHECK(answer.together.empty());
  CHECK_THAT(answer.smallest, Contains("shard.strategy=zero3 with ") && Contains("train.micro_batch=1 with "));
}
