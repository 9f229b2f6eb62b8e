#include "tessera/convert/base_weights.hpp"

#include <xxhash.h>

#include <algorithm>
#include <charconv>

#include "tessera/base/refuse.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/model/initialize.hpp"

namespace tessera {

/// Elements that are hashed at a time.
constexpr std::int64_t kHashPiece = 1 << 20;

std::uint64_t tensor_hash(const ReadTensor& read, TensorId tensor, std::int64_t elements) {
  std::uint64_t hash = 0;
  std::vector<float> values;
  for (std::int64_t first = 0; first < elements; first += kHashPiece) {
    values.resize(static_cast<std::size_t>(std::min(kHashPiece, elements - first)));
    read(tensor, first, values);
    hash = XXH3_64bits_withSeed(values.data(), std::span(values).size_bytes(), hash);
  }
  return hash;
}

std::string model_hash(const std::vector<std::uint64_t>& tensors) {
  return fmt::format("{:016x}", XXH3_64bits(tensors.data(), tensors.size() * sizeof(std::uint64_t)));
}

BaseWeights::BaseWeights(const Manifest& manifest)
    : folder_(manifest.option("model.from")), hash_(manifest.option("lora.base_hash")) {
  Architecture architecture = manifest.architecture;
  architecture.adapters = {};
  tensors_ = parameter_tensors(architecture);
  if (folder_.empty()) {
    const std::string seed = manifest.option("run.seed");
    if (std::from_chars(seed.data(), seed.data() + seed.size(), seed_).ec == std::errc{}) return;
    throw refusal("the adapters belong to random weights, and their manifest does not say of which run.seed");
  }
  if (!path_exists(folder_)) {
    throw refusal("the adapters belong to the weights in {}, which is not there", folder_.string())
        .hint("Move the folder back, or export the adapters and use them with lora.from");
  }
  if (path_exists(folder_ / std::string(kManifestName))) {
    checkpoint_ = std::make_unique<CheckpointReader>(folder_);
  } else {
    hugging_face_ = std::make_unique<HuggingFaceWeights>(folder_, tensors_);
  }
}

void BaseWeights::read(TensorId tensor, std::int64_t first, std::span<float> out) const {
  if (folder_.empty()) return initialize_slice(tensors_[tensor], tensor, seed_, first, out);
  if (hugging_face_ != nullptr) return hugging_face_->read(tensor, first, out);
  checkpoint_->read_tensor(StateKind::parameter, tensor.number(), first, out);
}

DType BaseWeights::dtype() const { return hugging_face_ != nullptr ? hugging_face_->dtype() : DType::fp32; }

void BaseWeights::require(const std::string& hash) const {
  if (hash == hash_ || hash_.empty()) return;
  throw refusal("the adapters belong to other weights than those in {} (hash {} then, {} now)", folder_.string(), hash_,
                hash)
      .use("the weights with which the run began");
}

}  // namespace tessera
