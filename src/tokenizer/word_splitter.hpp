#pragma once
// Cuts text into words by the rules of a pre-tokenizer, one after another.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/bpe_description.hpp"
#include "tokenizer/pattern.hpp"
#include "tokenizer/quick_words.hpp"
#include "tokenizer/text_normalizer.hpp"

namespace tessera {

/// Rules with their patterns, which all threads read.
class WordRules {
 public:
  /// UsageError if a pattern is not read here.
  explicit WordRules(const std::vector<TextRule>& rules);
  struct Compiled {
    TextRule rule;
    std::unique_ptr<Pattern> pattern;  ///< of a split
  };
  const std::vector<Compiled>& rules() const { return rules_; }
  /// Returns the family of the pattern that decides where text may be cut; other if there is none.
  PatternFamily family() const;

 private:
  std::vector<Compiled> rules_;
};

/// Cuts, for one thread. Must not outlive its rules.
class WordSplitter {
 public:
  /// `quick = false` asks the patterns for every word, which tests compare with.
  WordSplitter(const WordRules& rules, bool quick);

  /// Passes the words of a text on, in order. `begins`: it is the beginning of a whole text.
  template <class Use>
  void split(std::string_view text, bool begins, Use&& use) {
    split_from(0, text, begins, use);
  }

 private:
  struct Step {
    const TextRule& rule;
    std::unique_ptr<Pattern::Finder> finder;
    PatternFamily family;  ///< with a quick path
    std::string scratch;
  };

  template <class Use>
  void split_from(std::size_t number, std::string_view text, bool begins, Use& use) {
    if (number == steps_.size()) return text.empty() ? void() : use(text);
    Step& step = steps_[number];
    const auto next = [&](std::string_view part) {
      split_from(number + 1, part, begins && part.data() == text.data(), use);
    };
    switch (step.rule.kind) {
      case TextRule::Kind::replace:
        return split_from(number + 1, replaced(text, step.rule.from, step.rule.to, step.scratch), begins, use);
      case TextRule::Kind::prefix:
        if (text.starts_with(step.rule.to) || (step.rule.first_only && !begins)) return next(text);
        return split_from(number + 1, step.scratch.assign(step.rule.to).append(text), begins, use);
      default:
        break;
    }
    switch (step.family) {
      case PatternFamily::other:
        return split_by_pattern(step, text, next);
      case PatternFamily::gpt2:
        return split_quickly<PatternFamily::gpt2>(step, text, next);
      case PatternFamily::qwen2:
        return split_quickly<PatternFamily::qwen2>(step, text, next);
      case PatternFamily::llama3:
        return split_quickly<PatternFamily::llama3>(step, text, next);
    }
  }

  template <PatternFamily kFamily, class Next>
  static void split_quickly(Step& step, std::string_view text, Next& next) {
    const QuickWords<kFamily> words(text);
    for (std::size_t at = 0; at < text.size();) {
      std::size_t end = words.end_of_word(at);
      if (end == words.kAsk) end = step.finder->next(text, at).end;
      next(text.substr(at, end - at));
      at = end;
    }
  }

  /// Parts join as the library says: matches with each other, or with the text before or after them.
  template <class Next>
  static void split_by_pattern(Step& step, std::string_view text, Next& next) {
    std::size_t begin = 0, end = 0;  // what waits for the parts that join it
    bool last = false;               // whether its last part is a match
    const auto pass = [&] {
      if (begin < end && !(last && step.rule.behavior == SplitBehavior::removed)) next(text.substr(begin, end - begin));
    };
    const auto add = [&](std::size_t to, bool match) {
      if (to == end) return;
      if (begin == end || !joins(step.rule.behavior, last, match)) {
        pass();
        begin = end;
      }
      end = to;
      last = match;
    };
    while (end < text.size()) {
      const Pattern::Found found = step.finder->next(text, end);
      add(found.begin, step.rule.invert);
      add(found.end, !step.rule.invert);
    }
    pass();
  }

  static bool joins(SplitBehavior behavior, bool before, bool after) {
    switch (behavior) {
      case SplitBehavior::merged_with_previous:
        return after && !before;
      case SplitBehavior::merged_with_next:
        return before && !after;
      case SplitBehavior::contiguous:
        return before == after;
      case SplitBehavior::isolated:
      case SplitBehavior::removed:
        return false;
    }
    return false;
  }

  std::vector<Step> steps_;
};

}  // namespace tessera
