#include "cuda/kernels/cudnn.hpp"

#include <array>

#include "tessera/base/error.hpp"

namespace tessera {

using cudnn::Attribute;
using cudnn::Kind;
using cudnn::Type;

namespace {

/// Opens NVRTC, with which cuDNN compiles kernels of attention, and the part that NVRTC looks for by name alone. If
/// they are missing, cuDNN reports it when it needs them.
void open_compiler() {
  constexpr int major = CUDART_VERSION / 1000;
  try {
    open_cuda_library({"NVRTC",
                       {fmt::format("libnvrtc.so.{}", major)},
                       {fmt::format("cu{}", major), "cuda_nvrtc"},
                       {fmt::format("libnvrtc-builtins.so.{}", major)}});
  } catch (const UsageError&) {
  }
}

DynamicLibrary open_cudnn() {
  open_compiler();
  return open_cuda_library(
      {"cuDNN",
       {"libcudnn.so.9"},
       {"cudnn", "cu13"},
       {"libcudnn_graph.so.9", "libcudnn_ops.so.9", "libcudnn_cnn.so.9", "libcudnn_adv.so.9", "libcudnn_heuristic.so.9",
        "libcudnn_engines_runtime_compiled.so.9", "libcudnn_engines_precompiled.so.9"}});
}

}  // namespace

Cudnn::Cudnn() : library(open_cudnn()) {}

std::string Cudnn::version_text() const {
  const std::size_t number = version();
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

void Cudnn::check(int status, const char* call) const {
  if (status == cudnn::kSuccess) return;
  std::array<char, 1024> text{};
  last_error(text.data(), text.size());
  throw CudnnRefusal(fmt::format("{} ends with status {}: {}", call, status, text.data()));
}

CudnnDescriptor::CudnnDescriptor(const Cudnn& library, Kind kind) : library_(&library) {
  void* made = nullptr;
  library.check(library.create_descriptor(static_cast<int>(kind), &made), "cudnnBackendCreateDescriptor");
  owned_ = UniqueHandle<void*, Destroy>(made, {library.destroy_descriptor});
}

void CudnnDescriptor::set_raw(Attribute name, Type type, std::int64_t count, const void* values) {
  library_->check(library_->set(get(), static_cast<int>(name), static_cast<int>(type), count, values),
                  "cudnnBackendSetAttribute");
}

void CudnnDescriptor::set_text(Attribute name, const std::string& text) {
  set_raw(name, Type::character, static_cast<std::int64_t>(text.size()), text.data());
}

void CudnnDescriptor::finalize() { library_->check(library_->finalize(get()), "cudnnBackendFinalize"); }

std::int64_t CudnnDescriptor::get_integer(Attribute name) const {
  std::int64_t value = 0, count = 0;
  library_->check(library_->get(get(), static_cast<int>(name), static_cast<int>(Type::int64), 1, &count, &value),
                  "cudnnBackendGetAttribute");
  return value;
}

namespace {

/// Returns the proposals of the library's heuristic, the best first.
std::vector<CudnnDescriptor> engine_configs(const Cudnn& library, const CudnnTarget& target,
                                            const CudnnDescriptor& graph) {
  CudnnDescriptor heuristic(library, Kind::heuristic);
  heuristic.set(Attribute::heuristic_graph, graph);
  heuristic.set(Attribute::heuristic_mode, Type::heuristic_mode, cudnn::Heuristic::best);
  if (target.device_properties != nullptr) {
    heuristic.set(Attribute::heuristic_device_properties, *target.device_properties);
  }
  heuristic.finalize();
  const auto results = [&](std::int64_t wanted, void* values) {
    std::int64_t count = 0;
    library.check(library.get(heuristic.get(), static_cast<int>(Attribute::heuristic_results),
                              static_cast<int>(Type::descriptor), wanted, &count, values),
                  "cudnnBackendGetAttribute");
    return count;
  };
  std::vector<CudnnDescriptor> configs;
  std::vector<void*> places;
  for (std::int64_t i = results(0, nullptr); i > 0; --i) {
    configs.emplace_back(library, Kind::engine_config);
    places.push_back(configs.back().get());
  }
  const std::int64_t filled = configs.empty() ? 0 : results(static_cast<std::int64_t>(configs.size()), places.data());
  while (static_cast<std::int64_t>(configs.size()) > filled) configs.pop_back();
  return configs;
}

CudnnPlan plan_of(const Cudnn& library, const CudnnTarget& target, CudnnDescriptor config,
                  std::int64_t most_workspace_bytes) {
  CudnnDescriptor plan(library, Kind::plan);
  if (target.handle != nullptr) plan.set(Attribute::plan_handle, Type::handle, target.handle);
  if (target.device_properties != nullptr) plan.set(Attribute::plan_device_properties, *target.device_properties);
  plan.set(Attribute::plan_engine_config, config);
  plan.finalize();
  const std::int64_t bytes = plan.get_integer(Attribute::plan_workspace);
  if (bytes > most_workspace_bytes) {
    throw CudnnRefusal(fmt::format("it wants {} bytes of workspace, but {} are planned", bytes, most_workspace_bytes));
  }
  return {std::move(config), std::move(plan), bytes};
}

}  // namespace

CudnnPlan make_cudnn_plan(const Cudnn& library, const CudnnTarget& target, const CudnnDescriptor& graph,
                          std::int64_t most_workspace_bytes) {
  std::string reason = "its heuristic proposes nothing";
  for (CudnnDescriptor& config : engine_configs(library, target, graph)) {
    try {
      return plan_of(library, target, std::move(config), most_workspace_bytes);
    } catch (const CudnnRefusal& refusal) {
      reason = refusal.what();
    }
  }
  throw CudnnRefusal(reason);
}

}  // namespace tessera
