// README.md, src/README.md and docs/strategies.md hold tables of strategies: they are what the rows of
// grid/strategy.hpp, the formula of bytes and the checks of options say.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "document.hpp"
#include "tessera/base/error.hpp"
#include "tessera/config/describe.hpp"
#include "tessera/config/validate.hpp"
#include "tessera/schedule/build.hpp"
#include "tessera/schedule/formula.hpp"
#include "toy_model.hpp"

using namespace tessera;

namespace {

/// How often P elements are sent in a step of K micro-steps: each x K + once.
struct Times {
  std::int64_t each = 0, once = 0;
};

/// The traffic of each rank by columns of the table; over replicas it is of P/F elements.
struct Sent {
  Times gradients, parameters, replicas;
};

StepSchedule schedule_of(const StrategyRules& rules, std::int64_t accumulation) {
  SchedulePolicy policy;
  policy.strategy = rules.strategy;
  policy.reduce_each_micro_step = rules.reduces_each_micro_step();
  policy.accumulation = accumulation;
  policy.compute = DType::bf16;  // so that a term's type says whether it moves parameters or gradients
  return build_schedule(testing::toy_model(), grid_for(rules.strategy, 4, 4, 2), policy);
}

/// Returns how often a step of `accumulation` micro-steps sends each column's elements, in `once`.
Sent sent_in(const StrategyRules& rules, std::int64_t accumulation) {
  const StepSchedule schedule = schedule_of(rules, accumulation);
  const std::int64_t P = schedule.layout.padded_elements(), F = schedule.grid.size(Group::shard);
  Sent sent;
  for (const FormulaTerm& term : formula_terms(schedule)) {
    const bool is_outer = rules.is_hybrid() && term.group == rules.outer;
    INFO(rules.name << ": " << term.name);
    REQUIRE(term.elements == (is_outer ? P / F : P));
    Times& column = is_outer ? sent.replicas : term.dtype == schedule.policy.compute ? sent.parameters : sent.gradients;
    column.once += term.times;
  }
  return sent;
}

/// Two numbers of micro-steps tell what grows with them.
Times line_through(std::int64_t at_2, std::int64_t at_3) {
  const std::int64_t each = at_3 - at_2;
  return {each, at_2 - 2 * each};
}

Sent sent_by(const StrategyRules& rules) {
  const Sent two = sent_in(rules, 2), three = sent_in(rules, 3);
  return {line_through(two.gradients.once, three.gradients.once),
          line_through(two.parameters.once, three.parameters.once),
          line_through(two.replicas.once, three.replicas.once)};
}

/// "2·K·b_p·P", or "" for nothing.
std::string product(const Times& times, const char* bytes, const char* elements) {
  REQUIRE((times.each == 0 || times.once == 0));
  const std::int64_t factor = times.each + times.once;
  if (factor == 0) return "";
  return fmt::format("{}{}{}·{}", factor > 1 ? fmt::format("{}·", factor) : "", times.each > 0 ? "K·" : "", bytes,
                     elements);
}

/// "(K + 1) P + 2 P/F"
std::string sum_of_bytes(const Sent& sent) {
  const Times sum{sent.gradients.each + sent.parameters.each, sent.gradients.once + sent.parameters.once};
  const std::string with_K = sum.each > 1 ? fmt::format("{} K", sum.each) : "K";
  std::string text = sum.each == 0   ? fmt::format("{} P", sum.once)
                     : sum.once == 0 ? with_K + " P"
                                     : fmt::format("({} + {}) P", with_K, sum.once);
  REQUIRE(sent.replicas.each == 0);
  if (sent.replicas.once > 0) text += fmt::format(" + {} P/F", sent.replicas.once);
  return text;
}

std::string gradients_of(const StrategyRules& rules) { return rules.life == ParameterLife::rest ? "full" : "shard"; }
std::string state_of(const StrategyRules& rules) { return rules.state == Group::self ? "full" : "shard"; }

/// A table with a row per strategy; `cells` returns the rest of a row, after the name.
std::string table(const std::string& head, const std::function<std::string(const StrategyRules&)>& cells) {
  std::string out = head + "\n|";
  for (const char c : head.substr(1)) {
    if (c == '|') out += "---|";
  }
  for (const StrategyRules& rules : all_strategies()) out += fmt::format("\n| `{}` |{}", rules.name, cells(rules));
  return out + "\n";
}

std::string cells_of(const std::vector<std::string>& cells) {
  std::string out;
  for (const std::string& cell : cells) out += cell.empty() ? " |" : " " + cell + " |";
  return out;
}

/// What PyTorch calls a strategy; "" if it has none like it.
std::string name_in_pytorch(const StrategyRules& rules) {
  if (rules.life == ParameterLife::rest)
    return rules.is_hybrid() ? "" : rules.state == Group::self ? "DDP" : "ZeroRedundancyOptimizer";
  if (rules.life == ParameterLife::step) return rules.is_hybrid() ? "FSDP _HYBRID_SHARD_ZERO2" : "FSDP SHARD_GRAD_OP";
  return rules.is_hybrid() ? "FSDP HYBRID_SHARD" : "FSDP FULL_SHARD";
}

/// The row of README.md: a hybrid is told by what it does within a group.
std::string front_row(const StrategyRules& rules) {
  const std::string bytes = sum_of_bytes(sent_by(rules)), name = name_in_pytorch(rules);
  if (rules.is_hybrid()) return cells_of({name, std::string(rules.splits), "", "", bytes});
  const char* const life = rules.life == ParameterLife::rest   ? "full"
                           : rules.life == ParameterLife::step ? "gathered once a step"
                                                               : "gathered for forward and for backward";
  return cells_of({name, state_of(rules), gradients_of(rules), life, bytes});
}

/// The row of src/README.md: the columns of the table as they are in the code.
std::string code_row(const StrategyRules& rules) {
  const auto group = [](Group of) {
    return of == Group::self ? "" : of == Group::world ? "world" : of == Group::shard ? "shard group" : "replica group";
  };
  const char* const life = rules.life == ParameterLife::rest   ? "always"
                           : rules.life == ParameterLife::step ? "a step"
                                                               : "a phase: forward, and again backward";
  return cells_of({rules.state == Group::self ? "full" : "sharded", life, group(rules.inner), group(rules.outer)});
}

std::string split_row(const StrategyRules& rules) {
  const char* const life = rules.life == ParameterLife::rest   ? "full"
                           : rules.life == ParameterLife::step ? "a step"
                                                               : "a phase";
  const char* const ranks = rules.state == Group::self ? "1" : rules.is_hybrid() ? "group" : "world";
  return cells_of({state_of(rules), gradients_of(rules), life, ranks});
}

std::string bytes_row(const StrategyRules& rules) {
  const Sent sent = sent_by(rules);
  return cells_of({product(sent.gradients, "b_r", "P"), product(sent.parameters, "b_p", "P"),
                   product(sent.replicas, "b_r", "P/F")});
}

/// Returns whether these options of [shard] may be given under a strategy.
bool is_used(const StrategyRules& rules, const std::string& name, const std::string& value) {
  Options options;
  options.shard.strategy = rules.strategy;
  if (!value.empty()) options.shard.offload = Offload::params;
  for (const UnusedOption& unused : unused_options(options)) {
    if (unused.name == name) return false;
  }
  try {
    validate(options);
  } catch (const UsageError&) {
    return false;
  }
  return true;
}

/// The options of [shard] that some strategies use and others do not.
std::string options_table() {
  std::string out = "| option | used by |\n|---|---|\n";
  const auto row = [&](const std::string& name, const std::string& value) {
    std::string users;
    std::size_t count = 0;
    for (const StrategyRules& rules : all_strategies()) {
      if (!is_used(rules, name, value)) continue;
      users += fmt::format("{}`{}`", count++ == 0 ? "" : ", ", rules.name);
    }
    if (count > 0 && count < all_strategies().size())
      out += fmt::format("| `{}{}` | {} |\n", name, value.empty() ? "" : " = " + value, users);
  };
  for (const OptionValue& option : flat_options({})) {
    if (option.name.starts_with("shard.")) row(option.name, "");
  }
  row("shard.offload", "params");
  return out;
}

}  // namespace

TEST_CASE("pages hold the tables of strategies as they are (TESSERA_UPDATE=1 rewrites them)") {
  check_table("README.md", "strategies",
              table("| `shard.strategy` | in PyTorch | optimizer state | gradients | parameters | bytes |", front_row));
  check_table("src/README.md", "strategies",
              table("| strategy | state | full parameters live | gradients sum over | then over |", code_row));
  check_table("docs/strategies.md", "strategies",
              table("| `shard.strategy` | optimizer state | gradients | parameters | F |", split_row));
  check_table("docs/strategies.md", "bytes",
              table("| strategy | gradients | parameters | over the replicas |", bytes_row));
  check_table("docs/strategies.md", "options", options_table());
}
