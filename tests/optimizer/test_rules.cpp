#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "tessera/optimizer/state_slice.hpp"

using namespace tessera;

TEST_CASE("states have the names that files use, and AdamW keeps both moments") {
  std::string names;
  for (const StateKind kind : rules_of(OptimizerName::adamw).keeps) names += std::string(name_of(kind)) + " ";
  CHECK(names == "parameter first_moment second_moment ");
  CHECK(rules_of(OptimizerName::adamw).states() == 2);
}

TEST_CASE("an optimizer keeps each kind of state once, the master first") {
  const OptimizerRules& rules = rules_of(OptimizerName::adamw);
  CHECK(rules.keeps.front() == StateKind::parameter);
  CHECK(std::set<StateKind>(rules.keeps.begin(), rules.keeps.end()).size() == rules.keeps.size());
  CHECK(rules.update == UpdateRule::adamw);
  CHECK(rules_of(OptimizerName::muon).update == UpdateRule::muon);
}

namespace {

Unit unit_of(std::int64_t padded, std::int64_t matrices_end) {
  Unit unit;
  unit.padded = padded, unit.matrices_end = matrices_end;
  return unit;
}

}  // namespace

TEST_CASE("AdamW keeps both moments of every element of a slice") {
  const std::vector<StateSpan> wanted{
      {StateKind::parameter, 0, 64}, {StateKind::first_moment, 0, 64}, {StateKind::second_moment, 0, 64}};
  CHECK(state_spans(OptimizerName::adamw, unit_of(256, 0), 64, 64) == wanted);
  CHECK(state_elements(OptimizerName::adamw, unit_of(256, 0), 4) == 128);
}

TEST_CASE("Muon keeps second moments only outside of matrices, and has room for the fullest member") {
  const Unit unit = unit_of(512, 192);
  const auto second = [&](std::int64_t first, std::int64_t count) {
    return state_spans(OptimizerName::muon, unit, first, count).back();
  };
  CHECK(second(0, 128) == StateSpan{StateKind::second_moment, 128, 0});
  CHECK(second(128, 128) == StateSpan{StateKind::second_moment, 64, 64});
  CHECK(second(256, 128) == StateSpan{StateKind::second_moment, 0, 128});
  CHECK(second(0, 512) == StateSpan{StateKind::second_moment, 192, 320});
  CHECK(state_elements(OptimizerName::muon, unit, 1) == 512 + 320);
  CHECK(state_elements(OptimizerName::muon, unit, 4) == 256);
  CHECK(state_elements(OptimizerName::muon, unit_of(512, 512), 4) == 128);
  CHECK(state_elements(OptimizerName::muon, unit_of(512, 0), 4) == 256);
}

TEST_CASE("vectors of a slice lie end to end in their types, and runs are cut to those that have a state") {
  const DType moments = GENERATE(DType::fp32, DType::bf16);
  std::vector<std::byte> memory(4 * (512 + 512 + 320));
  StateSlice slice;
  slice.count = 512;
  slice.runs = {{TensorId(0), 0, 150, 0}, {TensorId(1), 0, 200, 256}};
  add_vectors(slice, state_spans(OptimizerName::muon, unit_of(512, 192), 0, 512), memory.data(), moments);
  REQUIRE(slice.vectors.size() == 3);
  CHECK(slice.master() == static_cast<void*>(memory.data()));
  CHECK(slice.vectors[1].data == memory.data() + 4 * 512);
  CHECK(slice.vectors[2].at(192) == memory.data() + (4 + size_of(moments)) * 512);
  CHECK(snapshot_elements(OptimizerName::muon, moments, unit_of(512, 192), 1) * size_of(moments) ==
        512 * 4 + (512 + 320) * size_of(moments));
  std::vector<std::int64_t> seen;
  each_run(slice, slice.vectors[2], [&](const TensorRun& run) { seen.insert(seen.end(), {run.offset, run.count}); });
  CHECK(seen == std::vector<std::int64_t>{256, 200});
  seen.clear();
  each_run(slice, {StateKind::parameter, 100, 200}, [&](const TensorRun& run) {
    seen.insert(seen.end(), {run.tensor.number(), run.first, run.count, run.offset});
  });
  CHECK(seen == std::vector<std::int64_t>{0, 100, 50, 100, 1, 0, 44, 256});
}
