#pragma once
// The model that model.from names, a checkpoint or a Hugging Face folder: its architecture and its weights, and those
// of its adapters.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "tessera/checkpoint/reader.hpp"
#include "tessera/comm/rank_context.hpp"
#include "tessera/config/options.hpp"
#include "tessera/convert/base_weights.hpp"
#include "tessera/engine/state.hpp"
#include "tessera/formats/hugging_face.hpp"
#include "tessera/formats/peft.hpp"

namespace tessera {

class ModelWeights {
 public:
  /// Reads the architecture that the options describe, with its adapters: those of a checkpoint, or what [lora] says;
  /// lora.from is read where the run `begins`. Rank 0 finds and reads the checkpoint for all. Collective. Throws
  /// UsageError if there is neither, or if sizes are impossible, and IoError if the checkpoint cannot be read.
  ModelWeights(RankContext& context, const Options& options, bool begins);

  const Architecture& architecture() const { return architecture_; }
  /// Opens the files of weights, of which `expected` are needed; a checkpoint is already open, but not the base of its
  /// adapters, whose hash is compared. Collective.
  void open(const std::vector<ParameterTensor>& expected);
  /// Returns the hash of the open weights without adapters (convert/base_weights.hpp). Collective.
  std::string base_hash() const;
  /// Returns the reader of the weights; empty if the options name none. Must not outlive this.
  TensorSource source() const;
  /// Returns the type of an open Hugging Face folder's weights; nothing for a checkpoint.
  std::optional<DType> stored_dtype() const;
  /// Returns the folder with tokenizer and config.json that goes with the weights; empty if there is none.
  std::filesystem::path companions() const;
  /// Names the model for messages: the folder as it was given; "the model" where there is none.
  std::string name() const { return from_.empty() ? "the model" : from_.string(); }
  /// Returns the checkpoint; null for a Hugging Face folder.
  const CheckpointReader* checkpoint() const { return checkpoint_.get(); }
  /// Returns the folder of the weights as an absolute path: a checkpoint, or a Hugging Face folder.
  std::filesystem::path folder() const;

 private:
  void add_adapters(const Options& options, bool begins);
  void read_base(TensorId tensor, std::int64_t first, std::span<float> out) const;
  void read_adapter(TensorId tensor, std::int64_t first, std::span<float> out) const;

  RankContext& context_;
  std::uint64_t seed_;                   ///< of first adapters
  std::filesystem::path from_, folder_;  ///< as given; of the checkpoint
  std::unique_ptr<CheckpointReader> checkpoint_;
  Architecture architecture_;
  std::unique_ptr<HuggingFaceWeights> hugging_face_;
  std::unique_ptr<BaseWeights> base_;  ///< of a checkpoint with adapters
  std::unique_ptr<PeftFolder> peft_;   ///< lora.from
  IndexedVector<TensorId, ParameterTensor> expected_;
  TensorId first_adapter_;  ///< the end of the base's tensors
};

}  // namespace tessera
