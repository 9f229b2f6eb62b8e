#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "tessera/base/format.hpp"
#include "tessera/base/wrap.hpp"
#include "tessera/doctor/doctor.hpp"

namespace tessera {

namespace {

using Facts = std::vector<RankFacts>;
using Findings = std::vector<Finding>;

constexpr std::int64_t kMebibyte = std::int64_t{1} << 20, kGibibyte = std::int64_t{1} << 30;

/// Returns the numbers of the ranks of each machine.
std::map<std::string, std::vector<std::size_t>> by_machine(const Facts& ranks) {
  std::map<std::string, std::vector<std::size_t>> machines;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) machines[ranks[rank].host].push_back(rank);
  return machines;
}

bool on_several(const Facts& ranks) { return by_machine(ranks).size() > 1; }

void check_ranks(const Facts& ranks, Findings& found) {
  const RankFacts& first = ranks.front();
  const auto machines = by_machine(ranks);
  std::string says = counted(std::ssize(ranks), "rank");
  if (machines.size() > 1) says += fmt::format(" on {} machines", machines.size());
  says += first.launcher.empty() ? ", without a launcher"
                                 : ", started by " + (first.launcher == "Slurm" ? "srun" : first.launcher);
  if (!first.scheduler.empty()) says += " in " + first.scheduler;
  const auto [least, most] =
      std::ranges::minmax_element(machines, {}, [](const auto& machine) { return machine.second.size(); });
  if (first.nodes > std::ssize(machines)) {
    found.push_back(
        {"ranks", Verdict::warning,
         fmt::format("{}; {} of the job's {} nodes have none", says, first.nodes - std::ssize(machines), first.nodes),
         "Start as many ranks on every node (srun, or mpirun with --map-by ppr:N:node)"});
  } else if (least->second.size() != most->second.size()) {
    found.push_back({"ranks", Verdict::note,
                     fmt::format("{}; {} has {}, and {} has {}", says, least->first, least->second.size(), most->first,
                                 most->second.size()),
                     "With as many on every machine, hybrid strategies shard over whole machines"});
  } else {
    found.push_back({"ranks", Verdict::fine, says, ""});
  }
}

void check_cores(const Facts& ranks, Findings& found) {
  const std::size_t before = found.size();
  std::string fine;
  for (const auto& [host, members] : by_machine(ranks)) {
    const RankFacts& first = ranks[members.front()];
    std::set<int> cores;
    std::int64_t threads = 0;
    for (const std::size_t rank : members) {
      cores.insert(ranks[rank].cores.begin(), ranks[rank].cores.end());
      threads += ranks[rank].threads;
    }
    const auto usable = static_cast<std::int64_t>(cores.size());
    const std::string who = fmt::format("{} on {}", counted(std::ssize(members), "rank"), host);
    // The first two are notes, because the training itself warns of such threads (account_before).
    if (first.quota > 0 && static_cast<double>(threads) > first.quota) {
      found.push_back(
          {"cores", Verdict::note,
           fmt::format("{} with {} may use the time of {:.1f} cores", who, counted(threads, "thread"), first.quota),
           "Ask for more cores (--cpus-per-task; docker --cpus), or give a smaller run.threads"});
    } else if (threads > usable && threads > std::ssize(members)) {
      found.push_back({"cores", Verdict::note,
                       fmt::format("{} with {} share {}", who, counted(threads, "thread"), counted(usable, "core")),
                       "Give a smaller run.threads, or 0"});
    } else if (usable < std::ssize(members)) {
      const bool are_more = first.machine_cores > usable;
      found.push_back(
          {"cores", are_more ? Verdict::warning : Verdict::note,
           fmt::format("{} share {}, and the machine has {}", who, counted(usable, "core"), first.machine_cores),
           are_more ? "Start them with --cpus-per-task (srun) or --bind-to none (mpirun)" : "Fewer ranks are as fast"});
    } else if (fine.empty()) {
      fine = fmt::format("{} with {} on {} of {}", who, counted(threads, "thread"), usable, first.machine_cores);
    }
  }
  if (found.size() == before) found.push_back({"cores", Verdict::fine, fine, ""});
}

void check_memory(const Facts& ranks, Findings& found) {
  const auto machines = by_machine(ranks);
  const auto share = [&](const auto& machine) {
    return ranks[machine.second.front()].memory / std::ssize(machine.second);
  };
  const auto least = std::ranges::min_element(machines, {}, share);
  const bool small = share(*least) < kGibibyte;
  found.push_back({"memory", small ? Verdict::warning : Verdict::fine,
                   fmt::format("{} has {} left, {} for each rank", least->first,
                               format_bytes(ranks[least->second.front()].memory), format_bytes(share(*least))),
                   small ? "Ask the scheduler or the container for more (--mem)" : ""});
  for (const auto& [host, members] : machines) {
    const RankFacts& first = ranks[members.front()];
    const std::int64_t wanted = 64 * kMebibyte * std::ssize(members);
    if (members.size() > 1 && first.shared_memory < wanted) {
      found.push_back({"/dev/shm", Verdict::warning,
                       fmt::format("{} has {} left there, and MPI and NCCL may want {}", host,
                                   format_bytes(first.shared_memory), format_bytes(wanted)),
                       "Remove what earlier jobs left there, or give the container more (docker --shm-size=8g)"});
    }
    if (!first.fabric.empty() && first.lockable >= 0 && first.lockable < kGibibyte) {
      found.push_back({"locked", Verdict::warning,
                       fmt::format("a process on {} may lock {}, which InfiniBand needs more of", host,
                                   format_bytes(first.lockable)),
                       "Raise it: ulimit -l unlimited, PropagateResourceLimitsExcept=MEMLOCK in slurm.conf"});
    }
  }
}

void check_gpus(const Facts& ranks, Findings& found) {
  if (ranks.front().gpu.identity.empty()) return;  // on cores
  const std::size_t before = found.size();
  std::map<std::string, std::size_t> user_of;
  std::map<std::string, std::set<std::string>> of_machine;
  for (const RankFacts& rank : ranks) of_machine[rank.host].insert(rank.gpu.identity);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const GpuState& gpu = ranks[rank].gpu;
    const std::string& host = ranks[rank].host;
    if (const auto [other, is_new] = user_of.emplace(gpu.identity, rank); !is_new) {
      found.push_back({"GPUs", ranks[rank].shares_gpu ? Verdict::warning : Verdict::refused,
                       fmt::format("ranks {} and {} use the same GPU of {}", other->second, rank, host),
                       "Start one rank per GPU, and let each see all GPUs of its node (never --gpus-per-task)"});
    }
    if (const auto used = std::ssize(of_machine[host]); gpu.visible < used) {
      found.push_back({"GPUs", Verdict::warning,
                       fmt::format("rank {} on {} sees {} of the {} GPUs in use there: NCCL may do without NVLink",
                                   rank, host, gpu.visible, used),
                       "Let each rank see all GPUs of its node (srun --gpus-per-node, never --gpus-per-task)"});
    }
    const auto is_near = [&](int core) { return std::ranges::find(gpu.cores, core) != gpu.cores.end(); };
    if (!gpu.cores.empty() && std::ranges::none_of(ranks[rank].cores, is_near)) {
      found.push_back({"GPUs", Verdict::warning,
                       fmt::format("rank {} on {} is bound to cores of another socket than its GPU's", rank, host),
                       "Bind ranks in the order of GPUs (srun --cpu-bind=map_ldom:..., mpirun --map-by numa)"});
    }
    if (!gpu.slowed.empty()) {
      found.push_back({"clocks", gpu.slowed == "its power limit" ? Verdict::note : Verdict::warning,
                       fmt::format("the GPU of rank {} on {} runs at {:.0f} of {:.0f} MHz because of {}", rank, host,
                                   gpu.clock * 1e-6, gpu.full_clock * 1e-6, gpu.slowed),
                       "Tell those who run the machine, or leave it out (sbatch --exclude)"});
    }
  }
  if (found.size() == before)
    found.push_back({"GPUs", Verdict::fine, fmt::format("{} x {}", ranks.size(), ranks.front().gpu.name), ""});
}

void check_network(const Facts& ranks, Findings& found) {
  if (!on_several(ranks)) return;
  const RankFacts& first = ranks.front();
  for (const RankFacts& rank : ranks) {
    if (rank.fabric == first.fabric) continue;
    found.push_back({"network", Verdict::warning,
                     fmt::format("{} has the active ports [{}], {} has [{}]", first.host, fmt::join(first.fabric, ", "),
                                 rank.host, fmt::join(rank.fabric, ", ")),
                     "Tell those who run the machines"});
    break;
  }
  const bool by_sockets = first.network == "NCCL_IB_DISABLE=1" || first.network == "NCCL_NET=Socket" ||
                          (first.fabric.empty() && first.network.empty());
  const std::string over = !first.network.empty() ? " (" + first.network + ")" : "";
  if (!by_sockets) {
    found.push_back(
        {"network", Verdict::fine,
         first.fabric.empty() ? "a plugin of NCCL" + over : fmt::format("{}{}", fmt::join(first.fabric, ", "), over),
         ""});
  } else if (first.fabric.empty()) {
    found.push_back({"network", Verdict::note,
                     "machines talk through sockets: none has an active InfiniBand port" + over,
                     "Where there is a faster network, NCCL needs its plugin in LD_LIBRARY_PATH (aws-ofi-nccl)"});
  } else {
    found.push_back({"network", Verdict::warning,
                     fmt::format("NCCL uses sockets{}, although {} is active", over, fmt::join(first.fabric, ", ")),
                     "Unset that variable"});
  }
}

void check_versions(const Facts& ranks, Findings& found) {
  const RankFacts& first = ranks.front();
  const std::size_t before = found.size();
  const bool open_mpi = first.mpi.starts_with("Open MPI");
  if (on_several(ranks) && open_mpi && !first.fence_waits) {
    found.push_back({"MPI", Verdict::warning,
                     "Slurm's PMIx lets ranks go ahead before all have come, and Open MPI 4 may crash in MPI_Init",
                     "export SLURM_PMIX_FENCE=ring before srun, as the job scripts do"});
  }
  if (ranks.size() > 1 && open_mpi && !first.copies_memory) {
    found.push_back({"MPI", Verdict::warning,
                     "a filter of system calls may forbid to read a peer's memory, which Open MPI does",
                     "Source jobs/mpi_env.sh before mpiexec"});
  }
  if (found.size() == before) found.push_back({"MPI", Verdict::fine, first.mpi.substr(0, first.mpi.find(',')), ""});
}

void check_place(const Facts& ranks, Findings& found) {
  for (const auto& [host, members] : by_machine(ranks)) {
    const PlaceFacts& place = ranks[members.front()].place;
    const std::string where = fmt::format("{} ({}) on {}", place.path, place.file_system, host);
    const auto add = [&](Verdict verdict, const std::string& says, const std::string& remedy) {
      found.push_back({"run folder", verdict, where + " " + says, remedy});
    };
    const std::size_t before = found.size();
    if (!place.error.empty()) {
      add(Verdict::refused, "takes no files: " + place.error, "Give another run.dir");
      continue;
    }
    if (!place.sees_mark)
      add(Verdict::refused, "is not the folder that rank 0 sees", "Give a run.dir on a file system of all machines");
    if (!place.renames) add(Verdict::refused, "cannot rename files", "Give a run.dir on another file system");
    if (!place.has_locks) {
      add(Verdict::note, "has no file locks, so that only RUN/owner.json keeps two jobs apart",
          "Mount it with locks (Lustre: -o flock)");
    }
    if (place.free_bytes < 2 * kGibibyte)
      add(Verdict::warning, fmt::format("has {} left", format_bytes(place.free_bytes)),
          "Make room, or give another run.dir");
    if (place.inodes >= 0 && place.inodes < 1000)
      add(Verdict::warning, fmt::format("has room for {} more files", place.inodes), "Remove files there");
    if (found.size() == before) {
      add(Verdict::fine, fmt::format("has {} left", format_bytes(place.free_bytes)),
          place.file_system == "Lustre"
              ? "Large checkpoints are written faster over several servers: lfs setstripe -c 8"
              : "");
    }
    if (place.is_shared && found.back().verdict == Verdict::fine) return;  // the others see the same
  }
}

void check_time(const Facts& ranks, Findings& found) {
  if (!on_several(ranks)) return;
  const auto [first, last] = std::ranges::minmax_element(ranks, {}, &RankFacts::time);
  const double apart = last->time - first->time;
  const Verdict verdict = apart > 2 ? Verdict::warning : apart > 0.2 ? Verdict::note : Verdict::fine;
  found.push_back(
      {"time", verdict,
       fmt::format("the machines' clocks differ by {}{}", format_seconds(apart),
                   verdict == Verdict::fine ? "" : fmt::format(", {} is behind {}", first->host, last->host)),
       verdict == Verdict::fine ? "" : "Let chrony or NTP set them"});
}

constexpr void (*kChecks[])(const Facts&, Findings&) = {check_ranks,   check_cores,    check_memory, check_gpus,
                                                        check_network, check_versions, check_place,  check_time};

const char* name_of(Verdict verdict) {
  constexpr const char* names[] = {"fine", "note", "warning", "refused"};
  return names[static_cast<std::size_t>(verdict)];
}

}  // namespace

std::vector<Finding> judge(const std::vector<RankFacts>& ranks) {
  constexpr std::int64_t kTold = 3;
  Findings found, told;
  for (const auto check : kChecks) check(ranks, found);
  std::map<std::string, std::int64_t> number;  // of the findings with the same remedy
  for (const Finding& finding : found) {
    if (finding.remedy.empty() || ++number[finding.remedy] <= kTold) told.push_back(finding);
  }
  for (const auto& [remedy, count] : number) {
    if (count <= kTold) continue;
    const auto last = std::ranges::find(told.rbegin(), told.rend(), remedy, &Finding::remedy);
    Finding rest = *last;
    rest.says = fmt::format("there are {} more like these", count - kTold);
    told.insert(last.base(), rest);
  }
  return told;
}

std::vector<Finding> examine(World& world, const Options& options, const MachineShape& machine, const Device* device,
                             bool tries) {
  std::vector<RankFacts> all;
  for (const std::string& text : world.control().gather(facts_text(own_facts(world, options, machine, device, tries))))
    all.push_back(facts_of(text));
  return all.empty() ? Findings{} : judge(all);
}

std::string Finding::text() const {
  const std::string end = says.ends_with('.') ? "" : ".";
  return says + end + (remedy.empty() ? "" : " " + remedy + ".");
}

std::string finding_text(const Finding& finding) {
  constexpr std::size_t kIndent = 20;
  return wrapped(fmt::format("{:<11}{:<9}{}", finding.subject, name_of(finding.verdict), finding.text()), kIndent, 100);
}

const Finding* worst(const std::vector<Finding>& findings) {
  const auto found = std::ranges::max_element(findings, {}, &Finding::verdict);
  return found != findings.end() && found->verdict >= Verdict::warning ? &*found : nullptr;
}

}  // namespace tessera
