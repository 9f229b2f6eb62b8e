#pragma once
// What `tessera plan` prints.

#include "printed_to.hpp"
#include "tessera/commands/commands.hpp"
#include "tessera/fit/fit.hpp"

namespace tessera::test {

/// Returns the output, also of a run that does not fit into plan.memory.
inline std::string plan_text(const Options& options) {
  return printed_to(1, [&] {
    try {
      run_plan(options, "");
    } catch (const DoesNotFit&) {
    }
  });
}

}  // namespace tessera::test
