#include "bench/tables.hpp"
#include "bench/transports.hpp"
#include "tessera/base/text_table.hpp"

namespace tessera {

namespace {

struct CommRow {
  CollectiveCase size;
  std::string by;
  double seconds = 0;
  Bandwidths bandwidths;
  double speed = 0;  ///< relative to MPI
};

}  // namespace

BenchResult comm_table(RankContext& context, const Options& options, const MachineShape& machine,
                       Communicator& reference) {
  const std::int64_t ranks = context.size();
  const std::vector<CollectiveCase> cases = collective_cases(
      ranks, options.bench.sizes.empty() ? message_sizes(options.bench.max_bytes) : options.bench.sizes);
  const auto ours = make_transports(context, options, machine, buffer_bytes(cases));
  const auto host = make_cpu_device();
  const auto stream = make_serial_stream("bench");
  const auto buffer = host->allocate(MemoryKind::device, buffer_bytes(cases));
  std::vector<Contender> contenders = ours->contenders();
  contenders.push_back({"MPI", &reference, host.get(), stream.get(), buffer->data(), {}});

  const std::string head =
      fmt::format("{} ranks on nodes of {}, {}; median of {} repetitions after {}, slowest rank", ranks,
                  context.ranks_per_node(), ours->description(), options.bench.steps, options.bench.warmup);
  TextTable table({"collective", ">bytes", "by", ">time", ">algbw", ">busbw", ">speed"});
  table.row({"", "", "", "us", "GB/s", "GB/s", "/ MPI's"});
  std::vector<CommRow> rows;
  for (const CollectiveCase& size : cases) {
    const std::vector<double> seconds =
        time_collective(context, contenders, size, {options.bench.warmup, options.bench.steps});
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      rows.push_back(
          {size, contenders[i].name, seconds[i], bandwidths(size, ranks, seconds[i]), seconds.back() / seconds[i]});
      const CommRow& row = rows.back();
      table.row({std::string(name_of(size.collective)), std::to_string(size.bytes), row.by,
                 fmt::format("{:.2f}", row.seconds * 1e6), fmt::format("{:.3f}", row.bandwidths.algorithm * 1e-9),
                 fmt::format("{:.3f}", row.bandwidths.bus * 1e-9), fmt::format("{:.2f}", row.speed)});
    }
  }
  const std::string meaning = fmt::format(
      "bandwidths as nccl-tests define them; bytes: of the full buffer that is gathered or reduced (fp32; all_reduce "
      "int64); algbw: bytes / time; busbw: algbw x (n-1)/n = {:.3f}, twice that for all_reduce; buffers are used again "
      "and again: what fits the caches is in them; MPI's lie on the "
      "host",
      bus_factor(Collective::all_gather, ranks));
  using Row = const CommRow&;
  return {head + "\n" + table.text() + meaning,
          {{"comm",
            head + "; " + meaning,
            {column("collective", "", rows, [](Row row) { return std::string(name_of(row.size.collective)); }),
             column("bytes", "B", rows, [](Row row) { return row.size.bytes; }), column("by", "", rows, &CommRow::by),
             column("seconds", "s", rows, &CommRow::seconds),
             column("algorithm_bandwidth", "B/s", rows, [](Row row) { return row.bandwidths.algorithm; }),
             column("bus_bandwidth", "B/s", rows, [](Row row) { return row.bandwidths.bus; }),
             column("speed", "1", rows, &CommRow::speed)}}},
          gpu_facts(*contenders.front().device),
          {ours->description()}};
}

}  // namespace tessera
