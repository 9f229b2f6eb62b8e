#pragma once
// A value in a JSON file and the path to it, for messages: model.merges[17].

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tessera {

class JsonAt {
 public:
  static constexpr std::string_view kElsewhere = "Prepare a token file (.bin) with the library that reads it instead";
  /// The root of a file. `root` outlives what is taken from it.
  JsonAt(const nlohmann::json& root, std::string file) : value_(&root), file_(std::move(file)) {}

  const nlohmann::json& value() const { return *value_; }
  const std::string& path() const { return path_; }
  const std::string& file() const { return file_; }

  /// Throws a UsageError "FILE: PATH is VALUE, but WHY."; `why` is a clause.
  [[noreturn]] void refuse(std::string_view why) const;
  /// The same for what tokenizers may have, but not here; it says what to do instead.
  [[noreturn]] void refuse_unsupported(std::string_view why) const;

  /// Returns a key's value, null if it is missing. The value of this must be an object.
  JsonAt key(std::string_view name) const;
  JsonAt at(std::size_t index) const;

  bool is_null() const { return value_->is_null(); }
  bool truth() const;
  /// Returns a truth value, `fallback` where the key is missing.
  bool truth_or(bool fallback) const { return is_null() ? fallback : truth(); }
  const std::string& text() const;
  std::int32_t token_id() const;

  void require_object() const;
  void require_list() const;
  /// UsageError naming the first key that is not among these.
  void require_keys(std::initializer_list<std::string_view> names) const;

 private:
  const nlohmann::json* value_;
  std::string path_, file_;
};

}  // namespace tessera
