// Trainings on CPUs end with unchanged bits: losses, norms, the validation loss, all masters.
//
// Tessera's own loops have the same bits on every processor. Matmuls are oneDNN's, and its order of summation depends
// on the instructions that it uses. So it is held to AVX2, as any processor since 2013 has it, and the golden file's
// name has oneDNN's version. There is none for other versions: the test then says "skipped", and CTest lists it so.
#include <dnnl.h>
#ifdef __aarch64__
extern "C" char* openblas_get_corename();
#endif

#include <catch2/catch.hpp>

#include "golden/golden_file.hpp"
#include "training/session_case.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

struct Training {
  Family family;
  std::int64_t world, ranks_per_node;
  std::vector<std::string> arguments;
};

/// Three ranks too: a sum over a power of two in the opposite order has the same bits.
std::vector<Training> trainings() {
  using enum Family;
  return {
      {gpt2, 1, 1, {"--shard.strategy=ddp"}},
      {gpt2, 2, 2, {"--shard.strategy=zero1", "--train.accumulation=2", "--optim.clip=0.2"}},
      {gpt2, 4, 2, {"--shard.strategy=zero2", "--train.accumulation=3", "--shard.reduce=step"}},
      {qwen2, 4, 4, {"--shard.strategy=zero3", "--train.accumulation=2", "--memory.checkpoint=block"}},
      {llama, 3, 3, {"--shard.strategy=zero3", "--shard.reshard_after_forward=false", "--optim.clip=0"}},
      {gpt2, 4, 2, {"--shard.strategy=hsdp", "--shard.group_size=2", "--train.accumulation=5"}},
      {llama, 4, 2, {"--shard.strategy=hsdp-zero2", "--shard.group_size=2", "--precision.compute=bf16"}},
      {gpt2, 1, 1, {"--precision.compute=bf16", "--memory.checkpoint=block", "--train.accumulation=7"}},
      {qwen2, 2, 2, {"--precision.compute=bf16", "--precision.reduce=bf16", "--train.accumulation=2"}},
      {gpt2, 2, 2, {"--shard.strategy=zero2", "--train.accumulation=4", "--run.deterministic=false"}},
      {llama, 4, 4, {"--shard.strategy=ddp", "--train.accumulation=2", "--precision.compute=fp16"}},
      {gpt2, 4, 2, {"--shard.strategy=hsdp-zero1", "--shard.group_size=2", "--train.accumulation=3"}},
  };
}

/// Returns the bits of all numbers, and the last loss in readable form.
std::string text_of(const RunOutcome& run) {
  std::vector<double> numbers = run.losses;
  numbers.insert(numbers.end(), run.norms.begin(), run.norms.end());
  numbers.insert(numbers.end(), run.evaluations.begin(), run.evaluations.end());
  std::vector<float> masters;
  for (const auto& tensor : run.weights) masters.insert(masters.end(), tensor.begin(), tensor.end());
  return fmt::format("loss {:a} norm {:a} all {} masters {}", run.losses.back(), run.norms.back(),
                     hash_of(numbers.data(), numbers.size() * sizeof(double)),
                     hash_of(masters.data(), masters.size() * sizeof(float)));
}

/// Returns "trainings_onednn-2.6.3_avx2.txt", or on Arm "trainings_openblas_armv8.txt": the matmuls of this process.
std::string golden_of_this_machine() {
#ifdef __aarch64__
  const std::string core = openblas_get_corename();  // tests/arm.sh has OPENBLAS_CORETYPE=ARMV8
  return fmt::format("trainings_openblas_{}.txt", core == "armv8" ? core : "other");
#else
  dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx2);  // before its first matmul; a processor with less has less
  const dnnl_version_t* version = dnnl_version();
  const bool avx2 = dnnl_get_effective_cpu_isa() == dnnl_cpu_isa_avx2;
  return fmt::format("trainings_onednn-{}.{}.{}_{}.txt", version->major, version->minor, version->patch,
                     avx2 ? "avx2" : "other");
#endif
}

}  // namespace

TEST_CASE("trainings end with the bits that they ended with", "[bits]") {
  const std::string golden = golden_of_this_machine();
  if (!has_golden(golden)) {
    WARN("skipped: there is no " << golden);
    return;
  }
  std::vector<GoldenEntry> entries;
  for (const Training& training : trainings()) {
    std::vector<std::string> arguments{"--data.source=synthetic", "--data.synthetic_tokens=6000",
                                       "--data.val_fraction=0.2", "--train.seq_len=9",
                                       "--train.micro_batch=2",   "--train.steps=4",
                                       "--train.eval_batches=8",  "--optim.lr=0.01",
                                       "--optim.warmup_steps=2",  "--run.threads=1",
                                       "--run.timeout=60"};
    std::string key = fmt::format("{} {}/{}", name_of(training.family), training.world, training.ranks_per_node);
    for (const std::string& argument : training.arguments) key += " " + argument.substr(2);
    arguments.insert(arguments.end(), training.arguments.begin(), training.arguments.end());
    INFO(key);
    entries.push_back({key, text_of(train_locally(parse_arguments(arguments), small_model(training.family),
                                                  training.world, training.ranks_per_node))});
  }
  check_golden(golden, entries);
}
