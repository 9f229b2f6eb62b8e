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

/// Returns the name after the last one, so that files stay in the order of starts.
std::filesystem::path next_name(const std::filesystem::path& folder) {
  const std::vector<std::int64_t> numbers = metrics_files(folder);
  return metrics_path(folder, numbers.empty() ? 0 : numbers.back() + 1);
}

}  // namespace

struct MetricsFile::State {
  // Written before any task is posted, read by both sides.
  std::filesystem::path path;
  std::filesystem::path
      unfinished;  // path + ".tmp": a file that readers cannot open does not get the name that they know
  MetricsLayout layout;
  bool closed = false;  // only on the caller's side

  // Shared by the caller and the I/O thread.
  std::mutex mutex;
  MetricsRows waiting;
  std::size_t waiting_rows = 0;                      // at most so many
  bool write_posted = false, write_planned = false;  // a task that writes is queued, is planned for later
  std::exception_ptr error;
  std::int64_t last_step = -1;  // of the rows appended
  bool is_given_up = false;     // there was an error: appended rows are dropped

  // Only for the I/O thread.
  std::optional<MetricsTables> tables;

  void rethrow_error() {
    const std::lock_guard lock(mutex);
    if (error) std::rethrow_exception(std::exchange(error, nullptr));
  }
  void create();
  void write_pending();
  void make_durable();
  void close();
  template <class F>
  void or_give_up(F&& f);
};

/// Creates the file; on the I/O thread, like everything below. A file gets its name as soon as readers can open it.
void MetricsFile::State::create() {
  tables.emplace(unfinished, layout);
  layout.schedule = std::string();  // may be megabytes, and is not needed any more
  if (layout.swmr) rename_durably(unfinished, path);
}

/// Moves out the waiting rows and writes them.
void MetricsFile::State::write_pending() {
  MetricsRows rows;
  {
    const std::lock_guard lock(mutex);
    rows = std::exchange(waiting, {});
    waiting_rows = 0;
    write_posted = write_planned = false;
  }
  if (tables) tables->write(rows);
}

void MetricsFile::State::make_durable() {
  write_pending();
  if (!tables) return;
  if (layout.swmr) {
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
  if (!layout.swmr) rename_durably(unfinished, path);
}

/// After an error the file is abandoned: later rows are dropped, and unread ones are freed.
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
  state_->layout = std::move(layout);
  io_->run([&] { state_->or_give_up([&] { state_->create(); }); });
  state_->rethrow_error();
}

MetricsFile::~MetricsFile() {
  try {
    close();
  } catch (...) {
    // A destructor cannot report errors; close() exists for that.
  }
}

const std::filesystem::path& MetricsFile::path() const { return state_->path; }

/// Adds under the lock, then makes sure that the row reaches the file: at once if many wait, otherwise after a delay.
template <class Add>
void MetricsFile::queue(Add&& add) {
  TESSERA_ASSERT(!state_->closed, "{} is closed", state_->path.string());
  state_->rethrow_error();
  bool post = false, plan = false, overfull = false;
  {
    const std::lock_guard lock(state_->mutex);
    add(*state_);
    const std::size_t waiting = ++state_->waiting_rows;
    post = waiting >= state_->layout.flush_rows && !std::exchange(state_->write_posted, true);
    plan = !state_->write_posted && !std::exchange(state_->write_planned, true);
    overfull = waiting >= kMostFlushesWaiting * state_->layout.flush_rows;
  }
  const auto task = [state = state_] { state->or_give_up([&] { state->write_pending(); }); };
  if (post) io_->post(IoPriority::rows, task);
  if (plan) io_->post_after(state_->layout.flush_after, task);
  if (overfull) flush();  // the disk does not keep up: wait rather than fill the memory
}

void MetricsFile::append(std::size_t table, MetricsRow row) {
  const std::size_t values = values_in_row(state_->layout.tables.at(table));
  TESSERA_ASSERT(row.values.size() == values, "a row has {} values, table {} of the metrics file {}", row.values.size(),
                 table, values);
  queue([&](State& state) {
    if (table == 0) state.last_step = static_cast<std::int64_t>(row.values.at(0));
    state.waiting.tables.resize(std::max(state.waiting.tables.size(), table + 1));
    state.waiting.tables[table].push_back(std::move(row));
  });
}

void MetricsFile::set_process_memory(std::vector<std::int64_t> bytes) {
  const std::size_t ranks = state_->layout.memory.at(0).bytes.size();
  TESSERA_ASSERT(bytes.size() == ranks, "{} ranks measured memory, the metrics file has {}", bytes.size(), ranks);
  queue([&](State& state) { state.waiting.process_memory = std::move(bytes); });
}

void MetricsFile::set_number(const std::string& name, double value) {
  const bool known = std::ranges::any_of(state_->layout.attributes, [&](const AttributeGroup& group) {
    return group.path == "provenance" && std::ranges::any_of(group.values, [&](const auto& one) {
             return one.first == name && std::holds_alternative<double>(one.second);
           });
  });
  TESSERA_ASSERT(known, "attribute {} was not announced", name);
  queue([&](State& state) { state.waiting.numbers.emplace_back(name, value); });
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
