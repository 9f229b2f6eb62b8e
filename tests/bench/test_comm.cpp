// The table of `bench comm`, over ranks as threads; tests/mpi has it over MPI. No time is asserted.

#include <catch2/catch.hpp>

#include "bench/bench_options.hpp"
#include "bench/collective_times.hpp"
#include "bench/tables.hpp"
#include "comm/collective_call.hpp"
#include "local_world/local_world.hpp"
#include "tessera/base/quantile.hpp"
#include "tessera/comm/make_communicator.hpp"

using namespace tessera;
using namespace tessera::test;

namespace {

/// Passes everything on, but the result of a collective is wrong in one place.
class Wrong final : public Communicator {
 public:
  Wrong(Communicator& inner, Collective collective) : inner_(inner), collective_(collective) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void run(Stream& stream, const CollectiveCall& call) override {
    inner_.run(stream, call);
    if (call.collective != collective_) return;
    const std::int64_t at = collective_ == Collective::all_gather ? call.elements * size() - 1 : call.elements / 2;
    if (collective_ == Collective::all_reduce) {
      static_cast<std::int64_t*>(call.to)[0] += 1;
    } else {
      static_cast<float*>(call.to)[at] += 1;
    }
  }
  CommunicationCount count(Collective collective) const override { return inner_.count(collective); }

 private:
  Communicator& inner_;
  Collective collective_;
};

/// A communicator over messages, which takes buffers anywhere: stands in for MPI's.
std::unique_ptr<Communicator> over_messages(RankContext& context, const SharedRegion& region) {
  CommunicatorOptions options;
  options.force_pairwise = true;
  const ProcessGrid grid(context.size(), context.ranks_per_node(), context.size());
  return make_communicator(context, grid, Group::world, region, "reference", options);
}

}  // namespace

TEST_CASE("median of measurements") {
  CHECK(median({3}) == 3);
  CHECK(median({5, 1, 9}) == 5);
  CHECK(median({8, 1, 2, 4}) == 3);
}

TEST_CASE("sizes of collectives") {
  const auto cases = collective_cases(3, message_sizes(5000));
  REQUIRE(cases.size() == 6);  // 1 KiB and 4 KiB of three collectives
  CHECK(cases[0].elements == 85);
  CHECK(cases[0].bytes == 85 * 3 * 4);
  CHECK(cases[5].collective == Collective::all_reduce);
  CHECK(cases[5].elements == 512);
  CHECK(cases[5].bytes == 4096);
  CHECK(buffer_bytes(cases) == 4096);
  CHECK(collective_cases(1000, {1024})[0].elements == 1);  // never nothing
  CHECK(collective_cases(2, message_sizes(std::int64_t{1} << 62)).size() == 3 * 27);
  CHECK_THROWS_AS(message_sizes(1023), UsageError);
}

TEST_CASE("bus bandwidth in nccl-tests' sense") {
  CHECK(bus_factor(Collective::all_gather, 4) == 0.75);
  CHECK(bus_factor(Collective::reduce_scatter, 2) == 0.5);
  CHECK(bus_factor(Collective::all_reduce, 4) == 1.5);
  CHECK(bus_factor(Collective::broadcast, 4) == 1);
}

TEST_CASE("bandwidths by hand") {
  // 8 MB in 2 ms are 4 GB/s. Of 8 ranks each sends 7/8 of the buffer; for an all-reduce twice that; a broadcast's root
  // all of it. An all-gather of 1 MB per rank has a full buffer of 8 MB.
  constexpr std::int64_t kBytes = 8'000'000;
  const auto speed = [](Collective collective, std::int64_t elements) {
    return bandwidths({collective, elements, kBytes}, 8, 0.002);
  };
  for (const Collective collective : {Collective::all_gather, Collective::reduce_scatter}) {
    CHECK(speed(collective, 250'000).algorithm == Approx(4e9));
    CHECK(speed(collective, 250'000).bus == Approx(3.5e9));
  }
  CHECK(speed(Collective::all_reduce, 1'000'000).algorithm == Approx(4e9));
  CHECK(speed(Collective::all_reduce, 1'000'000).bus == Approx(7e9));
  CHECK(speed(Collective::broadcast, 1).bus == Approx(4e9));
  const auto gathered = collective_cases(8, {kBytes}).front();
  CHECK(gathered.collective == Collective::all_gather);
  CHECK(gathered.elements * 4 * 8 == kBytes);
  CHECK(gathered.bytes == kBytes);
}

TEST_CASE("the table of bench comm") {
  const int ranks = GENERATE(2, 3, 4);
  const bool one_node = GENERATE(true, false);
  const int per_node = one_node ? ranks : 1;
  Options options = small_run();
  options.bench.max_bytes = 16384;
  std::string table;
  run_ranks(ranks, per_node, [&](RankContext& context) {
    MachineShape machine;
    machine.machine_ranks = ranks;
    const SharedRegion none(context, 64);
    const auto reference = over_messages(context, none);
    const std::string text = comm_table(context, options, machine, *reference).text;
    if (context.rank() == 0) table = text;
  });
  const std::size_t transports = one_node ? 3 : 2;  // no shared memory between nodes
  for (const char* collective : {"all_gather ", "reduce_scatter ", "all_reduce "}) {
    const auto rows = lines_of(table, collective);
    CAPTURE(collective, table);
    REQUIRE(rows.size() == 3 * transports);  // 1, 4, 16 KiB
    for (const std::string& row : rows) {
      for (const double number : last_numbers(row, 4)) CHECK((std::isfinite(number) && number >= 0));
    }
    CHECK(last_numbers(rows.back(), 1)[0] == 1.0);  // the reference compared with itself
  }
}

TEST_CASE("a wrong result is no measurement") {
  const auto collective = GENERATE(Collective::all_gather, Collective::reduce_scatter, Collective::all_reduce);
  const auto run = [&] {
    run_ranks(2, 2, [&](RankContext& context) {
      const auto cases = collective_cases(2, {1024});
      const SharedRegion region(context, buffer_bytes(cases));
      const auto messages = over_messages(context, region);
      Wrong wrong(*messages, collective);
      const auto device = make_cpu_device();
      const auto stream = make_serial_stream("test");
      for (const CollectiveCase& size : cases) {
        time_collective(context, {{"wrong", &wrong, device.get(), stream.get(), region.data(), {}}}, size, {0, 1});
      }
    });
  };
  CHECK_THROWS_AS(run(), InternalError);
}
