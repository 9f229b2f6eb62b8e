// MLPs that take the rows of a micro-batch in chunks (Part::chunk).

#include "model/decoder_case.hpp"
#include "tessera/model/adapters.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

/// Every family, GPT-2 with dropout too, and one with adapters that drop some of their input.
std::vector<Architecture> architectures() {
  std::vector<Architecture> all{small(2, 2, 6, 13), small(2, 2, 6, 13),
                                small_qwen2(),      small_llama(),
                                small_qwen3(),      small_rotary(Family::gemma3, {2, 4, 2, 18, 13, 17}, true)};
  all.back().head_dim = 6, all.back().window = 3, all.back().full_every = 2;
  all[1].dropout = 0.2;
  all.push_back(small_llama());
  all.back().adapters = {3, 5, 0.2, false, named_modules(all.back(), "all")};
  return all;
}

std::unique_ptr<ModelRun> trained(const Architecture& a, DType compute, std::int64_t chunk, int micro_batches = 1) {
  auto run = std::make_unique<ModelRun>(a, 3, 11, compute, DType::fp32, 2, 7, PartChoices{.mlp_chunk = chunk});
  prepare(*run);
  for (int i = 0; i < micro_batches; ++i) run->train(i > 0);
  CHECK(run->intact());
  return run;
}

}  // namespace

TEST_CASE("an MLP in chunks computes what all rows at once do, up to roundings", "[decoder]") {
  for (const Architecture& a : architectures()) {
    for (const int micro_batches : {1, 2}) {
      const auto whole = trained(a, DType::fp32, 0, micro_batches);
      for (const std::int64_t chunk : {1, 7, 11, 16, 32, 33, 100}) {
        INFO(name_of(a.family) << " in chunks of " << chunk << ", " << micro_batches << " micro-batches");
        const auto run = trained(a, DType::fp32, chunk, micro_batches);
        const auto check = [&](const Doubles& values, const Doubles& expected, double tolerance) {
          CHECK(relative_error(values, expected) <= (chunk < 33 ? tolerance : 0));
        };
        const auto rows = [&](const Guarded& memory) {
          return to_doubles(memory.data(), DType::fp32, run->model.residual_elements());
        };
        check({run->loss}, {whole->loss}, 1e-7);
        for (std::size_t p = 0; p + 1 < run->activations.size(); ++p)
          check(rows(run->activations[p]), rows(whole->activations[p]), 1e-6);
        check(rows(run->residual_gradient), rows(whole->residual_gradient), 2e-6);
        for (const TensorId i : run->gradients.ids()) {
          INFO(run->model.tensors[i].name);
          if (run->model.tensors[i].trains) check(gradient_of(*run, i), gradient_of(*whole, i), 2e-6);
        }
      }
    }
  }
}

TEST_CASE("chunks of an MLP save nothing, and their FLOPs are those of all rows with forward once more", "[decoder]") {
  for (const Architecture& a : architectures()) {
    const auto parts = [&](std::int64_t chunk) {
      return declare_parts(a, 3, 11, DType::bf16, DType::fp32, DeviceKind::cuda, {.mlp_chunk = chunk});
    };
    const ModelParts whole = parts(0), chunks = parts(4);
    CHECK(chunks.training_flops() == whole.training_flops());
    for (const PartId id : whole.parts.ids()) {
      const Part &one = chunks.parts[id], &other = whole.parts[id];
      INFO(one.name);
      CHECK(one.forward.flops == other.forward.flops);
      CHECK(one.saved.empty() == (other.saved.empty() || other.kind == PartKind::mlp));
      if (other.kind != PartKind::mlp) continue;
      CHECK(one.backward.flops == other.backward.flops + other.recompute.flops);
      CHECK(one.forward.scratch_bytes < other.forward.scratch_bytes);
      CHECK(std::ranges::count(one.read_in_backward, false) == 0);
    }
  }
}
