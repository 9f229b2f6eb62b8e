#include "cuda/comm/nccl/nccl_backend.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "tessera/base/refuse.hpp"
#include "tessera/cuda/check.hpp"
#include "tessera/cuda/launch.hpp"

namespace tessera {

namespace {

/// Sets a variable that NCCL reads when it starts, unless the user has. Returns the assignment, or "".
std::string set_environment(const char* name, const char* value) {
  if (std::getenv(name) != nullptr) return {};  // NOLINT(concurrency-mt-unsafe): at start, one thread
  setenv(name, value, 0);                       // NOLINT(concurrency-mt-unsafe)
  return fmt::format("{}={}", name, value);
}

void check_version(const NcclApi& nccl, const char* option, int needed) {
  if (nccl.version >= needed) return;
  throw refusal("{} needs NCCL {}.{} or newer, but {} is {}", option, needed / 10000, needed % 10000 / 100, nccl.path,
                nccl.version_text())
      .hint("Leave it off, or use a newer NCCL");
}

void check_options(const NcclApi& nccl, const CommOptions& options) {
  if (options.symmetric) {
    check_version(nccl, "comm.symmetric", 22800);  // 2.27 has windows and does not tell whether they are symmetric
    if (nccl.register_window == nullptr) {
      throw refusal("comm.symmetric needs ncclCommWindowRegister, which {} lacks", nccl.path).hint("Leave it off");
    }
  }
  if (options.copy_engine_gather) {
    check_version(nccl, "comm.copy_engine_gather", 22800);
    constexpr int kDriver = 12050;
    int driver = 0;
    TESSERA_CHECK_CUDA(cudaDriverGetVersion(&driver));
    if (driver < kDriver) {
      throw refusal("comm.copy_engine_gather needs a driver for CUDA 12.5, but this is {}.{}", driver / 1000,
                    driver % 1000 / 10)
          .hint("Leave it off");
    }
  }
  if (options.emulate.on()) {
    throw refusal("comm.emulate slows down the host's collectives, but not NCCL's").use("comm.backend = staged");
  }
}

/// Memory that NCCL can make a window of.
class WindowMemory final : public DeviceMemory {
 public:
  explicit WindowMemory(std::int64_t bytes) : size_(bytes) {
    void* memory = nullptr;
    if (bytes == 0) return;
    check_nccl(nccl_api().allocate(&memory, static_cast<std::size_t>(bytes)), "ncclMemAlloc", "the shared region");
    data_ = static_cast<std::byte*>(memory);
    TESSERA_CHECK_CUDA(cudaMemset(data_, 0, static_cast<std::size_t>(bytes)));
    TESSERA_CHECK_CUDA(cudaDeviceSynchronize());
  }
  ~WindowMemory() override {
    if (data_ != nullptr) nccl_api().free(data_);
  }
  WindowMemory(const WindowMemory&) = delete;
  WindowMemory& operator=(const WindowMemory&) = delete;
  std::byte* data() const override { return data_; }
  std::int64_t size() const override { return size_; }

 private:
  std::int64_t size_;
  std::byte* data_ = nullptr;
};

}  // namespace

NcclBackend::NcclBackend(RankContext& context, Device& device, const DeviceCommSettings& settings) {
  // With several communicators on one GPU, work starts on it in the order of issue. Buffers are registered at start, if
  // an option says so. NCCL must not register them itself when a graph is captured, because before 2.32 receivers of a
  // network may then wait without end (nccl#2389).
  for (const auto& [name, value] : {std::pair("NCCL_LAUNCH_ORDER_IMPLICIT", "1"), {"NCCL_GRAPH_REGISTER", "0"}}) {
    std::string set = set_environment(name, value);
    if (!set.empty()) environment_.push_back(std::move(set));
  }
  check_options(nccl_api(), settings.comm);
  watchdog_ = std::make_unique<NcclWatchdog>(context, device, settings.timeout_seconds);
  context_.context = &context;
  context_.device = &device;
  context_.watchdog = watchdog_.get();
  context_.options = settings.comm;
  context_.deterministic = settings.deterministic;
  context_.external_workspace = settings.external_workspace;
  context_.timeout_seconds = settings.timeout_seconds;
}

std::string NcclBackend::description() const {
  const NcclApi& nccl = nccl_api();
  std::vector<std::string> parts{fmt::format("NCCL {} ({})", nccl.version_text(), nccl.path)};
  parts.emplace_back(context_.deterministic ? "sums in a fixed tree" : "sums in NCCL's order");
  const CommOptions& options = context_.options;
  if (options.symmetric) parts.emplace_back("symmetric windows");
  if (options.copy_engine_gather) parts.emplace_back("gathers by copy engines");
  if (options.register_buffers) parts.emplace_back("registered buffers");
  if (options.min_ctas > 0) parts.push_back(fmt::format("at least {} CTAs", options.min_ctas));
  if (options.max_ctas > 0) parts.push_back(fmt::format("at most {} CTAs", options.max_ctas));
  for (const std::string& set : environment_) parts.push_back(set + " set here");
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::unique_ptr<DeviceMemory> NcclBackend::allocate_shared(std::int64_t bytes) {
  TESSERA_ASSERT(open_.empty() && context_.shared == nullptr, "the shared region comes once, before communicators");
  std::unique_ptr<DeviceMemory> memory;
  if (context_.options.symmetric || context_.options.register_buffers) {
    memory = std::make_unique<WindowMemory>(bytes);
  } else {
    memory = context_.device->allocate(MemoryKind::device, bytes);
  }
  context_.shared = memory->data();
  context_.shared_bytes = bytes;
  return memory;
}

std::unique_ptr<Communicator> NcclBackend::open(const ProcessGrid& grid, Group group, const std::string& name,
                                                std::int64_t largest_contribution) {
  TESSERA_ASSERT(grid.size(group) > 1, "communicator '{}' has one rank: there is nobody to talk to", name);
  auto communicator =
      std::make_unique<NcclCommunicator>(context_, grid.members(group, context_.context->rank()),
                                         fmt::format("{}/{}", name_of(group), name), largest_contribution);
  open_.push_back(communicator.get());
  return communicator;
}

void NcclBackend::warm_up(Stream& stream) {
  const NcclWatchdog::Guard guard(*watchdog_, "the first collectives of NCCL");
  for (NcclCommunicator* const communicator : open_) communicator->warm_up(stream);
  stream.synchronize();
  check();
}

void NcclBackend::watch_until_done(Stream& stream, const std::string& what) {
  watchdog_->watch_until_done(cuda_stream(stream), what);
}

void NcclBackend::check() {
  for (const NcclCommunicator* const communicator : open_) communicator->check();
}

std::int64_t NcclBackend::device_bytes() const {
  std::int64_t bytes = 0;
  for (const NcclCommunicator* const communicator : open_) bytes += communicator->device_bytes();
  return bytes;
}

}  // namespace tessera
