#include "tessera/training/checkpoint_writer.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "tessera/base/clock.hpp"
#include "tessera/base/math.hpp"
#include "tessera/checkpoint/manifest.hpp"
#include "tessera/checkpoint/near.hpp"
#include "tessera/engine/peers.hpp"
#include "tessera/files/durable_file.hpp"
#include "tessera/run/folder.hpp"
#include "tessera/training/resume.hpp"
#include "training/checkpoint_slices.hpp"
#include "training/checkpoint_stream.hpp"
#include "training/step_samples.hpp"

namespace tessera {

namespace {

using Clock = std::chrono::steady_clock;

/// Returns how many consecutive ranks of a node share a writer. With 0 writers each rank writes.
std::int64_t ranks_per_writer(std::int64_t ranks_per_node, std::int64_t writers_per_node) {
  return writers_per_node <= 0 ? 1 : ceil_div(ranks_per_node, writers_per_node);
}

}  // namespace

/// The contents to write, fixed when the checkpoint begins.
struct CheckpointWriter::Job {
  std::int64_t step = 0;
  DataPosition data;
  OptimizerRecord optimizer;
  NamedLosses evaluation;
  StateView state;
  std::filesystem::path beside;
};

CheckpointWriter::CheckpointWriter(RankContext& context, TrainingSession& session, CheckpointSettings settings)
    : context_(context),
      session_(session),
      settings_(std::move(settings)),
      folder_(settings_.folder),
      judged_(folder_),
      near_(near_folder(settings_.options.keep_near, settings_.folder)),
      writes_near_(!near_.empty()),
      newest_(context.rank() == 0 && leaves_branch(folder_, settings_.options.resume, session.step())
                  ? 0
                  : session.step()) {
  // A process that was killed may have left files. By now all ranks have read their state.
  if (context.node_rank() == 0) prune_near(near_, session.step());
  std::vector<std::int64_t> world(static_cast<std::size_t>(context.size()));
  std::iota(world.begin(), world.end(), 0);
  transport_ = context.open_transport(world);
  auto waits = std::make_shared<PeerWaits>(context.control().waits());
  waits->phase = "a checkpoint was written";
  waits->seconds = settings_.options.timeout;
  waits->option = "checkpoint.timeout";
  plane_ = std::make_unique<ControlPlane>(*transport_, context.notice(), std::move(waits));
  const std::int64_t share = ranks_per_writer(context.ranks_per_node(), settings_.options.writers_per_node);
  const std::int64_t node_first = context.node() * context.ranks_per_node();
  writer_ = node_first + context.node_rank() / share * share;
  if (!session.schedule().snapshot.empty()) thread_ = std::make_unique<IoThread>();
  if (writer_ != context.rank()) return;
  const std::int64_t end = std::min(writer_ + share, node_first + context.ranks_per_node());
  for (std::int64_t rank = writer_; rank < end; ++rank) members_.push_back(rank);
}

CheckpointWriter::~CheckpointWriter() = default;

std::int64_t CheckpointWriter::bytes_to_write() const {
  std::int64_t bytes = 0;
  for (const StateKind kind : kinds_of(StateContent::full)) {
    const std::int64_t each = size_of(dtype_of(kind, session_.schedule().policy.moments));
    for (const std::int64_t rank : members_) {
      for (const OwnedRun& one : owned_runs(session_.schedule(), rank, kind)) bytes += one.run.count * each;
    }
  }
  return bytes;
}

CheckpointWriter::Job CheckpointWriter::make_job(const NamedLosses& evaluation) const {
  Job job;
  job.evaluation = evaluation;
  job.step = session_.step();
  job.data = session_.samples().position_after(session_.step());
  job.optimizer = session_.optimizer().record();
  job.state = thread_ != nullptr ? snapshot_view(session_.schedule(), session_.resources())
                                 : state_view(session_.schedule(), session_.resources());
  job.beside = folder_.beside(job.step);
  return job;
}

Manifest CheckpointWriter::manifest_of(const Job& job) const {
  const StepSchedule& schedule = session_.schedule();
  Manifest manifest;
  manifest.step = job.step;
  manifest.grid = {schedule.grid.world(), schedule.grid.size(Group::shard), schedule.grid.size(Group::replica),
                   schedule.grid.ranks_per_node(), std::string(name_of(schedule.policy.strategy))};
  manifest.architecture = schedule.model.architecture;
  manifest.tensors = state_records(schedule);
  manifest.updated_by = schedule.policy.optimizer;
  manifest.data = job.data;
  manifest.optimizer = job.optimizer;
  manifest.checked = bool(session_.schedule().reserved(Reserved::state_sums));
  manifest.evaluation = job.evaluation;
  manifest.options = settings_.all_options;
  manifest.provenance = settings_.provenance;
  return manifest;
}

/// Writes the file of this rank and of those that it writes for.
FileRecord CheckpointWriter::write_own_file(const Job& job) {
  std::vector<ElementRun> runs;
  std::array<std::vector<std::int64_t>, kStateKinds> counts;  // elements of each member, by kind
  for (const std::int64_t rank : members_) {
    for (const OwnedRun& one : owned_runs(session_.schedule(), rank)) runs.push_back(one.run);
    for (std::size_t kind = 0; kind < kStateKinds; ++kind) {
      std::int64_t count = 0;
      for (const OwnedRun& one : owned_runs(session_.schedule(), rank, static_cast<StateKind>(kind)))
        count += one.run.count;
      counts[kind].push_back(count);
    }
  }
  const StateReader mine(job.state, session_.schedule(), context_.rank());
  StreamReceiver others(*plane_, members_, counts);
  const ElementSource source = [&](StateKind kind, std::int64_t first, std::span<float> out) {
    context_.notice().check();  // an abandoned checkpoint is not finished
    // The members' elements are stored end to end, with this rank's own first.
    const std::int64_t all_own = counts[static_cast<std::size_t>(kind)][0];
    const std::int64_t own = std::clamp<std::int64_t>(all_own - first, 0, std::ssize(out));
    if (own > 0) mine.read(kind, first, out.first(static_cast<std::size_t>(own)));
    others.read(kind, first + own - all_own, out.subspan(static_cast<std::size_t>(own)));
  };
  const std::int64_t share = ranks_per_writer(context_.ranks_per_node(), settings_.options.writers_per_node);
  const std::int64_t writers_per_node = (context_.ranks_per_node() + share - 1) / share;
  const std::int64_t number = context_.node() * writers_per_node + context_.node_rank() / share;
  std::optional<NearFile> near;
  if (writes_near_) near.emplace(near_, job.step, shard_name(number));
  FileRecord record = write_shard(job.beside, number, state_records(session_.schedule()), runs, source, settings_.hdf5,
                                  settings_.options.direct, StateContent::full, near ? &*near : nullptr);
  if (near) near_failure_ = near->finish();
  return record;
}

/// Tells rank 0 of copies near that failed. The rank writes none any more: its next one would fail alike.
void CheckpointWriter::note_near_failures(std::vector<std::string>& notes) {
  if (!near_failure_.empty()) writes_near_ = false;
  for (const std::string& failure : plane_->gather(std::exchange(near_failure_, {}))) {
    if (!failure.empty())
      notes.push_back(fmt::format("{}: that rank keeps no copy near any more; the disk's is complete", failure));
  }
}

/// Writes all ranks' files, then, on rank 0, tensors.h5 and the manifest. Returns the bytes of all files.
std::int64_t CheckpointWriter::write_files(const Job& job) {
  std::string record;
  if (members_.empty()) {
    const StateReader mine(job.state, session_.schedule(), context_.rank());
    send_stream(*plane_, static_cast<int>(writer_), mine);
  } else {
    record = file_record_text(write_own_file(job));
  }
  const std::vector<std::string> records = plane_->gather(record);
  if (context_.rank() != 0) return 0;
  Manifest manifest = manifest_of(job);
  for (const std::string& one : records) {
    if (!one.empty()) manifest.files.push_back(parse_file_record(one));
  }
  if (settings_.options.tensors)
    manifest.files.push_back(write_virtual_tensors(job.beside, manifest.tensors, manifest.files, settings_.hdf5));
  write_text_atomically(job.beside / std::string(kManifestName), manifest_text(manifest));
  return std::accumulate(manifest.files.begin(), manifest.files.end(), std::int64_t{0},
                         [](std::int64_t sum, const FileRecord& file) { return sum + file.bytes; });
}

/// Publishes the folder and deletes old ones, on rank 0.
void CheckpointWriter::publish(const Job& job, std::vector<std::string>& notes) {
  if (settings_.before_publish) settings_.before_publish(job.step);
  notes.push_back(folder_.publish(job.step, newest_));
  newest_ = job.step;
  // The checkpoint is complete, so a failed deletion is not a reason to end the run.
  try {
    const CheckpointOptions& options = settings_.options;
    judged_.note(job.step, job.evaluation);
    const std::set<std::int64_t> best =
        options.keep_best > 0 ? judged_.kept(options.keep_best, job.step) : std::set<std::int64_t>{};
    for (std::string& line : folder_.prune(options.keep, options.keep_every, job.step, best))
      notes.push_back(std::move(line));
  } catch (const IoError& error) {
    notes.emplace_back(error.what());
  }
  std::erase_if(notes, [&](const std::string& line) { return line.empty() || !noted_.insert(line).second; });
}

std::int64_t CheckpointWriter::write_collectively(const Job& job, std::vector<std::string>& notes) {
  if (context_.rank() == 0) folder_.begin(job.step);
  plane_->barrier();
  const std::int64_t bytes = write_files(job);
  if (!near_.empty()) note_near_failures(notes);
  if (thread_ == nullptr) session_.check_state();  // after the last read: a bit may flip while it is written
  if (context_.rank() == 0) publish(job, notes);
  plane_->barrier();
  // Only now is the one before of no use.
  if (context_.node_rank() == 0) prune_near(near_, job.step);
  return bytes;
}

/// Runs on the thread that writes. The caller sorts the seconds into those that training waited for and the others.
CheckpointReport CheckpointWriter::run(const Job& job) {
  CheckpointReport report;
  report.step = job.step;
  report.folder = folder_.of_step(job.step);
  const auto remove_files = [&] {  // a checkpoint that is not published is useless and may fill the disk
    std::error_code ignored;
    if (context_.rank() == 0) std::filesystem::remove_all(job.beside, ignored);
  };
  try {
    report.bytes = write_collectively(job, report.notes);
  } catch (const CorruptionError&) {
    remove_files();
    throw;  // on all ranks alike
  } catch (...) {
    const bool is_first = !context_.notice().raised();
    tell_peers(context_);  // before the folder goes away, and at once: peers may go on with their steps for long
    remove_files();
    if (!is_first) context_.notice().check();  // later errors are consequences, such as a folder that is gone
    throw;
  }
  return report;
}

void CheckpointWriter::begin(const NamedLosses& evaluation) {
  const auto start = Clock::now();
  const bool has_to_wait = is_writing();
  session_.player().finish_step();
  wait();
  if (thread_ == nullptr) {
    CheckpointReport report = run(make_job(evaluation));
    report.blocked_seconds = seconds_since(start);
    reports_.push_back(std::move(report));
    return;
  }
  const double waited = has_to_wait ? seconds_since(start) : 0.0;
  session_.take_snapshot();
  session_.check_state();
  auto write = [this, job = make_job(evaluation), waited, blocked = seconds_since(start), copied = Clock::now()] {
    CheckpointReport report = run(job);
    report.blocked_seconds = blocked;
    report.waited_seconds = waited;
    report.background_seconds = seconds_since(copied);
    return report;
  };
  running_ = thread_->start(std::move(write), IoPriority::bulk);
}

bool CheckpointWriter::is_writing() const {
  return running_.valid() && running_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
}

std::optional<CheckpointReport> CheckpointWriter::finished() {
  if (!is_writing()) wait();
  if (reports_.empty()) return std::nullopt;
  CheckpointReport report = std::move(reports_.front());
  reports_.pop_front();
  return report;
}

void CheckpointWriter::wait() {
  if (running_.valid()) reports_.push_back(running_.get());
}

void CheckpointWriter::remove_near() const {
  if (context_.node_rank() == 0) prune_near(near_, -1);
}

CheckpointReport CheckpointWriter::write() {
  begin();
  wait();
  CheckpointReport report = std::move(reports_.back());
  reports_.pop_back();
  return report;
}

void CheckpointWriter::give_up() {
  try {
    throw;
  } catch (const PeerError&) {
    wait();
  } catch (...) {
    tell_peers(context_);
  }
}

}  // namespace tessera
