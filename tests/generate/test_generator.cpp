// Generation against Transformers' own tokens (tests/reference/make_generation.py), over ranks and strategies; the
// cache against a prompt that is read again.
#include <catch2/catch.hpp>
#include <cmath>

#include "generate/generation_case.hpp"
#include "sanitized.hpp"
#include "tessera/base/counter_rng.hpp"
#include "tessera/model/initialize.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

/// A small Llama with weights that make every layer matter.
GenerationCase drawn_case(std::int64_t context) {
  GenerationCase c;
  Architecture& a = c.architecture;
  a = preset("llama-8b");
  a.layers = 2, a.heads = 4, a.kv_heads = 2, a.width = 32, a.ffn_width = 48, a.vocab = 90, a.context = context;
  c.weights = [tensors = parameter_tensors(a)](TensorId tensor, std::int64_t first, std::span<float> out) {
    ParameterTensor t = tensors[tensor];
    if (t.initialization == Initialization::normal) t.standard_deviation = 0.3;
    initialize_slice(t, tensor, 5, first, out);
  };
  c.options = parse_arguments({});
  c.shape = {1, 64, context};
  return c;
}

std::vector<std::int32_t> drawn_tokens(std::int64_t count, std::int64_t vocab) {
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<std::int32_t>(
        philox(9, RandomUse::synthetic_data, 0, static_cast<std::uint64_t>(i))[0] % static_cast<std::uint64_t>(vocab)));
  return tokens;
}

/// Returns the logits after a prompt that is read in chunks.
std::vector<float> logits_after(Generator& generator, const std::vector<std::int32_t>& tokens) {
  std::vector<float> out;
  const std::vector<GenerationPrompt> prompts{{0, tokens}};
  generator.run(prompts, [&](std::size_t, std::int32_t) {
    const auto logits = generator.logits(0);
    out.assign(logits.begin(), logits.end());
    return false;
  });
  return out;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return largest;
}

}  // namespace

TEST_CASE("greedy tokens are Transformers', for every family, on 1, 2 and 3 ranks and under every strategy") {
  for (const char* name : {"clipped", "deep", "shallow", "qwen2-tied", "qwen2-untied", "llama3", "qwen3", "mistral",
                           "gemma3", "gemma3-scaled", "llama-biases", "qwen2-windows"}) {
    const GenerationReference reference(name);
    for (const StrategyRules& rules : all_strategies()) {
      for (const std::int64_t world : {1, 2, 3, 4}) {
        // Four ranks only where they make two replicas of two; the rest of the combinations at one family each.
        if (rules.is_hybrid() != (world == 4) && rules.is_hybrid()) continue;
        if (!rules.is_hybrid() && world == 4) continue;
        if (kSanitized && world > 2 && rules.strategy != Strategy::zero3) continue;
        INFO(name << " " << rules.name << " over " << world);
        std::vector<std::string> arguments{fmt::format("--shard.strategy={}", rules.name)};
        if (rules.is_hybrid()) arguments.emplace_back("--shard.group_size=2");
        GenerationCase c = case_of(reference, arguments);
        c.world = c.ranks_per_node = world;
        REQUIRE(continuations(c, reference.prompts, reference.lengths()) == reference.tokens);
      }
    }
  }
}

TEST_CASE("greedy tokens do not depend on chunks, batches, wraps, prefetch, queues or nodes") {
  const GenerationReference reference("llama3");
  const auto check = [&](const std::vector<std::string>& arguments, const auto& change) {
    GenerationCase c = case_of(reference, arguments);
    c.world = 2, c.ranks_per_node = 2;
    change(c);
    CHECK(continuations(c, reference.prompts, reference.lengths()) == reference.tokens);
  };
  check({}, [](GenerationCase& c) { c.shape.batch = 3, c.shape.chunk = 7; });
  check({}, [](GenerationCase& c) { c.shape.batch = 1, c.shape.chunk = 1; });
  check({}, [](GenerationCase& c) { c.ranks_per_node = 1; });
  check({}, [](GenerationCase& c) { c.settings.queue_mode = QueueMode::chaos; });
  check({}, [](GenerationCase& c) { c.settings.queue_mode = QueueMode::parallel, c.settings.threads = 2; });
  check({"--shard.wrap=model"}, [](GenerationCase&) {});
  check({"--shard.wrap=size", "--shard.min_params=5000"}, [](GenerationCase&) {});
  check({"--shard.prefetch_forward=0"}, [](GenerationCase&) {});
  check({"--shard.prefetch_forward=2", "--shard.limit_all_gathers=3"}, [](GenerationCase&) {});
}

TEST_CASE("drawn tokens are the same on any number of ranks") {
  const GenerationReference reference("qwen2-tied");
  TokenLists expected;
  for (const std::int64_t world : {1, 2, 3}) {
    GenerationCase c = case_of(reference);
    c.world = c.ranks_per_node = world;
    c.rules = {0.9, 20, 0.95, 4};
    const TokenLists made = continuations(c, reference.prompts, reference.lengths());
    if (world == 1) expected = made;
    CHECK(made == expected);
    CHECK(made != reference.tokens);
  }
}

TEST_CASE("logits over the cache are those of the same prefix read as a prompt") {
  GenerationCase c = drawn_case(150);
  const std::vector<std::int32_t> prompt = drawn_tokens(70, c.architecture.vocab);
  std::vector<std::vector<float>> cached;
  std::vector<std::int32_t> text = prompt;
  with_generator(c, [&](RankContext&, Generator& generator, const StepSchedule&) {
    const std::vector<GenerationPrompt> prompts{{0, prompt}};
    generator.run(prompts, [&](std::size_t, std::int32_t token) {
      const auto logits = generator.logits(0);
      cached.emplace_back(logits.begin(), logits.end());
      text.push_back(token);
      return text.size() < 150;
    });
    double largest = 0, size = 0;
    for (std::size_t i = 0; i < cached.size(); i += 7) {
      const std::vector<std::int32_t> prefix(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(70 + i));
      largest = std::max(largest, largest_difference(cached[i], logits_after(generator, prefix)));
      for (const float x : cached[i]) size = std::max(size, std::abs(static_cast<double>(x)));
    }
    CHECK(size > 1);
    CHECK(largest < 1e-5 * size);
  });
}

TEST_CASE("16-bit parameters at rest generate as well, and take half the memory") {
  GenerationCase c = drawn_case(70);
  const std::vector<std::int32_t> prompt = drawn_tokens(9, c.architecture.vocab);
  std::vector<float> exact, rounded;
  std::int64_t bytes[2] = {};
  const auto run = [&](std::vector<float>& logits, std::int64_t& parameters) {
    with_generator(c, [&](RankContext&, Generator& generator, const StepSchedule& schedule) {
      logits = logits_after(generator, prompt);
      for (const Storage& storage : schedule.storages) {
        CHECK(storage.category != Category::gradients);
        CHECK(storage.category != Category::optimizer_state);
        if (storage.category == Category::parameters) parameters += storage.bytes;
      }
    });
  };
  run(exact, bytes[0]);
  c.options = parse_arguments({"--precision.compute=bf16"});
  run(rounded, bytes[1]);
  CHECK(bytes[0] == 2 * bytes[1]);
  const double difference = largest_difference(exact, rounded);
  CHECK(difference > 0);
  CHECK(difference < 0.2);
}
