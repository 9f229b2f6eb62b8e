#include "tessera/doctor/rank_facts.hpp"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "tessera/backend/cores.hpp"
#include "tessera/backend/cuda_device.hpp"
#include "tessera/backend/device_monitor.hpp"
#include "tessera/base/environment.hpp"
#include "tessera/base/file_descriptor.hpp"
#include "tessera/comm/launcher.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/file_system.hpp"

namespace tessera {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GpuState, identity, name, visible, cores, clock, full_clock, slowed)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PlaceFacts, path, file_system, is_shared, free_bytes, inodes, has_locks, renames,
                                   sees_mark, error)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankFacts, host, launcher, scheduler, nodes, fence_waits, mpi, copies_memory, cores,
                                   quota, machine_cores, threads, memory, lockable, shared_memory, fabric, network,
                                   time, gpu, shares_gpu, place)

namespace {

namespace fs = std::filesystem;

std::string line_of(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

/// Reads "0-3,8,10-11".
std::vector<int> numbers_of(const std::string& list) {
  std::vector<int> numbers;
  std::istringstream ranges(list);
  for (std::string range; std::getline(ranges, range, ',');) {
    int first = 0, last = 0;
    const int read = std::sscanf(range.c_str(), "%d-%d", &first, &last);  // NOLINT(cert-err34-c): read is checked
    for (int number = first; read >= 1 && number <= (read == 2 ? last : first); ++number) numbers.push_back(number);
  }
  return numbers;
}

GpuState gpu_state(const Device* device) {
  GpuState gpu;
  if (device == nullptr || device->identity().empty()) return gpu;
  gpu.identity = device->identity(), gpu.name = device->model(), gpu.visible = cuda_device_count();
  std::string why;
  const auto monitor = open_device_monitor(gpu.identity, why);
  if (monitor == nullptr) return gpu;
  const DeviceHealth health = monitor->health();
  const double clock = monitor->sample().clock;
  gpu.clock = clock > 0 ? clock : 0, gpu.full_clock = health.full_clock, gpu.slowed = health.slowed;
  if (!health.bus.empty())
    gpu.cores = numbers_of(line_of(fs::path("/sys/bus/pci/devices") / health.bus / "local_cpulist"));
  return gpu;
}

/// Returns whether processes may read each other's memory, or Open MPI is told that they may not. It finds that out too
/// late where a filter of system calls forbids it, as Docker's does.
bool copies_memory() {
  if (!variable("OMPI_MCA_btl_vader_single_copy_mechanism").empty()) return true;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("Seccomp:")) return line.find('2') == std::string::npos;
  }
  return true;
}

/// Tries what a run does in its folder.
void try_files(const fs::path& folder, PlaceFacts& place) {
  const std::string name = (folder / (".tessera-doctor-" + std::to_string(::getpid()) + "-" + host_name())).string();
  const std::string other = name + "-2";
  const FileDescriptor file(::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) {
    place.error = last_error();
    return;
  }
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  place.has_locks = ::fcntl(file.get(), F_OFD_SETLK, &lock) == 0;
  if (::write(file.get(), "x", 1) != 1 || ::fsync(file.get()) != 0) place.error = last_error();
  place.renames = ::rename(name.c_str(), other.c_str()) == 0;
  ::unlink((place.renames ? other : name).c_str());
}

/// Returns whether this rank's machine sees a file that rank 0 writes. A network's file system may show it late.
/// Collective.
bool sees_mark_of_rank_0(World& world, const PlaceFacts& place) {
  ControlPlane& control = world.control();
  const std::string folder = control.broadcast(place.error.empty() ? place.path : "");
  if (folder.empty()) return true;
  const std::string mark = folder + "/.tessera-doctor-mark-" + control.broadcast(std::to_string(::getpid()));
  if (world.rank() == 0) const FileDescriptor made(::open(mark.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  control.barrier();
  std::error_code ignored;
  bool sees = false;
  for (int look = 0; look < 20 && !sees; ++look) {
    if (look > 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    sees = fs::exists(mark, ignored);
  }
  control.barrier();
  if (world.rank() == 0) fs::remove(mark, ignored);
  return sees;
}

/// Returns what NCCL is told to use, or that it finds a plugin.
std::string network_of_nccl() {
  if (const std::string given = variable("NCCL_NET"); !given.empty()) return "NCCL_NET=" + given;
  if (variable("NCCL_IB_DISABLE") == "1") return "NCCL_IB_DISABLE=1";
  if (const std::string given = variable("NCCL_NET_PLUGIN"); !given.empty() && given != "none")
    return "NCCL_NET_PLUGIN=" + given;
  std::istringstream folders(variable("LD_LIBRARY_PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder.empty() ? "." : folder, ignored)) {
      if (const std::string name = entry.path().filename().string(); name.starts_with("libnccl-net")) return name;
    }
  }
  return {};
}

}  // namespace

std::string facts_text(const RankFacts& facts) { return nlohmann::json(facts).dump(); }
RankFacts facts_of(const std::string& text) { return nlohmann::json::parse(text).get<RankFacts>(); }

std::vector<std::string> active_fabric(const fs::path& root) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& device : fs::directory_iterator(root / "sys/class/infiniband", ignored)) {
    for (const auto& port : fs::directory_iterator(device.path() / "ports", ignored)) {
      if (line_of(port.path() / "state").find("ACTIVE") == std::string::npos) continue;
      names.push_back(device.path().filename().string());
      break;
    }
  }
  std::ranges::sort(names);
  return names;
}

PlaceFacts place_facts(const fs::path& run, bool tries) {
  std::error_code ignored;
  fs::path folder = fs::absolute(run, ignored);
  while (!fs::is_directory(folder, ignored) && folder.has_relative_path()) folder = folder.parent_path();
  PlaceFacts place;
  place.path = folder.string();
  const FileSystem system = file_system_of(folder);
  place.file_system = system.name, place.is_shared = system.reach != FileSystemReach::machine;
  struct statvfs about {};
  if (::statvfs(folder.c_str(), &about) == 0) {
    place.free_bytes = static_cast<std::int64_t>(about.f_bavail) * static_cast<std::int64_t>(about.f_frsize);
    place.inodes = about.f_files > 0 ? static_cast<std::int64_t>(about.f_favail) : -1;
  }
  if (tries) try_files(folder, place);
  return place;
}

RankFacts own_facts(World& world, const Options& options, const MachineShape& machine, const Device* device,
                    bool tries) {
  RankFacts facts;
  facts.host = world.host();
  facts.launcher = find_launch().launcher;
  for (const auto& [name, number] : {std::pair("Slurm", "SLURM_JOB_ID"), {"PBS", "PBS_JOBID"}}) {
    if (const std::string job = variable(number); !job.empty()) facts.scheduler = std::string(name) + " job " + job;
  }
  facts.nodes = std::atoll(variable("SLURM_JOB_NUM_NODES").c_str());
  facts.mpi = mpi_version();
  const bool by_slurm = variable("PMIX_NAMESPACE").starts_with("slurm.pmix.");
  facts.fence_waits = !by_slurm || variable("SLURM_PMIX_FENCE") == "ring";
  facts.copies_memory = copies_memory();
  facts.cores = allowed_core_numbers();
  facts.quota = cpu_quota().value_or(0);
  facts.machine_cores = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  facts.threads = threads_of(options, machine);
  facts.memory = usable_memory();
  facts.lockable = lockable_memory().value_or(-1);
  struct statvfs shared {};
  if (::statvfs("/dev/shm", &shared) == 0)
    facts.shared_memory = static_cast<std::int64_t>(shared.f_bavail) * static_cast<std::int64_t>(shared.f_frsize);
  facts.fabric = active_fabric();
  facts.network = network_of_nccl();
  facts.gpu = gpu_state(device);
  facts.shares_gpu = options.run.share_gpu;
  // One rank of each machine looks: the others see the same.
  if (world.rank() == world.machine_members().front()) facts.place = place_facts(run_folder(options), tries);
  if (tries) facts.place.sees_mark = sees_mark_of_rank_0(world, facts.place);
  world.control().barrier();
  facts.time = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return facts;
}

}  // namespace tessera
