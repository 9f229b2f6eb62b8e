#include "tessera/fit/largest_model.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ranges>

#include "tessera/base/format.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/base/text_table.hpp"
#include "tessera/fit/decide_fit.hpp"
#include "tessera/fit/search.hpp"
#include "tessera/model/family.hpp"

namespace tessera {

using Json = nlohmann::ordered_json;

namespace {

constexpr std::int64_t kFolklore = 16;  // bytes: parameter and gradient in 16 bits, master and moments in 32
constexpr std::int64_t kWidthStep = 16, kWidest = 32768, kMlpStep = 64;
constexpr std::int64_t kHeadStep = 128;  ///< widths are multiples of a head, or of this where a head is wider

/// The family's published models. One of ours for tests has another vocabulary.
auto published(Family family) {
  const auto presets = rules_of(family).presets;
  return presets | std::views::filter(
                       [vocab = presets.back().sizes.vocab](const Preset& one) { return one.sizes.vocab == vocab; });
}

/// Returns a size of the model of this width: linear between published ones, in proportion beyond them.
double interpolated(Family family, std::int64_t ModelSizes::*size, double width) {
  const ModelSizes* below = nullptr;
  for (const Preset& one : published(family)) {
    const double at = static_cast<double>(one.sizes.*size), its_width = static_cast<double>(one.sizes.width);
    if (its_width >= width && below == nullptr) return at * width / its_width;
    if (its_width >= width) {
      const double first = static_cast<double>(below->*size), from = static_cast<double>(below->width);
      return first + (at - first) * (width - from) / (its_width - from);
    }
    below = &one.sizes;
  }
  return static_cast<double>(below->*size) * width / static_cast<double>(below->width);
}

/// Rounds down to a multiple of `step`, but not to 0.
std::int64_t stepped(double value, std::int64_t step) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(value) / step) * step;
}

/// Returns the run with as little memory as the options allow, where memory decides.
RunShape least_shape(const RunShape& run, Options asked) {
  asked.run.device = run.device, asked.train.seq_len = run.sequence;
  return run_shape(least_options(asked, run.architecture), run);
}

LargestRow largest(const RunShape& shape, Strategy strategy, const std::vector<Architecture>& models,
                   std::int64_t allowed) try {
  LargestRow best = row_of_model(shape, models[0], strategy);
  if (best.total > allowed)
    best.impossible = fmt::format("even width {} needs {}", models[0].width, format_bytes(best.total));
  const auto fits = [&](std::int64_t at) {
    const LargestRow row = row_of_model(shape, models[static_cast<std::size_t>(at)], strategy);
    if (row.total <= allowed) best = row;
    return row.total <= allowed;
  };
  std::int64_t fitting = 0, next = 1;  // from small ones, because a plan of a huge model takes long
  const auto most = best.impossible.empty() ? std::ssize(models) : next;
  for (; next < most && fits(next); next = 2 * next + 1) fitting = next;
  last_that_fits(fitting, std::min(next, most), fits);
  return best;
} catch (const UsageError& error) {
  return {strategy, {}, 0, 1, 0, 0, 0, 0, error.what()};
}

double bytes_per_parameter(const LargestRow& row) {
  return static_cast<double>(row.state) * static_cast<double>(row.ranks) / static_cast<double>(row.parameters);
}

std::int64_t by_folklore(const LargestRow& row, std::int64_t allowed) { return allowed * row.ranks / kFolklore; }

/// Key/value heads are as many as the run's, or in its ratio to heads: what makes models of more widths.
bool keeps_kv_heads(const Architecture& own) { return own.kv_heads * own.kv_heads < own.heads; }

std::string rule_of(const Architecture& own) {
  return fmt::format("layers{} and MLP follow the width as in {}, in proportion beyond them; heads of {}, {}",
                     own.head_dim > 0 ? ", heads" : "",
                     fmt::join(published(own.family) | std::views::transform(&Preset::name), ", "), own.head_width(),
                     keeps_kv_heads(own) ? fmt::format("{} for keys and values", own.kv_heads)
                                         : fmt::format("{} for each of keys and values", own.heads / own.kv_heads));
}

}  // namespace

std::vector<Architecture> models_like(const Architecture& own) {
  const std::int64_t group = own.heads / own.kv_heads, head = own.head_width();
  const std::int64_t step = std::min(group, own.kv_heads);  // of heads
  std::vector<Architecture> models;
  for (std::int64_t width = kWidthStep; width <= kWidest; width += kWidthStep) {
    const double w = static_cast<double>(width);
    const bool has_head_dim = own.head_dim > 0;
    Architecture model = own;
    model.heads =
        stepped(has_head_dim ? interpolated(own.family, &ModelSizes::heads, w) : w / static_cast<double>(head), step);
    model.kv_heads = keeps_kv_heads(own) ? own.kv_heads : model.heads / group;
    model.width = has_head_dim ? stepped(w, std::min(head, kHeadStep)) : model.heads * head;
    model.layers = std::max<std::int64_t>(1, std::llround(interpolated(own.family, &ModelSizes::layers, w)));
    model.ffn_width =
        stepped(interpolated(own.family, &ModelSizes::ffn_width, static_cast<double>(model.width)), kMlpStep);
    if (models.empty() || models.back() != model) models.push_back(model);
  }
  return models;
}

LargestRow row_of_model(RunShape shape, const Architecture& model, Strategy strategy) {
  shape.architecture = model;
  const auto [schedule, plan] = plan_shape(with_strategy(std::move(shape), strategy));
  const CategoryBytes& peak = plan.at(MemorySpace::device).at_peak;
  const auto bytes = [&](Category category) { return peak[static_cast<std::size_t>(category)]; };
  LargestRow row{strategy, model, schedule.model.parameter_count(), schedule.grid.size(rules_of(strategy).state)};
  row.total = limited_bytes(schedule, plan);
  row.state = bytes(Category::parameters) + bytes(Category::gradients) + bytes(Category::optimizer_state);
  row.activations = bytes(Category::activations);
  row.reserve = row.total - row.state - row.activations;
  return row;
}

std::vector<LargestRow> largest_models(const RunShape& run, const Options& asked) {
  if (asked.plan.memory == 0)
    throw refuse("plan.view", "largest")
        .because("it is not known how much memory there is")
        .hint("Give plan.memory, or plan.cluster with a machine that says it");
  if (!run.policy.recomputation.listed.empty())
    throw refuse("plan.view", "largest")
        .because("memory.checkpoint_blocks lists blocks of one model")
        .use("all or M/N");
  const std::vector<Architecture> models = models_like(run.architecture);
  std::vector<LargestRow> rows;
  for (const StrategyRules& rules : all_strategies())
    rows.push_back(largest(least_shape(run, asked), rules.strategy, models, asked.plan.memory));
  return rows;
}

std::string largest_text(const std::vector<LargestRow>& rows, const Architecture& own, std::int64_t allowed) {
  TextTable table({"strategy", ">parameters", ">layers", ">width", ">state: bytes x parameters / ranks",
                   ">+ activations", ">+ reserve", ">= total", ">by 16 bytes"});
  for (const LargestRow& row : rows) {
    const std::string name(name_of(row.strategy)), parameters = format_count(row.parameters);
    if (!row.impossible.empty()) {
      table.line(name + ": " + row.impossible);
      continue;
    }
    table.row(
        {name, parameters, std::to_string(row.model.layers), std::to_string(row.model.width),
         fmt::format("{:.1f} x {} / {} = {}", bytes_per_parameter(row), parameters, row.ranks, format_bytes(row.state)),
         format_bytes(row.activations), format_bytes(row.reserve), format_bytes(row.total),
         format_count(by_folklore(row, allowed))});
  }
  return fmt::format(
      "the largest {} models that fit in {} per rank, with batch and recomputation as given\n{}"
      "  {}\n  state: masters, moments, copies and gradients at the peak; reserve: gathered units, workspace, idle\n"
      "  by 16 bytes: the parameters for which 16 bytes each would fill that memory on as many ranks\n",
      name_of(own.family), format_bytes(allowed), table.text(), rule_of(own));
}

Json largest_json(const std::vector<LargestRow>& rows, const Architecture& own, std::int64_t allowed) {
  Json list = Json::array();
  for (const LargestRow& row : rows) {
    Json& one = list.emplace_back(Json{{"strategy", name_of(row.strategy)}});
    if (!row.impossible.empty()) {
      one["impossible"] = row.impossible;
      continue;
    }
    for (const ModelSize& size : kModelSizes) one[size.option] = row.model.*size.field;
    one.update({{"parameters", row.parameters},
                {"bytes_per_parameter", bytes_per_parameter(row)},
                {"ranks", row.ranks},
                {"state", row.state},
                {"activations", row.activations},
                {"reserve", row.reserve},
                {"total", row.total},
                {"by_16_bytes", by_folklore(row, allowed)}});
  }
  return {{"allowed", allowed}, {"rule", rule_of(own)}, {"strategies", std::move(list)}};
}

}  // namespace tessera
