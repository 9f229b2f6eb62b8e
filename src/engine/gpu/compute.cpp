#include "engine/gpu/compute.hpp"

#include "tessera/base/refuse.hpp"
#include "tessera/base/shown.hpp"
#include "tessera/kernels/cuda_kernels.hpp"

namespace tessera {

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
    wanted.shape = {model->batch, model->sequence, attention.heads, attention.kv_heads, attention.head_width};
    wanted.query_stride = attention.inputs[0].stride, wanted.key_stride = attention.inputs[1].stride;
    wanted.dtype = model->compute;
    wanted.dropout = model->architecture.dropout > 0;
    wanted.documents = model->documents;
  }
  if (peers != nullptr) {
    wanted.gemm.choices = &algorithms_;
    wanted.verdicts = &verdicts_;
    wanted.tries_ordered = settings.deterministic && settings.algorithm_source == AlgorithmSource::timed;
    wanted.gemm.chooses = peers->rank() == 0;
    if (peers->size() > 1)
      wanted.gemm.agree = [peers](std::span<std::byte> choice) { peers->control().broadcast(choice, 0); };
  }
  kernels_ = make_cuda_kernels(workspace, wanted);
  header_ = fmt::format("{}, {}", device_.model(), kernels_->description());
  host_kernels_ = make_cpu_kernels(pool());
  if (settings.algorithm_source == AlgorithmSource::given)
    take_given(settings.algorithms);
  else
    take_kept(settings.algorithms);
  if (!verdicts_.empty()) kernels_ = make_cuda_kernels(workspace, wanted);  // attention's are chosen by them
}

void GpuCompute::copy(Queue, Stream& stream, void* to, const void* from, std::int64_t bytes) const {
  device_.copy(stream, to, from, bytes);
}

void GpuCompute::take(std::string rows) {
  verdicts_ = take_verdicts(rows);
  algorithms_ = GemmAlgorithms::parse(rows);
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
    take(kept.substr(kept_header.size() + 1));
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
  take(given.substr(made_for.size() + 1));
  remark_ = fmt::format("{} GEMM algorithms as given", algorithms_.size());
}

}  // namespace tessera
