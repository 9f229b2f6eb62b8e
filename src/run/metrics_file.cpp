#include "tessera/run/metrics_file.hpp"

#include <algorithm>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>

#include "run/metrics_tables.hpp"
#include "tessera/base/error.hpp"
#include "tessera/files/durable_file.hpp"
#include "tessera/run/metrics_history.hpp"

namespace tessera {

namespace {

constexpr std::size_t kMostFlushesWaiting = 64;

/// Returns the name after the last one: files stay in the order of starts.
std::filesystem::path next_name(const std::filesystem::path& folder) {
  const std::vector<std::int64_t> numbers = metrics_files(folder);
  return metrics_path(folder, numbers.empty() ? 0 : numbers.back() + 1);
}

}  // namespace

struct MetricsFile::State {
  // Written before any task is posted, read by both sides.
  std::filesystem::path path;
  std::filesystem::path
      unfinished;  // path + ".tmp": a file that readers cannot open does not have the name that they know
  bool swmr = true;
  std::size_t flush_rows = 0;
  std::chrono::milliseconds flush_after{0};
  std::size_t step_times = 0, rank_times = 0, eval_sets = 1;
  std::vector<std::pair<std::string, std::size_t>> memory;  // category, ranks
  std::vector<std::string> number_names;
  bool device = false, has_samples = false;
  bool closed = false;  // the caller's side only

  // Between the caller and the I/O thread.
  std::mutex mutex;
  std::vector<StepRow> steps;
  std::vector<EvalRow> evals;
  std::vector<SampleRow> samples;
  std::vector<CheckpointRow> checkpoints;
  std::vector<DeviceRow> devices;
  std::vector<RankRow> ranks;
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> measured;
  std::vector<std::pair<std::string, double>> numbers;
  bool write_posted = false, write_planned = false;  // a task that writes is queued, is planned for later
  std::exception_ptr error;
  std::int64_t last_step = -1;  // of the rows appended
  bool is_given_up = false;     // an error came: appended rows are dropped

  // The I/O thread only.
  std::optional<MetricsTables> tables;

  void rethrow_error() {
    const std::lock_guard lock(mutex);
    if (error) std::rethrow_exception(std::exchange(error, nullptr));
  }
  void create(const MetricsLayout& layout);
  void write_pending();
  void make_durable();
  void close();
  template <class F>
  void or_give_up(F&& f);
};

/// Creates the file; on the I/O thread, as all below. A file has its name as soon as readers can open it.
void MetricsFile::State::create(const MetricsLayout& layout) {
  tables.emplace(unfinished, layout);
  if (swmr) rename_durably(unfinished, path);
}

/// Moves out the waiting rows and writes them.
void MetricsFile::State::write_pending() {
  decltype(steps) new_steps;
  decltype(evals) new_evals;
  decltype(samples) new_samples;
  decltype(checkpoints) new_checkpoints;
  decltype(devices) new_devices;
  decltype(ranks) new_ranks;
  decltype(measured) new_measured;
  decltype(numbers) new_numbers;
  {
    const std::lock_guard lock(mutex);
    new_steps.swap(steps);
    new_evals.swap(evals);
    new_samples.swap(samples);
    new_checkpoints.swap(checkpoints);
    new_devices.swap(devices);
    new_ranks.swap(ranks);
    new_measured.swap(measured);
    new_numbers.swap(numbers);
    write_posted = write_planned = false;
  }
  if (!tables) return;
  const bool no_rows = new_steps.empty() && new_evals.empty() && new_checkpoints.empty() && new_devices.empty();
  if (no_rows && new_samples.empty() && new_ranks.empty() && new_measured.empty() && new_numbers.empty()) return;
  tables->write_steps(new_steps);
  tables->write_evals(new_evals);
  tables->write_samples(new_samples);
  tables->write_checkpoints(new_checkpoints);
  tables->write_device(new_devices);
  tables->write_ranks(new_ranks);
  for (const auto& [category, bytes] : new_measured) tables->write_measured_memory(category, bytes);
  for (const auto& [name, value] : new_numbers) tables->write_number(name, value);
  tables->flush();
}

void MetricsFile::State::make_durable() {
  write_pending();
  if (!tables) return;
  if (swmr) {
    sync_file(path);
  } else {
    tables->flush_file();
    copy_durably(unfinished, path);
  }
}

void MetricsFile::State::close() {
  write_pending();
  if (!tables) return;
  tables->close();
  tables.reset();
  if (!swmr) rename_durably(unfinished, path);
}

/// After an error the file is given up: later rows are dropped, and unread ones are freed.
template <class F>
void MetricsFile::State::or_give_up(F&& f) {
  try {
    f();
  } catch (...) {
    tables.reset();
    std::error_code ignored;
    std::filesystem::remove(unfinished, ignored);
    const std::lock_guard lock(mutex);
    is_given_up = true;
    if (!error) error = std::current_exception();
  }
}

MetricsFile::MetricsFile(IoThread& io, const std::filesystem::path& folder, MetricsLayout layout)
    : io_(&io), state_(std::make_shared<State>()) {
  TESSERA_ASSERT(layout.flush_rows > 0, "a metrics file flushes after at least one row");
  state_->path = next_name(folder);
  state_->unfinished = state_->path.string() + ".tmp";
  state_->swmr = layout.swmr;
  state_->flush_rows = layout.flush_rows;
  state_->flush_after = layout.flush_after;
  state_->step_times = layout.step_times.size();
  state_->rank_times = layout.rank_times.size();
  state_->eval_sets = std::max<std::size_t>(1, layout.eval_sets.size());
  state_->device = layout.device;
  state_->has_samples = layout.sample_bytes > 0;
  for (const PlannedMemory& memory : layout.memory) state_->memory.emplace_back(memory.category, memory.bytes.size());
  for (const auto& [name, value] : layout.numbers) state_->number_names.push_back(name);
  io_->run([&] { state_->or_give_up([&] { state_->create(layout); }); });
  state_->rethrow_error();
}

MetricsFile::~MetricsFile() {
  try {
    close();
  } catch (...) {
    // A destructor cannot report; close() is there for that.
  }
}

const std::filesystem::path& MetricsFile::path() const { return state_->path; }

/// Adds under the lock, then makes sure that the row reaches the file: at once when many wait, after a delay otherwise.
template <class Add>
void MetricsFile::queue(Add&& add) {
  TESSERA_ASSERT(!state_->closed, "{} is closed", state_->path.string());
  state_->rethrow_error();
  bool post = false, plan = false, overfull = false;
  {
    const std::lock_guard lock(state_->mutex);
    add(*state_);
    const std::size_t waiting =
        state_->steps.size() + state_->evals.size() + state_->devices.size() + state_->ranks.size();
    post = waiting >= state_->flush_rows && !std::exchange(state_->write_posted, true);
    plan = !state_->write_posted && !std::exchange(state_->write_planned, true);
    overfull = waiting >= kMostFlushesWaiting * state_->flush_rows;
  }
  const auto task = [state = state_] { state->or_give_up([&] { state->write_pending(); }); };
  if (post) io_->post(IoPriority::rows, task);
  if (plan) io_->post_after(state_->flush_after, task);
  if (overfull) flush();  // the disk does not keep up: wait rather than fill the memory
}

void MetricsFile::append_step(StepRow row) {
  TESSERA_ASSERT(row.times.size() == state_->step_times, "a step has {} times, the metrics file {}", row.times.size(),
                 state_->step_times);
  queue([&](State& state) {
    state.last_step = row.step;
    state.steps.push_back(std::move(row));
  });
}

void MetricsFile::append_eval(EvalRow row) {
  TESSERA_ASSERT(row.losses.size() == state_->eval_sets, "an evaluation has {} sets, the metrics file {}",
                 row.losses.size(), state_->eval_sets);
  queue([&](State& state) { state.evals.push_back(std::move(row)); });
}

void MetricsFile::append_sample(std::int64_t step, std::string text) {
  TESSERA_ASSERT(state_->has_samples, "{} has no /samples", state_->path.string());
  queue([&](State& state) { state.samples.push_back({step, std::move(text)}); });
}

void MetricsFile::append_checkpoint(CheckpointRow row) {
  queue([&](State& state) { state.checkpoints.push_back(row); });
}

void MetricsFile::append_device(const DeviceRow& row) {
  TESSERA_ASSERT(state_->device, "{} has no /device", state_->path.string());
  queue([&](State& state) { state.devices.push_back(row); });
}

void MetricsFile::append_ranks(RankRow row) {
  const std::size_t ranks = state_->memory.empty() ? 0 : state_->memory.front().second;
  TESSERA_ASSERT(row.ranks.size() == ranks, "a report has {} ranks, the metrics file {}", row.ranks.size(), ranks);
  for (const RankValues& rank : row.ranks) {
    TESSERA_ASSERT(rank.times.size() == state_->rank_times && rank.measured.size() == state_->memory.size(),
                   "a rank has {} times and {} kinds of memory, the metrics file {} and {}", rank.times.size(),
                   rank.measured.size(), state_->rank_times, state_->memory.size());
  }
  queue([&](State& state) { state.ranks.push_back(std::move(row)); });
}

void MetricsFile::set_measured_memory(const std::string& category, std::vector<std::int64_t> bytes) {
  bool known = false;
  for (const auto& [name, ranks] : state_->memory) known = known || (name == category && ranks == bytes.size());
  TESSERA_ASSERT(known, "memory category {} with {} ranks was not announced", category, bytes.size());
  queue([&](State& state) { state.measured.emplace_back(category, std::move(bytes)); });
}

void MetricsFile::set_number(const std::string& name, double value) {
  const bool known = std::ranges::find(state_->number_names, name) != state_->number_names.end();
  TESSERA_ASSERT(known, "attribute {} was not announced", name);
  queue([&](State& state) { state.numbers.emplace_back(name, value); });
}

void MetricsFile::flush() {
  TESSERA_ASSERT(!state_->closed, "{} is closed", state_->path.string());
  io_->run([state = state_] { state->or_give_up([&] { state->write_pending(); }); });
  state_->rethrow_error();
}

void MetricsFile::make_durable(std::int64_t step) {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->is_given_up) return;
    TESSERA_ASSERT(state_->last_step >= step, "the row of step {} comes before its checkpoint (the last is {})", step,
                   state_->last_step);
  }
  io_->run([state = state_] { state->or_give_up([&] { state->make_durable(); }); });
}

void MetricsFile::close() {
  if (std::exchange(state_->closed, true)) return;
  io_->run([state = state_] { state->or_give_up([&] { state->close(); }); });
  state_->rethrow_error();
}

}  // namespace tessera
