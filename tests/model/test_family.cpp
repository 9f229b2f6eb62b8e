#include <catch2/catch.hpp>
#include <set>

#include "tessera/base/error.hpp"
#include "tessera/config/describe.hpp"
#include "tessera/model/family.hpp"
#include "tessera/model/parts.hpp"

using namespace tessera;

TEST_CASE("a family's row is found by its enumerator and its name", "[family]") {
  std::string names;
  for (const FamilyRules& rules : all_families()) {
    INFO(rules.name);
    CHECK(&rules_of(rules.form.family) == &rules);
    CHECK(name_of(rules.form.family) == rules.name);
    CHECK(rules.presets.size() > 0);
    for (const Preset& p : rules.presets) CHECK(preset(std::string(p.name)).family == rules.form.family);
    names += (names.empty() ? "" : "|") + std::string(rules.name);
  }
  CHECK(help_text().find(names) != std::string::npos);
}

TEST_CASE("a default architecture is of the first family", "[family]") {
  const ModelForm a, &form = all_families().front().form;
  CHECK(a == form);
}

TEST_CASE("a tensor knows its block, and has a name of its own", "[family]") {
  for (const std::string& name : preset_names()) {
    INFO(name);
    const Architecture a = preset(name);
    const std::string_view prefix = rules_of(a.family).prefix;
    std::set<std::string> found;
    for (const ParameterTensor& t : parameter_tensors(a)) {
      INFO(t.name);
      CHECK(found.insert(t.name).second);
      CHECK((t.block >= 0) == (t.name.find(fmt::format(".{}.", t.block)) != std::string::npos));
      CHECK(t.block < a.layers);
      CHECK((t.name == kHeadName || without_prefix(t.name).size() + prefix.size() == t.name.size()));
    }
    CHECK(found.contains(std::string(kHeadName)) != a.tied_head);
  }
}
