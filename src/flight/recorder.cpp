#include "tessera/flight/recorder.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/file_descriptor.hpp"
#include "tessera/files/process_owner.hpp"
#include "tessera/telemetry/step_times.hpp"

namespace tessera {

namespace {

/// A handler can only reach static storage.
std::atomic<FlightHeader*> g_header{nullptr};
static_assert(std::atomic<FlightHeader*>::is_always_lock_free);

constexpr std::array kFaults{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

extern "C" void note_fault(int number) {
  FlightRecorder::note_signal(number);
  ::signal(number, SIG_DFL);
  ::raise(number);
}

template <std::size_t N>
void put(std::array<char, N>& place, const std::string& text) {
  std::memcpy(place.data(), text.data(), std::min(text.size(), N - 1));
}

std::int64_t unix_nanoseconds() { return static_cast<std::int64_t>(unix_time() * 1e9); }

}  // namespace

FlightRecorder::FlightRecorder(const FlightFolder& folder, std::int64_t rank, std::int64_t world,
                               const std::string& start, std::uint64_t schedule,
                               std::span<const FlightOperation> operations)
    : folder_(folder),
      path_(folder.path / fmt::format("rank-{}", rank)),
      recent_(operations.size()),
      expected_(operations.size()) {
  const auto rings = static_cast<std::int64_t>(kFlightRings * kFlightRecords * sizeof(FlightRecord));
  const auto bytes = static_cast<std::int64_t>(sizeof(FlightHeader) + operations.size_bytes()) + rings;
  const auto check = [&](bool works, int why) {
    if (!works) throw IoError("{} cannot be written ({})", path_.string(), std::generic_category().message(why));
  };
  // A new file, because the old one may be mapped by a process that is about to end.
  ::unlink(path_.c_str());
  const FileDescriptor file(::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  check(static_cast<bool>(file), errno);
  // All of its space, because a full disk would end the process at a store.
  const int refused = ::posix_fallocate(file.get(), 0, bytes);
  check(refused == 0, refused);
  file_ = map_file(file.get(), bytes, true);
  check(static_cast<bool>(file_), errno);

  std::byte* const data = file_.get().data;
  header_ = new (data) FlightHeader();
  operations_ = reinterpret_cast<FlightOperation*>(data + sizeof(FlightHeader));
  records_ = reinterpret_cast<FlightRecord*>(operations_ + operations.size());
  std::copy(operations.begin(), operations.end(), operations_);
  const ProcessOwner me = ProcessOwner::me();
  FlightHeader& h = *header_;
  h.version = kFlightVersion;
  h.rank = static_cast<std::int32_t>(rank), h.world = static_cast<std::int32_t>(world);
  h.pid = static_cast<std::int32_t>(me.pid), h.pid_started = me.started;
  h.operations = static_cast<std::int64_t>(operations.size());
  h.schedule = schedule;
  h.started_unix = unix_nanoseconds();
  put(h.host, me.host), put(h.system, me.system), put(h.start, start);
  enter(FlightPhase::start);
  beat();
  std::atomic_ref(h.magic).store(kFlightMagic, std::memory_order_release);
  g_header.store(header_);
}

FlightRecorder::~FlightRecorder() {
  FlightHeader* mine = header_;
  g_header.compare_exchange_strong(mine, nullptr);
  if (folder_.is_node_local && get(header().end) == FlightEnd::finished) ::unlink(path_.c_str());
}

void FlightRecorder::enter(FlightPhase phase) {
  set(header().phase_since, steady_nanoseconds());
  set(header().phase, phase);
}

void FlightRecorder::beat() {
  set(header().heartbeat_unix, unix_nanoseconds());
  set(header().heartbeat, steady_nanoseconds());
}

void FlightRecorder::was_stopped(double seconds) {
  const std::int64_t now = steady_nanoseconds();
  set(header().stopped_from, now - static_cast<std::int64_t>(seconds * 1e9));
  set(header().stopped_until, now);
}

void FlightRecorder::finished() {
  beat();
  FlightEnd none = FlightEnd::none;
  std::atomic_ref(header().end).compare_exchange_strong(none, FlightEnd::finished);
}

void FlightRecorder::failed(const std::string& message, FlightEnd how) {
  if (get(header().end) != FlightEnd::none) return;
  beat();
  put(header().message, message);
  std::atomic_ref(header().end).store(how, std::memory_order_release);
}

void FlightRecorder::set_look(std::function<void()> look) {
  const std::lock_guard lock(look_mutex_);
  look_ = std::move(look);
}

void FlightRecorder::look() {
  const std::lock_guard lock(look_mutex_);
  if (look_) look_();
}

FlightRecord FlightRecorder::last(int stream) const {
  const std::uint64_t number = get(numbers_[static_cast<std::size_t>(stream)]);
  const FlightRecord& place = record_at(stream, number);
  FlightRecord record;
  if (number == 0 || std::atomic_ref(const_cast<std::uint64_t&>(place.number)).load() != number) return record;
  record = {number, get(place.begin), get(place.end), get(place.step), get(place.operation)};
  return get(place.number) == number ? record : FlightRecord();
}

void FlightRecorder::expect(std::span<const double> seconds) {
  for (std::size_t i = 0; i < std::min(seconds.size(), expected_.size()); ++i) set(expected_[i], seconds[i]);
}

double FlightRecorder::usual_seconds(std::int64_t operation) const {
  if (const double expected = get(expected_[static_cast<std::size_t>(operation)]); expected > 0) return expected;
  const Recent& recent = recent_[static_cast<std::size_t>(operation)];
  const auto count = std::min<std::uint64_t>(get(recent.count), recent.nanoseconds.size());
  if (count < 3) return 0;
  std::array<std::int64_t, 7> times{};
  for (std::size_t i = 0; i < count; ++i) times[i] = get(recent.nanoseconds[i]);
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(count / 2);
  std::nth_element(times.begin(), middle, times.begin() + static_cast<std::ptrdiff_t>(count));
  return static_cast<double>(*middle) / 1e9;
}

void FlightRecorder::note_signal(int number) {
  FlightHeader* const header = g_header.load();
  if (header != nullptr && get(header->signal) == 0) set(header->signal, static_cast<std::uint32_t>(number));
}

FaultMarks::FaultMarks() {
  for (const int number : kFaults) {
    struct sigaction before {};
    ::sigaction(number, nullptr, &before);
    if (before.sa_handler != SIG_DFL) continue;
    struct sigaction action {};
    action.sa_handler = note_fault;
    action.sa_flags = SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    ::sigaction(number, &action, nullptr);
  }
}

FaultMarks::~FaultMarks() {
  for (const int number : kFaults) {
    struct sigaction now {};
    ::sigaction(number, nullptr, &now);
    if (now.sa_handler == note_fault) ::signal(number, SIG_DFL);
  }
}

}  // namespace tessera
