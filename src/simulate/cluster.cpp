// Cluster files: a section [machine], a section [slowdown], and one for each price.
#include "tessera/simulate/cluster.hpp"

#include <fmt/ranges.h>
#include <xxhash.h>

#include <algorithm>
#include <functional>
#include <set>

#include "tessera/base/closest.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/base/shown.hpp"
#include "tessera/config/settings.hpp"
#include "tessera/config/value_text.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kMostPoints = 4096;

/// In the order of PriceAxis.
constexpr std::array<std::string_view, kPriceAxes> kAxes = {"tokens",     "in",    "out",   "rows", "sequence",
                                                            "head_width", "flops", "bytes", "ranks"};

double number_of(const Setting& setting, std::string_view text) {
  const std::optional<double> number = read_number(text);
  if (!number || !(*number > 0))
    throw refusal("{}: {} = {} is not a number above 0", setting.place, setting.key(), in_quotes(text));
  return *number;
}

std::vector<double> numbers_of(const Setting& setting) {
  std::vector<double> numbers;
  for (const std::string_view item : items_of(setting.value)) numbers.push_back(number_of(setting, trimmed(item)));
  return numbers;
}

Refusal unknown_key(const Setting& setting, std::span<const std::string_view> known) {
  auto error = refusal("{}: {} is not a key of [{}]", setting.place, in_quotes(setting.key()), setting.section);
  if (const auto near = closest(setting.key(), known); !near.empty()) error.hint("The nearest key is {}", near);
  return error.use("one of: {}", fmt::join(known, ", "));
}

/// A key with one value: how it is read, and how it is written (empty: left out).
struct Key {
  std::string_view name;
  void (*read)(Cluster&, const Setting&);
  std::string (*text)(const Cluster&);
};

template <double Cluster::*member>
constexpr Key number_key(std::string_view name) {
  return {name, [](Cluster& c, const Setting& s) { c.*member = number_of(s, s.value); },
          [](const Cluster& c) { return c.*member == 0 ? "" : fmt::format("{:.4g}", c.*member); }};
}
template <std::int64_t Cluster::*member>
constexpr Key count_key(std::string_view name) {
  return {name, [](Cluster& c, const Setting& s) { c.*member = static_cast<std::int64_t>(number_of(s, s.value)); },
          [](const Cluster& c) { return c.*member == 0 ? "" : fmt::format("{}", c.*member); }};
}
template <std::string Cluster::*member>
constexpr Key text_key(std::string_view name) {
  return {name, [](Cluster& c, const Setting& s) { c.*member = s.value; },
          [](const Cluster& c) { return (c.*member).empty() ? std::string() : ini_value(c.*member); }};
}

void read_device(Cluster& cluster, const Setting& setting) {
  for (const DeviceTraits& traits : kDevices) {
    if (traits.name != setting.value) continue;
    cluster.device = traits.kind;
    return;
  }
  throw refusal("{}: device = {} is unknown", setting.place, in_quotes(setting.value)).use("cpu or cuda");
}

void read_memory(Cluster& cluster, const Setting& setting) {
  const auto bytes = read_bytes(setting.value);
  if (!bytes || *bytes < 1)
    throw refusal("{}: memory = {} is not a size", setting.place, in_quotes(setting.value)).use("for example 80GB");
  cluster.memory = *bytes;
}

constexpr Key kMachine[] = {
    text_key<&Cluster::name>("name"),
    text_key<&Cluster::measured>("measured"),
    text_key<&Cluster::host>("host"),
    {"device", read_device, [](const Cluster& c) { return std::string(name_of(c.device)); }},
    {"memory", read_memory, [](const Cluster& c) { return c.memory == 0 ? "" : fmt::format("{}", c.memory); }},
    count_key<&Cluster::ranks_per_node>("ranks_per_node"),
    count_key<&Cluster::threads>("threads"),
    number_key<&Cluster::issue>("issue"),
    number_key<&Cluster::segment>("segment"),
    number_key<&Cluster::step>("step"),
};
constexpr Key kSlowdown[] = {
    number_key<&Cluster::compute_under_collectives>("compute_under_collectives"),
    number_key<&Cluster::compute_under_copies>("compute_under_copies"),
    number_key<&Cluster::host_under_copies>("host_under_copies"),
    number_key<&Cluster::collectives_under_compute>("collectives_under_compute"),
    number_key<&Cluster::untimed_matmuls>("untimed_matmuls"),
    number_key<&Cluster::deterministic_attention>("deterministic_attention"),
    number_key<&Cluster::documents_attention>("documents_attention"),
    number_key<&Cluster::fp8_matmuls>("fp8_matmuls"),
};

void read_key(std::span<const Key> keys, const Setting& setting, Cluster& cluster) {
  std::vector<std::string_view> names;
  for (const Key& key : keys) {
    if (key.name == setting.key()) return key.read(cluster, setting);
    names.push_back(key.name);
  }
  throw unknown_key(setting, names);
}

/// A price's section while it is read.
struct Section {
  std::string place;
  std::vector<PriceTable::Axis> axes;
  std::vector<double> seconds;
  double uncertainty = 0;
  std::string source;
};

void read_axis(const Setting& setting, PriceAxis axis, Section& section) {
  PriceTable::Axis one{axis, numbers_of(setting)};
  if (std::ranges::adjacent_find(one.values, std::greater_equal<>()) != one.values.end())
    throw refusal("{}: the values of {} do not rise", setting.place, setting.key());
  const auto place = [](PriceAxis of) { return static_cast<int>(of) % (of < PriceAxis::flops ? 3 : kPriceAxes); };
  if (std::ranges::any_of(section.axes, [&](const auto& other) { return place(other.axis) == place(axis); }))
    throw refusal("{}: {} has the place of an earlier axis", setting.place, setting.key());
  section.axes.push_back(std::move(one));
}

void read_price_key(const Setting& setting, Section& section) {
  const std::string key = setting.key();
  if (key == "seconds") {
    section.seconds = numbers_of(setting);
  } else if (key == "uncertainty") {
    section.uncertainty = number_of(setting, setting.value);
  } else if (key == "source") {
    section.source = setting.value;
  } else {
    std::vector<std::string_view> names{"seconds", "uncertainty", "source"};
    for (std::size_t axis = 0; axis < kAxes.size(); ++axis) {
      if (kAxes[axis] == key) return read_axis(setting, static_cast<PriceAxis>(axis), section);
      names.push_back(kAxes[axis]);
    }
    throw unknown_key(setting, names);
  }
}

PriceTable table_of(const std::string& name, const Section& section) {
  std::int64_t points = 1;
  for (const PriceTable::Axis& axis : section.axes) points *= std::ssize(axis.values);
  if (points > kMostPoints)
    throw refusal("{}: [{}] has {} points", section.place, name, points).use("at most {}", kMostPoints);
  if (section.axes.empty() || points != std::ssize(section.seconds))
    throw refusal("{}: [{}] has {} seconds for {} points of its axes", section.place, name, section.seconds.size(),
                  section.axes.empty() ? 0 : points)
        .hint("Give one for each point, the last axis fastest");
  PriceTable table(section.axes, section.seconds);
  table.uncertainty = section.uncertainty;
  table.source = section.source;
  return table;
}

std::string keys_text(std::span<const Key> keys, const Cluster& cluster) {
  std::string text;
  for (const Key& key : keys) {
    if (const std::string value = key.text(cluster); !value.empty()) text += fmt::format("{} = {}\n", key.name, value);
  }
  return text;
}

std::string numbers_text(std::span<const double> numbers, int digits) {
  std::vector<std::string> texts;
  for (const double number : numbers) texts.push_back(fmt::format("{:.{}g}", number, digits));
  return fmt::format("{}", fmt::join(texts, ", "));
}

/// Names the cluster files that come with Tessera where there is no such file.
void require_file(const std::filesystem::path& file) {
  std::error_code none;
  if (std::filesystem::exists(file, none)) return;
  std::set<std::string> known;
  for (const char* folder : {"inputs/clusters", "share/tessera/inputs/clusters"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder, none)) known.insert(entry.path().string());
  }
  throw refusal("{} does not exist", file.string())
      .use("a file of prices: {}, or what tessera bench calibrate writes",
           known.empty() ? "one of inputs/clusters" : fmt::format("{}", fmt::join(known, ", ")));
}

}  // namespace

const PriceTable& Cluster::price(std::string_view price_name) const {
  if (const auto found = prices.find(price_name); found != prices.end()) return found->second;
  std::vector<std::string_view> names;
  for (const auto& [known, table] : prices) names.push_back(known);
  auto error = refusal("{} has no price for {}", file, in_quotes(price_name));
  const std::string in_bf16 = fmt::format("{}.bf16", price_name.substr(0, price_name.rfind('.')));
  if (prices.contains(in_bf16)) {
    error.hint("It has [{}]: use precision.compute = bf16", in_bf16);
  } else if (const auto near = closest(price_name, names); !near.empty()) {
    error.hint("Its nearest is [{}]", near);
  }
  throw error.hint("`tessera bench calibrate` measures the prices of a machine");
}

std::string price_name(const KernelCall& call, PricedBy by) {
  constexpr std::array kBy = {"", "host ", "own ", "fp8 "};
  return fmt::format("{}{}{}.{}", kBy[static_cast<std::size_t>(by)],
                     call.priced_as.empty() ? call.name : call.priced_as, call.has_gelu ? " gelu" : "",
                     name_of(call.dtype));
}

std::string price_name(OperationKind kind, bool within_node) {
  if (kind == OperationKind::load || kind == OperationKind::store)
    return kind == OperationKind::load ? "copy.to_device" : "copy.to_host";
  return fmt::format("{}.{}", kind == OperationKind::gather ? "all-gather" : name_of(kind),
                     within_node ? "node" : "network");
}

Cluster read_cluster(const std::filesystem::path& file) {
  require_file(file);
  const std::string text = read_ini_text(file);
  const IniFile ini = read_ini(text, file.string());
  Cluster cluster;
  cluster.file = file.string();
  cluster.hash = fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
  std::map<std::string, Section> sections;
  for (const IniSection& section : ini.sections) {
    if (section.name != "machine" && section.name != "peak" && section.name != "slowdown")
      sections[section.name].place = section.place;
  }
  for (const Setting& setting : ini.settings) {
    if (setting.section == "machine") {
      read_key(kMachine, setting, cluster);
    } else if (setting.section == "slowdown") {
      read_key(kSlowdown, setting, cluster);
    } else if (setting.section == "peak") {
      cluster.peak[setting.key()] = number_of(setting, setting.value);
    } else {
      read_price_key(setting, sections[setting.section]);
    }
  }
  for (const auto& [name, section] : sections) cluster.prices.emplace(name, table_of(name, section));
  if (cluster.prices.empty())
    throw refusal("{} has no price", file.string()).hint("`tessera bench calibrate` writes such files");
  return cluster;
}

std::string cluster_text(const Cluster& cluster, const std::string& comment) {
  std::string text = comment + "[machine]\n" + keys_text(kMachine, cluster) + "\n[peak]\n";
  for (const auto& [type, flops] : cluster.peak) text += fmt::format("{} = {:.4g}\n", type, flops);
  text += "\n[slowdown]\n" + keys_text(kSlowdown, cluster);
  for (const auto& [name, table] : cluster.prices) {
    text += fmt::format("\n[{}]\n", name);
    if (!table.source.empty()) text += fmt::format("source = {}\n", ini_value(table.source));
    for (const PriceTable::Axis& axis : table.axes())
      text += fmt::format("{} = {}\n", kAxes[static_cast<std::size_t>(axis.axis)], numbers_text(axis.values, 8));
    text += fmt::format("seconds = {}\n", numbers_text(table.points(), 4));
    if (table.uncertainty > 0) text += fmt::format("uncertainty = {:.3g}\n", table.uncertainty);
  }
  return text;
}

}  // namespace tessera
