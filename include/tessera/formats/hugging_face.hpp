#pragma once
// Hugging Face model folders: config.json to an Architecture, and weights tensor by tensor, slice by slice, so that a
// rank reads only what it keeps.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "tessera/formats/safetensors.hpp"
#include "tessera/model/architecture.hpp"
#include "tessera/model/parts.hpp"

namespace tessera {

/// Reads FOLDER/config.json of a model of any family. Keys that do not change the arithmetic are ignored. null means
/// the family's default. Architecture::dropout stays 0, because a run chooses its own dropout. Throws UsageError, which
/// names the key, for a size that is missing or impossible, and for features that are not supported, which are
///   another model_type or activation, rotary positions scaled in another way than Llama 3's or linearly, biases in
///   odd places, attention scaled by layer, capped scores and logits
Architecture read_config(const std::filesystem::path& folder);

/// Returns a tensor's name without any prefix. Of a model that sees pictures, too, the text's have one more:
/// model.language_model. or language_model.model.
std::string_view bare_name(std::string_view name);

/// The weights of a folder: model.safetensors, or the files that model.safetensors.index.json names (only plain names
/// inside the folder). Reading is thread-safe.
class HuggingFaceWeights {
 public:
  /// Maps the files and checks that each expected tensor is there once, in the right shape, in F32, BF16 or F16. Where
  /// there is an index, only the tensors that it names are there. Names may lack or have the prefix "transformer." or
  /// "model.", and "language_model." before or behind it. Skipped by name: ...attn.bias, ...attn.masked_bias,
  /// ...rotary_emb.inv_freq, and what sees pictures (vision_tower, multi_modal_projector). A tied table may be called
  /// lm_head.weight instead; next to the table, that is skipped if it equals it. UsageError naming the tensor for
  /// everything else that is missing, extra, duplicate or misshaped, with the reason where names or files show it.
  HuggingFaceWeights(const std::filesystem::path& folder, const std::vector<ParameterTensor>& expected);

  /// Reads elements [first, first + out.size()) of the expected tensor number `tensor`, row-major, widened to fp32.
  /// Throws UsageError, naming the first that is infinite or NaN.
  void read(TensorId tensor, std::int64_t first, std::span<float> out) const;

  /// Returns the type that most elements have.
  DType dtype() const;

  /// Returns the number of files that hold the weights.
  std::size_t files() const { return files_.size(); }

 private:
  /// The place of an expected tensor.
  struct Source {
    std::size_t file = 0;
    std::string name;  ///< in that file
  };
  /// Opens the files; returns the tensors that count.
  std::vector<Source> open_files(const std::filesystem::path& folder);
  void require_usable(const Source& source, const ParameterTensor& tensor) const;
  void require_tied(const Source& head, TensorId table, const ParameterTensor& expected) const;

  std::vector<SafetensorsFile> files_;
  IndexedVector<TensorId, Source> sources_;
};

}  // namespace tessera
