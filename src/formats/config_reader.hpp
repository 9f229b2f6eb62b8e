#pragma once
// config.json with typed look-ups. A missing key and null are the same.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "formats/config_form.hpp"

namespace tessera {

class ConfigReader {
 public:
  /// `json` must outlive it.
  ConfigReader(std::filesystem::path path, const nlohmann::json& json) : path_(std::move(path)), json_(json) {}

  /// Returns a size of at least `least`.
  std::optional<std::int64_t> size(const char* key, std::int64_t least = 1) const;
  double positive(const char* key, double fallback) const { return positive_in(json_, key, fallback); }
  double positive_in(const nlohmann::json& object, const char* key, double fallback) const;
  bool truth(const char* key, bool fallback) const;
  std::string text(const char* key, const std::string& fallback) const;
  /// Returns the value of a key, or null.
  const nlohmann::json* find(const char* key) const { return find_in(json_, key); }
  static const nlohmann::json* find_in(const nlohmann::json& object, const char* key);
  /// Returns whether the key is there, though its value may be null.
  bool contains(const char* key) const { return json_.contains(key); }

  // Throw UsageError unless a value, if it is there, is the supported one.
  void require(const char* key, bool wanted) const;
  void require(const char* key, const ConfigKey::Text& wanted) const;
  void require(const char* key, const ConfigKey::Nothing&) const;
  void require_number(const char* key, const nlohmann::json& object, double wanted) const;

  const std::filesystem::path& path() const { return path_; }
  const nlohmann::json& json() const { return json_; }

  /// Refuses what the model is. Unlike a value that nothing reads, another one would not belong to the weights.
  [[noreturn]] void refuse_model(const std::string& key, const nlohmann::json& value,
                                 const std::string& supported) const;
  /// Refuses a value that makes no sense.
  [[noreturn]] void refuse(const char* key, const std::string& allowed) const;

 private:
  std::filesystem::path path_;
  const nlohmann::json& json_;
};

/// Reads rotary bases and scaling. Older folders write rope_theta and rope_scaling, newer ones rope_parameters for
/// both, or an object of such for each type of layer; a scaling's kind is called rope_type, or type.
void read_rope(const ConfigReader& config, Architecture& model);

/// Reads which layers have windows, and how large they are.
void read_windows(const ConfigReader& config, const WindowKeys& keys, Architecture& model);

}  // namespace tessera
