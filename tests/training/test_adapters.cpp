// Trainings of adapters: the same bits under every strategy and world, and checkpoints that hold nothing else.
#include <fstream>
#include <nlohmann/json.hpp>

#include "sanitized.hpp"
#include "tessera/checkpoint/manifest.hpp"
#include "tessera/model/adapters.hpp"
#include "training/checkpoint_case.hpp"
#include "training/draw.hpp"
#include "training/golden_case.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

Architecture with_adapters(Architecture a, std::string_view targets = "all", double dropout = 0) {
  a.adapters = {3, 6, dropout, false, named_modules(a, targets)};
  return a;
}

/// Adapters that have left zero, of drawn targets.
Architecture drawn_adapters(const Drawn& c, std::uint64_t seed, double dropout) {
  const Architecture a = small_model(c.family);
  const std::vector<std::string> modules = linear_modules(a);
  return with_adapters(a, seed % 2 == 0 ? "all" : modules[seed % modules.size()], dropout);
}

}  // namespace

TEST_CASE("adapters get the bits of one rank, whatever strategy, world, wrap and recomputation") {
  Options options = base_options();
  options.train.steps = 3, options.train.accumulation = 8;
  options.train.eval_every = 2, options.train.eval_batches = 2;
  options.optim.lr = 0.05;  // so that B leaves zero, and A has a gradient
  const double dropout = GENERATE(0.0, 0.2);
  options.precision.compute = GENERATE(DType::fp32, DType::bf16);
  options.precision.fp8_smallest = 0;
  for (std::uint64_t seed = 1; seed <= draws(30, 5); ++seed) {
    options.precision.linear = seed % 3 == 0 ? LinearPrecision::fp8 : LinearPrecision::compute;
    const Drawn c = draw(seed, options, 8);
    INFO(c.text << " dropout " << dropout << " " << name_of(options.precision.compute));
    const Architecture a = drawn_adapters(c, seed, dropout);
    Options one = options;
    one.optim = c.options.optim, one.shard.strategy = Strategy::ddp;
    const RunOutcome reference = train_locally(one, a, 1, 1);
    const RunOutcome run = train_locally(c.options, a, c.world, c.ranks_per_node, c.machine, {}, c.bucket);
    require_same_bits(reference, run);
    REQUIRE(run.bytes_sent == run.bytes_planned);
    REQUIRE(reference.losses[0] != reference.losses[2]);
    const ModelParts model = declare_parts(a, 1, 1, DType::fp32);
    for (const TensorId id : model.tensors.ids())
      CHECK(std::isnan(reference.weights[id][0]) == !model.tensors[id].is_adapter);
  }
}

TEST_CASE("adapters in fp8 begin with the whole model's loss in fp8, and stay near adapters without it") {
  Options options = base_options();
  options.train.steps = 12, options.optim.lr = 0.01;
  options.precision.fp8_smallest = 0;
  const Architecture whole = small_model(GENERATE(Family::gpt2, Family::qwen2));
  const RunOutcome plain = train_locally(options, with_adapters(whole), 1, 1);
  options.precision.linear = LinearPrecision::fp8;
  const RunOutcome run = train_locally(options, with_adapters(whole), 1, 1);
  CHECK(run.losses[0] == train_locally(options, whole, 1, 1).losses[0]);  // B is zero
  CHECK(run.losses != plain.losses);
  for (std::size_t i = 0; i < plain.losses.size(); ++i) {
    CHECK(std::abs(run.losses[i] / plain.losses[i] - 1) < 5e-3);
    CHECK(std::abs(run.norms[i] / plain.norms[i] - 1) < 0.1);
  }
}

TEST_CASE("a run of adapters that was stopped goes on to the bit, on other ranks with another strategy") {
  Options options = base_options();
  options.train.steps = 6, options.optim.lr = 0.05;
  options.checkpoint.async = GENERATE(false, true);
  const Architecture a = with_adapters(small_model(Family::qwen2), "q_proj,v_proj,down_proj", 0.1);
  const RunPlace whole_place, parts_place;
  const Shape first{.strategy = Strategy::zero3, .world = 2}, second{.strategy = Strategy::zero1, .world = 4};
  const Outcome whole = run(options, first, whole_place.path(), 6, 6, a);
  run(options, first, parts_place.path(), 3, 3, a);
  const Manifest manifest = read_manifest(parts_place / "checkpoints" / "step-00000003");
  CHECK(manifest.architecture.adapters == a.adapters);
  CHECK(manifest.tensors.size() == 12);
  for (const TensorRecord& tensor : manifest.tensors) CHECK(tensor.name.find(".lora_") != std::string::npos);
  const Outcome same = run(resumed(options), first, parts_place.path(), 6, 6, a);
  require_same_state(whole, same);
  const RunPlace other_place;
  run(options, first, other_place.path(), 3, 3, a);
  Options other = resumed(options);
  other.shard.wrap = Wrap::size, other.shard.min_params = 500;
  const Outcome moved = run(other, second, other_place.path(), 6, 6, a);
  CHECK(moved.first_step == 4);
  require_same_state(whole, moved);
}

TEST_CASE("a checkpoint of adapters is refused by other adapters, other weights and a run without any") {
  const Options options = base_options();
  const Architecture a = with_adapters(small_gpt2(), "c_attn");
  const RunPlace place;
  const Shape shape{.world = 1, .ranks_per_node = 1};
  Options based = options;
  based.lora.base_hash = "0123456789abcdef";
  run(based, shape, place.path(), 2, 2, a);
  const auto refused = [&](const Options& with, const Architecture& architecture) {
    run(resumed(with), shape, place.path(), 3, 0, architecture);
  };
  Architecture more = a;
  more.adapters.rank = 4;
  CHECK_THROWS_WITH(refused(based, more), Catch::Contains("rank 3, alpha 6, on attn.c_attn there, adapters of rank 4"));
  CHECK_THROWS_WITH(refused(based, small_gpt2()), Catch::Contains("on attn.c_attn there, no adapters here"));
  based.lora.base_hash = "0123456789abcdee";
  CHECK_THROWS_WITH(refused(based, a), Catch::Contains("belong to other weights than those of model.from"));
}

TEST_CASE("adapters follow a float64 reference that computes them as PEFT does") {
  const char* const name = GENERATE("clipped", "qwen2-untied", "qwen3", "gemma3");
  Golden golden = read_golden(name);
  const auto json = nlohmann::json::parse(std::ifstream(golden.folder / "lora.json"));
  const Architecture base = golden.architecture;
  golden.architecture.adapters = {json["rank"], json["alpha"], 0, json["rank_stabilized"],
                                  named_modules(base, json["targets"].get<std::string>())};
  golden.options.optim.lr = json["lr"];
  const auto losses = json["loss"].get<std::vector<double>>(), norms = json["grad_norm"].get<std::vector<double>>();
  const HuggingFaceWeights weights(golden.folder, golden.tensors);
  const auto tensors = parameter_tensors(golden.architecture);
  const TensorSource source = [&](TensorId id, std::int64_t first, std::span<float> out) {
    if (id < golden.tensors.end_id()) return weights.read(id, first, out);
    for (std::size_t i = 0; i < out.size(); ++i) {  // as in make_lora.py
      const auto at = static_cast<double>(first + static_cast<std::int64_t>(i));
      out[i] = static_cast<float>(0.1 * std::sin(at + static_cast<double>(tensors[id].shape[0])));
    }
  };
  const auto [strategy, world] = GENERATE(std::pair(Strategy::ddp, 1), std::pair(Strategy::zero3, 2));
  Options options = golden.options;
  options.shard.strategy = strategy, options.train.micro_batch /= world;
  const RunOutcome run = train_locally(options, golden.architecture, world, world, {}, source);
  REQUIRE(run.losses.size() == losses.size());
  double loss = 0, norm = 0;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    loss = std::max(loss, std::abs(run.losses[i] / losses[i] - 1));
    norm = std::max(norm, std::abs(run.norms[i] / norms[i] - 1));
  }
  INFO(name << ": loss " << loss << ", norm " << norm);
  CHECK(loss < 1e-5);
  CHECK(norm < 1e-4);
  WARN(name << ": distance from float64: loss " << loss << ", norm " << norm);
}
