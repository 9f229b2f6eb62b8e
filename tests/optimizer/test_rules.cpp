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
  CHECK(rules.update != nullptr);
}

TEST_CASE("vectors of a slice lie end to end") {
  StateSlice slice;
  slice.count = 3;
  std::vector<float> memory(9);
  const std::span<const StateKind> keeps = rules_of(OptimizerName::adamw).keeps;
  add_vectors(slice, keeps, memory.data());
  REQUIRE(slice.vectors.size() == keeps.size());
  CHECK(slice.master() == memory.data());
  for (std::size_t i = 0; i < keeps.size(); ++i) {
    CHECK(slice.vectors[i].kind == keeps[i]);
    CHECK(slice.vectors[i].data == memory.data() + 3 * i);
  }
}
