#include "tessera/resolve/model_weights.hpp"

#include "tessera/checkpoint/manifest.hpp"
#include "tessera/convert/hugging_face_companions.hpp"
#include "tessera/resolve/architecture.hpp"
#include "tessera/resolve/origin.hpp"

namespace tessera {

ModelWeights::ModelWeights(RankContext& context, const ModelOptions& options) : from_(options.from) {
  std::string found, text;
  if (!options.from.empty()) {
    if (context.rank() == 0) {
      if (const auto checkpoint = checkpoint_in(options.from)) {
        found = checkpoint->string();
        text = read_manifest_text(found);
      }
    }
    folder_ = context.control().broadcast(found);
  }
  if (folder_.empty()) {
    architecture_ = resolve_architecture(options);
    return;
  }
  const FileShare share{static_cast<std::size_t>(context.rank()), static_cast<std::size_t>(context.size())};
  checkpoint_ =
      std::make_unique<CheckpointReader>(folder_, manifest_from(context.control().broadcast(text), folder_), share);
  architecture_ = resolve_architecture(options, checkpoint_->manifest().architecture);
}

void ModelWeights::open(const std::vector<ParameterTensor>& expected) {
  if (!from_.empty() && checkpoint_ == nullptr) hugging_face_ = std::make_unique<HuggingFaceWeights>(from_, expected);
}

TensorSource ModelWeights::source() const {
  if (hugging_face_ != nullptr) {
    return
        [this](TensorId tensor, std::int64_t first, std::span<float> out) { hugging_face_->read(tensor, first, out); };
  }
  if (checkpoint_ == nullptr) return {};
  return [this](TensorId tensor, std::int64_t first, std::span<float> out) {
    const WantedRun want{StateKind::parameter, tensor.number(), first, static_cast<std::int64_t>(out.size()),
                         out.data()};
    checkpoint_->read({&want, 1}, 1);
  };
}

std::optional<DType> ModelWeights::stored_dtype() const {
  return hugging_face_ == nullptr ? std::nullopt : std::optional(hugging_face_->dtype());
}

std::filesystem::path ModelWeights::companions() const {
  return checkpoint_ != nullptr ? companions_of(folder_, checkpoint_->manifest()) : companions_at(from_);
}

}  // namespace tessera
