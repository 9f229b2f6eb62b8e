// Documents that do not attend to each other, and tokens that do not count, on emulated GPUs.

#include <catch2/catch.hpp>

#include "gpu_case.hpp"
#include "temporary_folder.hpp"
#include "training/sixteen_bits.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

std::string drawn_text(int i) { return std::to_string(i * i).append(static_cast<std::size_t>(i * 7 % 19), '('); }

/// Options of pairs of 2 to 30 bytes, in a vocabulary of 67.
Options options_of_pairs(const TemporaryFolder& folder) {
  std::string lines;
  for (int i = 0; i < 400; ++i)
    lines += "{\"prompt\": \"" + drawn_text(i) + "\", \"completion\": \"" + drawn_text(i % 7) + "\"}\n";
  folder.write("pairs.jsonl", lines);
  Options options = gpu_options();
  options.data.source = (folder / "pairs.jsonl").string();
  options.data.synthetic_tokens = DataOptions().synthetic_tokens;
  options.data.cache = (folder / "cache").string();
  options.data.document_mask = Tristate::yes;
  options.train.seq_len = 12;
  options.train.accumulation = 2;
  return options;
}

Architecture tiny_model(Family family) {
  Architecture a = small_model(family);
  a.layers = 1;
  return a;
}

void check_close(const RunOutcome& gpu, const RunOutcome& cpu) {
  REQUIRE(gpu.losses.size() == cpu.losses.size());
  for (std::size_t i = 0; i < cpu.losses.size(); ++i) {
    CHECK(gpu.losses[i] == Approx(cpu.losses[i]).epsilon(2e-6));
    CHECK(gpu.norms[i] == Approx(cpu.norms[i]).epsilon(2e-5));
  }
  CHECK(gpu.evaluations.at(0) == Approx(cpu.evaluations.at(0)).epsilon(2e-6));
}

}  // namespace

TEST_CASE("with documents masked and prompts that do not count, one GPU follows the CPU") {
  const TemporaryFolder folder;
  for (const Family family : {Family::gpt2, Family::llama}) {
    INFO(name_of(family));
    Options options = options_of_pairs(folder);
    const Architecture architecture = tiny_model(family);
    const RunOutcome gpu = train_locally(options, architecture, 1, 1);
    options.memory.checkpoint = ActivationCheckpointing::block;
    const RunOutcome recomputed = train_locally(options, architecture, 1, 1);
    CHECK(same_run(recomputed, gpu));
    options.data.document_mask = Tristate::no;
    CHECK(train_locally(options, architecture, 1, 1).losses != gpu.losses);
    options.data.document_mask = Tristate::yes;
    options.run.device = DeviceKind::cpu;
    check_close(gpu, train_locally(options, architecture, 1, 1));
  }
}

TEST_CASE("masks in 16 bits over two GPUs follow the CPU") {
  const TemporaryFolder folder;
  Options options = options_of_pairs(folder);
  options.precision.compute = DType::bf16;
  options.shard.strategy = Strategy::zero3;
  const Architecture architecture = tiny_model(Family::qwen2);
  const GpuCount gpus(2);
  const SixteenBits near(options, architecture, 2);
  const RunOutcome gpu = train_locally(options, architecture, 2, 2);
  near.check_near(gpu);
  near.check_gradients(gpu);
}
