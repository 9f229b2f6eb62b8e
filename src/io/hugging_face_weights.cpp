#include <fmt/ranges.h>

#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>

#include "io/json_file.hpp"
#include "tessera/base/error.hpp"
#include "tessera/io/hugging_face.hpp"
#include "tessera/io/path_exists.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kLargestIndex = 256 << 20;
constexpr std::string_view kTiedHead = "lm_head.weight";

/// A name without the model's prefix: base models and models with a head differ by it.
std::string_view bare(std::string_view name) {
  for (const std::string_view prefix : {"transformer.", "model."}) {
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return name;
}

/// Constants that older files carry along.
bool is_known_buffer(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name.ends_with("rotary_emb.inv_freq");
}

/// weight_map of an index: which file each tensor is said to be in.
std::map<std::string, std::string> read_index(const std::filesystem::path& path) {
  const nlohmann::json index = read_json_object(path, kLargestIndex);
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object() || map->empty()) throw UsageError("{} has no weight_map", path.string());
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string()) throw UsageError("{}: the file of tensor {} is not text", path.string(), tensor);
    const auto name = file.get<std::string>();
    if (name.empty() || name == "." || name == ".." ||
        name.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos) {
      throw UsageError("{}: tensor {} is said to be in \"{}\" (a plain file name inside the folder is allowed)",
                       path.string(), tensor, name);
    }
    files.emplace(tensor, name);
  }
  return files;
}

std::vector<SafetensorsFile> open_files(const std::filesystem::path& folder) {
  std::vector<SafetensorsFile> files;
  const auto single = folder / "model.safetensors";
  if (path_exists(single)) {
    files.emplace_back(single);
    return files;
  }
  const auto index_path = folder / "model.safetensors.index.json";
  if (!path_exists(index_path)) {
    throw UsageError("{} holds no weights: model.safetensors or model.safetensors.index.json is needed{}",
                     folder.string(),
                     path_exists(folder / "pytorch_model.bin") ? " (pytorch_model.bin is not read)" : "");
  }
  const auto index = read_index(index_path);
  std::unordered_map<std::string, std::size_t> numbers;
  for (const auto& [tensor, name] : index) {
    const auto [place, is_new] = numbers.emplace(name, files.size());
    if (is_new) files.emplace_back(folder / name);
    const SafetensorsFile& file = files[place->second];
    if (file.find(tensor) == nullptr) {
      throw UsageError("{} has no tensor {}, although {} says so", file.path().string(), tensor, index_path.string());
    }
  }
  return files;
}

}  // namespace

HuggingFaceWeights::HuggingFaceWeights(const std::filesystem::path& folder,
                                       const std::vector<ParameterTensor>& expected)
    : files_(open_files(folder)) {
  std::unordered_map<std::string_view, std::size_t> wanted;
  for (std::size_t i = 0; i < expected.size(); ++i) wanted.emplace(bare(expected[i].name), i);

  std::vector<std::optional<Source>> found(expected.size());
  for (std::size_t file = 0; file < files_.size(); ++file) {
    const std::string where = files_[file].path().string();
    for (const SafetensorsEntry& entry : files_[file].entries()) {
      const auto place = wanted.find(bare(entry.name));
      if (place == wanted.end()) {
        if (is_known_buffer(entry.name) || entry.name == kTiedHead) continue;
        throw UsageError("{} has a tensor {} that this model does not have", where, entry.name);
      }
      const ParameterTensor& tensor = expected[place->second];
      if (entry.shape != tensor.shape) {
        throw UsageError("tensor {} of {} has shape [{}]: this model needs [{}]", entry.name, where,
                         fmt::join(entry.shape, ", "), fmt::join(tensor.shape, ", "));
      }
      if (!entry.dtype) {
        throw UsageError("tensor {} of {} has dtype {}: F32, BF16 and F16 can be read", entry.name, where,
                         entry.dtype_name);
      }
      auto& source = found[place->second];
      if (source) {
        throw UsageError("tensor {} is there twice (as {} in {} and as {} in {})", tensor.name, source->name,
                         files_[source->file].path().string(), entry.name, where);
      }
      source = Source{file, entry.name};
    }
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!found[i]) throw UsageError("{} has no tensor {}, which this model needs", folder.string(), expected[i].name);
    sources_.push_back(std::move(*found[i]));
  }
}

void HuggingFaceWeights::read(TensorId tensor, std::int64_t first, std::span<float> out) const {
  const Source& source = sources_.at(static_cast<std::size_t>(tensor));
  files_[source.file].read_slice(source.name, first, out);
}

}  // namespace tessera
