#include <algorithm>
#include <catch2/catch.hpp>
#include <ranges>
#include <set>

#include "formats/config_form.hpp"
#include "tessera/model/family.hpp"

using namespace tessera;

TEST_CASE("each size of an architecture has a key in config.json, or follows another", "[config]") {
  for (const FamilyRules& rules : all_families()) {
    INFO(rules.name);
    const ConfigForm& form = config_form(rules.form.family);
    const auto keys_of = [&](std::int64_t Architecture::*field) {
      return std::ranges::count_if(form.keys | std::views::join, [&](const ConfigKey& key) {
        const auto* size = std::get_if<ConfigKey::Size>(&key.value);
        return size != nullptr && size->field == field;
      });
    };
    for (const auto field : {&Architecture::layers, &Architecture::heads, &Architecture::width,
                             &Architecture::ffn_width, &Architecture::vocab, &Architecture::context})
      CHECK(keys_of(field) >= 1);
    CHECK(keys_of(&Architecture::head_dim) == (rules.head_dim == HeadDim::never ? 0 : 1));
    CHECK(keys_of(&Architecture::kv_heads) == (rules.has_own_sizes ? 1 : 0));
    std::set<std::pair<std::string, bool>> names;  // of keys that are read, and of those that are written
    for (const ConfigKey& key : form.keys | std::views::join) {
      if (key.use != ConfigKey::Use::written) CHECK(names.emplace(key.name, false).second);
      if (key.use != ConfigKey::Use::read) CHECK(names.emplace(key.name, true).second);
    }
  }
}
