#pragma once
// Looks for the first number of a step that is infinite or not a number, while the step is played again.

#include <cstdint>
#include <mutex>
#include <string>

#include "tessera/engine/resources.hpp"

namespace tessera {

class NanSearch {
 public:
  /// Both must outlive the search.
  NanSearch(const StepSchedule& schedule, Resources& resources) : schedule_(schedule), resources_(resources) {}

  void begin(const Play& play);
  /// Looks at what an operation has just made: parameters, activations, their gradients, values saved for backward, and
  /// the gradients of a unit that are finished. Calls come from several threads.
  void look(OperationId id);

  /// Collective: returns where the first one is, over all ranks: "rank 2, micro-step 1 (samples 24 to 27): forward of
  /// h.3.mlp makes inf in saved h.3.mlp up". Empty if all is finite.
  std::string found(RankContext& context, std::int64_t first_sample) const;

 private:
  void look_at(OperationId id, ValueId value);

  const StepSchedule& schedule_;
  Resources& resources_;
  std::mutex mutex_;
  std::int64_t play_ = -1, first_play_ = 0, first_operation_ = 0;
  std::int32_t micro_step_ = 0, first_micro_step_ = 0;
  std::string first_;  ///< what was found; empty: nothing yet
};

}  // namespace tessera
