// Asks the real cuDNN, if one is found, to make plans for Tessera's attention graphs on a described H200. No GPU is
// needed or used. It shows that the library recognises the graphs and compiles kernels for them, and that the workspace
// stays in its bound. The kernels' results are not tested here. The library loads its compiled kernels through the
// driver: driver.cpp, a stand-in that only says yes.

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "cuda/kernels/attention_graph.hpp"
#include "kernels/gpu/layouts.hpp"
#include "tessera/base/error.hpp"

namespace {

using namespace tessera;

/// GPUs in the words of cuDNN's own serialisation, 9.28's new words too.
constexpr const char* kH200 = R"({"deviceVer":900,"driverVer":13000,"cudaDeviceId":0,"totalGlobalMem":150000000000,
"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,"multiProcessorCount":132,
"smCountOrigin":0,
"oversizedSharedMemoryPerBlock":0,"memoryBusWidth":5120,"warpSize":32,"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":232448,"reservedSharedMemoryPerBlock":1024,
"maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":0,
"isTccDriver":0,"supportCoopLaunch":1,"smClockRateKHz":1980000,"memClockRateKHz":3201000,"l2CacheSize":62914560,
"deviceName":"NVIDIA H200"})";
constexpr const char* kA100 = R"({"deviceVer":800,"driverVer":13000,"cudaDeviceId":0,"totalGlobalMem":80000000000,
"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,"multiProcessorCount":108,
"smCountOrigin":0,
"oversizedSharedMemoryPerBlock":0,"memoryBusWidth":5120,"warpSize":32,"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":166912,"reservedSharedMemoryPerBlock":1024,
"maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":0,
"isTccDriver":0,"supportCoopLaunch":1,"smClockRateKHz":1410000,"memClockRateKHz":1593000,"l2CacheSize":41943040,
"deviceName":"NVIDIA A100"})";

/// Shapes of every run; the others are for TESSERA_LONG=1 (a plan takes half a second). The others are presets as
/// they are trained, odd lengths, and other widths of heads and groups.
constexpr AttentionShape kShapes[] = {{64, 1024, 12, 12, 64}, {16, 1024, 12, 2, 128},        {3, 65, 2, 2, 64},
                                      {2, 100, 6, 2, 8},      {16, 1024, 12, 2, 128, 0, 69}, {3, 65, 2, 2, 64, 0, 9}};
constexpr AttentionShape kMoreShapes[] = {{16, 1024, 25, 25, 64},    {16, 1024, 14, 2, 64},
                                          {2, 4096, 32, 8, 128},     {1, 2, 1, 1, 64},
                                          {2, 1000, 6, 3, 128},      {1, 127, 4, 1, 64},
                                          {5, 129, 3, 3, 128},       {1, 200, 4, 4, 32},
                                          {2, 33, 1, 1, 72},         {1, 300, 2, 2, 96},
                                          {1, 16384, 2, 1, 128},     {16, 1024, 25, 25, 64, 0, 69},
                                          {2, 100, 6, 2, 8, 0, 300}, {64, 1024, 12, 12, 64, 0, 1000},
                                          {1, 2, 1, 1, 64, 0, 2}};

AttentionProblem problem(const AttentionShape& s, DType dtype) {
  AttentionProblem p;
  p.shape = s, p.dtype = dtype;
  const std::int64_t width = (s.heads + 2 * s.kv_heads) * s.head_width, out = s.heads * s.head_width;
  p.query = p.key = p.value = width, p.output = out;
  return p;
}

AttentionProblem backward(AttentionProblem p, bool deterministic) {
  p.deterministic = deterministic;
  p.output_gradient = p.output, p.query_gradient = p.key_gradient = p.value_gradient = p.query;
  return p;
}

enum class Kind { forward, backward, deterministic_backward };

const char* name_of(Kind kind) {
  return kind == Kind::forward ? "forward" : kind == Kind::backward ? "backward" : "deterministic backward";
}

/// Returns empty when there is a plan within its workspace, otherwise why not.
std::string try_plan(const Cudnn& library, const CudnnTarget& target, const AttentionShape& shape, DType dtype,
                     Kind kind) {
  const std::int64_t kForwardWorkspace = 4096 + 512 * shape.documents;  // (its kernels have 32 MiB)
  const bool deterministic = kind == Kind::deterministic_backward;
  const AttentionProblem p = problem(shape, dtype);
  try {
    const AttentionGraph graph = kind == Kind::forward
                                     ? attention_forward_graph(library, target, p)
                                     : attention_backward_graph(library, target, backward(p, deterministic));
    const std::int64_t most =
        kind == Kind::forward ? kForwardWorkspace : CudnnAttentionBackwardLayout::workspace_bytes(shape, deterministic);
    const CudnnPlan plan = make_cudnn_plan(library, target, graph.graph, most);
    if (deterministic || shape.documents > 0)
      fmt::print("{}, {} x {}, heads {}/{} of {}, documents {}: {} bytes of workspace, at most {}\n", name_of(kind),
                 shape.batch, shape.sequence, shape.heads, shape.kv_heads, shape.head_width, shape.documents,
                 plan.workspace_bytes, most);
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

int main() {
  std::optional<Cudnn> library;
  try {
    library.emplace();
  } catch (const UsageError& error) {
    fmt::print("skipped: {}\n", error.what());
    return 77;
  }
  fmt::print("cuDNN {} ({})\n", library->version_text(), library->library.path());
  const bool all = std::getenv("TESSERA_LONG") != nullptr;  // NOLINT(concurrency-mt-unsafe): nobody changes it
  std::vector<AttentionShape> shapes(std::begin(kShapes), std::end(kShapes));
  if (all) shapes.insert(shapes.end(), std::begin(kMoreShapes), std::end(kMoreShapes));
  int made = 0, refused = 0;
  for (const char* const gpu : {kH200, kA100}) {
    CudnnDescriptor device(*library, cudnn::Kind::device_properties);
    device.set_text(cudnn::Attribute::device_properties_text, gpu);
    device.finalize();
    for (const AttentionShape& shape : shapes) {
      for (const DType dtype : {DType::bf16, DType::fp16}) {
        for (const Kind kind : {Kind::forward, Kind::backward, Kind::deterministic_backward}) {
          // An A100's needs a second sum of query gradients; Tessera's own kernels do it there.
          if (kind == Kind::backward && gpu == kA100) continue;
          if (kind != Kind::forward && shape.documents > 0 && gpu == kA100) continue;  // there it has none
          if (dtype == DType::fp16 && !all) continue;
          const std::string outcome = try_plan(*library, {nullptr, &device}, shape, dtype, kind);
          ++(outcome.empty() ? made : refused);
          if (outcome.empty()) continue;
          fmt::print("{} {} x {}, heads {}/{} of {}, documents {}, {}, compute capability {}: {}\n", name_of(kind),
                     shape.batch, shape.sequence, shape.heads, shape.kv_heads, shape.head_width, shape.documents,
                     tessera::name_of(dtype), gpu == kH200 ? 9.0 : 8.0, outcome);
        }
      }
    }
  }
  fmt::print("{} plans made, {} refused\n", made, refused);
  return refused == 0 ? 0 : 1;
}
