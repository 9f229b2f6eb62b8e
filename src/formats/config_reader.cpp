#include "formats/config_reader.hpp"

#include <cmath>
#include <limits>

#include "tessera/base/refuse.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kLargestSize = std::numeric_limits<std::int32_t>::max();

std::string value_text(const nlohmann::json& value) {
  if (value.is_structured()) return value.is_array() ? "[...]" : "{...}";
  return value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace).substr(0, 100);
}

}  // namespace

std::optional<std::int64_t> ConfigReader::size(const char* key, std::int64_t least) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_integer() || *value < least || *value > kLargestSize)
    refuse(key, fmt::format("a whole number from {} to {}", least, kLargestSize));
  return value->get<std::int64_t>();
}

double ConfigReader::positive_in(const nlohmann::json& object, const char* key, double fallback) const {
  const nlohmann::json* value = find_in(object, key);
  if (value == nullptr) return fallback;
  if (!value->is_number() || !(value->get<double>() > 0) || !std::isfinite(value->get<double>()))
    throw refusal("{}: {} = {} is not supported", path_.string(), key, value_text(*value)).use("a number above 0");
  return value->get<double>();
}

bool ConfigReader::truth(const char* key, bool fallback) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) refuse(key, "true or false");
  return value->get<bool>();
}

std::string ConfigReader::text(const char* key, const std::string& fallback) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_string()) refuse(key, "text");
  return value->get<std::string>();
}

const nlohmann::json* ConfigReader::find_in(const nlohmann::json& object, const char* key) {
  const auto place = object.find(key);
  return place == object.end() || place->is_null() ? nullptr : &*place;
}

void ConfigReader::require(const char* key, bool wanted) const {
  if (truth(key, wanted) != wanted) refuse_model(key, json_.at(key), wanted ? "true" : "false");
}

void ConfigReader::require(const char* key, const ConfigKey::Text& wanted) const {
  const std::string value = text(key, wanted.value);
  if (value == wanted.value || (wanted.other != nullptr && value == wanted.other)) return;
  const std::string other = wanted.other == nullptr ? "" : fmt::format(" or {}", wanted.other);
  refuse_model(key, json_.at(key), wanted.value + other);
}

void ConfigReader::require(const char* key, const ConfigKey::Nothing&) const {
  if (const nlohmann::json* value = find(key)) refuse_model(key, *value, "null");
}

void ConfigReader::require_number(const char* key, const nlohmann::json& object, double wanted) const {
  const nlohmann::json* value = find_in(object, key);
  if (value != nullptr && !(value->is_number() && *value == wanted))
    refuse_model(key, *value, fmt::format("{}", wanted));
}

void ConfigReader::refuse_model(const std::string& key, const nlohmann::json& value,
                                const std::string& supported) const {
  throw refusal("{}: {} = {} is not supported", path_.string(), key, value_text(value))
      .because("only {} is", supported)
      .hint("The weights belong to this value, so take another model");
}

void ConfigReader::refuse(const char* key, const std::string& allowed) const {
  throw refusal("{}: {} = {} is not supported", path_.string(), key, value_text(json_.at(key))).use("{}", allowed);
}

}  // namespace tessera
