#pragma once
// The samples of a session's steps: their numbers, where they come from, and what a rank is fed of them.

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "tessera/checkpoint/records.hpp"
#include "tessera/config/options.hpp"
#include "tessera/data/dataset.hpp"
#include "tessera/data/reader.hpp"
#include "tessera/engine/player.hpp"
#include "tessera/schedule/schedule.hpp"

namespace tessera {

class StepSamples {
 public:
  /// The session starts at `from`. References must outlive the object. Begins to read at once.
  StepSamples(const Options& options, const StepSchedule& schedule, const Dataset& data, const RunPosition& from,
              std::int64_t rank);

  /// Returns how many samples all ranks read in a step, the number of a step's first one, and how many of its targets
  /// the loss counts, of each source of a mixture. For that, every rank reads the masks of all samples, on the reader's
  /// thread where it is ahead.
  std::int64_t per_step() const { return schedule_.samples_per_step(); }
  std::int64_t first_of(std::int64_t step) const { return from_.next_sample + (step - 1 - from_.step) * per_step(); }
  void counted_targets_of(std::int64_t step, std::vector<std::int64_t>& counted);
  /// Returns the first sample of a rank's micro-step.
  std::int64_t first_of(std::int64_t step, std::int64_t micro_step, std::int64_t rank) const;
  /// Returns a line for each sample of a step: its number, and where it comes from (TokenSource::place).
  std::string places_of(std::int64_t step) const;
  /// Returns the run's position in its data after a step.
  DataPosition position_after(std::int64_t step) const;

  /// Feeds this rank's next micro-batch, which was read ahead.
  std::int64_t feed(std::int32_t* tokens, std::int32_t* targets);
  /// The same of any micro-batch, which is read now.
  std::int64_t feed(std::int64_t step, std::int64_t micro_step, std::int64_t rank, std::int32_t* tokens,
                    std::int32_t* targets);

 private:
  std::int64_t first_of_request(std::int64_t request, std::int64_t rank) const;
  void count(std::int64_t step, std::span<std::int32_t> row, std::vector<std::int64_t>& counted) const;
  void count_ahead(std::int64_t request);

  const Options& options_;
  const StepSchedule& schedule_;
  const Dataset& data_;
  const RunPosition from_;
  std::vector<std::int32_t> row_, row_ahead_;  ///< scratch of reading, and of the reader's thread
  std::mutex mutex_;
  struct Counted {
    std::int64_t step = 0;
    std::vector<std::int64_t> targets;  ///< by source
  };
  std::vector<Counted> counted_;        ///< ahead; places of steps before begun_ are used again
  std::int64_t begun_ = 0;              ///< the last step that was asked for
  std::vector<std::int64_t> counting_;  ///< scratch of the reader's thread
  BatchReader reader_;
};

}  // namespace tessera
