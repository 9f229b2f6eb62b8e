#pragma once
// The table of optimizers. A row says what is kept for each parameter element, and which kernel updates it. Schedule,
// memory plan, engine and checkpoints take counts and names of state from here.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "tessera/base/dtype.hpp"
#include "tessera/config/enums.hpp"
#include "tessera/kernels/arguments/update.hpp"

namespace tessera {

struct OptimOptions;

/// The numbers that a run keeps for each parameter element: its master copy and the optimizer's states. Each kind's
/// name is that of a dataset in a shard and of a group in tensors.h5.
enum class StateKind : std::uint8_t { parameter, first_moment, second_moment };
inline constexpr std::array<std::string_view, 3> kStateNames{"parameter", "first_moment", "second_moment"};
inline constexpr std::size_t kStateKinds = kStateNames.size();
inline constexpr std::array kAllStates{StateKind::parameter, StateKind::first_moment, StateKind::second_moment};
constexpr std::string_view name_of(StateKind kind) { return kStateNames[static_cast<std::size_t>(kind)]; }
/// Returns the type in which a kind is kept: masters always in fp32, the optimizer's states in that of optim.moments.
constexpr DType dtype_of(StateKind kind, DType moments) { return kind == StateKind::parameter ? DType::fp32 : moments; }

struct OptimizerRules {
  std::span<const StateKind> keeps;  ///< of each element: the master, then the states
  std::string_view kept = {};        ///< what it keeps besides masters, in words
  UpdateRule update = UpdateRule::adamw;
  /// The optimizer that updates all other elements, where this one wants whole matrices.
  OptimizerName others = OptimizerName::adamw;
  bool wants_matrices = false;

  std::int64_t states() const { return std::ssize(keeps) - 1; }  ///< without the master
};

const OptimizerRules& rules_of(OptimizerName name);

/// Returns the arguments of an update that the options determine: no elements, no memory.
ParameterUpdate update_arguments(const OptimOptions& options);

}  // namespace tessera
