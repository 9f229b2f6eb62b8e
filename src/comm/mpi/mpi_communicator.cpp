#include "tessera/comm/mpi_communicator.hpp"

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

class MpiCommunicator final : public Communicator {
 public:
  explicit MpiCommunicator(const World& world) : comm_(all_ranks(world)), rank_(comm_.rank()), size_(comm_.size()) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void all_gather(Stream&, void* whole, std::int64_t elements_per_rank, DType dtype) override {
    const CountedCall counted = call(Collective::all_gather, elements_per_rank, dtype);
    check_mpi(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, whole, mpi_count(elements_per_rank), mpi_type(dtype),
                            comm_.get()),
              "MPI_Allgather");
  }

  void reduce_scatter(Stream&, const void* contribution, DType wire_dtype, void* shard, DType shard_dtype,
                      std::int64_t elements_per_rank) override {
    if (wire_dtype != shard_dtype) {
      throw CommunicationError(
          "reduce_scatter of {} into {} does not work, because MPI reduces in one type. Use the same type for both.",
          name_of(wire_dtype), name_of(shard_dtype));
    }
    const CountedCall counted = call(Collective::reduce_scatter, elements_per_rank, wire_dtype);
    check_mpi(MPI_Reduce_scatter_block(contribution, shard, mpi_count(elements_per_rank), mpi_type(wire_dtype), MPI_SUM,
                                       comm_.get()),
              "MPI_Reduce_scatter_block");
  }

  void all_reduce(Stream&, std::int64_t* values, std::int64_t count, Reduction reduction) override {
    const CountedCall counted = call(Collective::all_reduce, count, DType::int64);
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, values, mpi_count(count), MPI_INT64_T,
                            reduction == Reduction::max ? MPI_MAX : MPI_SUM, comm_.get()),
              "MPI_Allreduce");
  }

  void broadcast(Stream&, void* data, std::int64_t bytes, int root) override {
    const CountedCall counted = call(Collective::broadcast, bytes, DType::byte);
    check_mpi(MPI_Bcast(data, mpi_count(bytes), MPI_BYTE, root, comm_.get()), "MPI_Bcast");
  }

  void exchange(Stream&, const void* sent, void* received, std::span<const ExchangeRun> runs, DType dtype) override {
    const CountedCall counted(counters_, Collective::exchange, bytes_sent(runs, dtype));
    std::vector<MPI_Request> requests;
    for (const ExchangeRun& run : runs) {
      const int count = mpi_count(run.elements);
      if (run.receiver == rank_) {
        check_mpi(MPI_Irecv(target_of(run, received, dtype), count, mpi_type(dtype), static_cast<int>(run.sender), 0,
                            comm_.get(), &requests.emplace_back()),
                  "MPI_Irecv");
      }
      if (run.sender == rank_) {
        check_mpi(MPI_Isend(source_of(run, sent, dtype), count, mpi_type(dtype), static_cast<int>(run.receiver), 0,
                            comm_.get(), &requests.emplace_back()),
                  "MPI_Isend");
      }
    }
    check_mpi(MPI_Waitall(mpi_count(std::ssize(requests)), requests.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
  }

  void barrier(Stream&) override { check_mpi(MPI_Barrier(comm_.get()), "MPI_Barrier"); }

  CommunicationCount count(Collective collective) const override { return counters_.get(collective); }

 private:
  CountedCall call(Collective collective, std::int64_t elements, DType dtype) {
    return {counters_, collective, bytes_sent(collective, size_, elements, dtype)};
  }

  MpiComm comm_;
  int rank_, size_;
  CallCounters counters_;
};

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(World& world) { return std::make_unique<MpiCommunicator>(world); }

}  // namespace tessera
