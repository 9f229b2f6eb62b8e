#include "tessera/config/validation_sources.hpp"

#include <algorithm>

#include "tessera/base/refuse.hpp"
#include "tessera/config/value_text.hpp"

namespace tessera {

namespace {

constexpr std::string_view kAllowed = "files, folders and globs, or NAME:PATH,NAME:PATH for several sets";

/// Returns the name before an item's path, and nothing for a path alone.
std::string name_in(const std::string& item) {
  const auto is_part = [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  };
  const auto end = std::ranges::find_if_not(item, is_part);
  return end != item.end() && *end == ':' ? std::string(item.begin(), end) : std::string();
}

void require_good_name(const std::string& name, const std::vector<ValidationSource>& others, const std::string& all) {
  if (name == "step" || name == "loss")
    throw refusal("data.val_source = {} has a set named {}", all, name)
        .because("/eval/{} holds something else", name)
        .use("another name");
  if (std::ranges::find(others, name, &ValidationSource::name) != others.end())
    throw refusal("data.val_source = {} has two sets named {}", all, name)
        .use("a name each, and commas within one set");
}

}  // namespace

std::vector<ValidationSource> validation_sources(const std::string& val_source) {
  std::vector<ValidationSource> sets;
  std::vector<std::string> items;
  if (val_source.empty()) return sets;
  for (const std::string_view item : items_of(val_source)) items.emplace_back(trimmed(item));
  // Without a name it is one list, which may be a single path with commas.
  if (!items.empty() && std::ranges::all_of(items, [](const auto& item) { return name_in(item).empty(); }))
    return {{"", val_source}};
  for (const std::string& item : items) {
    const std::string name = name_in(item);
    if (name.empty()) {
      if (sets.empty())
        throw refusal("data.val_source = {} has {} before the first name", val_source, item).use("{}", kAllowed);
      sets.back().source += "," + item;
      continue;
    }
    require_good_name(name, sets, val_source);
    sets.push_back({name, item.substr(name.size() + 1)});
    if (sets.back().source.empty())
      throw refusal("data.val_source = {} has no path for {}", val_source, name).use("{}", kAllowed);
  }
  return sets;
}

}  // namespace tessera
