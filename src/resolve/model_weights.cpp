#include "tessera/resolve/model_weights.hpp"

#include <algorithm>

#include "tessera/base/refuse.hpp"
#include "tessera/checkpoint/manifest.hpp"
#include "tessera/convert/hugging_face_companions.hpp"
#include "tessera/model/initialize.hpp"
#include "tessera/resolve/adapters.hpp"
#include "tessera/resolve/architecture.hpp"
#include "tessera/resolve/run_checkpoints.hpp"

namespace tessera {

ModelWeights::ModelWeights(RankContext& context, const Options& options, bool begins)
    : context_(context), seed_(static_cast<std::uint64_t>(options.run.seed)), from_(options.model.from) {
  std::string found, text;
  if (!from_.empty()) {
    if (context.rank() == 0) {
      if (const auto checkpoint = checkpoint_in(from_)) {
        found = checkpoint->string();
        text = read_manifest_text(found);
      }
    }
    folder_ = context.control().broadcast(found);
  }
  if (folder_.empty()) {
    architecture_ = resolve_architecture(options.model);
  } else {
    const FileShare share{static_cast<std::size_t>(context.rank()), static_cast<std::size_t>(context.size())};
    checkpoint_ =
        std::make_unique<CheckpointReader>(folder_, manifest_from(context.control().broadcast(text), folder_), share);
    architecture_ = resolve_architecture(options.model, checkpoint_->manifest().architecture);
  }
  add_adapters(options, begins);
}

void ModelWeights::add_adapters(const Options& options, bool begins) {
  if (!options.lora.on()) return;
  if (architecture_.adapters.on()) throw adapters_as_base(options);
  if (!options.lora.from.empty() && begins) peft_ = std::make_unique<PeftFolder>(options.lora.from, architecture_);
  architecture_.adapters = adapters_of(options, architecture_, peft_.get());
}

void ModelWeights::open(const std::vector<ParameterTensor>& expected) {
  expected_ = {expected.begin(), expected.end()};
  const auto first = std::ranges::find(expected_, true, &ParameterTensor::is_adapter);
  first_adapter_ = TensorId(first - expected_.begin());
  if (checkpoint_ != nullptr && checkpoint_->manifest().architecture.adapters.on()) {
    base_ = std::make_unique<BaseWeights>(checkpoint_->manifest());
    base_->require(base_hash());
  }
  if (!from_.empty() && checkpoint_ == nullptr)
    hugging_face_ = std::make_unique<HuggingFaceWeights>(from_, std::vector(expected_.begin(), first));
  if (peft_ == nullptr) return;
  std::vector<float> values;  // read once before the run has a folder, which infinite numbers would leave behind
  for (TensorId id = first_adapter_ + context_.rank(); id < expected_.end_id(); id = id + context_.size()) {
    values.resize(static_cast<std::size_t>(expected_[id].elements));
    peft_->read(expected_[id], 0, values);
  }
}

std::string ModelWeights::base_hash() const {
  const ReadTensor read = [this](auto... what) { read_base(what...); };
  std::vector<std::uint64_t> mine;
  for (TensorId id(context_.rank()); id < first_adapter_; id = id + context_.size())
    mine.push_back(tensor_hash(read, id, expected_[id].elements));
  const std::vector<std::vector<std::uint64_t>> of_ranks = context_.control().all_gather(mine);
  std::vector<std::uint64_t> hashes(static_cast<std::size_t>(first_adapter_.number()));
  for (std::size_t i = 0; i < hashes.size(); ++i) hashes[i] = of_ranks[i % of_ranks.size()][i / of_ranks.size()];
  return model_hash(hashes);
}

TensorSource ModelWeights::source() const {
  if (from_.empty()) return {};
  return [this](TensorId tensor, std::int64_t first, std::span<float> out) {
    tensor < first_adapter_ ? read_base(tensor, first, out) : read_adapter(tensor, first, out);
  };
}

void ModelWeights::read_base(TensorId tensor, std::int64_t first, std::span<float> out) const {
  if (hugging_face_ != nullptr) return hugging_face_->read(tensor, first, out);
  if (base_ != nullptr) return base_->read(tensor, first, out);
  if (checkpoint_ == nullptr) return initialize_slice(expected_[tensor], tensor, seed_, first, out);
  checkpoint_->read_tensor(StateKind::parameter, tensor.number(), first, out);
}

void ModelWeights::read_adapter(TensorId tensor, std::int64_t first, std::span<float> out) const {
  if (peft_ != nullptr) return peft_->read(expected_[tensor], first, out);
  if (base_ != nullptr) return checkpoint_->read_tensor(StateKind::parameter, tensor - first_adapter_, first, out);
  initialize_slice(expected_[tensor], tensor, seed_, first, out);
}

std::filesystem::path ModelWeights::folder() const {
  std::error_code error;
  const auto whole = std::filesystem::absolute(folder_.empty() ? from_ : folder_, error);
  return (error ? from_ : whole).lexically_normal();
}

std::optional<DType> ModelWeights::stored_dtype() const {
  return hugging_face_ == nullptr ? std::nullopt : std::optional(hugging_face_->dtype());
}

std::filesystem::path ModelWeights::companions() const {
  return checkpoint_ != nullptr ? companions_of(folder_, checkpoint_->manifest()) : companions_at(from_);
}

}  // namespace tessera
