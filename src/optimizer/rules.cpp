#include "tessera/optimizer/rules.hpp"

#include "tessera/config/options.hpp"

namespace tessera {

namespace {

constexpr std::array kAdamWKeeps{StateKind::parameter, StateKind::first_moment, StateKind::second_moment};

constexpr std::array kMuonKeeps{StateKind::parameter, StateKind::first_moment};

constexpr std::array kRules{OptimizerRules{kAdamWKeeps, "both moments", UpdateRule::adamw},
                            OptimizerRules{kMuonKeeps, "the momentum of matrices, both moments of all else",
                                           UpdateRule::muon, OptimizerName::adamw, true}};

}  // namespace

const OptimizerRules& rules_of(OptimizerName name) { return kRules.at(static_cast<std::size_t>(name)); }

ParameterUpdate update_arguments(const OptimOptions& options) {
  ParameterUpdate arguments;
  arguments.beta1 = options.beta1;
  arguments.beta2 = options.beta2;
  arguments.epsilon = options.eps;
  arguments.weight_decay = options.weight_decay;
  arguments.momentum = options.muon_momentum;
  arguments.states_dtype = dtype_of(options.moments);
  return arguments;
}

}  // namespace tessera
