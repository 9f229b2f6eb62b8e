#include "tokenizer/json_at.hpp"

#include <algorithm>
#include <cctype>

#include "tessera/base/refuse.hpp"
#include "tessera/base/shown.hpp"
#include "tokenizer/bpe_description.hpp"

namespace tessera {

namespace {

const nlohmann::json kNull;

std::string in_short(const nlohmann::json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  return shown(value.dump());
}

bool is_plain(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  });
}

}  // namespace

void JsonAt::refuse(std::string_view why) const {
  throw refusal("{}: {} is {}, but {}", file_, path_.empty() ? "the file" : path_, in_short(*value_), why);
}

void JsonAt::refuse_unsupported(std::string_view why) const {
  throw refusal("{}: {} is {}, but {}", file_, path_, in_short(*value_), why).hint("{}", kElsewhere);
}

JsonAt JsonAt::key(std::string_view name) const {
  JsonAt below = *this;
  const auto found = value_->find(name);
  below.value_ = found == value_->end() ? &kNull : &*found;
  if (is_plain(name)) {
    below.path_ += (path_.empty() ? "" : ".") + std::string(name);
  } else {
    below.path_ += "[\"" + shown(name) + "\"]";
  }
  return below;
}

JsonAt JsonAt::at(std::size_t index) const {
  JsonAt below = *this;
  below.value_ = &(*value_)[index];
  below.path_ += "[" + std::to_string(index) + "]";
  return below;
}

bool JsonAt::truth() const {
  if (!value_->is_boolean()) refuse("true or false is needed");
  return value_->get<bool>();
}

const std::string& JsonAt::text() const {
  if (!value_->is_string()) refuse("text is needed");
  return value_->get_ref<const std::string&>();
}

std::int32_t JsonAt::token_id() const {
  if (!value_->is_number_integer() || *value_ < 0 || *value_ > kLargestId)
    refuse("a whole number from 0 to " + std::to_string(kLargestId) + " is needed");
  return value_->get<std::int32_t>();
}

void JsonAt::require_object() const {
  if (!value_->is_object()) refuse("an object is needed");
}

void JsonAt::require_list() const {
  if (!value_->is_array()) refuse("a list is needed");
}

void JsonAt::require_keys(std::initializer_list<std::string_view> names) const {
  require_object();
  for (const auto& [name, below] : value_->items()) {
    if (std::find(names.begin(), names.end(), name) == names.end()) key(name).refuse("this key is not supported");
  }
}

}  // namespace tessera
