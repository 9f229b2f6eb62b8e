#pragma once
// Typed look-ups in a JSON object from a file that may be damaged: every error is an IoError naming file and key.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tessera/checkpoint/records.hpp"

namespace tessera {

class Fields {
 public:
  using Json = nlohmann::json;

  /// `json` must outlive the fields. Throws IoError unless it is an object.
  Fields(const Json& json, std::string where);

  /// Returns an integer >= 0.
  std::int64_t count(const char* key) const { return count(at(key), key, *this); }
  static std::int64_t count(const Json& value, const char* key, const Fields& fields);
  double number(const char* key) const;
  bool flag(const char* key) const;
  std::string text(const char* key) const;
  const Json& list(const char* key) const;
  Fields object(const char* key) const { return of(at(key), key); }
  /// Wraps an element of the list `key` as an object.
  Fields of(const Json& value, const char* key) const { return {value, where_ + ", " + key}; }
  NamedTexts texts(const char* key) const;
  bool has(const char* key) const { return json_->contains(key); }
  bool is_null(const char* key) const { return at(key).is_null(); }
  Architecture architecture(const char* key, const std::filesystem::path& path) const;
  /// Parses {"name": text, "shape": [sizes]}, the product of sizes at most 2^62.
  static TensorRecord tensor(const Json& value, const Fields& fields);
  /// Parses 16 hexadecimal digits.
  static std::uint64_t checksum(const Json& value, const Fields& fields);

  [[noreturn]] void refuse(const char* key, const char* needed) const;

 private:
  const Json& at(const char* key) const;
  const Json* json_;
  std::string where_;
};

}  // namespace tessera
