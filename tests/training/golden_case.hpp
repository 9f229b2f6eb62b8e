#pragma once
// docs/numerics.md, contract 1: as close to double precision as PyTorch's own fp32 is (tests/reference makes the data).

#include <catch2/catch.hpp>
#include <cmath>

#include "tessera/config/choices.hpp"
#include "tessera/files/hdf5_data.hpp"
#include "tessera/formats/hugging_face.hpp"
#include "training/session_case.hpp"

namespace tessera::testing {

inline constexpr double kLossTolerance = 2e-6, kNormTolerance = 2e-5, kGradientTolerance = 1e-5,
                        kWeightTolerance = 1e-4;

struct Golden {
  std::filesystem::path folder;
  Architecture architecture;
  IndexedVector<TensorId, ParameterTensor> tensors;
  std::vector<double> losses, norms;
  IndexedVector<TensorId, std::vector<float>> gradients, weights;
  Options options;
};

inline Golden read_golden(const std::string& name) {
  Golden golden;
  golden.folder = std::filesystem::path(TESSERA_REFERENCE_DIR) / name;
  golden.architecture = read_config(golden.folder);
  golden.tensors = parameter_tensors(golden.architecture);
  const Hdf5File file = Hdf5File::open(golden.folder / "golden.h5");
  golden.losses = hdf5_read<double>(file.id(), "loss");
  golden.norms = hdf5_read<double>(file.id(), "grad_norm");
  const Hdf5Group gradients = hdf5_open_group(file.id(), "gradients"), weights = hdf5_open_group(file.id(), "weights");
  for (const ParameterTensor& tensor : golden.tensors) {
    golden.gradients.push_back(hdf5_read<float>(gradients.id(), tensor.name));
    golden.weights.push_back(hdf5_read<float>(weights.id(), tensor.name));
  }
  auto number = [&](const char* attribute) { return hdf5_read_attribute<double>(file.id(), attribute); };
  auto integer = [&](const char* attribute) { return hdf5_read_attribute<std::int64_t>(file.id(), attribute); };
  Options& o = golden.options;
  o = parse_arguments({"--data.order=sequential", "--data.val_fraction=0", "--optim.schedule=constant",
                       "--run.deterministic=true", "--run.threads=1", "--run.timeout=60"});
  o.data.source = (golden.folder / "tokens.bin").string();
  o.train.seq_len = integer("sequence");
  o.train.steps = integer("steps");
  o.train.micro_batch = integer("batch");  // divided by world x accumulation below
  o.optim.name = *read_choice<OptimizerName>(hdf5_read_attribute<std::string>(file.id(), "optimizer"));
  o.optim.lr = number("lr");
  o.optim.beta1 = number("beta1");
  o.optim.beta2 = number("beta2");
  o.optim.eps = number("eps");
  o.optim.weight_decay = number("weight_decay");
  o.optim.clip = number("clip");
  return golden;
}

/// |a - b| / |b|, elements [first, last) of each `period` left out (the key third of attention's bias).
inline double distance(const std::vector<float>& a, const std::vector<float>& b, bool without_keys) {
  double square = 0, norm = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    if (without_keys && i >= b.size() / 3 && i < 2 * b.size() / 3) continue;
    square += (double(a[i]) - b[i]) * (double(a[i]) - b[i]);
    norm += double(b[i]) * b[i];
  }
  return std::sqrt(square) / std::sqrt(norm);
}

inline void check_against(const Golden& golden, const RunOutcome& run) {
  REQUIRE(run.losses.size() == golden.losses.size());
  double loss = 0, norm = 0, gradient = 0, weight = 0;
  for (std::size_t i = 0; i < golden.losses.size(); ++i) {
    loss = std::max(loss, std::abs(run.losses[i] / golden.losses[i] - 1));
    norm = std::max(norm, std::abs(run.norms[i] / golden.norms[i] - 1));
  }
  for (const TensorId i : golden.tensors.ids()) {
    const bool keys = golden.tensors[i].name.ends_with("c_attn.bias");
    INFO(golden.tensors[i].name);
    const double g = distance(run.gradients[i], golden.gradients[i], keys),
                 w = distance(run.weights[i], golden.weights[i], keys);
    REQUIRE(g < kGradientTolerance);
    REQUIRE(w < kWeightTolerance);
    gradient = std::max(gradient, g), weight = std::max(weight, w);
  }
  INFO("loss " << loss << " norm " << norm << " gradients " << gradient << " weights " << weight);
  CHECK(loss < kLossTolerance);
  CHECK(norm < kNormTolerance);
  WARN("distance from float64: loss " << loss << ", norm " << norm << ", gradients " << gradient << ", weights "
                                      << weight);
}

inline RunOutcome train_golden(const Golden& golden, std::int64_t world, std::int64_t accumulation,
                               const std::vector<std::string>& extra) {
  Options options = golden.options;
  options.train.accumulation = accumulation;
  options.train.micro_batch /= world * accumulation;
  for (const std::string& argument : extra) {
    const Options one = parse_arguments({argument});
    if (one.is_given("shard.strategy")) options.shard.strategy = one.shard.strategy;
    if (one.is_given("memory.checkpoint")) options.memory.checkpoint = one.memory.checkpoint;
    if (one.is_given("shard.wrap")) options.shard.wrap = one.shard.wrap;
    if (one.is_given("run.device")) options.run.device = one.run.device;
  }
  const HuggingFaceWeights weights(golden.folder, golden.tensors);
  return train_locally(
      options, golden.architecture, world, world, {},
      [&](TensorId tensor, std::int64_t first, std::span<float> out) { weights.read(tensor, first, out); });
}

}  // namespace tessera::testing
