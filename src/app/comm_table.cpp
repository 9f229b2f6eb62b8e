#include "app/comm_table.hpp"

#include "app/collective_times.hpp"
#include "tessera/backend/region.hpp"
#include "tessera/backend/thread_pool.hpp"
#include "tessera/comm/decorators.hpp"
#include "tessera/comm/make_communicator.hpp"

namespace tessera {

namespace {

/// Our communicators over the world and what they need.
class Ours {
 public:
  Ours(RankContext& context, const Options& options, const MachineShape& machine, std::int64_t bytes)
      : threads_(threads_of(options, machine)),
        serial_(lanes_of(options, threads_, machine) == LaneMode::serial),
        threads_on_cores_(threads_on_cores(threads_, machine)),
        pool_(threads_, threads_on_cores_),
        region_(context, bytes) {
    const ProcessGrid grid(context.size(), context.ranks_per_node(), context.size());
    if (grid.within_node(RankGroup::world)) open("shared memory", context, grid, options, false);
    open("messages", context, grid, options, true);
  }

  std::vector<Contender> contenders() const {
    std::vector<Contender> all;
    for (const auto& [name, communicator] : communicators_) all.push_back({name, communicator.get(), region_.data()});
    return all;
  }
  int threads() const { return threads_; }

 private:
  void open(const std::string& name, RankContext& context, const ProcessGrid& grid, const Options& options,
            bool pairwise) {
    CommunicatorOptions wanted;
    wanted.timeout_seconds = options.run.timeout;
    wanted.force_pairwise = pairwise;
    wanted.threads_on_cores = threads_on_cores_;
    wanted.pool = serial_ ? &pool_ : nullptr;
    auto made = make_communicator(context, grid, RankGroup::world, region_, "bench", wanted);
    const Emulation& slow = options.comm.emulate;
    if (slow.on()) made = make_emulated(std::move(made), slow.latency, slow.bandwidth > 0 ? slow.bandwidth : 1e18);
    communicators_.emplace_back(name, std::move(made));
  }

  int threads_;
  bool serial_;  ///< then a collective may use all compute threads, as in a session
  int threads_on_cores_;
  ThreadPool pool_;
  SharedRegion region_;
  std::vector<std::pair<std::string, std::unique_ptr<Communicator>>> communicators_;
};

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
  const Ours ours(context, options, machine, buffer_bytes(cases));
  const Region plain(buffer_bytes(cases));
  std::vector<Contender> contenders = ours.contenders();
  contenders.push_back({"MPI", &reference, plain.data()});

  std::string text =
      fmt::format("{} ranks on nodes of {}, threads of a rank: {}; median of {} repetitions after {}, slowest rank\n",
                  ranks, context.ranks_per_node(), ours.threads(), options.bench.steps, options.bench.warmup);
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
      "that for all_reduce; buffers are used again and again: what fits the caches is in them",
      bus_factor(Collective::all_gather, ranks));
  return text;
}

}  // namespace tessera
