#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "formats/refuse_folder.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/base/shown.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/json_file.hpp"
#include "tessera/formats/hugging_face.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kLargestIndex = 256 << 20;

/// Returns the first element that is infinite or NaN; values.size() if there is none.
std::size_t first_not_finite(std::span<const float> values) {
  constexpr std::uint32_t all_ones = 0x7f80'0000;  // the exponent of both
  std::uint32_t largest = 0;                       // without an early exit, so that it vectorises
  for (const float value : values) largest = std::max(largest, std::bit_cast<std::uint32_t>(value) & all_ones);
  if (largest < all_ones) return values.size();
  return static_cast<std::size_t>(std::ranges::find_if(values, [](float value) { return !std::isfinite(value); }) -
                                  values.begin());
}

/// Returns whether a tensor is no weight of the text model: a constant of older files, or part of what sees pictures.
bool is_skipped(std::string_view name) {
  for (const std::string_view pictures : {"vision_tower.", "multi_modal_projector."}) {
    if (name.starts_with(pictures) || name.starts_with(fmt::format("model.{}", pictures))) return true;
  }
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name.ends_with("rotary_emb.inv_freq");
}

/// Reads weight_map of an index: each tensor's file.
std::map<std::string, std::string> read_index(const std::filesystem::path& path) {
  const nlohmann::json index = read_json_object(path, kLargestIndex);
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object() || map->empty()) throw refusal("{} has no weight_map", path.string());
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string()) throw refusal("{}: the file of tensor {} is not text", path.string(), shown(tensor));
    const auto name = file.get<std::string>();
    if (name.empty() || name == "." || name == ".." ||
        name.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos) {
      throw refusal("{}: tensor {} is said to be in \"{}\"", path.string(), shown(tensor), shown(name))
          .use("a plain file name inside the folder");
    }
    files.emplace(tensor, name);
  }
  return files;
}

/// Returns what stands before the table's name in that of a tensor, as wrappers of modules put it there.
std::string prefix_before(const ParameterTensor& table, std::string_view name) {
  for (const std::string_view known : {std::string_view(table.name), without_prefix(table.name)}) {
    if (name.ends_with(known)) return std::string(name.substr(0, name.size() - known.size()));
  }
  return {};
}

/// Refuses a tensor that the model does not have, and says where such names come from.
Refusal refuse_tensor(const std::string& where, const std::string& name, const std::string& prefix) {
  constexpr std::string_view quantized[] = {".qweight",      ".qzeros", ".scales", ".g_idx",    ".weight_packed",
                                            ".weight_scale", ".SCB",    ".absmax", ".quant_map"};
  Refusal refused = refusal("{} has a tensor {} that this model does not have", where, shown(name));
  if (std::ranges::any_of(quantized, [&](std::string_view end) { return name.ends_with(end); }))
    return refused.because("the weights are quantized").use("the folder from before quantization");
  if (prefix.empty()) return refused;
  const char* by = prefix.ends_with("_orig_mod.")              ? ", which torch.compile puts there"
                   : prefix.ends_with("_fsdp_wrapped_module.") ? ", which FSDP puts there"
                   : prefix.ends_with("module.")               ? ", which DistributedDataParallel puts there"
                   : prefix.starts_with("base_model.")         ? ", which PEFT puts there"
                                                               : "";
  return refused.because("names begin with the prefix {}{}", shown(prefix), by)
      .hint("Rename the tensors in the file, or save the module inside the wrapper");
}

}  // namespace

std::string_view bare_name(std::string_view name) {
  constexpr std::string_view text = "language_model.";
  const auto without_text = [&](std::string_view one) { return one.starts_with(text) ? one.substr(text.size()) : one; };
  return without_text(without_prefix(without_text(name)));
}

std::vector<HuggingFaceWeights::Source> HuggingFaceWeights::open_files(const std::filesystem::path& folder) {
  std::vector<Source> tensors;
  const auto single = folder / "model.safetensors", index_path = folder / "model.safetensors.index.json";
  if (path_exists(folder / "adapter_config.json") && (path_exists(single) || path_exists(index_path))) {
    throw refusal("{} has adapter_config.json beside the weights of a model", folder.string())
        .because("Transformers takes it for an adapter of the model that this file names")
        .hint("Move the adapter to a folder of its own, and name that as lora.from");
  }
  if (path_exists(single)) {
    files_.emplace_back(single);
    for (const SafetensorsEntry& entry : files_.front().entries()) tensors.push_back({0, entry.name});
    return tensors;
  }
  if (!path_exists(index_path)) throw refuse_folder(folder, "model.safetensors");
  std::unordered_map<std::string, std::size_t> numbers;
  for (const auto& [tensor, name] : read_index(index_path)) {
    const auto [place, is_new] = numbers.emplace(name, files_.size());
    if (is_new && !path_exists(folder / name))
      throw refuse_folder(folder, name).hint("{} names it", index_path.string());
    if (is_new) files_.emplace_back(folder / name);
    const SafetensorsFile& file = files_[place->second];
    if (file.find(tensor) == nullptr) {
      throw refusal("{} has no tensor {}, although {} says so", file.path().string(), shown(tensor),
                    index_path.string());
    }
    tensors.push_back({place->second, tensor});
  }
  return tensors;
}

HuggingFaceWeights::HuggingFaceWeights(const std::filesystem::path& folder,
                                       const std::vector<ParameterTensor>& expected) try {
  std::unordered_map<std::string_view, std::size_t> wanted;
  for (std::size_t i = 0; i < expected.size(); ++i) wanted.emplace(without_prefix(expected[i].name), i);

  std::vector<std::optional<Source>> found(expected.size());
  std::optional<Source> head;  // of a tied model
  const auto table =
      static_cast<std::size_t>(std::ranges::find(expected, true, &ParameterTensor::is_table) - expected.begin());
  TESSERA_ASSERT(table < expected.size(), "a model without a table");
  const std::vector<Source> tensors = open_files(folder);
  for (const Source& source : tensors) {
    const SafetensorsFile& file = files_[source.file];
    const auto place = wanted.find(bare_name(source.name));
    if (place == wanted.end()) {
      if (is_skipped(source.name)) continue;
      if (bare_name(source.name) != kHeadName) {
        std::string prefix;
        for (const Source& one : tensors) prefix = std::max(prefix, prefix_before(expected[table], one.name));
        throw refuse_tensor(file.path().string(), source.name, prefix);
      }
      head = source;
      continue;
    }
    auto& known = found[place->second];
    if (known) {
      throw refusal("tensor {} is there twice: as {} in {}, and as {} in {}", expected[place->second].name,
                    shown(known->name), files_[known->file].path().string(), shown(source.name), file.path().string());
    }
    require_usable(source, expected[place->second]);
    known = source;
  }
  if (head && !found[table]) {  // one name of two for the same table
    require_usable(*head, expected[table]);
    found[table] = std::exchange(head, std::nullopt);
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!found[i]) throw refusal("{} has no tensor {}, which this model needs", folder.string(), expected[i].name);
    sources_.push_back(std::move(*found[i]));
  }
  if (head) require_tied(*head, TensorId(table), expected[table]);
} catch (const UsageError& error) {
  const std::string how = quantization_of(folder);
  if (how.empty()) throw;
  throw refusal("{} holds a quantized model ({}), which cannot be read", folder.string(), how)
      .use("the folder from before quantization")
      .hint("{}", error.UsageError::what());
}

void HuggingFaceWeights::require_usable(const Source& source, const ParameterTensor& tensor) const {
  const SafetensorsFile& file = files_[source.file];
  const SafetensorsEntry& entry = *file.find(source.name);
  if (entry.shape != tensor.shape) {
    throw refusal("tensor {} of {} has shape [{}], but this model needs [{}]", shown(entry.name), file.path().string(),
                  fmt::join(entry.shape, ", "), fmt::join(tensor.shape, ", "));
  }
  if (!entry.dtype) {
    throw refusal("tensor {} of {} has dtype {}, which cannot be read", shown(entry.name), file.path().string(),
                  shown(entry.dtype_name))
        .use("F32, BF16 or F16");
  }
}

/// Compares the head with the table that it is tied to, piece by piece.
void HuggingFaceWeights::require_tied(const Source& head, TensorId table, const ParameterTensor& expected) const {
  constexpr std::int64_t piece = 1 << 20;
  const SafetensorsFile& file = files_[head.file];
  const Source& other = sources_[table];
  bool equal = file.find(head.name)->shape == expected.shape;
  std::vector<float> a, b;
  for (std::int64_t first = 0; equal && first < expected.elements; first += piece) {
    a.resize(static_cast<std::size_t>(std::min(piece, expected.elements - first)));
    b.resize(a.size());
    file.read_slice(head.name, first, a);
    files_[other.file].read_slice(other.name, first, b);
    equal = std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  }
  if (equal) return;
  throw refusal("tensor {} of {} differs from {}, but config.json ties them, so that one would be lost",
                shown(head.name), file.path().string(), shown(other.name))
      .hint("If the model has a head of its own, config.json lacks tie_word_embeddings = false; otherwise remove {}",
            shown(head.name));
}

void HuggingFaceWeights::read(TensorId tensor, std::int64_t first, std::span<float> out) const {
  const Source& source = sources_.at(tensor);
  const SafetensorsFile& file = files_[source.file];
  file.read_slice(source.name, first, out);
  if (const std::size_t at = first_not_finite(out); at < out.size()) {
    throw refusal("tensor {} of {} holds {} at element {}, but weights to train from must be finite numbers",
                  shown(source.name), file.path().string(), out[at], first + static_cast<std::int64_t>(at));
  }
}

DType HuggingFaceWeights::dtype() const {
  std::map<DType, std::int64_t> elements;
  for (const Source& source : sources_) {
    const SafetensorsEntry& entry = *files_[source.file].find(source.name);
    elements[*entry.dtype] += entry.elements;
  }
  return std::ranges::max_element(elements, {}, [](const auto& type) { return type.second; })->first;
}

}  // namespace tessera
