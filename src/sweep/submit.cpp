// sweep.action = submit: arrays of jobs for Slurm. All differences between clusters are in jobs/site.sh.
#include <fmt/ranges.h>

#include <cmath>
#include <map>
#include <sstream>

#include "sweep/actions.hpp"
#include "sweep/child.hpp"
#include "sweep/launcher.hpp"
#include "sweep/needs.hpp"
#include "sweep/slurm.hpp"
#include "sweep/text_file.hpp"
#include "sweep/tokens.hpp"
#include "tessera/backend/cuda_device.hpp"
#include "tessera/base/environment.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/durable_file.hpp"
#include "tessera/files/installation.hpp"

namespace tessera {

namespace {

using Path = std::filesystem::path;

/// How many seconds before the limit Slurm warns a job.
constexpr int kWarning = 60;

/// Returns the folder of the job scripts: TESSERA_JOBS, of an installation (PREFIX/share/tessera/jobs), or next to the
/// build.
Path jobs_folder() {
  const std::string set = variable("TESSERA_JOBS");
  const Path folder = set.empty() ? installed({"share/tessera/jobs", "jobs"}) : Path(set);
  if (path_exists(folder / "sweep.sbatch") && path_exists(folder / "site.sh")) return folder.lexically_normal();
  throw refusal("there are no job scripts sweep.sbatch and site.sh in {}",
                folder.empty() ? "share/tessera/jobs of this installation" : folder.string())
      .hint("Set TESSERA_JOBS to their folder");
}

/// Rows whose jobs have the same shape.
struct Shape {
  std::int64_t ranks = 1;
  bool gpus = false;
  std::int64_t node_ranks = 1;  ///< most on any node
  auto operator<=>(const Shape&) const = default;
};
using Arrays = std::map<Shape, std::vector<SweepRow>>;

/// Deals rows out to chains. A chain runs one row at a time, whatever its shape: its arrays wait for each other.
std::vector<Arrays> chains_of(const Arrays& all, std::int64_t chains) {
  std::vector<Arrays> out;
  std::size_t next = 0;
  for (const auto& [shape, rows] : all) {
    for (const SweepRow& row : rows) {
      if (std::ssize(out) < chains) out.emplace_back();
      out[next++ % static_cast<std::size_t>(chains)][shape].push_back(row);
    }
  }
  return out;
}

/// Cuts rows into arrays of at most `longest`.
std::vector<std::vector<SweepRow>> pieces_of(const std::vector<SweepRow>& rows, std::int64_t longest) {
  std::vector<std::vector<SweepRow>> out;
  for (const SweepRow& row : rows) {
    if (out.empty() || std::ssize(out.back()) == longest) out.emplace_back();
    out.back().push_back(row);
  }
  return out;
}

/// Returns the fewest nodes with the same number of ranks each, at most `most`.
std::int64_t nodes_for(std::int64_t ranks, std::int64_t most) {
  std::int64_t nodes = (ranks + most - 1) / most;
  while (ranks % nodes != 0) ++nodes;
  return nodes;
}

/// Formats Slurm's hours:minutes:seconds.
std::string slurm_time(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::ceil(seconds));
  return fmt::format("{:02}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

class Submission {
 public:
  Submission(const Sweep& sweep, const SweepFolder& folder, Path jobs)
      : sweep_(sweep), folder_(folder), jobs_(std::move(jobs)) {
    make_folder(slurm());
    while (path_exists(slurm() / fmt::format("submit-{}.jobs", number_))) ++number_;
  }

  /// Submits an array, records it, so that `submit` checks it before it submits again, and returns its number. Its
  /// tasks run one after the other if `in_chain`, and after the array `before` (empty: none).
  std::string array(const Shape& shape, const std::vector<SweepRow>& rows, bool in_chain, const std::string& before) {
    const std::string what = fmt::format("{}{}", shape.ranks, shape.gpus ? "-gpus" : "");
    const Path list = slurm() / fmt::format("submit-{}-{}-ranks-{}.rows", number_, ++arrays_, what);
    std::string names;
    for (const SweepRow& row : rows) names += row.name + "\n";
    write_text_atomically(list, names);
    const SweepOptions& options = sweep_.file.sweep;
    const std::int64_t nodes = nodes_for(shape.ranks, shape.node_ranks), tasks = shape.ranks / nodes;
    std::vector<std::string> words = {fmt::format("--array=1-{}{}", rows.size(), in_chain ? "%1" : ""),
                                      fmt::format("--job-name={}-{}", options.name, what),
                                      "--output=" + (slurm() / "%A_%a.out").string(),
                                      fmt::format("--nodes={}", nodes),
                                      fmt::format("--ntasks-per-node={}", tasks),
                                      fmt::format("--gpus-per-node={}", shape.gpus ? tasks : 0),
                                      fmt::format("--signal=B:USR1@{}", kWarning)};
    if (options.limit > 0) words.push_back("--time=" + slurm_time(options.limit));
    const std::vector<std::string> more = split_words(options.sbatch);
    if (options.exclusive) words.push_back("--exclusive");
    words.insert(words.end(), more.begin(), more.end());
    if (!before.empty()) words.push_back("--dependency=afterany:" + before);
    words.insert(words.end(), {(jobs_ / "sweep.sbatch").string(), list.string(), folder_.path().string()});
    std::string job = submit_job(jobs_, words);
    submitted_.push_back(job);
    std::string text;
    for (const std::string& one : submitted_) text += one + "\n";
    write_text_atomically(slurm() / fmt::format("submit-{}.jobs", number_), text);
    for (std::size_t i = 0; i < rows.size(); ++i) tasks_.emplace_back(rows[i], fmt::format("{}_{}", job, i + 1));
    return job;
  }

  /// Submits the report, to run once all arrays have ended, and tells rows their jobs.
  std::string report() {
    std::string after = "--dependency=afterany";
    for (const std::string& job : submitted_) after += ":" + job;
    const Path dir = folder_.path();
    std::string job = submit_job(
        jobs_, {after, fmt::format("--job-name={}-report", sweep_.file.sweep.name),
                "--output=" + (slurm() / "report-%j.out").string(), (jobs_ / "postprocess.sbatch").string(),
                dir.string(), "--csv=" + (dir / "table.csv").string(), "--json=" + (dir / "table.json").string(),
                "--plots=" + (dir / "plots").string(), "--html=" + (dir / "report.html").string()});
    for (const auto& [row, task] : tasks_) note(row, task);
    return job;
  }

  /// Takes back what was submitted, because not all could be.
  void cancel() const {
    if (submitted_.empty()) return;
    const std::string all = fmt::format("{}", fmt::join(submitted_, " "));
    if (cancel_jobs(submitted_)) return say(fmt::format("cancelled what was submitted before: job {}", all));
    say(fmt::format("job {} stays in the queue, because scancel fails: cancel it before the next submit", all));
  }

  Path slurm() const { return folder_.path() / "slurm"; }

 private:
  /// The job may have begun, and then the row's status is its own.
  void note(const SweepRow& row, const std::string& job) const try {
    if (!is_lock_free(folder_.row(row), sweep_lock())) return;
    const RunLock lock(folder_.row(row), 0, sweep_lock());
    RowStatus status = folder_.status(row);
    if (!status.may_start() || status.is_settled()) return;
    status.state = RowState::pending;
    status.message = "submitted as job " + job;
    status.job = job;
    folder_.write_status(row, status);
  } catch (const Error&) {
    // The job has just begun.
  }

  const Sweep& sweep_;
  const SweepFolder& folder_;
  Path jobs_;
  int number_ = 1, arrays_ = 0;
  std::vector<std::string> submitted_;
  std::vector<std::pair<SweepRow, std::string>> tasks_;  ///< rows with their JOB_TASK
};

/// Submits arrays of at most `longest` rows, in a chain each after the one before it.
void submit_arrays(Submission& submission, const Arrays& arrays, bool in_chain, std::int64_t longest) {
  std::string before;
  for (const auto& [shape, all_rows] : arrays) {
    for (const std::vector<SweepRow>& rows : pieces_of(all_rows, longest)) {
      const std::string job = submission.array(shape, rows, in_chain, before);
      say(fmt::format("job {}: {} on {}{}{}", job, counted(std::ssize(rows), "row"), counted(shape.ranks, "rank"),
                      shape.gpus ? ", a GPU each" : "", before.empty() ? "" : ", after job " + before));
      if (in_chain) before = job;
    }
  }
}

}  // namespace

std::set<std::string> lost_jobs(const SweepFolder& folder, const std::vector<SweepRow>& rows) {
  std::set<std::string> jobs;
  for (const SweepRow& row : rows) {
    const RowStatus status = folder.status(row);
    if (status.state == RowState::pending && !status.job.empty()) jobs.insert(status.job);
  }
  return ended_jobs(jobs);
}

void require_none_queued(const SweepFolder& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() / "slurm", error)) {
    if (entry.path().extension() != ".jobs") continue;
    std::istringstream jobs(read_small_file(entry.path()).value_or(""));
    for (std::string job; std::getline(jobs, job);) {
      if (!is_queued(job)) continue;
      throw refusal("job {} of this sweep has not ended, as squeue says", job)
          .hint("Wait for it, or cancel it by scancel {}", job);
    }
  }
}

int submit_rows(const Sweep& sweep) {
  const SweepFolder folder(sweep.file);
  for (const char* const program : {"sbatch", "squeue", "sinfo"}) {
    if (find_program(program).empty())
      throw refusal("there is no {} here", program).hint("Submit on a machine that has Slurm");
  }
  const Path scripts = jobs_folder();
  const SweepOptions& options = sweep.file.sweep;
  if (options.launcher != "auto") {
    throw refusal("sweep.launcher = '{}' has no effect with submit", options.launcher)
        .because("TESSERA_LAUNCHER of jobs/site.sh takes its place")
        .hint("Leave it out");
  }
  if (options.limit > 0 && options.limit <= kWarning) {
    throw refusal("sweep.limit = {} is too short", format_seconds(options.limit))
        .because("Slurm warns a row {} s before it", kWarning)
        .use("a longer one");
  }
  const std::int64_t longest = longest_array();
  make_folder(folder.path());
  const RunLock lock(folder.path(), 0, sweep_lock());
  const std::int64_t chains = options.parallel > 0 ? options.parallel : options.exclusive ? 1 : 0;
  if (options.action != SweepAction::retry || chains > 0) require_none_queued(folder);
  folder.prepare(sweep.rows, Started::by_slurm);
  const bool has_gpus = built_with_cuda() && cluster_has_gpus();
  Arrays arrays;
  for (const SweepRow& row : sweep.chosen) {
    RowStatus status = folder.status(row);
    if (!status.may_start()) continue;
    const RowNeeds needs = needs_of(row, Site::elsewhere, row.ranks);
    if (!needs.misfit.empty()) {
      status.state = RowState::does_not_fit;
      status.message = needs.misfit;
      folder.write_status(row, status);
      say(fmt::format("{:<20} does-not-fit  {}", row.name, needs.misfit));
      continue;
    }
    const DeviceChoice device = row.options.run.device;
    const bool gpus = device ? traits_of(*device).is_accelerator : has_gpus;
    if (status.state == RowState::skipped || status.state == RowState::does_not_fit) {
      status.state = RowState::pending;
      folder.write_status(row, status);
    }
    const std::int64_t of_base = sweep.file.given.contains("sweep.node_ranks") ? 0 : row.options.grid.ranks_per_node;
    arrays[{row.ranks, gpus, of_base > 0 ? of_base : options.node_ranks}].push_back(row);
  }
  if (arrays.empty()) {
    say("nothing to submit: every row has ended (retry starts those that failed)");
    return 0;
  }
  for (const auto& [shape, rows] : arrays) {
    for (const SweepRow& row : rows) tokens_for(folder, row);  // once, before the jobs need it
  }
  Submission submission(sweep, folder, scripts);
  try {
    for (const Arrays& chain : chains > 0 ? chains_of(arrays, chains) : std::vector{arrays})
      submit_arrays(submission, chain, chains > 0, longest);
    say(fmt::format("job {}: the table, after them, into {}", submission.report(), folder.path().string()));
  } catch (...) {
    submission.cancel();
    throw;
  }
  return 0;
}

}  // namespace tessera
