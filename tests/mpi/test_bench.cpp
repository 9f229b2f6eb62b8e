// MPI's collectives as communicators, and the table that compares Tessera's with them. No time is asserted.

#include "bench/tables.hpp"
#include "mpi_world.hpp"
#include "tessera/comm/mpi_communicator.hpp"

using namespace tessera;
using test::world;

TEST_CASE("MPI's own collectives give the sums and the order of the world") {
  const auto mpi = make_mpi_communicator(world());
  const auto stream = make_serial_stream("test");
  const std::int64_t ranks = world().size(), rank = world().rank();
  REQUIRE_ALL(mpi->rank() == rank && mpi->size() == ranks);
  std::vector<float> all(static_cast<std::size_t>(3 * ranks), -1), shard(3);
  for (std::int64_t i = 0; i < 3; ++i) all[static_cast<std::size_t>(rank * 3 + i)] = static_cast<float>(10 * rank + i);
  mpi->all_gather(*stream, all.data(), 3, DType::fp32);
  bool right = true;
  for (std::int64_t i = 0; i < 3 * ranks; ++i) {
    right = right && all[static_cast<std::size_t>(i)] == static_cast<float>(10 * (i / 3) + i % 3);
  }
  mpi->reduce_scatter(*stream, all.data(), DType::fp32, shard.data(), DType::fp32, 3);
  for (std::int64_t i = 0; i < 3; ++i) {
    right = right && shard[static_cast<std::size_t>(i)] == static_cast<float>(ranks * (10 * rank + i));
  }
  std::int64_t sum = rank + 1;
  mpi->all_reduce(*stream, &sum, 1, Reduction::sum);
  double number = rank == ranks - 1 ? 0.5 : 0;
  mpi->broadcast(*stream, &number, sizeof number, static_cast<int>(ranks) - 1);
  mpi->barrier(*stream);
  REQUIRE_ALL(right && sum == ranks * (ranks + 1) / 2 && number == 0.5);
  REQUIRE_ALL(mpi->count(Collective::all_gather).bytes == (ranks - 1) * 12);
  CHECK_THROWS_AS(mpi->all_gather(*stream, all.data(), 1, DType::bf16), CommunicationError);
  CHECK_THROWS_AS(mpi->all_gather(*stream, all.data(), std::int64_t{1} << 31, DType::fp32), CommunicationError);
}

TEST_CASE("bench comm over MPI") {
  if (world().size() == 1) return;
  Options options;
  options.run.threads = 1;
  options.bench.steps = 2, options.bench.warmup = 1, options.bench.max_bytes = 4096;
  MachineShape machine;
  machine.machine_ranks = static_cast<int>(world().size());
  const auto mpi = make_mpi_communicator(world());
  const std::string table = comm_table(world(), options, machine, *mpi).text;
  std::int64_t lines = 0;
  for (const char c : table) lines += c == '\n' ? 1 : 0;
  INFO(table);
  REQUIRE_ALL(lines == 3 + 3 * 2 * 3);  // head; collectives, sizes, communicators
  REQUIRE_ALL(table.find("nan") == std::string::npos && table.find("inf") == std::string::npos);
}
