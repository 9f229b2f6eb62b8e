#pragma once
// Finds what would slow a run down, or prevent it, in its machines, its launcher and its folder.

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/backend/device.hpp"
#include "tessera/comm/world.hpp"
#include "tessera/config/options.hpp"
#include "tessera/doctor/rank_facts.hpp"
#include "tessera/resolve/machine.hpp"

namespace tessera {

/// How bad a finding is, in this order.
enum class Verdict : std::uint8_t {
  fine,
  note,     ///< may be as it is meant
  warning,  ///< costs speed, or makes a failure likely
  refused   ///< a training ends with code 2
};

/// A line of the table.
struct Finding {
  std::string subject;  ///< "cores", "run folder"
  Verdict verdict = Verdict::fine;
  std::string says;    ///< what is found
  std::string remedy;  ///< what helps; may be empty

  /// Returns both as sentences.
  std::string text() const;
};

/// Judges the facts of all ranks. Every check that applies has at least one finding.
std::vector<Finding> judge(const std::vector<RankFacts>& ranks);

/// Collects the facts of all ranks and judges them; on rank 0 only, elsewhere empty. `device` is this rank's, null
/// without one. `tries`: whether files are written where the run folder is or would be, and removed. Collective.
std::vector<Finding> examine(World& world, const Options& options, const MachineShape& machine, const Device* device,
                             bool tries);

/// Returns a line of the table: subject, verdict, what is found and what helps.
std::string finding_text(const Finding& finding);

/// Returns the worst finding if it is a warning at least: for the log of a training; otherwise null.
const Finding* worst(const std::vector<Finding>& findings);

}  // namespace tessera
