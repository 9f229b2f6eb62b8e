#include "tokenizer/word_splitter.hpp"

#include <algorithm>

namespace tessera {

WordRules::WordRules(const std::vector<TextRule>& rules) {
  for (const TextRule& rule : rules) {
    const bool splits = rule.kind == TextRule::Kind::split;
    rules_.push_back({rule, splits ? std::make_unique<Pattern>(rule.from) : nullptr});
  }
}

PatternFamily WordRules::family() const {
  // Digits, which may be cut off before, are not next to white space on both sides of a border between words.
  const auto is_digits = [](const Compiled& step) {
    return step.rule.from == R"(\p{N})" || step.rule.from == R"(\p{N}+)";
  };
  if (rules_.empty() || !std::all_of(rules_.begin(), rules_.end() - 1, is_digits)) return PatternFamily::other;
  const Compiled& last = rules_.back();
  const bool plain = last.rule.behavior == SplitBehavior::isolated;
  return last.pattern != nullptr && plain ? last.pattern->family() : PatternFamily::other;
}

WordSplitter::WordSplitter(const WordRules& rules, bool quick) {
  for (const auto& [rule, pattern] : rules.rules()) {
    const bool plain = quick && pattern != nullptr && rule.behavior == SplitBehavior::isolated;
    steps_.push_back({rule,
                      pattern != nullptr ? std::make_unique<Pattern::Finder>(*pattern) : nullptr,
                      plain ? pattern->family() : PatternFamily::other,
                      {}});
  }
}

}  // namespace tessera
