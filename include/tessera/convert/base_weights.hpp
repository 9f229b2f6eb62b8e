#pragma once
// The weights to which adapters belong, and how a checkpoint knows them again.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/checkpoint/reader.hpp"
#include "tessera/formats/hugging_face.hpp"

namespace tessera {

/// Fills elements [first, first + out.size()) of a tensor.
using ReadTensor = std::function<void(TensorId tensor, std::int64_t first, std::span<float> out)>;

/// Returns a hash (XXH3) of a tensor's elements in fp32, so that neither files nor types show. Reads them once, in
/// order.
std::uint64_t tensor_hash(const ReadTensor& read, TensorId tensor, std::int64_t elements);
/// Returns the hash of a model in 16 hexadecimal digits, from those of all its tensors in order.
std::string model_hash(const std::vector<std::uint64_t>& tensors);

/// The base of a checkpoint with adapters: what its run named as model.from, else the random weights of its seed.
class BaseWeights {
 public:
  /// UsageError if the folder is not there, or holds another model.
  explicit BaseWeights(const Manifest& manifest);

  /// Returns the tensors of the model without adapters.
  const IndexedVector<TensorId, ParameterTensor>& tensors() const { return tensors_; }
  void read(TensorId tensor, std::int64_t first, std::span<float> out) const;
  DType dtype() const;
  /// UsageError if `hash` is not the one with which the run began.
  void require(const std::string& hash) const;

 private:
  std::filesystem::path folder_;
  std::string hash_;  ///< that the run noted
  std::uint64_t seed_ = 0;
  IndexedVector<TensorId, ParameterTensor> tensors_;
  std::unique_ptr<CheckpointReader> checkpoint_;
  std::unique_ptr<HuggingFaceWeights> hugging_face_;
};

}  // namespace tessera
