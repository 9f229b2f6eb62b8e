#include "tokenizer/spellings.hpp"

#include "tessera/base/shown.hpp"

namespace tessera {

Spellings::Spellings(const JsonAt& object) {
  object.require_object();
  if (object.value().empty()) object.refuse("a vocabulary needs tokens");
  ids_.reserve(object.value().size());
  by_id_.reserve(object.value().size());
  for (const auto& [spelling, value] : object.value().items()) {
    if (!value.is_number_integer() || value < 0 || value > kLargestId) object.key(spelling).token_id();  // refuses
    const auto id = value.get<std::int32_t>();
    if (!by_id_.insert(id).second) object.key(spelling).refuse("another token has this id");
    ids_.emplace(spelling, id);
  }
}

std::optional<std::int32_t> Spellings::find(const std::string& spelling) const {
  const auto found = ids_.find(spelling);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<VocabularyEntry> Spellings::entries() const {
  std::vector<VocabularyEntry> entries;
  entries.reserve(ids_.size());
  for (const auto& [spelling, id] : ids_) entries.push_back({spelling, id});
  return entries;
}

std::optional<std::string> MergeReader::add(const std::string& left, const std::string& right) {
  const auto missing = [](const std::string& token) { return shown(token) + " is not in the vocabulary"; };
  if (left.empty() || right.empty()) return "two tokens are needed";
  const auto left_id = spellings_.find(left), right_id = spellings_.find(right);
  if (!left_id) return missing(left);
  if (!right_id) return missing(right);
  const auto result = spellings_.find(left + right);
  if (!result) return missing(left + right);
  const auto pair = static_cast<std::uint64_t>(*left_id) << 32 | static_cast<std::uint64_t>(*right_id);
  if (!pairs_.insert(pair).second) return "this pair was merged before";
  merges_.push_back({*left_id, *right_id, *result});
  return std::nullopt;
}

std::optional<std::string> MergeReader::add_line(std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos)
    return "two tokens with one space between them are needed";
  return add(std::string(line.substr(0, space)), std::string(line.substr(space + 1)));
}

}  // namespace tessera
