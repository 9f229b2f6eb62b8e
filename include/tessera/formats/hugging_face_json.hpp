#pragma once
// config.json as JSON: read (see read_config) and written.

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tessera/model/architecture.hpp"

namespace tessera {

/// As read_config; `path` is for messages.
Architecture architecture_of(const nlohmann::json& json, const std::filesystem::path& path);

/// What Transformers and architecture_of read back as this model.
nlohmann::ordered_json config_of(const Architecture& architecture);

/// Puts keys of COMPANIONS/config.json that say nothing about the arithmetic (token ids, dropouts of a model that was
/// trained without) back into `config`.
void restore_kept_keys(const std::filesystem::path& companions, nlohmann::ordered_json& config);

}  // namespace tessera
