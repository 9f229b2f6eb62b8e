#pragma once
// config.json as JSON: read (see read_config) and written.

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tessera/model/architecture.hpp"

namespace tessera {

/// Converts as read_config does; `path` is for messages.
Architecture architecture_of(const nlohmann::json& json, const std::filesystem::path& path);

/// Returns JSON that Transformers and architecture_of read back as this model.
nlohmann::ordered_json config_of(const Architecture& architecture);

/// Restores keys of COMPANIONS/config.json that do not affect the arithmetic into `config`: token ids, and dropouts of
/// a model that was trained without.
void restore_kept_keys(const std::filesystem::path& companions, nlohmann::ordered_json& config);

}  // namespace tessera
