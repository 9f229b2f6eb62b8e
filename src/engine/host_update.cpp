#include "tessera/engine/host_update.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include "tessera/backend/stream.hpp"
#include "tessera/base/clock.hpp"
#include "tessera/optimizer/rules.hpp"

namespace tessera {

double host_update_rate(Kernels& kernels) {
  constexpr std::int64_t elements = std::int64_t{1} << 20;  // 16 MiB: more than what most caches of a core hold
  constexpr int tries = 4;
  // No zeros: moments would become subnormal.
  std::vector<float> master(elements, 0.5F), gradient(elements, 0.02F);
  const OptimizerRules& rules = rules_of(OptimizerName::adamw);
  std::vector<std::vector<float>> states(static_cast<std::size_t>(rules.states()), std::vector<float>(elements, 0.01F));
  std::vector<float*> addresses;
  for (std::vector<float>& state : states) addresses.push_back(state.data());
  const DecayRun all{0, elements, true};
  StepScalars scalars;
  scalars.learning_rate = 1e-3F;
  UpdateArguments a;
  a.elements = elements;
  a.master = master.data();
  a.states = addresses;
  a.gradient = gradient.data();
  a.runs = {&all, 1};
  a.scalars = &scalars;
  const auto stream = make_serial_stream("host");
  double best = 0;
  for (int i = 0; i < tries; ++i) {
    const auto start = std::chrono::steady_clock::now();
    (kernels.*rules.update)(*stream, a);
    best = std::max(best, static_cast<double>(elements) / seconds_since(start));
  }
  return best;
}

}  // namespace tessera
