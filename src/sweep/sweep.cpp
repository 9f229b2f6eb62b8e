#include "tessera/sweep/sweep.hpp"

#include <cstdio>

#include "sweep/actions.hpp"
#include "sweep/expected.hpp"
#include "sweep/text_file.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/comm/launcher.hpp"
#include "tessera/config/removed_options.hpp"

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

void say_notes(const Sweep& sweep) {
  for (const std::string& note : sweep.file.notes) say(note);
  Options dropped;
  for (const SweepRow& row : sweep.rows) dropped.dropped.insert(row.options.dropped.begin(), row.options.dropped.end());
  if (const std::string line = dropped_line(dropped); !line.empty()) say(line);
}

}  // namespace

int run_sweep(const std::filesystem::path& file, const std::vector<Setting>& arguments) {
  if (confirmed_launch().size > 1)
    throw refusal("tessera sweep starts the ranks of its rows itself")
        .hint("Start it without mpiexec or srun, or in the shell of srun --ntasks=1 --pty");
  Sweep sweep;
  sweep.file = read_sweep_file(file, arguments);
  const SweepAction action = sweep.file.sweep.action;
  sweep.rows = action == SweepAction::status ? started_rows(sweep.file) : rows_of(sweep.file);
  sweep.chosen = chosen_rows(sweep.rows, sweep.file.sweep.only);
  const bool begins = action == SweepAction::print || action == SweepAction::run || action == SweepAction::submit;
  if (begins) say_notes(sweep);
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
