#pragma once
// A small checkpoint in several shards whose elements say where they belong.

#include <random>

#include "file_support.hpp"
#include "tessera/checkpoint/folder.hpp"
#include "tessera/checkpoint/manifest.hpp"
#include "tessera/checkpoint/reader.hpp"
#include "tessera/checkpoint/shard_file.hpp"
#include "tessera/files/durable_file.hpp"
#include "tessera/run/folder.hpp"

namespace tessera::test {

/// A value that only this element of this kind has; rounded to bf16 there are others.
inline float element_value(StateKind kind, std::int64_t tensor, std::int64_t element, DType moments = DType::fp32) {
  const float value = static_cast<float>(static_cast<std::int64_t>(kind) * 4000000 + tensor * 400000 + element) + 0.5F;
  return dtype_of(kind, moments) == DType::fp32 ? value : static_cast<float>(bf16(value));
}

inline std::vector<TensorRecord> some_tensors(DType moments = DType::fp32) {
  std::vector<TensorRecord> tensors{{"wte.weight", {67, 21}, 0},
                                    {"ln.weight", {21}, 0},
                                    {"big", {701, 509}, 0},
                                    {"cube", {3, 5, 7}, 0},
                                    {"one", {1}, 0}};
  for (TensorRecord& tensor : tensors) {
    tensor.elements = 1, tensor.moments = moments;
    for (const std::int64_t extent : tensor.shape) tensor.elements *= extent;
  }
  return tensors;
}

/// Assigns the elements of all tensors to `writers` in runs of random length.
inline std::vector<std::vector<ElementRun>> deal_runs(const std::vector<TensorRecord>& tensors, std::size_t writers,
                                                      std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::vector<ElementRun>> runs(writers);
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    for (std::int64_t first = 0; first < tensors[t].elements;) {
      const std::int64_t most = std::max<std::int64_t>(1, tensors[t].elements / 2);
      const std::int64_t count = std::min(tensors[t].elements - first, 1 + static_cast<std::int64_t>(random()) % most);
      runs[random() % writers].push_back({static_cast<std::int64_t>(t), first, count});
      first += count;
    }
  }
  return runs;
}

inline Architecture some_architecture() {
  Architecture a;
  a.layers = 1, a.heads = 1, a.kv_heads = 1, a.width = 8, a.ffn_width = 32, a.vocab = 11, a.context = 9;
  return a;
}

/// Writes and publishes a checkpoint of `step`; returns its manifest.
inline Manifest write_checkpoint(const CheckpointFolder& folder, std::int64_t step, std::size_t writers,
                                 std::uint32_t seed = 1, StateContent content = StateContent::full,
                                 DType moments = DType::fp32) {
  Manifest manifest;
  manifest.content = content;
  manifest.step = step;
  manifest.grid = {4, 2, 2, 4, "hsdp"};
  manifest.architecture = some_architecture();
  manifest.tensors = some_tensors(moments);
  manifest.data = {true, "0123456789abcdef", "shuffled", 9, 16, 1, 2, step * 16};
  manifest.optimizer = {step, 3, 1, 1024.0};
  manifest.options = {{"run.seed", "2"}, {"data.source", "text \"quoted\" \xc3\xa9"}};
  manifest.provenance = {{"version", "test"}};
  const auto path = folder.begin(step);
  const auto runs = deal_runs(manifest.tensors, writers, seed);
  for (std::size_t w = 0; w < writers; ++w) {
    std::vector<std::pair<std::int64_t, std::int64_t>> elements;
    for (const ElementRun& run : runs[w])
      for (std::int64_t i = 0; i < run.count; ++i) elements.emplace_back(run.tensor, run.first + i);
    manifest.files.push_back(write_shard(
        path, static_cast<std::int64_t>(w), manifest.tensors, runs[w],
        [&](StateKind kind, std::int64_t first, std::span<float> out) {
          for (std::size_t i = 0; i < out.size(); ++i) {
            const auto& [tensor, element] = elements.at(static_cast<std::size_t>(first) + i);
            out[i] = element_value(kind, tensor, element, moments);
          }
        },
        run_hdf5_here, Tristate::automatic, content));
  }
  manifest.files.push_back(write_virtual_tensors(path, manifest.tensors, manifest.files));
  write_text_atomically(path / std::string(kManifestName), manifest_text(manifest));
  folder.publish(step, step - 1);
  return manifest;
}

}  // namespace tessera::test
