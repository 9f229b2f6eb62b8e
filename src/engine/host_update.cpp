#include "tessera/engine/host_update.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include "tessera/backend/stream.hpp"
#include "tessera/base/clock.hpp"
#include "tessera/base/math.hpp"
#include "tessera/kernels/state_rounding.hpp"
#include "tessera/optimizer/rules.hpp"
#include "tessera/schedule/policy.hpp"

namespace tessera {

double host_update_rate(Kernels& kernels, std::int64_t elements, DType compute_type, DType moments,
                        std::int64_t bytes) {
  constexpr double filling = 1, shortest = 0.1, longest = 1;  // seconds
  const OptimizerRules& rules = rules_of(OptimizerName::adamw);
  const std::int64_t bucket = std::min(elements, kOffloadBucket);
  const std::int64_t floats = bucket + ceil_div(rules.states() * bucket * size_of(moments), size_of(DType::fp32));
  const std::int64_t most = std::max<std::int64_t>(1, bytes / (floats * size_of(DType::fp32)));
  const auto filled = [](std::int64_t n, float x) { return std::vector<float>(static_cast<std::size_t>(n), x); };
  // Masters, then moments in their type. No zeros: moments would become subnormal.
  std::vector<float> one = filled(floats, 0.01F);
  with_state_type(moments, [&]<class S>() {
    std::fill_n(reinterpret_cast<S*>(one.data() + bucket), rules.states() * bucket, S(0.01F));
  });
  std::vector<float> gradient = filled(bucket, 0.02F), copy = filled(bucket, 0);
  std::vector<std::vector<float>> state;
  auto start = std::chrono::steady_clock::now();
  while (state.empty() ||
         (std::ssize(state) < std::min(most, ceil_div(elements, bucket)) && seconds_since(start) < filling))
    state.push_back(one);

  const DecayRun all{0, bucket, true};
  StepScalars scalars;
  scalars.learning_rate = 1e-3F;
  ParameterUpdate a;
  a.rule = rules.update;
  a.elements = bucket;
  a.gradient = gradient.data();
  a.runs = {&all, 1};
  a.scalars = &scalars;
  a.states_dtype = moments;
  if (compute_type != DType::fp32) a.copy = copy.data(), a.copy_dtype = compute_type;
  const auto stream = make_serial_stream("host");
  start = std::chrono::steady_clock::now();
  std::size_t updated = 0;  // buckets
  double seconds = 0;
  while (seconds < (updated < state.size() ? longest : shortest)) {
    a.master = state[updated++ % state.size()].data();
    std::vector<void*> states;
    auto* const first = reinterpret_cast<std::byte*>(a.master + bucket);
    for (std::int64_t i = 0; i < rules.states(); ++i) states.push_back(first + i * bucket * size_of(moments));
    a.states = states;
    kernels.run(*stream, a);
    seconds = seconds_since(start);
  }
  return static_cast<double>(updated) * static_cast<double>(bucket) / seconds;
}

}  // namespace tessera
