#include "tessera/comm/world.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <optional>
#include <thread>

#include "comm/anonymous_memory.hpp"
#include "comm/mpi/check.hpp"
#include "comm/mpi/mpi_life.hpp"
#include "comm/mpi/mpi_transport.hpp"
#include "comm/mpi/node_layout.hpp"
#include "comm/mpi/process_memory.hpp"
#include "comm/mpi/watchdog.hpp"
#include "comm/mpi/world_notice.hpp"
#include "comm/wait.hpp"
#include "tessera/base/environment.hpp"
#include "tessera/base/log.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/comm/launcher.hpp"

namespace tessera {

namespace {

/// Reports why this rank cannot go on and takes all ranks down.
[[noreturn]] void abort_world(const Log& log, ExitCode code, const std::string& message) {
  log.error(message);
  MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
  std::_Exit(static_cast<int>(code));
}

}  // namespace

struct World::State {
  std::optional<MpiLife> mpi;  // first, so that it goes last
  NodeLayout layout;
  std::int64_t rank = 0, size = 1, ranks_per_node = 1;
  double limit_seconds = 0;  ///< of the start, and of the end
  std::string host = host_name();
  ProcessMemory memory;
  MpiComm notice_comm, finish_comm;
  std::unique_ptr<WorldNotice> notice;
  std::unique_ptr<Transport> transport;
  std::shared_ptr<PeerWaits> waits = std::make_shared<PeerWaits>();
  std::unique_ptr<ControlPlane> control;

  Log log() const { return {static_cast<int>(rank), static_cast<int>(size)}; }
  /// Finds the ranks and builds the parts that depend on the node's shape. Collective.
  void start();
  void shape(std::int64_t ranks_of_a_node);
  /// Runs work that must succeed on all ranks before there is a notice to raise. A failure takes the world down,
  /// because unwinding would wait in MPI_Finalize for ranks that wait for this one.
  template <class F>
  void or_abort(F&& work) const;
  std::shared_ptr<SharedMemory> share_notice_block();
};

namespace {

/// Returns the extra time before another rank reports the failure and aborts the job, in case the failed rank itself
/// hangs. Ranks come one after the other, so that one line is printed.
double patience_for_another(std::int64_t rank) {
  return 1 + 0.1 * static_cast<double>(std::min<std::int64_t>(rank, 100));
}

/// Time in seconds for a launcher to end the other ranks, by SIGKILL while MPI starts (SIGTERM is blocked there).
constexpr double kLaunchersKill = 5;

/// Reports which rank waits and for what. Rank 0 comes first, then one after the other, so that one line is printed.
Watchdog limited(std::int64_t rank, const std::string& host, const char* phase, double seconds) {
  const double later = rank == 0 ? 0 : kLaunchersKill + patience_for_another(rank);
  return Watchdog(fmt::format("rank {} on {}: not all ranks came through the {} of MPI within {} s (one of them hangs, "
                              "or its machine does)",
                              rank, host, phase, seconds),
                  seconds > 0 ? seconds + later : 0);
}

}  // namespace

World::World(int* argc, char*** argv, double limit_seconds) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.limit_seconds = limit_seconds;
  const Launch launch = confirmed_launch();
  require_process_manager(launch);
  prepare_environment(launch);
  const Watchdog watchdog = limited(launch.rank, s.host, "start", limit_seconds);
  s.mpi.emplace(argc, argv);
  s.or_abort([&] {
    s.start();
    require_all_seen(launch, s.size);
  });
}

World::~World() = default;

template <class F>
void World::State::or_abort(F&& work) const {
  try {
    work();
  } catch (...) {
    const Caught error = caught_error();
    abort_world(log(), error.code, error.what);
  }
}

void World::State::start() {
  layout = find_nodes(MPI_COMM_WORLD);
  rank = layout.world.rank();
  size = layout.world.size();
  finish_comm = duplicate(layout.world.get());
  shape(layout.ranks_per_node);
}

void World::State::shape(std::int64_t ranks_of_a_node) {
  ranks_per_node = ranks_of_a_node;
  control.reset(), transport.reset(), notice.reset();
  // Until the real notice exists, ranks talk under one that is never raised.
  notice = std::make_unique<WorldNotice>(std::make_shared<AnonymousMemory>(sizeof(NoticeBlock)), MPI_COMM_NULL,
                                         std::vector<int>{});
  notice_comm = duplicate(layout.world.get());
  auto block = share_notice_block();
  std::vector<int> remote;
  for (std::int64_t other = 0; other < size; ++other) {
    if (other / ranks_per_node != rank / ranks_per_node) remote.push_back(static_cast<int>(other));
  }
  notice = std::make_unique<WorldNotice>(std::move(block), notice_comm.get(), std::move(remote));
  transport = std::make_unique<MpiTransport>(duplicate(layout.world.get()), *notice);
  control = std::make_unique<ControlPlane>(*transport, *notice, waits);
  if (waits->hosts.empty()) waits->hosts = control->all_gather(host);
}

std::shared_ptr<SharedMemory> World::State::share_notice_block() {
  if (ranks_per_node == 1) return std::make_shared<AnonymousMemory>(sizeof(NoticeBlock));
  MpiTransport early(duplicate(layout.world.get()), *notice);
  const std::int64_t first = rank / ranks_per_node * ranks_per_node;
  std::vector<std::int64_t> members;
  for (std::int64_t i = 0; i < ranks_per_node; ++i) members.push_back(first + i);
  ControlPlane node = ControlPlane(early, *notice, waits).part(members);
  MemoryExchange::Offer offer;
  if (node.rank() == 0) offer = memory.create(sizeof(NoticeBlock));
  const std::string token = node.broadcast(offer.token);
  if (node.rank() != 0) offer.memory = memory.open(token, sizeof(NoticeBlock), true);
  node.barrier();
  return offer.memory;
}

void World::set_ranks_per_node(std::int64_t ranks) {
  State& s = *state_;
  if (ranks < 1 || s.size % ranks != 0) {
    throw refusal("grid.ranks_per_node = {} does not divide the world of {} ranks", ranks, s.size)
        .hint("Nodes must be of equal size");
  }
  const std::int64_t first = s.rank / ranks * ranks;
  const bool here = first >= s.layout.machine_first && first + ranks <= s.layout.machine_first + s.layout.machine_ranks;
  if (s.control->maximum(std::int64_t{here ? 0 : 1}) != 0) {
    throw refusal("grid.ranks_per_node = {} makes nodes out of ranks on different machines", ranks)
        .use("at most the {} ranks of a machine", s.layout.ranks_per_node);
  }
  if (ranks != s.ranks_per_node) s.or_abort([&] { s.shape(ranks); });
}

std::int64_t World::rank() const { return state_->rank; }
std::int64_t World::size() const { return state_->size; }
std::int64_t World::ranks_per_node() const { return state_->ranks_per_node; }
std::vector<std::int64_t> World::machine_members() const {
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(state_->layout.machine_ranks));
  std::iota(ranks.begin(), ranks.end(), state_->layout.machine_first);
  return ranks;
}
const std::string& World::host() const { return state_->host; }
ControlPlane& World::control() { return *state_->control; }
FailureNotice& World::notice() { return *state_->notice; }
MemoryExchange& World::memory() { return state_->memory; }

std::unique_ptr<Transport> World::open_transport(const std::vector<std::int64_t>& members) {
  state_->control->part(members).barrier();  // MPI waits without a limit, so all ranks must be there
  MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
  check_mpi(MPI_Comm_group(state_->layout.world.get(), &all), "MPI_Comm_group");
  const std::vector<int> ranks(members.begin(), members.end());
  const int taken = MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &some);
  MPI_Comm comm = MPI_COMM_NULL;
  const int made = taken == MPI_SUCCESS ? MPI_Comm_create_group(state_->layout.world.get(), some, 0, &comm) : taken;
  if (some != MPI_GROUP_NULL) MPI_Group_free(&some);
  MPI_Group_free(&all);
  check_mpi(made, "MPI_Comm_create_group");
  return std::make_unique<MpiTransport>(MpiComm(comm), *state_->notice);
}

int World::run(const std::function<int()>& body, double grace_seconds) {
  try {
    const int code = body();
    return finish(static_cast<ExitCode>(code), nullptr, grace_seconds);
  } catch (const PeerError& error) {
    return finish(error.code(), nullptr, grace_seconds);
  } catch (...) {
    const Caught error = caught_error();
    const Failure failure{state_->rank, error.code, error.what};
    return finish(error.code, &failure, grace_seconds);
  }
}

namespace {

/// The rank that reports for a failed world. First the rank that raised the notice, then others that failed too, then
/// those that only heard of it; among equals the lowest rank. Smaller is more important; kNobody when all went well.
constexpr std::int64_t kNobody = std::numeric_limits<std::int64_t>::max();

struct Speaker {
  std::int64_t order, rank;
  int code;
};

std::int64_t pack(const Speaker& speaker) { return (speaker.order << 40) | (speaker.rank << 8) | speaker.code; }
Speaker unpack(std::int64_t word) { return {word >> 40, (word >> 8) & 0xffffffff, static_cast<int>(word & 0xff)}; }

}  // namespace

int World::finish(ExitCode code, const Failure* failure, double grace_seconds) {
  State& s = *state_;
  const Log log = s.log();
  const Watchdog watchdog = limited(s.rank, s.host, "end", s.limit_seconds);
  if (failure) s.notice->raise(*failure);
  // The notice may have been raised by this rank's threads before its exception came here.
  const bool first = failure && s.notice->raised() && s.notice->failure().rank == s.rank;
  const bool well = !failure && !s.notice->raised();
  const int number = static_cast<int>(code);
  const std::int64_t mine = well ? kNobody : pack({first ? 0 : failure ? 1 : 2, s.rank, number});
  const std::array<std::int64_t, 2> given{mine, -static_cast<std::int64_t>(number)};
  std::array<std::int64_t, 2> least{};

  // A failure may still come during this wait, from a rank that is not here yet; from then on time is limited.
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallreduce(given.data(), least.data(), 2, MPI_INT64_T, MPI_MIN, s.finish_comm.get(), &request),
            "MPI_Iallreduce");
  std::optional<PeerDeadline> deadline;
  for (int done = 0; true; std::this_thread::sleep_for(std::chrono::microseconds(200))) {
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done) break;
    if (!deadline && s.notice->raised()) deadline.emplace(grace_seconds + (first ? 0 : patience_for_another(s.rank)));
    if (deadline && deadline->passed()) {
      const Failure known = s.notice->failure();
      abort_world(log, known.code,
                  first ? known.message : fmt::format("rank {} failed: {}", known.rank, known.message));
    }
  }
  const bool all_well = least[0] == kNobody;
  const Speaker speaker = unpack(least[0]);
  if (!all_well && speaker.rank == s.rank) log.error(failure ? failure->message : s.notice->failure().message);
  const int result = all_well ? static_cast<int>(-least[1]) : speaker.code;
  state_->control.reset(), state_->transport.reset();
  state_->notice_comm.abandon(), state_->finish_comm.abandon(), state_->layout.world.abandon();
  state_->mpi.reset();
  return result;
}

std::string mpi_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  // Open MPI counts the terminating zero.
  std::string version(text, static_cast<std::size_t>(length));
  version.resize(std::min({version.size(), version.find('\0'), version.find('\n')}));
  // MPICH writes its configuration into further lines, and a tab in front of its number.
  if (const std::size_t tab = version.find(":\t"); tab != std::string::npos) version.replace(tab, 2, " ");
  return version;
}

const char* mpi_of_srun() {
#ifdef MPICH_VERSION
  return "pmi2";
#else
  return "pmix";
#endif
}

}  // namespace tessera
