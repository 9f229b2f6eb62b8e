#pragma once
// The costs of a strategy by its formula (README.md, Strategies): bytes sent, and bytes copied to or kept on the host.
// Plans print it, and the verifier holds schedules to it.

#include <cstdint>
#include <string_view>
#include <vector>

#include "tessera/schedule/schedule.hpp"

namespace tessera {

/// One term of the strategy's formula (README.md, Strategies): the bytes that each rank sends per step for one purpose.
struct FormulaTerm {
  std::string_view name;      ///< "gathers of parameters"
  std::int64_t times = 0;     ///< per step
  Group group = Group::self;  ///< over which
  std::int64_t elements = 0;  ///< padded
  DType dtype = DType::fp32;
  std::int64_t bytes = 0;  ///< times x elements x size of dtype x (n - 1) / n, n the group's ranks
};

inline constexpr std::string_view kMatricesTerm = "matrices to owners and back";

/// Returns the bytes of all terms.
std::int64_t bytes_of(const std::vector<FormulaTerm>& terms);

/// Returns the terms that are not zero.
std::vector<FormulaTerm> formula_terms(const StepSchedule& schedule);

/// Returns their sum: the bytes that each rank sends per step by the formula, before savings.
std::int64_t formula_wire_bytes(const StepSchedule& schedule);

/// The bytes that offloading moves, by the formula.
struct OffloadAccount {
  std::int64_t elements = 0, of = 0;  ///< of a rank's slices: those whose state is kept on the host; those of all units
  std::int64_t on_host = 0;           ///< bytes kept there: masters and moments, and the 16-bit copy that is loaded
  std::int64_t off_device = 0;        ///< bytes freed on the device: that state, less the copy there that gathers read
  std::int64_t gradients = 0;         ///< bytes of their gradients, on the host from backward to their update
};
OffloadAccount offload_account(const StepSchedule& schedule);

/// Returns the terms of what each rank copies between device and host per step for offloaded state, before savings.
std::vector<FormulaTerm> copy_terms(const StepSchedule& schedule);

/// Returns how many inputs of recomputed blocks are copied to the host in a micro-step. These are all but one: with a
/// recomputed MLP, the last block's input is needed right after the head. Blocks before `first` have no backward.
std::int64_t inputs_to_offload(const Recomputation& recomputation, std::int64_t layers, std::int64_t first = 0);

/// Returns the same terms as copy_terms() for these inputs.
std::vector<FormulaTerm> input_copy_terms(const StepSchedule& schedule);
/// Returns the bytes of one of these inputs.
std::int64_t bytes_of_input(const StepSchedule& schedule);

}  // namespace tessera
