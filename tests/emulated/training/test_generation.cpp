// Generation on emulated GPUs: Transformers' own tokens, from a chunk of a prompt and from the cache.

#include <catch2/catch.hpp>

#include "generate/generation_case.hpp"
#include "gpu_case.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

TokenLists generated(const GenerationReference& reference, std::vector<std::string> arguments, std::int64_t world) {
  arguments.insert(arguments.end(), {"--run.device=cuda", "--comm.backend=staged"});
  GenerationCase c = case_of(reference, arguments);
  c.world = c.ranks_per_node = world;
  c.settings.comm = c.options.comm;
  return continuations(c, reference.prompts, reference.lengths());
}

}  // namespace

TEST_CASE("greedy tokens of a GPU are Transformers', for every family") {
  for (const char* name : {"clipped", "qwen2-tied", "llama3", "qwen3"}) {
    INFO(name);
    const GenerationReference reference(name);
    CHECK(generated(reference, {}, 1) == reference.tokens);
  }
}

TEST_CASE("greedy tokens of two GPUs that share a model are those of one") {
  const GpuCount gpus(2);
  const GenerationReference reference("llama3");
  CHECK(generated(reference, {"--shard.strategy=zero3"}, 2) == reference.tokens);
}
