#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>

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

/// Constants that older files carry along.
bool is_known_buffer(std::string_view name) {
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

std::vector<SafetensorsFile> open_files(const std::filesystem::path& folder) {
  std::vector<SafetensorsFile> files;
  const auto single = folder / "model.safetensors";
  if (path_exists(single)) {
    files.emplace_back(single);
    return files;
  }
  const auto index_path = folder / "model.safetensors.index.json";
  if (!path_exists(index_path)) {
    throw refusal("{} holds no weights", folder.string())
        .because("it has neither model.safetensors nor model.safetensors.index.json{}",
                 path_exists(folder / "pytorch_model.bin") ? ", and pytorch_model.bin is not read" : "");
  }
  const auto index = read_index(index_path);
  std::unordered_map<std::string, std::size_t> numbers;
  for (const auto& [tensor, name] : index) {
    const auto [place, is_new] = numbers.emplace(name, files.size());
    if (is_new) files.emplace_back(folder / name);
    const SafetensorsFile& file = files[place->second];
    if (file.find(tensor) == nullptr) {
      throw refusal("{} has no tensor {}, although {} says so", file.path().string(), shown(tensor),
                    index_path.string());
    }
  }
  return files;
}

}  // namespace

HuggingFaceWeights::HuggingFaceWeights(const std::filesystem::path& folder,
                                       const std::vector<ParameterTensor>& expected)
    : files_(open_files(folder)) {
  std::unordered_map<std::string_view, std::size_t> wanted;
  for (std::size_t i = 0; i < expected.size(); ++i) wanted.emplace(without_prefix(expected[i].name), i);

  std::vector<std::optional<Source>> found(expected.size());
  std::optional<Source> head;  // of a tied model: a copy of its table
  for (std::size_t file = 0; file < files_.size(); ++file) {
    const std::string where = files_[file].path().string();
    for (const SafetensorsEntry& entry : files_[file].entries()) {
      const auto place = wanted.find(without_prefix(entry.name));
      if (place == wanted.end()) {
        if (is_known_buffer(entry.name)) continue;
        if (entry.name == kHeadName) {
          head = Source{file, entry.name};
          continue;
        }
        throw refusal("{} has a tensor {} that this model does not have", where, shown(entry.name));
      }
      const ParameterTensor& tensor = expected[place->second];
      if (entry.shape != tensor.shape) {
        throw refusal("tensor {} of {} has shape [{}], but this model needs [{}]", shown(entry.name), where,
                      fmt::join(entry.shape, ", "), fmt::join(tensor.shape, ", "));
      }
      if (!entry.dtype) {
        throw refusal("tensor {} of {} has dtype {}, which cannot be read", shown(entry.name), where,
                      shown(entry.dtype_name))
            .use("F32, BF16 or F16");
      }
      auto& source = found[place->second];
      if (source) {
        throw refusal("tensor {} is there twice: as {} in {}, and as {} in {}", tensor.name, shown(source->name),
                      files_[source->file].path().string(), shown(entry.name), where);
      }
      source = Source{file, entry.name};
    }
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!found[i]) throw refusal("{} has no tensor {}, which this model needs", folder.string(), expected[i].name);
    sources_.push_back(std::move(*found[i]));
  }
  if (head) require_tied(*head, expected);
}

/// Compares the head with the table that it is tied to, piece by piece.
void HuggingFaceWeights::require_tied(const Source& head, const std::vector<ParameterTensor>& expected) const {
  constexpr std::int64_t piece = 1 << 20;
  const auto table = static_cast<std::size_t>(std::ranges::find(expected, Role::token_table, &ParameterTensor::role) -
                                              expected.begin());
  TESSERA_ASSERT(table < expected.size(), "a model without a table");
  const SafetensorsFile& file = files_[head.file];
  const Source& other = sources_[TensorId(table)];
  bool equal = file.find(head.name)->shape == expected[table].shape;
  std::vector<float> a, b;
  for (std::int64_t first = 0; equal && first < expected[table].elements; first += piece) {
    a.resize(static_cast<std::size_t>(std::min(piece, expected[table].elements - first)));
    b.resize(a.size());
    file.read_slice(head.name, first, a);
    files_[other.file].read_slice(other.name, first, b);
    equal = std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  }
  if (equal) return;
  throw refusal("tensor {} of {} differs from {}, but config.json ties them, so that one would be lost",
                shown(head.name), file.path().string(), shown(other.name))
      .hint("Set tie_word_embeddings = false in config.json to keep both, or remove {} to keep the table",
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

}  // namespace tessera
