#pragma once
// Does a run fit? And if not, by how much, and which single option would make it fit? Every answer is a planned
// schedule, not an estimate.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/schedule/planned_run.hpp"

namespace tessera {

/// The memory that a rank may take, in bytes.
struct FitLimits {
  std::int64_t device = 0;   ///< of limited_bytes; 0: not known
  std::int64_t machine = 0;  ///< of machine_bytes; 0: any
  std::string name = {};     ///< whose limit device is: "plan.memory = 24.0 GB"
};

/// One changed option with which the run fits.
struct FitChange {
  std::string option;      ///< "memory.checkpoint=block"
  std::int64_t bytes = 0;  ///< needed with it
};

struct FitAnswer {
  std::int64_t needed = 0, allowed = 0;  ///< bytes per rank (limited_bytes)
  std::string peak;                      ///< "backward h.11.mlp", or "head"
  std::vector<FitChange> changes;        ///< cheapest first; empty if it fits, or if no single option helps
  std::string together;                  ///< if no single option helps: several at once that do, in words
  std::string smallest;                  ///< if those do not help either: the least need that was found, in words
  bool fits() const { return needed <= allowed; }
};

/// If the planned run needs more than `allowed` bytes per rank, plans one changed option after the other. In order:
/// checkpoints written in the step; one gathered unit at a time; less that stays after forward; own attention where
/// cuDNN's is deterministic; activation checkpointing; strategies that shard more; the largest micro-batch that fits;
/// offloading; bf16. If none of them is enough, plans all combinations of these.
FitAnswer examine_fit(const RunShape& shape, const StepSchedule& schedule, const MemoryPlan& plan,
                      std::int64_t allowed);

/// Returns "needs 31.2 GB per rank, 24.0 GB allowed: 7.2 GB too much (peak at backward h.11.mlp). Would fit: ...", or
/// "needs ...: fits".
std::string describe_fit(const FitAnswer& answer);

/// The run needs more memory than there is.
class DoesNotFit : public Error {
 public:
  template <class... Args>
  explicit DoesNotFit(fmt::format_string<Args...> text, Args&&... args)
      : Error(ExitCode::does_not_fit, fmt::format(text, std::forward<Args>(args)...)) {}
};

/// Throws DoesNotFit, which says by how much and what would fit, when the run does not fit. `limit_name` names the
/// limit ("plan.memory = 24.0 GB").
void require_fit(const FitAnswer& answer, const std::string& limit_name);

/// Throws DoesNotFit when the machine memory that each of its ranks takes (machine_bytes) is more than `usable`, one
/// rank's share.
void require_machine_fit(const StepSchedule& schedule, const MemoryPlan& plan, std::int64_t usable, int machine_ranks);

}  // namespace tessera
