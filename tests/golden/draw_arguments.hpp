#pragma once
// Configurations of runs as a user writes them, drawn from a counter. Options keep their names, so these words outlive
// any change of the code behind them.

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace tessera::testing {

struct DrawnArguments {
  std::int64_t world = 1, ranks_per_node = 1;
  std::vector<std::string> arguments;
  std::string text() const {
    std::string out = fmt::format("{}/{}", world, ranks_per_node);
    for (const std::string& argument : arguments) out += " " + argument.substr(2);
    return out;
  }
};

class ArgumentDraw {
 public:
  /// Draws are a function of `number` alone.
  explicit ArgumentDraw(std::uint64_t number) : state_(number * 0x2545f4914f6cdd1dULL) {}

  DrawnArguments draw(std::size_t number) {
    static constexpr std::array kStrategies{"ddp", "zero1", "zero2", "zero3", "hsdp", "hsdp-zero2"};
    // A strategy that comes later is appended, so that the draws before it stay.
    const std::string strategy = number < 300 ? kStrategies[number % kStrategies.size()] : "hsdp-zero1";
    c_.world = 1 + below(12);
    c_.ranks_per_node = divisor(c_.world);
    add("shard.strategy", strategy);
    if (strategy.starts_with("hsdp") && below(3) != 0) add("shard.group_size", divisor(c_.world));
    draw_gathers(strategy);
    const std::string wrap = of("block", "size", "model");
    if (wrap != "block") add("shard.wrap", wrap);
    if (wrap == "size") add("shard.min_params", of(300, 2000, 20000));
    maybe("shard.reduce", of("micro_step", "step"));
    below(3);  // of an option that is gone: later draws stay what they were
    maybe("memory.checkpoint", "block");
    if (const std::int64_t accumulation = 1 + below(7); below(4) != 0) add("train.accumulation", accumulation);
    maybe("precision.compute", of("bf16", "fp16"));
    maybe("precision.reduce", of("bf16", "fp16"), 3);
    maybe("data.val_fraction", 0, 4);
    maybe("checkpoint.async", "true", 3);
    maybe("run.deterministic", of("true", "false"), 3);
    const bool gpu = below(3) == 0;
    add("run.device", gpu ? "cuda" : "cpu");
    if (gpu) maybe("comm.backend", of("nccl", "staged", "staged"));
    draw_model();
    return c_;
  }

 private:
  /// SplitMix64.
  std::int64_t below(std::int64_t n) {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return static_cast<std::int64_t>((z ^ (z >> 31)) % static_cast<std::uint64_t>(n));
  }
  std::int64_t divisor(std::int64_t of) {
    std::int64_t d = 1 + below(of);
    while (of % d != 0) ++d;
    return d;
  }
  std::string of(auto... choices) {
    const std::array all{fmt::format("{}", choices)...};
    return all[static_cast<std::size_t>(below(static_cast<std::int64_t>(all.size())))];
  }
  void add(const std::string& option, const auto& value) {
    c_.arguments.push_back(fmt::format("--{}={}", option, value));
  }
  void maybe(const std::string& option, const auto& value, std::int64_t one_in = 2) {
    if (below(one_in) == 0) add(option, value);
  }

  void draw_gathers(const std::string& strategy) {
    if (strategy == "ddp" || strategy.ends_with("zero1")) return;
    maybe("shard.prefetch_forward", below(4));
    if (strategy.ends_with("zero2")) return;
    if (below(3) == 0) return add("shard.reshard_after_forward", "false");
    maybe("shard.prefetch_backward", below(4));
    maybe("shard.limit_all_gathers", below(5));  // 1 is refused where a part reads two units
  }

  void draw_model() {
    const std::string family = of("gpt2", "qwen2", "llama");
    const std::int64_t heads = 2 * (1 + below(2));
    add("model.family", family);
    add("model.layers", 1 + below(4));
    add("model.heads", heads);
    if (family != "gpt2") maybe("model.kv_heads", heads / 2);
    add("model.width", heads * of_widths());
    maybe("model.ffn_width", 30 + below(40));
    add("model.vocab", 50 + below(300));
    add("model.context", 16);
    add("train.seq_len", 5 + below(12));
    add("train.micro_batch", 1 + below(3));
  }
  std::int64_t of_widths() { return 2 * (2 + below(6)); }

  std::uint64_t state_;
  DrawnArguments c_;
};

}  // namespace tessera::testing
