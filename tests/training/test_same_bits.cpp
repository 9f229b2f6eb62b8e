// docs/numerics.md, contract 2: strategies and world sizes are invisible; the same bits from all of them.
#include <catch2/catch.hpp>

#include "draw.hpp"
#include "sanitized.hpp"
#include "temporary_folder.hpp"

using namespace tessera;
using namespace tessera::testing;

TEST_CASE("all strategies and worlds give the bits of one rank") {
  Options options = base_options();
  const Architecture architecture = small_gpt2();
  const std::int64_t micro_batches = 8;  // world x accumulation
  options.train.accumulation = micro_batches;
  options.shard.strategy = Strategy::ddp;
  const RunOutcome reference = train_locally(options, architecture, 1, 1);
  REQUIRE(reference.losses.back() < reference.losses.front());
  for (const std::int64_t world : {1, 2, 4, 8}) {
    if (kSanitized && world != 4) continue;
    for (const StrategyRules& rules : all_strategies()) {
      for (const std::int64_t group : {1, 2, 4, 8}) {
        if (rules.is_hybrid() ? (group > world) : group != 1) continue;
        options.shard.strategy = rules.strategy;
        options.shard.group_size = rules.is_hybrid() ? group : 0;
        options.train.accumulation = micro_batches / world;
        for (const ReduceWhen reduce : {ReduceWhen::micro_step, ReduceWhen::step}) {
          options.shard.reduce = reduce;
          INFO(rules.name << " world " << world << " group " << group << " reduce " << name_of(reduce));
          const RunOutcome run = train_locally(options, architecture, world, world);
          require_same_bits(reference, run);
          REQUIRE(run.bytes_sent == run.bytes_planned);
        }
      }
    }
  }
}

TEST_CASE("windows and norms behind a branch leave the bits of one rank alone") {
  Options options = base_options();
  options.train.accumulation = 4;
  options.shard.strategy = Strategy::ddp;
  const Architecture architecture = small_model(Family::gemma3);
  const RunOutcome reference = train_locally(options, architecture, 1, 1);
  for (const StrategyRules& rules : all_strategies()) {
    for (const ActivationCheckpointing recomputed : {ActivationCheckpointing::none, ActivationCheckpointing::block}) {
      options.shard.strategy = rules.strategy;
      options.shard.group_size = rules.is_hybrid() ? 2 : 0;
      options.memory.checkpoint = recomputed;
      options.train.accumulation = 1;
      INFO(rules.name);
      require_same_bits(reference, train_locally(options, architecture, 4, 4));
    }
  }
}

namespace {

/// Drawn configurations; TESSERA_LONG=1 asks for the full count (tests/long.sh).
std::uint64_t configurations() {
  if (std::getenv("TESSERA_LONG") != nullptr) return 2000;
  return draws(100, 8);
}

}  // namespace

TEST_CASE("drawn configurations give the bits of one rank, poisoned, delayed and reordered") {
  Options options = base_options();
  options.train.steps = 3;
  options.train.eval_every = 2, options.train.eval_batches = 2;  // copies for the next step survive an evaluation
  for (const std::int64_t micro_batches : {8, 16}) {
    options.train.accumulation = micro_batches;
    options.shard.strategy = Strategy::ddp;
    const References references(options);
    const std::uint64_t first = static_cast<std::uint64_t>(micro_batches) * 1000000;
    for (std::uint64_t seed = first; seed < first + configurations(); ++seed) {
      const Drawn c = draw(seed, options, micro_batches);
      INFO(c.text);
      const RunOutcome run =
          train_locally(c.options, small_model(c.family), c.world, c.ranks_per_node, c.machine, {}, c.bucket);
      require_same_bits(references.of(c), run);
      REQUIRE(run.bytes_sent == run.bytes_planned);
    }
  }
}

TEST_CASE("MLPs in chunks have the same bits under every strategy, world and checkpointing") {
  Options options = base_options();
  options.train.steps = 3, options.train.accumulation = 8;
  options.train.eval_every = 2, options.train.eval_batches = 2;
  options.shard.strategy = Strategy::ddp;
  const References whole(options);
  options.memory.mlp_chunk = 5;
  const References references(options);
  for (const auto& [key, run] : references.all()) {
    REQUIRE(std::abs(run.losses[0] - whole.all().at(key).losses[0]) < 1e-7);
    REQUIRE(std::abs(run.losses.back() - whole.all().at(key).losses.back()) < 1e-4);
  }
  for (std::uint64_t seed = 300; seed < 300 + configurations(); ++seed) {
    Drawn c = draw(seed, options, 8);
    c.options.memory.keep_activated = Tristate::automatic;
    if (!recomputation_of(c.options.memory).attention) c.options.memory.offload_activations = false;  // refused
    INFO(c.text);
    const RunOutcome run =
        train_locally(c.options, small_model(c.family), c.world, c.ranks_per_node, c.machine, {}, c.bucket);
    require_same_bits(references.of(c), run);
    REQUIRE(run.bytes_sent == run.bytes_planned);
  }
}

TEST_CASE("dropout is the same under every strategy, world and checkpointing") {
  Options options = base_options();
  options.train.steps = 3;
  Architecture architecture = small_gpt2();
  const RunOutcome without = [&] {
    Options o = options;
    o.train.accumulation = 4;
    o.shard.strategy = Strategy::ddp;
    return train_locally(o, architecture, 1, 1);
  }();
  architecture.dropout = 0.2;
  options.train.accumulation = 4;
  options.shard.strategy = Strategy::ddp;
  const RunOutcome reference = train_locally(options, architecture, 1, 1);
  REQUIRE(reference.losses != without.losses);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Drawn c = draw(seed, options, 4 * (seed % 2 == 0 ? 1 : 2));
    c.options.optim = options.optim;
    if (c.options.train.accumulation * c.world != 4 || c.world > 4) continue;
    INFO(c.text);
    require_same_bits(reference,
                      train_locally(c.options, architecture, c.world, c.ranks_per_node, c.machine, {}, c.bucket));
  }
}

TEST_CASE("worlds that are no power of two stay within 1e-5 over 100 steps") {
  Options options = base_options();
  options.train.steps = kSanitized ? 15 : 100;
  options.train.micro_batch = 1;
  options.optim.lr = 0.003;
  const Architecture architecture = small_gpt2();
  for (const std::int64_t world : {3, 5, 6, 7}) {
    options.train.accumulation = world;
    options.shard.strategy = Strategy::ddp;
    const RunOutcome reference = train_locally(options, architecture, 1, 1);
    options.train.accumulation = 1;
    for (const Strategy strategy : {Strategy::ddp, Strategy::zero3}) {
      options.shard.strategy = strategy;
      const RunOutcome run = train_locally(options, architecture, world, world);
      for (std::size_t i = 0; i < reference.losses.size(); ++i) {
        INFO("world " << world << " step " << i);
        REQUIRE(std::abs(run.losses[i] / reference.losses[i] - 1) < 1e-5);
      }
    }
  }
}

TEST_CASE("without run.deterministic losses stay within 1e-5 over 100 steps") {
  Options options = base_options();
  options.train.steps = kSanitized ? 15 : 100;
  options.optim.lr = 0.003;
  options.train.accumulation = 5;
  options.shard.strategy = Strategy::zero2;
  const Architecture architecture = small_gpt2();
  const RunOutcome reference = train_locally(options, architecture, 2, 2);
  options.run.deterministic = Tristate::no;
  const RunOutcome run = train_locally(options, architecture, 2, 2);
  for (std::size_t i = 0; i < reference.losses.size(); ++i)
    REQUIRE(std::abs(run.losses[i] / reference.losses[i] - 1) < 1e-5);
}

TEST_CASE("more ranks than elements of most tensors") {
  Options options = base_options();
  options.train.steps = 2;
  options.train.micro_batch = 1;
  Architecture architecture = small_gpt2();
  architecture.layers = 1;
  architecture.heads = architecture.kv_heads = 1;
  architecture.width = 2;
  architecture.ffn_width = 3;
  architecture.vocab = 5;
  options.train.accumulation = 16;
  options.shard.strategy = Strategy::ddp;
  const RunOutcome reference = train_locally(options, architecture, 1, 1);
  options.train.accumulation = 1;
  for (const Strategy strategy : {Strategy::zero1, Strategy::zero3}) {
    options.shard.strategy = strategy;
    require_same_bits(reference, train_locally(options, architecture, 16, 4));
  }
}

namespace {

/// Options of a corpus of .jsonl lines.
Options options_of_lines(const TemporaryFolder& folder, const std::string& lines) {
  folder.write("texts.jsonl", lines);
  Options options = base_options();
  options.data.source = (folder / "texts.jsonl").string();
  options.data.synthetic_tokens = DataOptions().synthetic_tokens;
  options.data.cache = (folder / "cache").string();
  options.train.steps = 3;
  options.train.accumulation = 4;
  options.shard.strategy = Strategy::ddp;
  return options;
}

/// Texts of 1 to 23 bytes, in a vocabulary of 67.
std::string drawn_text(int i) { return std::to_string(i * i).append(static_cast<std::size_t>(i * 7 % 19), '('); }

void require_same_bits_drawn(const Options& options, const References& references) {
  for (std::uint64_t seed = 1; seed <= (kSanitized ? 4 : 16); ++seed) {
    const Drawn c = draw(seed, options, 4, std::int64_t{1} << seed % 3);
    INFO(c.text);
    const RunOutcome run =
        train_locally(c.options, small_model(c.family), c.world, c.ranks_per_node, c.machine, {}, c.bucket);
    require_same_bits(references.of(c), run);
  }
}

}  // namespace

TEST_CASE("with documents masked, strategies, worlds and checkpointing leave the bits alone") {
  const TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 400; ++i) lines += "{\"text\": \"" + drawn_text(i) + "\"}\n";
  Options options = options_of_lines(folder, lines);
  const References unmasked(options);
  options.data.document_mask = Tristate::yes;
  const References references(options);
  for (const auto& [which, reference] : references.all()) REQUIRE(reference.losses != unmasked.all().at(which).losses);
  require_same_bits_drawn(options, references);
}

TEST_CASE("with prompts that do not count, strategies, worlds and checkpointing leave the bits alone") {
  const TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 400; ++i)
    lines += "{\"prompt\": \"" + drawn_text(i) + "\", \"completion\": \"" + drawn_text(i % 7) + "\"}\n";
  Options options = options_of_lines(folder, lines);
  const References references(options);
  require_same_bits_drawn(options, references);
  options.data.document_mask = Tristate::yes;
  require_same_bits_drawn(options, References(options));
}

TEST_CASE("a prompt of nothing changes no bit, and steps of prompts alone have no gradient") {
  const TemporaryFolder folder;
  const auto trained = [&](const std::function<std::string(const std::string&)>& line_of, double val_fraction = 0.2,
                           SampleOrder order = SampleOrder::shuffled) {
    std::string lines;
    for (int i = 0; i < 400; ++i) lines += line_of(drawn_text(i)) + "\n";
    Options options = options_of_lines(folder, lines);
    options.optim.weight_decay = 0;
    options.data.val_fraction = val_fraction;
    options.data.order = order;
    return train_locally(options, small_gpt2(), 2, 2);
  };
  const RunOutcome plain = trained([](const std::string& text) { return "{\"text\": \"" + text + "\"}"; });
  require_same_bits(
      plain, trained([](const std::string& text) { return "{\"prompt\": \"\", \"completion\": \"" + text + "\"}"; }));
  const auto prompt_alone = [](const std::string& text) {
    return "{\"prompt\": \"" + text + "\", \"completion\": \"\"}";
  };
  CHECK_THROWS_WITH(trained(prompt_alone, 0), Catch::Contains("the loss counts none of the"));
  const auto answered_late = [](const std::string& text) {
    const char* const answer = text == drawn_text(390) ? "1" : "";
    return fmt::format(R"({{"prompt": "{}", "completion": "{}"}})", text, answer);
  };
  const RunOutcome none = trained(answered_late, 0, SampleOrder::sequential);
  CHECK(none.losses == std::vector<double>(3, 0.0));
  CHECK(none.norms == std::vector<double>(3, 0.0));
  for (const auto& tensor : none.weights) CHECK(std::ranges::all_of(tensor, [](float v) { return std::isfinite(v); }));
}
