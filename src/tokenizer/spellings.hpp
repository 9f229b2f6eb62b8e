#pragma once
// A vocabulary and its merges while they are read.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tokenizer/bpe_description.hpp"
#include "tokenizer/json_at.hpp"

namespace tessera {

class Spellings {
 public:
  /// Reads an object of spellings and ids. UsageError if it has none, or an id is out of bounds or there twice.
  explicit Spellings(const JsonAt& object);

  std::optional<std::int32_t> find(const std::string& spelling) const;
  bool has_id(std::int32_t id) const { return by_id_.contains(id); }
  std::vector<VocabularyEntry> entries() const;
  std::size_t size() const { return ids_.size(); }

 private:
  std::unordered_map<std::string, std::int32_t> ids_;
  std::unordered_set<std::int32_t> by_id_;
};

class MergeReader {
 public:
  explicit MergeReader(const Spellings& spellings) : spellings_(spellings) {}

  /// Appends the merge of two tokens. Returns why it is not a merge; nothing if it is.
  std::optional<std::string> add(const std::string& left, const std::string& right);
  /// The same of "left right".
  std::optional<std::string> add_line(std::string_view line);
  std::vector<Merge> take() { return std::move(merges_); }

 private:
  const Spellings& spellings_;
  std::vector<Merge> merges_;
  std::unordered_set<std::uint64_t> pairs_;
};

}  // namespace tessera
