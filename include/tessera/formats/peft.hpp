#pragma once
// Adapters as PEFT saves them: a folder with adapter_config.json and adapter_model.safetensors.

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "tessera/formats/safetensors.hpp"
#include "tessera/model/parts.hpp"

namespace tessera {

inline constexpr const char* kPeftConfig = "adapter_config.json";
inline constexpr const char* kPeftWeights = "adapter_model.safetensors";
/// The prefix of PEFT's names of tensors.
inline constexpr std::string_view kPeftPrefix = "base_model.model.";

/// The adapters of a folder. Reading is thread-safe.
class PeftFolder {
 public:
  /// Reads the folder of adapters of `base`, which has none. UsageError, naming file and key or tensor, for a folder
  /// that is no adapter of this model, and for what is not computed: other methods than LoRA, DoRA, biases and whole
  /// modules, ranks, factors or modules that differ from block to block, adapters outside of blocks' linears.
  PeftFolder(const std::filesystem::path& folder, const Architecture& base);

  const Adapters& adapters() const { return adapters_; }
  /// Reads elements [first, first + out.size()) of a tensor of these adapters, widened to fp32. UsageError for one that
  /// is infinite or NaN.
  void read(const ParameterTensor& tensor, std::int64_t first, std::span<float> out) const;

 private:
  void read_config(const Architecture& base);
  void find_tensors(const Architecture& base);

  std::filesystem::path folder_;
  SafetensorsFile file_;
  Adapters adapters_;
  std::map<std::string, std::string> names_;  ///< in the file, by ours
};

/// Returns PEFT's name of a tensor. Of a model that `sees_pictures`, too, the text model is a part.
std::string peft_name(std::string_view tensor, bool sees_pictures);

/// Returns adapter_config.json for adapters of the model in `base`, which may be empty.
nlohmann::ordered_json peft_config(const Architecture& architecture, const std::string& base, bool sees_pictures);

}  // namespace tessera
