#include <catch2/catch.hpp>

#include "tessera/schedule/schedule.hpp"

using namespace tessera;

namespace {

Groups set(std::initializer_list<Group> list) {
  Groups groups;
  for (const Group group : list) groups = groups.with(group);
  return groups;
}

/// "reduce-scatter shard, cast self".
std::string text(const Placement& from, const Placement& to) {
  std::string line;
  for (const Redistribution& step : redistribute(from, to))
    line += fmt::format("{}{} {}", line.empty() ? "" : ", ", name_of(step.kind), name_of(step.group));
  return line;
}

const Groups none, shard = set({Group::shard}), both = set({Group::shard, Group::replica});

}  // namespace

TEST_CASE("sums go over the inner group first, what was sharded last is gathered first") {
  CHECK(text({none, both, DType::fp32}, {both, none, DType::fp32}) == "reduce-scatter shard, reduce-scatter replica");
  CHECK(text({both, none, DType::fp32}, {none, none, DType::fp32}) == "gather replica, gather shard");
  CHECK(text({none, both, DType::fp32}, {shard, none, DType::fp32}) == "reduce-scatter shard, all-reduce replica");
  CHECK(text({none, set({Group::world}), DType::int64}, {none, none, DType::int64}) == "all-reduce world");
  CHECK(text({none, both, DType::fp32}, {shard, set({Group::replica}), DType::fp32}) == "reduce-scatter shard");
}

TEST_CASE("over a sub-group a full value is sliced, and its slices are gathered") {
  const Groups sub = set({Group::sub});
  CHECK(text({none, none, DType::bf16}, {sub, none, DType::bf16}) == "slice sub");
  CHECK(text({sub, none, DType::bf16}, {none, none, DType::bf16}) == "gather sub");
}

TEST_CASE("the last collective changes the type; where there is none, a cast does") {
  const auto steps = redistribute({none, both, DType::bf16}, {both, none, DType::fp32});
  CHECK(steps.front().result == Placement{shard, set({Group::replica}), DType::bf16});
  CHECK(steps.back().result == Placement{both, none, DType::fp32});
  CHECK(text({none, none, DType::fp32}, {none, none, DType::bf16}) == "cast self");
  CHECK(text({shard, none, DType::fp32}, {shard, none, DType::fp32}).empty());
}

TEST_CASE("a placement that no collective makes is refused") {
  REQUIRE_THROWS_AS(redistribute({none, none, DType::fp32}, {shard, none, DType::fp32}), InternalError);
  REQUIRE_THROWS_AS(redistribute({none, none, DType::fp32}, {none, shard, DType::fp32}), InternalError);
}
