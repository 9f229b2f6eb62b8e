#pragma once
// The life of MPI in a process, and the common end of all ranks.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/comm/rank_context.hpp"

namespace tessera {

class World final : public RankContext {
 public:
  /// Starts MPI with MPI_THREAD_MULTIPLE (CommunicationError without it). Without a launcher this is a world of one;
  /// UsageError if MPI does not see a launcher's processes. A node's ranks become contiguous; nodes of unequal size
  /// count as nodes of their greatest common divisor. Collective. A rank that fails in here says why and ends the job
  /// (MPI_Abort). A rank has `limit_seconds` (0: no limit) for the start, and again for the end after run(). When it
  /// takes longer, it says so and ends with code 5, because MPI itself waits without a limit.
  World(int* argc, char*** argv, double limit_seconds = kLimitSeconds);
  /// Ends MPI if finish() has not.
  ~World() override;
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// Replaces nodes by nodes of `ranks` contiguous ranks (grid.ranks_per_node), to try node shapes on one machine.
  /// UsageError when `ranks` does not divide the world or a node would span machines. Collective; before communicators.
  /// A rank that fails while the nodes change says why and ends the job.
  void set_ranks_per_node(std::int64_t ranks);

  std::int64_t rank() const override;
  std::int64_t size() const override;
  std::int64_t ranks_per_node() const override;
  /// Returns the ranks on this machine, in order. They form several nodes if machines are of unequal size or
  /// set_ranks_per_node made nodes smaller.
  std::vector<std::int64_t> machine_members() const;
  const std::string& host() const override;
  ControlPlane& control() override;
  FailureNotice& notice() override;
  MemoryExchange& memory() override;
  std::unique_ptr<Transport> open_transport(const std::vector<std::int64_t>& members) override;

  /// Runs `body` and ends the world. Returns the exit code, the same on every rank: the failed rank's, else the largest
  /// that `body` returned. An exception of `body` frees the other ranks from their waits; one rank prints its message.
  /// If a rank has not ended `grace_seconds` after a failure was known, the failed rank prints its message and aborts
  /// all (MPI_Abort). If the failed rank itself hangs, another aborts a second later. All ranks reach the end of `body`
  /// at about the same time (a barrier of the control plane): the limit above holds from there on.
  int run(const std::function<int()>& body, double grace_seconds = kGraceSeconds);

  /// Far more than MPI takes to start or to end.
  static constexpr double kLimitSeconds = 300;

  /// Enough for a rank to leave its current operation and to close its files.
  static constexpr double kGraceSeconds = 10;

 private:
  struct State;
  int finish(ExitCode code, const Failure* failure, double grace_seconds);
  std::unique_ptr<State> state_;
};

/// Returns the version of the MPI library: "Open MPI v4.1.4, ...".
std::string mpi_version();

}  // namespace tessera
