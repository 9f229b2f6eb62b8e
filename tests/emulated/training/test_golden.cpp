// docs/numerics.md, contract 1, on an emulated GPU: cuBLASLt's matmuls are the emulator's, other kernels Tessera's.
#include <cstdlib>

#include "training/golden_case.hpp"

using namespace tessera;
using namespace tessera::testing;

TEST_CASE("training on one GPU follows the float64 reference", "[long]") {
  // All families take a minute and a half here: with TESSERA_LONG (tests/long.sh).
  std::vector<std::string> names{"shallow"};
  if (std::getenv("TESSERA_LONG") != nullptr)
    names = {"clipped", "deep",   "shallow",       "qwen2-tied",   "qwen2-untied", "llama3", "qwen3",
             "mistral", "gemma3", "gemma3-scaled", "llama-biases", "qwen2-windows"};  // Muon is in bf16 there
  for (const std::string& name : names) {
    INFO(name);
    const Golden golden = read_golden(name);
    check_against(golden, train_golden(golden, 1, 1, {"--shard.strategy=ddp", "--run.device=cuda"}));
  }
}
