#include "tessera/config/data_sources.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include "tessera/base/format.hpp"
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

/// An item of a list, "NAME:WEIGHT:PATH", "NAME:PATH" or "PATH".
struct Item {
  std::string name, weight, path;
};

Item item_of(const std::string& text) {
  const std::string name = name_in(text);
  return {name, "", name.empty() ? text : text.substr(name.size() + 1)};
}

/// Returns an item whose name is followed by a number, whatever that is, as one with a weight.
Item weighted_item_of(const std::string& text) {
  std::error_code error;
  if (std::filesystem::exists(text, error)) return {"", "", text};
  Item item = item_of(text);
  const std::size_t end = item.name.empty() ? std::string::npos : item.path.find(':');
  if (end == std::string::npos) return item;
  double number = 0;
  const char* const last = item.path.data() + end;
  if (std::from_chars(item.path.data(), last, number).ptr != last) return item;
  item.weight = item.path.substr(0, end), item.path.erase(0, end + 1);
  return item;
}

/// Reads the items, which have names. `what`: an option and its value.
std::vector<Item> named_items(const std::string& what, const std::vector<std::string>& texts, std::string_view allowed,
                              Item (*read)(const std::string&)) {
  std::vector<Item> items;
  for (const std::string& text : texts) {  // blanks belong to the path that a comma cuts
    const Item item = read(text.substr(std::min(text.find_first_not_of(' '), text.size())));
    if (item.name.empty()) {
      if (items.empty()) throw refusal("{} has {} before the first name", what, trimmed(text)).use("{}", allowed);
      items.back().path += "," + text;
      continue;
    }
    if (item.name == "step" || item.name == "loss")
      throw refusal("{} has a set named {}", what, item.name)
          .because("/eval/{} holds something else", item.name)
          .use("another name");
    if (std::ranges::find(items, item.name, &Item::name) != items.end())
      throw refusal("{} has two sets named {}", what, item.name).use("a name each, and commas within one set");
    if (item.path.empty()) throw refusal("{} has no path for {}", what, item.name).use("{}", allowed);
    items.push_back(item);
  }
  for (Item& item : items) item.path = trimmed(item.path);
  return items;
}

std::vector<std::string> list_of(const std::string& text) {
  const std::vector<std::string_view> items = items_of(text);
  return {items.begin(), items.end()};
}

constexpr std::string_view kMixture = "NAME:WEIGHT:PATH,NAME:WEIGHT:PATH, or paths alone";

TrainingSource source_of(const Item& item, const std::string& what) {
  if (item.weight.empty()) throw refusal("{} has weights, but none for {}", what, item.name).use("{}", kMixture);
  if (item.path == "synthetic")
    throw refusal("{} has synthetic text in a mixture", what).use("files, folders and globs for {}", item.name);
  const std::optional<double> weight = read_number(item.weight);
  if (weight && *weight > 0) return {item.name, item.path, *weight};
  throw refusal("{} has the weight {} for {}", what, item.weight, item.name)
      .because("a source is drawn in proportion to its weight")
      .use("a number above 0, or leave the source out");
}

}  // namespace

std::vector<ValidationSource> validation_sources(const std::string& val_source) {
  if (val_source.empty()) return {};
  const std::vector<std::string> texts = list_of(val_source);
  // Without a name it is one list, which may be a single path with commas.
  const auto is_path = [](const std::string& text) { return name_in(std::string(trimmed(text))).empty(); };
  if (std::ranges::all_of(texts, is_path)) return {{"", val_source}};
  std::vector<ValidationSource> sets;
  const std::string what = "data.val_source = " + val_source;
  for (const Item& item : named_items(what, texts, kAllowed, item_of)) {
    const Item weighted = weighted_item_of(item.name + ":" + item.path);
    std::error_code error;
    if (!weighted.weight.empty() && !std::filesystem::exists(item.path, error))
      throw refusal("{} gives {} a weight", what, item.name)
          .because("each set is evaluated by itself")
          .use("NAME:PATH,NAME:PATH");
    sets.push_back({item.name, item.path});
  }
  return sets;
}

std::vector<TrainingSource> training_sources(const std::string& source) {
  const std::string what = "data.source = " + source;
  const std::vector<std::string> texts = list_of(source);
  std::error_code error;
  if (std::filesystem::exists(source, error) || std::ranges::all_of(texts, [](const auto& text) {
        return weighted_item_of(std::string(trimmed(text))).weight.empty();
      }))
    return {{"", source, 1}};
  std::vector<TrainingSource> sources;
  for (const Item& item : named_items(what, texts, kMixture, weighted_item_of))
    sources.push_back(source_of(item, what));
  // The largest weight divides first, so that no sum overflows.
  const double largest = std::ranges::max(sources, {}, &TrainingSource::share).share;
  double sum = 0;
  for (TrainingSource& one : sources) sum += one.share /= largest;
  for (TrainingSource& one : sources) one.share /= sum;
  if (sources.size() == 1) sources[0].name.clear();
  return sources;
}

std::string describe_shares(const std::vector<TrainingSource>& sources) {
  if (sources.size() < 2) return {};
  return joined(sources,
                [](const TrainingSource& one) { return fmt::format("{} {:.4g}%", one.name, 100 * one.share); });
}

std::vector<std::string> mixture_names(const DataOptions& data) {
  std::vector<std::string> names;
  for (const TrainingSource& one : training_sources(data.source)) names.push_back(one.name);
  return names.size() > 1 ? names : std::vector<std::string>();
}

std::vector<std::string> validation_names(const DataOptions& data) {
  std::vector<std::string> names;
  for (const ValidationSource& set : validation_sources(data.val_source)) names.push_back(set.name);
  return names.empty() && data.val_fraction > 0 ? mixture_names(data) : names;
}

}  // namespace tessera
