#include "bench/transports.hpp"

#include "tessera/backend/thread_pool.hpp"
#include "tessera/comm/device_comm_backend.hpp"
#include "tessera/comm/make_communicator.hpp"
#include "tessera/engine/backend.hpp"

namespace tessera {

namespace {

/// Communicators of the ranks' cores, through shared memory.
class HostTransports final : public Transports {
 public:
  HostTransports(RankContext& context, const Options& options, const MachineShape& machine, std::int64_t bytes,
                 Group group)
      : group_(group),
        settings_(resource_settings(options, machine)),
        pool_(settings_.threads, settings_.threads_on_cores),
        device_(make_cpu_device()),
        stream_(make_serial_stream("bench")),
        region_(context, bytes) {
    const ProcessGrid grid(context.size(), context.ranks_per_node(), context.size());
    if (grid.within_node(group)) open("shared memory", context, grid, false);
    open("messages", context, grid, true);
  }

  std::vector<Contender> contenders() override {
    std::vector<Contender> all;
    for (const auto& [name, communicator] : communicators_)
      all.push_back({name, communicator.get(), device_.get(), stream_.get(), region_.data(), {}});
    return all;
  }
  std::string description() const override { return fmt::format("threads of a rank: {}", settings_.threads); }

 private:
  void open(const std::string& name, RankContext& context, const ProcessGrid& grid, bool pairwise) {
    CommunicatorOptions wanted{settings_};
    wanted.force_pairwise = pairwise;
    wanted.threads_on_cores = settings_.threads_on_cores;
    // A collective may use all compute threads, as in a session.
    wanted.pool = settings_.queue_mode == QueueMode::serial ? &pool_ : nullptr;
    communicators_.emplace_back(name, make_communicator(context, grid, group_, region_, "bench", wanted));
  }

  Group group_;
  ResourceSettings settings_;
  ThreadPool pool_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  SharedRegion region_;
  std::vector<std::pair<std::string, std::unique_ptr<Communicator>>> communicators_;
};

/// Communicators of GPUs.
class DeviceTransports final : public Transports {
 public:
  DeviceTransports(RankContext& context, const Options& options, const MachineShape& machine, std::int64_t bytes,
                   Group group)
      : group_(group),
        settings_(resource_settings(options, machine)),
        device_(backend_of(options).open_device(context, options.run.share_gpu)),
        stream_(device_->make_stream("bench")) {
    if (options.comm.backend != CommBackend::staged) open("NCCL", CommBackend::nccl, context, bytes);
    open("staged", CommBackend::staged, context, bytes);
  }

  std::vector<Contender> contenders() override {
    std::vector<Contender> all;
    for (DeviceTransport& transport : transports_) {
      all.push_back({transport.name, transport.communicator.get(), device_.get(), stream_.get(),
                     transport.memory->data(), [&transport] { transport.backend->check(); }});
    }
    return all;
  }
  std::string description() const override {
    std::string text = device_->description();
    for (const DeviceTransport& transport : transports_) text += "; " + transport.backend->description();
    return text;
  }

 private:
  /// Members are in the order in which they are made, and are destroyed in reverse.
  struct DeviceTransport {
    std::string name;
    std::unique_ptr<DeviceCommBackend> backend;
    std::unique_ptr<DeviceMemory> memory;
    std::unique_ptr<Communicator> communicator;
  };

  void open(const std::string& name, CommBackend kind, RankContext& context, std::int64_t bytes) {
    DeviceCommSettings settings{settings_};
    settings.comm.backend = kind;
    settings.largest_full = settings.largest_result = bytes;
    DeviceTransport transport{name, make_device_comm_backend(context, *device_, settings), {}, {}};
    transport.memory = transport.backend->allocate_shared(bytes);
    const ProcessGrid grid(context.size(), context.ranks_per_node(), context.size());
    transport.communicator = transport.backend->open(grid, group_, "bench", bytes);
    transport.backend->warm_up(*stream_);
    transports_.push_back(std::move(transport));
  }

  Group group_;
  ResourceSettings settings_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::vector<DeviceTransport> transports_;
};

}  // namespace

std::unique_ptr<Transports> make_transports(RankContext& context, const Options& options, const MachineShape& machine,
                                            std::int64_t bytes, Group group) {
  if (traits_of(device_of(options.run)).uses_mpi)
    return std::make_unique<HostTransports>(context, options, machine, bytes, group);
  return std::make_unique<DeviceTransports>(context, options, machine, bytes, group);
}

}  // namespace tessera
