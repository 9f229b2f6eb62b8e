#include "tessera/sweep/sweep.hpp"

#include <cstdio>

#include "sweep/actions.hpp"
#include "sweep/expected.hpp"
#include "sweep/text_file.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/comm/launcher.hpp"

namespace tessera {

namespace {

/// Predicts the rows where there are prices, says it before they run, and puts them in order.
void use_prices(Sweep& sweep, bool speaks) {
  const SweepOptions& options = sweep.file.sweep;
  if (options.cluster.empty() && options.order == SweepOrder::fastest)
    throw refuse("sweep.order", "fastest")
        .because("no prices say how long a row takes")
        .hint("Give sweep.cluster = FILE");
  if (options.cluster.empty()) return;
  const ExpectedTimes times = expected_times(sweep.chosen, options.cluster);
  if (options.order == SweepOrder::fastest) sort_by_time(sweep.chosen, times);
  if (!speaks) return;
  std::fputs(expected_text(times, sweep.chosen, options).c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace

int run_sweep(const std::filesystem::path& file, const std::vector<Setting>& arguments) {
  if (find_launch().size > 1)
    throw refusal("tessera sweep starts the ranks of its rows itself").hint("Start it without mpiexec or srun");
  Sweep sweep;
  sweep.file = read_sweep_file(file, arguments);
  sweep.rows = rows_of(sweep.file);
  sweep.chosen = chosen_rows(sweep.rows, sweep.file.sweep.only);
  const SweepAction action = sweep.file.sweep.action;
  const bool begins = action == SweepAction::print || action == SweepAction::run || action == SweepAction::submit;
  for (const std::string& note : begins ? sweep.file.notes : std::vector<std::string>{}) say(note);
  if (begins || action == SweepAction::retry) use_prices(sweep, begins);
  switch (action) {
    case SweepAction::print:
      return print_sweep(sweep);
    case SweepAction::run:
      return run_here(sweep);
    case SweepAction::submit:
      return submit_rows(sweep);
    case SweepAction::status:
      return show_status(sweep);
    case SweepAction::retry:
      return retry_rows(sweep);
    case SweepAction::row:
      return run_in_job(sweep);
  }
  throw InternalError("no such action of a sweep");
}

}  // namespace tessera
