#pragma once
// The model that model.from names, a checkpoint or a Hugging Face folder: its architecture and its weights.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "tessera/checkpoint/reader.hpp"
#include "tessera/comm/rank_context.hpp"
#include "tessera/config/options.hpp"
#include "tessera/engine/state.hpp"
#include "tessera/formats/hugging_face.hpp"

namespace tessera {

class ModelWeights {
 public:
  /// Reads the architecture that the options describe. Rank 0 finds and reads the checkpoint for all. Collective.
  /// Throws UsageError if there is neither, or if sizes are impossible, and IoError if the checkpoint cannot be read.
  ModelWeights(RankContext& context, const ModelOptions& options);

  const Architecture& architecture() const { return architecture_; }
  /// Opens a Hugging Face folder's files, of which `expected` are needed. A checkpoint is already open.
  void open(const std::vector<ParameterTensor>& expected);
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

 private:
  std::filesystem::path from_, folder_;  ///< as given; of the checkpoint
  std::unique_ptr<CheckpointReader> checkpoint_;
  Architecture architecture_;
  std::unique_ptr<HuggingFaceWeights> hugging_face_;
};

}  // namespace tessera
