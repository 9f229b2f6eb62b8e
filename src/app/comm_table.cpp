#include "app/comm_table.hpp"

#include "app/comm_ways.hpp"

namespace tessera {

namespace {

std::string row(const CollectiveCase& size, const std::string& way, std::int64_t ranks, double seconds,
                double reference) {
  const double algorithm = static_cast<double>(size.bytes) / seconds * 1e-9;
  return fmt::format("{:<15}{:>12}  {:<14}{:>10.2f}{:>9.3f}{:>9.3f}{:>9.2f}\n", name_of(size.collective), size.bytes,
                     way, seconds * 1e6, algorithm, algorithm * bus_factor(size.collective, ranks),
                     reference / seconds);
}

}  // namespace

std::string comm_table(RankContext& context, const Options& options, const MachineShape& machine,
                       Communicator& reference) {
  const std::int64_t ranks = context.size();
  const std::vector<CollectiveCase> cases = collective_cases(ranks, options.bench.max_bytes);
  const auto ours = make_comm_ways(context, options, machine, buffer_bytes(cases));
  const auto mpi = make_host_way("MPI", reference, buffer_bytes(cases));
  std::vector<Contender> contenders = ours->contenders();
  contenders.push_back(mpi->contenders().front());

  std::string text =
      fmt::format("{} ranks on nodes of {}, {}; median of {} repetitions after {}, slowest rank\n", ranks,
                  context.ranks_per_node(), ours->description(), options.bench.steps, options.bench.warmup);
  text += fmt::format("{:<15}{:>12}  {:<14}{:>10}{:>9}{:>9}{:>9}\n", "collective", "bytes", "by", "time", "algbw",
                      "busbw", "speed");
  text += fmt::format("{:<15}{:>12}  {:<14}{:>10}{:>9}{:>9}{:>9}\n", "", "", "", "us", "GB/s", "GB/s", "/ MPI's");
  for (const CollectiveCase& size : cases) {
    const std::vector<double> seconds =
        time_collective(context, contenders, size, {options.bench.warmup, options.bench.steps});
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      text += row(size, contenders[i].name, ranks, seconds[i], seconds.back());
    }
  }
  text += fmt::format(
      "bytes: of the whole buffer (fp32; all_reduce int64); algbw: bytes / time; busbw: algbw x (n-1)/n = {:.3f}, "
      "twice "
      "that for all_reduce; buffers are used again and again: what fits the caches is in them; MPI's lie on the host",
      bus_factor(Collective::all_gather, ranks));
  return text;
}

}  // namespace tessera
