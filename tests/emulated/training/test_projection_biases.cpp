// Biases in front of the residual stream: on a GPU their gradients come out of norm backward.

#include <catch2/catch.hpp>
#include <cmath>

#include "gpu_case.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

/// Checks the gradients of both projections' biases in every block, each against its own size.
void check_biases(const Architecture& architecture, const RunOutcome& run, const RunOutcome& expected,
                  double tolerance) {
  const IndexedVector<TensorId, ParameterTensor> tensors = parameter_tensors(architecture);
  std::int64_t checked = 0;
  for (const TensorId id : tensors.ids()) {
    if (!tensors[id].name.ends_with("c_proj.bias")) continue;
    INFO(tensors[id].name);
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < expected.gradients[id].size(); ++i) {
      const auto a = static_cast<double>(run.gradients[id][i]), b = static_cast<double>(expected.gradients[id][i]);
      difference += (a - b) * (a - b), size += b * b;
    }
    CHECK(std::sqrt(difference / size) < tolerance);
    ++checked;
  }
  CHECK(checked == 2 * architecture.layers);
}

void check_follows_cpu(DType compute, double dropout, double tolerance) {
  INFO(name_of(compute) << " dropout " << dropout);
  Options options = gpu_options();
  options.train.steps = 1, options.optim.warmup_steps = 0;
  options.train.accumulation = 3;
  options.precision.compute = compute, options.precision.reduce = DType::fp32;
  Architecture architecture = tiny_gpt2();
  architecture.dropout = dropout;
  const RunOutcome gpu = train_locally(options, architecture, 1, 1);
  options.memory.checkpoint = ActivationCheckpointing::block;
  const RunOutcome recomputed = train_locally(options, architecture, 1, 1);
  CHECK((recomputed.gradients == gpu.gradients));
  options.run.device = DeviceKind::cpu;
  check_biases(architecture, gpu, train_locally(options, architecture, 1, 1), tolerance);
}

}  // namespace

TEST_CASE("gradients of projections' biases follow the CPU's, with and without dropout") {
  for (const double dropout : {0.0, 0.2}) {
    check_follows_cpu(DType::fp32, dropout, 1e-5);
    check_follows_cpu(DType::bf16, dropout, 0.005);
  }
}
