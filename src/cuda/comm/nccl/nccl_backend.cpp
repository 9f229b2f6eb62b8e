#include "cuda/comm/nccl/nccl_backend.hpp"

#include <fmt/ranges.h>

#include <cstdlib>

#include "tessera/base/environment.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/cuda/launch.hpp"

namespace tessera {

namespace {

/// Sets a variable that NCCL reads when it starts, unless the user has. Returns the assignment, or "".
std::string set_environment(const char* name, const char* value) {
  if (std::getenv(name) != nullptr) return {};  // NOLINT(concurrency-mt-unsafe): at start, one thread
  setenv(name, value, 0);                       // NOLINT(concurrency-mt-unsafe)
  return fmt::format("{}={}", name, value);
}

/// Has calls return when they are done, as all code here expects: NCCL puts this variable, or a line of nccl.conf,
/// above what a communicator asks for. Returns the assignment if the user's was another, or "".
std::string require_blocking_calls() {
  constexpr const char* kName = "NCCL_COMM_BLOCKING";
  const std::string given = variable(kName);
  if (given == "1") return {};
  setenv(kName, "1", 1);  // NOLINT(concurrency-mt-unsafe): at start, one thread
  return given.empty() ? "" : fmt::format("{}=1 instead of {}", kName, given);
}

}  // namespace

NcclBackend::NcclBackend(RankContext& context, Device& device, const DeviceCommSettings& settings) {
  // With several communicators on one GPU, work starts on it in the order of issue. NCCL must not register buffers when
  // a graph is captured, because before 2.32 receivers of a network may then wait without end (nccl#2389).
  for (const auto& [name, value] : {std::pair("NCCL_LAUNCH_ORDER_IMPLICIT", "1"), {"NCCL_GRAPH_REGISTER", "0"}}) {
    std::string set = set_environment(name, value);
    if (!set.empty()) environment_.push_back(std::move(set));
  }
  if (std::string set = require_blocking_calls(); !set.empty()) environment_.push_back(std::move(set));
  watchdog_ = std::make_unique<NcclWatchdog>(context, device, settings.timeout_seconds);
  context_.context = &context;
  context_.device = &device;
  context_.watchdog = watchdog_.get();
  context_.deterministic = settings.deterministic;
  context_.external_workspace = settings.external_workspace;
  context_.timeout_seconds = settings.timeout_seconds;
}

std::string NcclBackend::description() const {
  const NcclApi& nccl = nccl_api();
  std::vector<std::string> parts{fmt::format("NCCL {} ({})", nccl.version_text(), nccl.library.path())};
  parts.emplace_back(context_.deterministic ? "sums in a fixed tree" : "sums in NCCL's order");
  for (const std::string& set : environment_) parts.push_back(set + " set here");
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::unique_ptr<DeviceMemory> NcclBackend::allocate_shared(std::int64_t bytes) {
  TESSERA_ASSERT(open_.empty() && context_.shared == nullptr, "the shared region comes once, before communicators");
  auto memory = context_.device->allocate(MemoryKind::device, bytes);
  context_.shared = memory->data();
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
