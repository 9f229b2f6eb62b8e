#include "tessera/comm/mpi_communicator.hpp"

#include <chrono>
#include <limits>
#include <vector>

#include "comm/collective_call.hpp"
#include "comm/mpi/check.hpp"

namespace tessera {

namespace {

MPI_Datatype mpi_type(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return MPI_FLOAT;
    case DType::int64:
      return MPI_INT64_T;
    default:
      throw CommunicationError("{} has no MPI type. Use fp32 or int64.", name_of(dtype));
  }
}

int mpi_count(std::int64_t elements) {
  if (elements > std::numeric_limits<int>::max()) {
    throw CommunicationError("a collective of {} elements is too large, because MPI counts in int. Use at most {}.",
                             elements, std::numeric_limits<int>::max());
  }
  return static_cast<int>(elements);
}

/// Makes a communicator of all processes in the world's order.
MpiComm all_ranks(const World& world) {
  MPI_Comm comm = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(MPI_COMM_WORLD, 0, static_cast<int>(world.rank()), &comm), "MPI_Comm_split");
  return MpiComm(comm);
}

class MpiCommunicator final : public CountingCommunicator {
 public:
  explicit MpiCommunicator(const World& world) : comm_(all_ranks(world)), rank_(comm_.rank()), size_(comm_.size()) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void run(Stream&, const CollectiveCall& call) override {
    const auto start = std::chrono::steady_clock::now();
    perform(call);
    add(call, std::chrono::steady_clock::now() - start);
  }

 private:
  void perform(const CollectiveCall& call) {
    MPI_Comm comm = comm_.get();
    switch (call.collective) {
      case Collective::all_gather:
        return check_mpi(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, call.to, mpi_count(call.elements),
                                       mpi_type(call.wire), comm),
                         "MPI_Allgather");
      case Collective::reduce_scatter:
        return reduce_scatter(call);
      case Collective::all_reduce:
        return check_mpi(MPI_Allreduce(MPI_IN_PLACE, call.to, mpi_count(call.elements), MPI_INT64_T,
                                       call.reduction() == Reduction::max ? MPI_MAX : MPI_SUM, comm),
                         "MPI_Allreduce");
      case Collective::broadcast:
        return check_mpi(MPI_Bcast(call.to, mpi_count(call.elements), MPI_BYTE, call.root(), comm), "MPI_Bcast");
      case Collective::exchange:
        return exchange(call);
      case Collective::barrier:
        return check_mpi(MPI_Barrier(comm), "MPI_Barrier");
    }
  }

  void reduce_scatter(const CollectiveCall& call) {
    if (call.wire != call.result) {
      throw CommunicationError(
          "reduce_scatter of {} into {} does not work, because MPI reduces in one type. Use the same type for both.",
          name_of(call.wire), name_of(call.result));
    }
    check_mpi(MPI_Reduce_scatter_block(call.from, call.to, mpi_count(call.elements), mpi_type(call.wire), MPI_SUM,
                                       comm_.get()),
              "MPI_Reduce_scatter_block");
  }

  void exchange(const CollectiveCall& call) {
    std::vector<MPI_Request> requests;
    for (const ExchangeRun& run : call.runs) {
      const int count = mpi_count(run.elements);
      if (run.receiver == rank_) {
        check_mpi(MPI_Irecv(call.target_of(run), count, mpi_type(call.wire), static_cast<int>(run.sender), 0,
                            comm_.get(), &requests.emplace_back()),
                  "MPI_Irecv");
      }
      if (run.sender == rank_) {
        check_mpi(MPI_Isend(call.source_of(run), count, mpi_type(call.wire), static_cast<int>(run.receiver), 0,
                            comm_.get(), &requests.emplace_back()),
                  "MPI_Isend");
      }
    }
    check_mpi(MPI_Waitall(mpi_count(std::ssize(requests)), requests.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
  }

  MpiComm comm_;
  int rank_, size_;
};

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(World& world) { return std::make_unique<MpiCommunicator>(world); }

}  // namespace tessera
