// precision.linear = fp8: docs/numerics.md, contract 8.
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "golden_case.hpp"
#include "tessera/base/math.hpp"
#include "tessera/schedule/formula.hpp"
#include "training/bad_step_case.hpp"
#include "training/checkpoint_case.hpp"
#include "training/draw.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

Options in_fp8(Options options, Fp8 gradients = Fp8::e5m2) {
  options.precision.linear = LinearPrecision::fp8;
  options.precision.fp8_gradients = gradients;
  options.precision.fp8_smallest = 0;
  return options;
}

}  // namespace

TEST_CASE("fp8 linears follow a float64 reference that rounds at the same places") {
  const char* const name = GENERATE("clipped", "qwen3");
  const Fp8 gradients = GENERATE(Fp8::e5m2, Fp8::e4m3);
  Golden golden = read_golden(name);
  golden.options = in_fp8(golden.options, gradients);
  const auto json = nlohmann::json::parse(std::ifstream(golden.folder / "fp8.json"));
  const auto expected = json[std::string(name_of(gradients))];
  const auto losses = expected["loss"].get<std::vector<double>>();
  const RunOutcome run = train_golden(golden, 1, 1, {"--shard.strategy=ddp"});
  REQUIRE(run.losses.size() == losses.size());
  INFO(name << " " << name_of(gradients));
  CHECK(std::abs(run.losses[0] / losses[0] - 1) < 1e-5);
  for (std::size_t i = 0; i < losses.size(); ++i) CHECK(std::abs(run.losses[i] / losses[i] - 1) < 5e-3);
  for (const TensorId id : golden.tensors.ids()) {
    INFO(golden.tensors[id].name);
    const auto [norm, sum] = expected["gradients"][golden.tensors[id].name].get<std::pair<double, double>>();
    if (golden.tensors[id].name.ends_with("c_attn.bias")) continue;  // its key third is rounding noise
    double squares = 0, cosines = 0;
    for (std::size_t i = 0; i < run.gradients[id].size(); ++i) {
      const double g = run.gradients[id][i];
      squares += g * g, cosines += g * std::cos(static_cast<double>(i));
    }
    CHECK(std::abs(std::sqrt(squares) - norm) < 1e-4 * norm);
    CHECK(std::abs(cosines - sum) < 1e-4 * norm);
  }
}

TEST_CASE("with fp8 linears, drawn configurations give the bits of one rank") {
  Options options = in_fp8(base_options());
  options.train.steps = 3, options.train.accumulation = 8;
  options.train.eval_every = 2, options.train.eval_batches = 2;
  options.shard.strategy = Strategy::ddp;
  options.precision.compute = GENERATE(DType::fp32, DType::bf16);
  std::map<References::Key, RunOutcome> references;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const Drawn c = draw(seed, options, 8);
    INFO(c.text);
    RunOutcome& reference = references[{c.family, c.options.optim.name, c.options.optim.moments}];
    if (reference.losses.empty()) {
      Options one = options;
      one.optim.name = c.options.optim.name, one.optim.moments = c.options.optim.moments;
      reference = train_locally(one, small_model(c.family), 1, 1);
      one.precision.linear = LinearPrecision::compute;
      REQUIRE(train_locally(one, small_model(c.family), 1, 1).losses != reference.losses);
    }
    require_same_bits(
        reference, train_locally(c.options, small_model(c.family), c.world, c.ranks_per_node, c.machine, {}, c.bucket));
  }
}

TEST_CASE("the largest magnitudes of weights in fp8 are those of the step's parameters, wherever the state is") {
  Options options = in_fp8(base_options());
  options.train.steps = 2;
  options.precision.compute = DType::bf16;
  options.shard.strategy = GENERATE(Strategy::ddp, Strategy::zero1, Strategy::zero2, Strategy::zero3, Strategy::hsdp);
  const auto [offload, prefetch] =
      GENERATE(std::pair{Offload::none, 1}, std::pair{Offload::optimizer, 1}, std::pair{Offload::params, 0});
  if (offload == Offload::params && rules_of(options.shard.strategy).life == ParameterLife::rest) return;
  options.shard.offload = offload, options.shard.prefetch_forward = prefetch;
  if (rules_of(options.shard.strategy).is_hybrid()) options.shard.group_size = 2;
  INFO(name_of(options.shard.strategy) << ", offload " << name_of(offload));
  const PlannedRun planned = plan_run(options, small_model(Family::qwen2), 4, 4);
  const StepSchedule& s = planned.schedule;
  std::map<UnitId, std::vector<float>> masters;
  std::map<UnitId, std::vector<std::vector<std::int64_t>>> found;
  std::mutex lock;
  with_sessions(options, planned, [&](RankContext&, TrainingSession& session) {
    for (int step = 0; step < 2; ++step) session.train_step();
    session.player().finish_step();
    const std::lock_guard guard(lock);
    for (const Value& value : s.values) {
      if (value.kind != ValueKind::magnitudes || !s.storage(value.storage).always_live || value.maker) continue;
      const StateSlice slice = state_slice(s, session.resources(), value.unit);
      std::vector<float>& all = masters[value.unit];
      all.resize(static_cast<std::size_t>(s.unit(value.unit).padded));
      std::copy_n(slice.master(), slice.count, all.begin() + slice.first);
      const auto* const magnitudes = reinterpret_cast<std::int64_t*>(session.resources().address(value.storage));
      found[value.unit].emplace_back(magnitudes, magnitudes + value.elements);
    }
  });
  CHECK(found.size() == static_cast<std::size_t>(small_model(Family::qwen2).layers));  // a unit each
  for (const auto& [unit, of_ranks] : found) {
    std::vector<std::int64_t> expected;
    for (const Fp8Weight& weight : s.unit(unit).fp8_weights) {
      float largest = 0;
      for (std::int64_t i = weight.offset; i < weight.offset + weight.elements; ++i)
        largest = std::max(largest, std::abs(static_cast<float>(bf16(masters[unit][static_cast<std::size_t>(i)]))));
      expected.push_back(std::bit_cast<std::uint32_t>(largest));
    }
    CHECK(expected.size() == 5);  // queries, keys and values together; their projection; gate, up, down
    for (const auto& of_rank : of_ranks) CHECK(of_rank == expected);
  }
}

TEST_CASE("weights of linears in fp8 are gathered as a byte each") {
  Options options = in_fp8(base_options());
  options.train.accumulation = 2, options.train.steps = 2;
  options.precision.compute = GENERATE(DType::fp32, DType::bf16);
  const auto [strategy, gathers] =
      GENERATE(std::pair{Strategy::zero3, 4}, std::pair{Strategy::zero2, 1}, std::pair{Strategy::zero1, 1});
  options.shard.strategy = strategy;
  const Architecture architecture = small_model(Family::qwen2);
  const PlannedRun planned = plan_run(options, architecture, 2, 2);
  std::int64_t weights = 0;
  for (const Unit& unit : planned.schedule.layout.units) weights += unit.is_fp8() ? unit.padded : 0;
  const std::vector<FormulaTerm> terms = formula_terms(planned.schedule);
  const auto of_weights = std::ranges::find(terms, "gathers of weights in fp8", &FormulaTerm::name);
  REQUIRE(of_weights != terms.end());
  CHECK(of_weights->bytes == gathers * weights / 2);
  const RunOutcome run = train_locally(options, architecture, 2, 2);
  CHECK(run.bytes_sent == run.bytes_planned);
  for (const Value& value : planned.schedule.values) {
    const bool is_full = value.kind == ValueKind::parameter && value.placement.shard.empty();
    if (is_full && planned.schedule.unit(value.unit).is_fp8()) REQUIRE(value.bytes() == value.elements);
  }
}

TEST_CASE("linears in fp8 halve what is kept of an MLP's activation, and keep the bits") {
  Options options = in_fp8(base_options());
  options.precision.compute = DType::bf16;
  options.shard.strategy = Strategy::zero3;
  options.train.accumulation = 2;
  const Architecture architecture = small_model(GENERATE(Family::gpt2, Family::qwen2));
  const RunOutcome again = train_locally(options, architecture, 1, 1);
  options.memory.keep_activated = Tristate::yes;
  const std::int64_t numbers = options.train.micro_batch * options.train.seq_len * architecture.ffn_width;
  const auto kept_bytes = [&] {
    std::set<std::int64_t> bytes;  // of a block
    for (const Storage& storage : plan_run(options, architecture, 1, 1).schedule.storages)
      if (storage.name.find("activated") != storage.name.npos) bytes.insert(storage.bytes);
    return bytes;
  };
  CHECK(kept_bytes() == std::set{round_up(numbers, 64) + 64});
  options.train.accumulation = 1;
  require_same_bits(train_locally(options, architecture, 2, 2), again);
  options.memory.checkpoint = ActivationCheckpointing::block;
  require_same_bits(train_locally(options, architecture, 2, 2), again);
  options.memory.checkpoint = ActivationCheckpointing::none, options.precision.linear = LinearPrecision::compute;
  CHECK(kept_bytes() == std::set{2 * numbers});
}

TEST_CASE("a run with fp8 linears that was stopped goes on to the bit, on other ranks with another strategy") {
  Options options = in_fp8(base_options());
  options.train.steps = 6, options.train.micro_batch = 1;
  options.precision.compute = DType::bf16;
  const Shape first{.strategy = Strategy::zero3, .world = 2};
  const RunPlace whole_place;
  const Outcome whole = run(options, first, whole_place.path(), 6, 6);
  for (const Shape& second :
       {Shape{.strategy = Strategy::ddp, .world = 1, .ranks_per_node = 1},
        Shape{.strategy = Strategy::zero2, .world = 4, .ranks_per_node = 2, .wrap = Wrap::size}}) {
    INFO(second.text());
    const RunPlace place;
    run(options, first, place.path(), 3, 3);
    const Outcome moved = run(resumed(options), second, place.path(), 6, 6);
    REQUIRE(moved.first_step == 4);
    for (const auto& [step, loss] : moved.losses) CHECK(loss == whole.losses.at(step));
    require_same_state(whole, moved);
  }
}

TEST_CASE("a weight that is not finite makes a bad step with fp8 linears too") {
  Options options = in_fp8(base_options());
  options.shard.strategy = Strategy::zero3;
  const BadStepOutcome outcome = train_around_bad_step(options, 2, "h.1", false);
  CHECK((!outcome.finite && outcome.skipped && outcome.skipped_steps == 1));
  for (const double loss : outcome.losses) CHECK(std::isfinite(loss));
}

TEST_CASE("linears whose smaller side is below precision.fp8_smallest keep precision.compute") {
  Options options = in_fp8(base_options());
  const auto said = [&](std::int64_t smallest) {
    options.precision.fp8_smallest = smallest;
    return describe_fp8(plan_run(options, small_gpt2(), 1, 1).schedule.model);  // 21 to 63, 21, 50, and 50 to 21
  };
  CHECK(said(0) == "8 of 8 linears in fp8 (sides from 0 on, gradients e5m2)");
  CHECK(said(21) == "8 of 8 linears in fp8 (sides from 21 on, gradients e5m2)");
  CHECK(said(22) == "0 of 8 linears in fp8 (sides from 22 on, gradients e5m2)");
  CHECK(said(kAutomaticCount) == said(1024));
}
