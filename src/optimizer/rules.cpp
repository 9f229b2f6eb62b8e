#include "tessera/optimizer/rules.hpp"

namespace tessera {

namespace {

constexpr std::array kAdamWKeeps{StateKind::parameter, StateKind::first_moment, StateKind::second_moment};

constexpr std::array kRules{OptimizerRules{kAdamWKeeps, DType::fp32, &Kernels::adamw}};

}  // namespace

const OptimizerRules& rules_of(OptimizerName name) { return kRules.at(static_cast<std::size_t>(name)); }

UpdateArguments update_arguments(const OptimOptions& options) {
  UpdateArguments arguments;
  arguments.beta1 = options.beta1;
  arguments.beta2 = options.beta2;
  arguments.epsilon = options.eps;
  arguments.weight_decay = options.weight_decay;
  return arguments;
}

}  // namespace tessera
