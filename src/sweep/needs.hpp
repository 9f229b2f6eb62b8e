#pragma once
// A row's needs, and whether they can be met: they are planned, not tried.

#include <cstdint>
#include <string>

#include "sweep/rows.hpp"

namespace tessera {

/// Where a row is to run.
enum class Site : std::uint8_t {
  elsewhere,  ///< on machines that this process does not see, so that only plan.memory limits it
  here        ///< on this machine, and others like it
};

struct RowNeeds {
  std::int64_t bytes = 0;         ///< memory per rank; 0 for a command
  std::string device;             ///< "cpu", "cuda", or "auto" if that is not known
  bool uses_accelerator = false;  ///< the device is one that other processes may keep busy
  std::string misfit;             ///< why it does not fit; empty if it does
  std::string missing;            ///< why it is skipped here; empty if nothing is missing
};

/// `ranks_per_machine`: the row's ranks that share a machine's memory.
RowNeeds needs_of(const SweepRow& row, Site site, std::int64_t ranks_per_machine);

}  // namespace tessera
