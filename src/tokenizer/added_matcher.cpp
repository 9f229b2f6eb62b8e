#include "tokenizer/added_matcher.hpp"

#include <utility>

#include "tokenizer/code_points.hpp"

namespace tessera {

AddedMatcher::AddedMatcher(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  roots_.fill(kNone);
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    std::int32_t node = 0;
    for (const char byte : tokens_[i].content) {
      std::int32_t below = child_of(node, byte);
      if (below == kNone) {
        below = static_cast<std::int32_t>(nodes_.size());
        Node& parent = nodes_[static_cast<std::size_t>(node)];
        nodes_.push_back({byte, kNone, std::exchange(parent.child, below), kNone});
      }
      if (node == 0) roots_[static_cast<unsigned char>(byte)] = below;
      node = below;
    }
    nodes_[static_cast<std::size_t>(node)].token = static_cast<std::int32_t>(i);
  }
}

std::int32_t AddedMatcher::child_of(std::int32_t node, char byte) const {
  std::int32_t child = nodes_[static_cast<std::size_t>(node)].child;
  while (child != kNone && nodes_[static_cast<std::size_t>(child)].byte != byte)
    child = nodes_[static_cast<std::size_t>(child)].sibling;
  return child;
}

std::optional<AddedMatcher::Match> AddedMatcher::next(std::string_view text, std::size_t from) const {
  if (tokens_.empty()) return std::nullopt;
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    std::int32_t node = roots_[static_cast<unsigned char>(text[begin])];
    std::optional<Match> longest;
    for (std::size_t end = begin + 1; node != kNone; ++end) {
      const std::int32_t token = nodes_[static_cast<std::size_t>(node)].token;
      if (token != kNone) longest = Match{begin, end, static_cast<std::size_t>(token)};
      node = end < text.size() ? child_of(node, text[end]) : kNone;
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

bool AddedMatcher::joins_word(std::string_view text, const Match& match) {
  return (match.begin > 0 && is_word_character(last_point(text.substr(0, match.begin)).point)) ||
         (match.end < text.size() && is_word_character(first_point(text.substr(match.end)).point));
}

std::size_t AddedMatcher::spaces_before(std::string_view text, std::size_t done, std::size_t at) {
  while (at > done) {
    const DecodedPoint before = last_point(text.substr(0, at));
    if (!is_white_space(before.point)) break;
    at -= before.length;
  }
  return std::max(done, at);
}

std::size_t AddedMatcher::spaces_after(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    const DecodedPoint after = first_point(text.substr(at));
    if (!is_white_space(after.point)) break;
    at += after.length;
  }
  return at;
}

}  // namespace tessera
