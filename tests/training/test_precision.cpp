// precision.compute and precision.reduce: 16-bit training follows fp32, and all ranks agree on fp16's loss scale.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "plan_run.hpp"
#include "sanitized.hpp"
#include "session_case.hpp"
#include "sixteen_bits.hpp"

using namespace tessera;
using namespace tessera::testing;

TEST_CASE("bf16 and fp16 follow fp32, the same bits under every strategy of one world") {
  Options options = base_options();
  options.train.steps = 12;
  const Architecture architecture = GENERATE(small_model(Family::gpt2), small_model(Family::llama));
  options.train.accumulation = 2;
  options.shard.strategy = Strategy::ddp;
  const RunOutcome exact = train_locally(options, architecture, 2, 2);
  for (const DType compute : {DType::bf16, DType::fp16}) {
    for (const DType reduce : {DType::fp32, compute}) {
      options.precision.compute = compute;
      options.precision.reduce = reduce;
      options.shard.strategy = Strategy::zero1;
      const RunOutcome reference = train_locally(options, architecture, 2, 2);
      INFO(name_of(compute) << " reduce " << name_of(reduce));
      REQUIRE(reference.losses != exact.losses);
      SixteenBits(options, architecture, 2).check_near(exact);
      for (const Strategy strategy : {Strategy::zero2, Strategy::zero3}) {
        options.shard.strategy = strategy;
        options.shard.reduce = ReduceWhen::step;  // as zero1's default
        const RunOutcome run = train_locally(options, architecture, 2, 2);
        REQUIRE(run.losses == reference.losses);
        REQUIRE(run.norms == reference.norms);
        REQUIRE(run.bytes_sent == run.bytes_planned);
        options.shard.reduce = ReduceWhen::by_strategy;
      }
    }
  }
}

TEST_CASE("copies that one rank keeps from step to step have the bits of those that it casts for each phase") {
  Options options = base_options();
  options.train.steps = 5, options.train.accumulation = 2;
  options.precision.compute = DType::bf16;
  options.shard.reduce = ReduceWhen::step;
  options.shard.strategy = Strategy::ddp;
  const RunOutcome ddp = train_locally(options, small_model(Family::qwen2), 1, 1);
  for (const StrategyRules& rules : all_strategies()) {
    options.shard.strategy = rules.strategy, options.shard.group_size = rules.is_hybrid() ? 1 : 0;
    for (const bool asks_to_drop : {false, true}) {
      options.given.clear();
      if (asks_to_drop) options.given.insert("shard.reshard_after_forward");
      const RunOutcome run = train_locally(options, small_model(Family::qwen2), 1, 1);
      INFO(rules.name << (asks_to_drop ? ", dropped" : ", kept"));
      CHECK(run.losses == ddp.losses);
      CHECK(run.evaluations == ddp.evaluations);
      CHECK((run.weights == ddp.weights));
    }
  }
}

TEST_CASE("16-bit logits are rounded, fp32 ones are not") {
  Options options = base_options();
  options.train.steps = 3;
  options.precision.compute = GENERATE(DType::fp32, DType::bf16, DType::fp16);
  const RunOutcome rounded = train_locally(options, small_model(Family::gpt2), 2, 2);
  options.precision.logits = LogitsPrecision::fp32;
  const RunOutcome wide = train_locally(options, small_model(Family::gpt2), 2, 2);
  CHECK((rounded.losses == wide.losses) == (options.precision.compute == DType::fp32));
  for (std::size_t i = 0; i < wide.losses.size(); ++i) CHECK(std::abs(rounded.losses[i] / wide.losses[i] - 1) < 1e-3);
}

namespace {

double largest(const std::vector<std::vector<float>>& tensors) {
  double most = 0;
  for (const auto& tensor : tensors) {
    for (const float x : tensor) most = std::max(most, std::abs(static_cast<double>(x)));
  }
  return most;
}

}  // namespace

TEST_CASE("an update leaves the 16-bit cast of its masters, padding included, in a skipped step too") {
  const DType dtype = GENERATE(DType::bf16, DType::fp16);
  const bool skips = dtype == DType::fp16;
  Options options = base_options();
  options.precision.compute = options.precision.reduce = dtype;
  options.optim.warmup_steps = 0;
  const Architecture architecture = small_gpt2();
  for (const StrategyRules& rules : all_strategies()) {
    for (const int world : {1, 4}) {
      INFO(rules.name << " on " << world << " in " << name_of(dtype));
      options.shard.strategy = rules.strategy;
      options.shard.group_size = rules.is_hybrid() ? std::min(world, 2) : 0;
      const PlannedRun planned = plan_run(options, architecture, world, world);
      const StepSchedule& s = planned.schedule;
      std::vector<ValueId> copies;
      for (const Segment& segment : s.segments) {
        if (segment.role != SegmentRole::update) continue;
        std::ranges::copy_if(segment.carried_out, std::back_inserter(copies),
                             [&](ValueId v) { return s.value(v).kind == ValueKind::parameter; });
      }
      CHECK(copies.size() >= 3);
      std::vector<std::vector<float>> masters;
      for (const Unit& unit : s.layout.units) masters.emplace_back(static_cast<std::size_t>(unit.padded));
      std::mutex mutex;
      std::int64_t compared = 0, wrong = 0, skipped = 0;
      run_ranks(world, world, [&](RankContext& context) {
        const Dataset data = open_dataset(options, s.model.architecture.vocab, s.model.sequence);
        TrainingSession session(context, options, planned, data, {}, with_last_gain(architecture, skips ? 1e3f : 1.0f));
        session.train_step([&] {
          for (const ValueId v : copies) {  // nothing else may lie there
            if (s.storage_of(v).always_live)
              std::memset(session.resources().address(s.value(v).storage), 0xff,
                          static_cast<std::size_t>(s.value(v).bytes()));
          }
        });
        {
          const std::lock_guard lock(mutex);
          for (const UnitId unit : s.layout.units.ids()) {
            const StateSlice slice = state_slice(s, session.resources(), unit);
            std::copy_n(slice.master(), slice.count,
                        masters[static_cast<std::size_t>(unit.number())].begin() + slice.first);
          }
          skipped += session.optimizer().skipped_steps();
        }
        context.control().barrier();
        const std::lock_guard lock(mutex);
        for (const ValueId v : copies) {
          const std::byte* const copy = session.resources().address(s.value(v).storage);
          with_float_type(dtype, [&]<class T>() {
            const std::byte* at = copy;
            for (const float master : masters[static_cast<std::size_t>(s.value(v).unit.number())]) {
              const T cast(master);
              if (std::memcmp(at, &cast, sizeof cast) != 0) ++wrong;
              at += sizeof cast, ++compared;
            }
          });
        }
      });
      CHECK(compared > 0);
      CHECK(wrong == 0);
      CHECK(skipped == (skips ? world : 0));
    }
  }
}

TEST_CASE("an overflow of the sum alone is found under every strategy") {
  // Each rank's part is finite in fp16, their sum is not: the step must be skipped, not applied.
  Options options = base_options();
  options.train.micro_batch = 1;
  options.train.steps = 1;
  options.optim.clip = 0;
  options.optim.warmup_steps = 0;
  const Architecture architecture = small_gpt2();
  for (const auto& [accumulation, gain] : {std::pair{1, 2.4f}, std::pair{2, 2.45f}}) {
    options.train.accumulation = accumulation;
    const TensorSource weights = with_last_gain(architecture, gain);
    // The loss scale starts at 2^16: a gradient of 1 overflows. This sum is just above; each rank's part, and that of
    // two ranks, is below (else zero1 and zero3 would skip too).
    options.shard.strategy = Strategy::ddp;
    options.shard.group_size = 0;
    options.precision.compute = options.precision.reduce = DType::fp32;
    const double sum = largest(train_locally(options, architecture, 4, 4, {}, weights).gradients);
    INFO("largest gradient " << sum << ", K " << accumulation);
    REQUIRE(sum > 1.01);
    REQUIRE(sum < 1.1);
    options.precision.compute = options.precision.reduce = DType::fp16;
    for (const Strategy strategy :
         {Strategy::ddp, Strategy::zero1, Strategy::zero3, Strategy::hsdp, Strategy::hsdp_zero1}) {
      options.shard.strategy = strategy;
      options.shard.group_size = rules_of(strategy).is_hybrid() ? 2 : 0;
      // Updates read fp16 only if the gradient was gathered in full for them; shards are fp32.
      const bool overflows = strategy == Strategy::ddp || rules_of(strategy).is_hybrid();
      for (const ReduceWhen reduce : {ReduceWhen::micro_step, ReduceWhen::step}) {
        options.shard.reduce = reduce;
        const RunOutcome run = train_locally(options, architecture, 4, 4, {}, weights);
        INFO(name_of(strategy) << (reduce == ReduceWhen::step ? ", reduced once" : ", reduced each micro-step"));
        CHECK((run.skipped > 0) == overflows);
        for (const auto& tensor : run.weights)
          CHECK(std::ranges::all_of(tensor, [](float weight) { return std::isfinite(weight); }));
      }
    }
  }
}

TEST_CASE("16-bit ddp and hsdp follow fp32") {
  Options options = base_options();
  options.train.steps = 12;
  options.train.accumulation = 2;
  const Architecture architecture = small_gpt2();
  options.shard.strategy = Strategy::ddp;
  const RunOutcome exact = train_locally(options, architecture, 4, 4);
  for (const DType type : {DType::bf16, DType::fp16}) {
    options.precision.compute = options.precision.reduce = type;
    options.shard.strategy = Strategy::ddp;
    options.shard.group_size = 0;
    const SixteenBits near(options, architecture, 4);
    near.check_near(exact);
    for (const Strategy strategy : {Strategy::ddp, Strategy::hsdp, Strategy::hsdp_zero2, Strategy::hsdp_zero1}) {
      options.shard.strategy = strategy;
      options.shard.group_size = strategy == Strategy::ddp ? 0 : 2;
      const RunOutcome run = train_locally(options, architecture, 4, 4);
      INFO(name_of(strategy) << " " << name_of(type));
      near.check_near(run);
      REQUIRE(run.bytes_sent == run.bytes_planned);
    }
  }
}

TEST_CASE("300 steps with moments in bf16 stay near those with fp32, and nearer than a seed") {
  Options options = base_options();
  options.train.steps = kSanitized ? 30 : 300;
  options.optim.lr = 0.003;
  const Architecture architecture = small_model(GENERATE(Family::gpt2, Family::qwen3));
  options.optim.name = GENERATE(OptimizerName::adamw, OptimizerName::muon);
  const auto trained = [&](StateType moments, std::int64_t seed) {
    options.optim.moments = moments, options.run.seed = seed;
    return train_locally(options, architecture, 1, 1);
  };
  const auto mean = [](const RunOutcome& a, const RunOutcome& b, const auto& function) {
    double sum = 0;
    for (std::size_t i = 0; i < a.losses.size(); ++i) sum += function(a.losses[i] / b.losses[i] - 1);
    return sum / static_cast<double>(a.losses.size());
  };
  const auto distance = [](double x) { return std::abs(x); };
  const auto shift = [](double x) { return x; };
  const RunOutcome wide = trained(StateType::fp32, 1), narrow = trained(StateType::bf16, 1);
  const double here = mean(narrow, wide, distance), up = mean(narrow, wide, shift),
               seeds = mean(trained(StateType::fp32, 2), wide, distance);
  fmt::print("{} by {}: losses with moments in bf16 are {:.2e} away on average ({:+.2e} up), of another seed {:.2e}\n",
             name_of(architecture.family), name_of(options.optim.name), here, up, seeds);
  CHECK(here > 0);
  CHECK(here < 2e-2);
  CHECK(here < seeds / 4);
  CHECK(std::abs(up) < 1e-2);
}
