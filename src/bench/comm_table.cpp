#include "bench/tables.hpp"
#include "bench/transports.hpp"

namespace tessera {

namespace {

/// The table's columns while they are filled.
struct Columns {
  std::vector<std::string> collective, by;
  std::vector<std::int64_t> bytes;
  std::vector<double> seconds, algorithm, bus, speed;
};

std::string add_row(Columns& table, const CollectiveCase& size, const std::string& transport, std::int64_t ranks,
                    double seconds, double reference) {
  const Bandwidths speed = bandwidths(size, ranks, seconds);
  table.collective.emplace_back(name_of(size.collective));
  table.by.push_back(transport);
  table.bytes.push_back(size.bytes);
  table.seconds.push_back(seconds);
  table.algorithm.push_back(speed.algorithm);
  table.bus.push_back(speed.bus);
  table.speed.push_back(reference / seconds);
  return fmt::format("{:<15}{:>12}  {:<14}{:>10.2f}{:>9.3f}{:>9.3f}{:>9.2f}\n", name_of(size.collective), size.bytes,
                     transport, seconds * 1e6, speed.algorithm * 1e-9, speed.bus * 1e-9, table.speed.back());
}

}  // namespace

BenchResult comm_table(RankContext& context, const Options& options, const MachineShape& machine,
                       Communicator& reference) {
  const std::int64_t ranks = context.size();
  const std::vector<CollectiveCase> cases = collective_cases(
      ranks, options.bench.sizes.empty() ? message_sizes(options.bench.max_bytes) : options.bench.sizes);
  const auto ours = make_transports(context, options, machine, buffer_bytes(cases));
  const auto mpi = make_host_transport("MPI", reference, buffer_bytes(cases));
  std::vector<Contender> contenders = ours->contenders();
  contenders.push_back(mpi->contenders().front());

  const std::string head =
      fmt::format("{} ranks on nodes of {}, {}; median of {} repetitions after {}, slowest rank", ranks,
                  context.ranks_per_node(), ours->description(), options.bench.steps, options.bench.warmup);
  std::string text = head + "\n";
  text += fmt::format("{:<15}{:>12}  {:<14}{:>10}{:>9}{:>9}{:>9}\n", "collective", "bytes", "by", "time", "algbw",
                      "busbw", "speed");
  text += fmt::format("{:<15}{:>12}  {:<14}{:>10}{:>9}{:>9}{:>9}\n", "", "", "", "us", "GB/s", "GB/s", "/ MPI's");
  Columns table;
  for (const CollectiveCase& size : cases) {
    const std::vector<double> seconds =
        time_collective(context, contenders, size, {options.bench.warmup, options.bench.steps});
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      text += add_row(table, size, contenders[i].name, ranks, seconds[i], seconds.back());
    }
  }
  const std::string meaning = fmt::format(
      "bandwidths as nccl-tests define them; bytes: of the full buffer that is gathered or reduced (fp32; all_reduce "
      "int64); algbw: bytes / time; busbw: algbw x (n-1)/n = {:.3f}, twice that for all_reduce; buffers are used again "
      "and again: what fits the caches is in them; MPI's lie on the "
      "host",
      bus_factor(Collective::all_gather, ranks));
  return {text + meaning,
          {{"comm",
            head + "; " + meaning,
            {{"collective", "", table.collective},
             {"bytes", "B", table.bytes},
             {"by", "", table.by},
             {"seconds", "s", table.seconds},
             {"algorithm_bandwidth", "B/s", table.algorithm},
             {"bus_bandwidth", "B/s", table.bus},
             {"speed", "1", table.speed}}}},
          gpu_facts(*contenders.front().device),
          ours->description()};
}

}  // namespace tessera
