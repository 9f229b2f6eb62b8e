#include "checkpoint/manifest_fields.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

#include "tessera/base/error.hpp"
#include "tessera/formats/hugging_face_json.hpp"

namespace tessera {

Fields::Fields(const Json& json, std::string where) : json_(&json), where_(std::move(where)) {
  if (!json.is_object()) throw IoError("{} is damaged (it is not a JSON object)", where_);
}

void Fields::refuse(const char* key, const char* needed) const {
  throw IoError("{} is damaged ({}: {})", where_, key, needed);
}

const nlohmann::json& Fields::at(const char* key) const {
  const auto place = json_->find(key);
  if (place == json_->end()) throw IoError("{} is damaged (it has no {})", where_, key);
  return *place;
}

std::int64_t Fields::count(const Json& value, const char* key, const Fields& fields) {
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return value.get<std::int64_t>();
  }
  fields.refuse(key, "a whole number from 0 on is needed");
}

double Fields::number(const char* key) const {
  if (!at(key).is_number()) refuse(key, "a number is needed");
  return at(key).get<double>();
}

bool Fields::flag(const char* key) const {
  if (!at(key).is_boolean()) refuse(key, "true or false is needed");
  return at(key).get<bool>();
}

std::string Fields::text(const char* key) const {
  if (!at(key).is_string()) refuse(key, "a text is needed");
  return at(key).get<std::string>();
}

const nlohmann::json& Fields::list(const char* key) const {
  if (!at(key).is_array()) refuse(key, "a list is needed");
  return at(key);
}

NamedTexts Fields::texts(const char* key) const {
  NamedTexts texts;
  if (!at(key).is_object()) refuse(key, "an object of texts is needed");
  for (const auto& [name, value] : at(key).items()) {
    if (!value.is_string()) refuse(key, "an object of texts is needed");
    texts.emplace_back(name, value.get<std::string>());
  }
  return texts;
}

Architecture Fields::architecture(const char* key, const std::filesystem::path& path) const {
  Architecture architecture = architecture_of(at(key), path);
  // A model folder's dropout is not taken, but here it is the run's own.
  const auto dropout = at(key).find("resid_pdrop");
  if (dropout != at(key).end()) {
    if (!dropout->is_number() || !(*dropout >= 0.0 && *dropout < 1.0))
      refuse(key, "a resid_pdrop from 0 to 1 is needed");
    architecture.dropout = dropout->get<double>();
  }
  return architecture;
}

TensorRecord Fields::tensor(const Json& value, const Fields& fields) {
  const Fields entry = fields.of(value, "tensors");
  TensorRecord record;
  record.name = entry.text("name");
  record.elements = 1;
  for (const Json& extent : entry.list("shape")) {
    record.shape.push_back(count(extent, "shape", entry));
    if (record.shape.back() < 1 || record.elements > (std::int64_t{1} << 62) / record.shape.back())
      entry.refuse("shape", "sizes from 1 on, whose product is a size, are needed");
    record.elements *= record.shape.back();
  }
  if (record.shape.empty() || record.shape.size() > 8) entry.refuse("shape", "1 to 8 dimensions are needed");
  if (entry.has("states")) {
    record.states.fill(false);
    for (const Json& state : entry.list("states")) {
      const auto name = std::ranges::find(kStateNames, state.is_string() ? state.get<std::string>() : "");
      if (name == kStateNames.end()) entry.refuse("states", "names of states are needed");
      record.states[static_cast<std::size_t>(name - kStateNames.begin())] = true;
    }
    if (!record.keeps(StateKind::parameter)) entry.refuse("states", "every tensor has its parameter");
  }
  if (record.name.empty() || record.name.find('/') != std::string::npos)
    entry.refuse("name", "a name without / is needed");
  return record;
}

std::uint64_t Fields::checksum(const Json& value, const Fields& fields) {
  const std::string text = value.is_string() ? value.get<std::string>() : std::string();
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  if (text.size() != 16 || error != std::errc{} || end != text.data() + text.size())
    fields.refuse("xxh3", "16 hexadecimal digits are needed");
  return number;
}

}  // namespace tessera
