// docs/numerics.md, contract 1, on CPU ranks.
#include "golden_case.hpp"

using namespace tessera;
using namespace tessera::testing;

TEST_CASE("training on one rank follows the float64 reference") {
  for (const char* name : {"clipped", "deep", "shallow", "qwen2-tied", "qwen2-untied", "llama3", "qwen3", "mistral",
                           "gemma3", "gemma3-scaled", "llama-biases", "qwen2-windows", "muon-gpt2", "muon-qwen3"}) {
    INFO(name);
    const Golden golden = read_golden(name);
    check_against(golden, train_golden(golden, 1, 1, {"--shard.strategy=ddp"}));
  }
}

TEST_CASE("training sharded over ranks follows the float64 reference") {
  const Golden clipped = read_golden("clipped"), deep = read_golden("deep"), shallow = read_golden("shallow");
  check_against(clipped, train_golden(clipped, 4, 2, {"--shard.strategy=zero3"}));
  check_against(deep, train_golden(deep, 3, 1, {"--shard.strategy=zero2", "--memory.checkpoint=block"}));
  check_against(shallow, train_golden(shallow, 2, 2, {"--shard.strategy=zero1", "--shard.wrap=model"}));
  const Golden qwen2 = read_golden("qwen2-tied"), untied = read_golden("qwen2-untied"), llama = read_golden("llama3");
  check_against(qwen2, train_golden(qwen2, 4, 1, {"--shard.strategy=zero3", "--memory.checkpoint=block"}));
  check_against(untied, train_golden(untied, 3, 2, {"--shard.strategy=zero2", "--shard.wrap=size"}));
  check_against(llama, train_golden(llama, 2, 3, {"--shard.strategy=zero3"}));
  const Golden qwen3 = read_golden("qwen3");
  check_against(qwen3, train_golden(qwen3, 4, 2, {"--shard.strategy=hsdp", "--memory.checkpoint=block"}));
  const Golden gemma3 = read_golden("gemma3"), mistral = read_golden("mistral");
  check_against(gemma3, train_golden(gemma3, 4, 1, {"--shard.strategy=zero3", "--memory.checkpoint=block"}));
  check_against(mistral, train_golden(mistral, 2, 2, {"--shard.strategy=hsdp"}));
  const Golden gpt2_by_muon = read_golden("muon-gpt2"), qwen3_by_muon = read_golden("muon-qwen3");
  check_against(gpt2_by_muon, train_golden(gpt2_by_muon, 4, 1, {"--shard.strategy=zero3"}));
  check_against(gpt2_by_muon, train_golden(gpt2_by_muon, 4, 2, {"--shard.strategy=hsdp", "--shard.wrap=size"}));
  check_against(qwen3_by_muon, train_golden(qwen3_by_muon, 2, 2, {"--shard.strategy=zero1"}));
}
