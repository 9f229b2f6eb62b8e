// Captures and their replay. A replay runs nodes one at a time, in a random order among those that their edges allow.
// So a missing edge shows as a wrong result.

#include <algorithm>
#include <atomic>
#include <numeric>

#include "gpu_emulator/runtime/enqueue.hpp"
#include "gpu_emulator/runtime/state.hpp"

using emulator::Capture;
using emulator::Node;
using emulator::report;

namespace {

std::atomic<std::int64_t> launches{0};

/// Every node must lead to the origin's end, or a stream was left unjoined.
bool all_joined(const Capture& capture, const std::vector<std::size_t>& ends) {
  std::vector<bool> reached(capture.nodes.size(), false);
  std::vector<std::size_t> left = ends;
  while (!left.empty()) {
    const std::size_t node = left.back();
    left.pop_back();
    if (reached[node]) continue;
    reached[node] = true;
    left.insert(left.end(), capture.nodes[node].after.begin(), capture.nodes[node].after.end());
  }
  return std::find(reached.begin(), reached.end(), false) == reached.end();
}

void run_graph(const std::vector<Node>& nodes, std::uint64_t seed) {
  const emulator::DeviceAccess access;
  std::minstd_rand random(static_cast<unsigned>(seed));
  std::vector<std::size_t> missing(nodes.size());
  std::vector<std::vector<std::size_t>> next(nodes.size());
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    missing[i] = nodes[i].after.size();
    for (const std::size_t before : nodes[i].after) next[before].push_back(i);
    if (missing[i] == 0) ready.push_back(i);
  }
  while (!ready.empty()) {
    const std::size_t pick = seed == 0 ? 0 : random() % ready.size();
    const std::size_t node = ready[pick];
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(pick));
    nodes[node].work();
    for (const std::size_t later : next[node]) {
      if (--missing[later] == 0) ready.push_back(later);
    }
  }
}

}  // namespace

std::int64_t emulator::graph_launches() { return launches; }

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (stream == nullptr || stream->capture != nullptr) return report(cudaErrorStreamCaptureUnsupported);
  stream->capture = std::make_shared<Capture>();
  stream->capture->origin = stream;
  stream->capture->streams = {stream};
  stream->frontier.clear();
  emulator::thread_captures() = true;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  const auto capture = stream->capture;
  if (capture == nullptr || capture->origin != stream) return report(cudaErrorIllegalState);
  const bool joined = all_joined(*capture, stream->frontier);
  for (cudaStream_t const one : capture->streams) one->capture = nullptr, one->frontier.clear();
  emulator::thread_captures() = false;
  if (!joined) return report(cudaErrorStreamCaptureUnjoined);
  *graph = new CUgraph_st{std::move(capture->nodes)};
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status =
      stream != nullptr && stream->capture != nullptr ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  if (nodes != nullptr) return report(cudaErrorNotSupported);
  *count = graph->nodes.size();
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  *executable = new CUgraphExec_st{graph->nodes, 0};
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  stream = emulator::resolve(stream);
  if (stream->capture != nullptr) return report(cudaErrorStreamCaptureUnsupported);
  const std::uint64_t seed = emulator::chaos_seed();
  const std::uint64_t order = seed == 0 ? 0 : seed * 7919 + static_cast<std::uint64_t>(++executable->launches);
  ++launches;
  stream->push([executable, order] { run_graph(executable->nodes, order); });
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  if (executable == nullptr) return cudaSuccess;
  const cudaError_t result = emulator::synchronize_device();
  delete executable;
  return result;
}

}  // extern "C"
