#include "engine/gpu/compute.hpp"

#include <algorithm>
#include <sstream>
#include <string_view>

#include "tessera/base/refuse.hpp"
#include "tessera/base/shown.hpp"
#include "tessera/kernels/cuda_kernels.hpp"

namespace tessera {

namespace {

/// A table of algorithms in today's words.
struct Table {
  std::string text;
  bool own_backward = false;  ///< the run's earlier part computed attention's backward by own kernels
};

/// Reads tables of builds that had cuDNN's backward only after a trial, whose result stood in rows of its own.
Table read_table(const std::string& text) {
  constexpr std::string_view kOwnBackward = ", its backward by own kernels (run.deterministic)";
  Table table;
  bool is_ordered = false;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool is_trial = line.starts_with("attention ");
    is_ordered |= is_trial && line.find(" : ordered ") != std::string::npos;
    if (!is_trial) table.text += line + (lines.eof() ? "" : "\n");
  }
  const std::size_t end = table.text.find('\n'), at = table.text.rfind(kOwnBackward, end);
  table.own_backward = at != std::string::npos && !is_ordered;
  if (is_ordered && at != std::string::npos) table.text.replace(at, kOwnBackward.size(), ", deterministic");
  return table;
}

/// Returns what stands behind the first line.
std::string behind_header(const std::string& text, const std::string& header) {
  return text.substr(std::min(header.size() + 1, text.size()));
}

}  // namespace

GpuCompute::GpuCompute(Device& device, const ResourceSettings& settings, std::byte* workspace, const ModelParts* model,
                       RankContext* peers)
    : RankCompute(settings.threads, settings.threads_on_cores), device_(device) {
  CudaKernelSettings wanted;
  wanted.attention = settings.attention;
  wanted.deterministic = settings.deterministic;
  wanted.gemm.times = !settings.deterministic || settings.algorithm_source == AlgorithmSource::timed;
  wanted.gemm.only_kept = settings.algorithm_source == AlgorithmSource::given;
  wanted.gemm.rounds_to_tf32 = settings.matmul == MatmulPrecision::tf32;
  if (model != nullptr) {
    const Layer& attention = attention_layer(*model);
    wanted.shape = attention_shape(*model, attention);
    wanted.query_stride = attention.inputs[0].stride, wanted.key_stride = attention.inputs[1].stride;
    wanted.dtype = model->compute;
    wanted.dropout = model->architecture.dropout > 0;
    wanted.fp8 = model->fp8.has_value();
    wanted.windows = model->architecture.window > 0 && model->architecture.window < model->sequence;
  }
  const Table table = read_table(settings.algorithms);
  wanted.own_backward = settings.deterministic && table.own_backward;
  if (peers != nullptr) {
    wanted.gemm.choices = &algorithms_;
    if (settings.algorithm_source == AlgorithmSource::kept)  // rank 0 has the table
      wanted.own_backward = peers->control().broadcast(wanted.own_backward ? "own" : "") == "own";
    wanted.gemm.chooses = peers->rank() == 0;
    if (peers->size() > 1)
      wanted.gemm.agree = [peers](std::span<std::byte> choice) { peers->control().broadcast(choice, 0); };
  }
  kernels_ = make_cuda_kernels(workspace, wanted);
  header_ = fmt::format("{}, {}", device_.model(), kernels_->description().text);
  host_kernels_ = make_cpu_kernels(pool());
  if (settings.algorithm_source == AlgorithmSource::given)
    take_given(table.text);
  else
    take_kept(table.text);
}

void GpuCompute::copy(Queue, Stream& stream, void* to, const void* from, std::int64_t bytes) const {
  device_.copy(stream, to, from, bytes);
}

/// Selects again the saved algorithms that no longer apply, with a remark in the log. They are meaningful only to the
/// same library on the same kind of GPU.
void GpuCompute::take_kept(const std::string& kept) {
  if (kept.empty()) return;
  const std::string kept_header = kept.substr(0, kept.find('\n'));
  if (kept_header != header_) {
    remark_ = fmt::format("GEMM algorithms chosen anew (those kept are for {})", kept_header);
    return;
  }
  try {
    algorithms_ = GemmAlgorithms::parse(behind_header(kept, kept_header));
    remark_ = fmt::format("{} GEMM algorithms as kept", algorithms_.size());
  } catch (const IoError& error) {
    remark_ = fmt::format("GEMM algorithms chosen anew ({})", error.what());
  }
}

void GpuCompute::take_given(const std::string& given) {
  const std::string made_for = given.substr(0, given.find('\n'));
  if (made_for != header_) {
    throw refusal("the algorithms of run.algorithms cannot run here")
        .because("they are for '{}', and this is '{}'", printable(made_for), header_)
        .hint("Make a file for this GPU with bench kernels, or leave the option out");
  }
  algorithms_ = GemmAlgorithms::parse(behind_header(given, made_for));
  remark_ = fmt::format("{} GEMM algorithms as given", algorithms_.size());
}

}  // namespace tessera
