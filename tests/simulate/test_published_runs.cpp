// What others have published of runs over many GPUs, against what is predicted for the same work on a DGX H100. Only
// ratios can be compared, because the kernels are ours.

#include <catch2/catch.hpp>

#include "tessera/model/family.hpp"
#include "tessera/simulate/predict.hpp"

using namespace tessera;

namespace {

Cluster dgx() { return read_cluster(std::string(TESSERA_REFERENCE_DIR) + "/../../inputs/clusters/h100.ini"); }

/// The same GPUs, whose collectives take no time.
Cluster without_communication() {
  Cluster cluster = dgx();
  for (auto& [name, table] : cluster.prices) {
    if (!name.ends_with(".node") && !name.ends_with(".network")) continue;
    table = PriceTable(table.axes(), std::vector<double>(table.points().size(), 1e-12));
  }
  return cluster;
}

double tokens_per_rank(const Cluster& cluster, const Architecture& architecture, std::int64_t ranks,
                       std::vector<std::string> words) {
  for (const char* word : {"--run.device=cuda", "--run.deterministic=false", "--precision.compute=bf16"})
    words.emplace_back(word);
  const Options options = parse_arguments(words);
  const PlannedRun run =
      plan_shape(run_shape(options, {architecture, ranks, std::min<std::int64_t>(ranks, 8)}), {false, 0});
  return predict(run.schedule, run.plan, options, cluster).tokens_per_second / static_cast<double>(ranks);
}

/// torchtitan, benchmarks/llama3_h100_202412: Llama 3 8B, batch 2 x 8192, FSDP; the part of tokens/s per GPU that is
/// lost from 8 to 128 GPUs. Published: 2.7% eager, 2.3% compiled.
double lost_by_llama_8b(const Cluster& cluster) {
  const auto speed = [&](std::int64_t ranks) {
    return tokens_per_rank(cluster, preset("llama-8b"), ranks,
                           {"--train.micro_batch=2", "--train.seq_len=8192", "--shard.strategy=zero3",
                            "--memory.checkpoint=selective", "--memory.checkpoint_parts=mlp"});
  };
  return 1 - speed(128) / speed(8);
}

/// llmq, benchmarks/H100x1 and x8: Qwen2.5 1.5B, 524,288 tokens a step, ZeRO-1; lost from 1 to 8 GPUs. Published: 3.0%.
double lost_by_qwen_1_5b(const Cluster& cluster) {
  const auto speed = [&](std::int64_t ranks) {
    return tokens_per_rank(cluster, preset("qwen2-1.5b"), ranks,
                           {"--train.micro_batch=32", "--train.seq_len=1024", "--precision.reduce=bf16",
                            fmt::format("--train.accumulation={}", 16 / ranks), "--shard.strategy=zero1"});
  };
  return 1 - speed(8) / speed(1);
}

/// PyTorch FSDP (arXiv 2304.11277): T5 11B, batch 8 x 512, lost from 8 to 512 A100. Published: 7%. A decoder of 11B
/// parameters on H100 stands in.
double lost_by_11b(const Cluster& cluster) {
  Architecture architecture = preset("llama-8b");
  architecture.layers = 36, architecture.width = 5120, architecture.heads = architecture.kv_heads = 40;
  architecture.ffn_width = 13824, architecture.vocab = 32000;
  const auto speed = [&](std::int64_t ranks) {
    return tokens_per_rank(cluster, architecture, ranks,
                           {"--train.micro_batch=8", "--train.seq_len=512", "--precision.reduce=bf16",
                            "--shard.strategy=zero3", "--memory.checkpoint=block"});
  };
  return 1 - speed(512) / speed(8);
}

/// pith-train, pull request 40: Qwen3-30B-A3B on 64 H100, micro-batches of 4096 tokens, hybrid sharding over full
/// sharding. Published: 1.34 times. A dense model of 32B parameters stands in, with a tenth of the tokens, so that
/// bytes and FLOPs are the same.
double gained_by_hybrid(const Cluster& cluster) {
  Architecture architecture = preset("qwen3-8b");
  architecture.layers = 64, architecture.width = 5120, architecture.heads = 64, architecture.ffn_width = 24576;
  const auto speed = [&](const char* strategy) {
    return tokens_per_rank(cluster, architecture, 64,
                           {"--train.micro_batch=1", "--train.seq_len=512", "--precision.reduce=bf16",
                            fmt::format("--shard.strategy={}", strategy)});
  };
  return speed("hsdp") / speed("zero3");
}

}  // namespace

TEST_CASE("what published runs lose or gain by communication is predicted") {
  const Cluster cluster = dgx();
  const double llama = lost_by_llama_8b(cluster), qwen = lost_by_qwen_1_5b(cluster), eleven = lost_by_11b(cluster),
               hybrid = gained_by_hybrid(cluster);
  INFO(
      fmt::format("lost: Llama 3 8B {:.1f}% (published 2.7, 2.3), Qwen2.5 1.5B {:.1f}% (3.0), 11B {:.1f}% (7); hybrid "
                  "gains {:.2f} times (1.34)",
                  100 * llama, 100 * qwen, 100 * eleven, hybrid));
  // These two lie below what was published, because ranks differ in speed there, and a step waits for the slowest.
  CHECK((llama > 0.003 && llama < 0.043));
  CHECK((qwen > 0.003 && qwen < 0.05));
  CHECK((eleven > 0.035 && eleven < 0.14));
  CHECK((hybrid > 1.15 && hybrid < 1.6));
}

TEST_CASE("a model without communication predicts none of it") {
  const Cluster cluster = without_communication();
  CHECK(lost_by_llama_8b(cluster) < 0.003);
  CHECK(lost_by_qwen_1_5b(cluster) < 0.003);
  CHECK(lost_by_11b(cluster) < 0.01);
  CHECK(gained_by_hybrid(cluster) < 1.05);
}
