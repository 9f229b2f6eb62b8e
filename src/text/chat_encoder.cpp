#include "text/chat_encoder.hpp"

#include <algorithm>
#include <span>

namespace tessera {

namespace {

/// Where tokens lie in what they stand for: a text as tokens, which may be normalised, lack spaces that an added token
/// took with it, or begin with one that the tokenizer put there.
class TokenPlaces {
 public:
  TokenPlaces(std::string_view text, std::span<const std::int32_t> ids, const Tokenizer& tokenizer,
              Tokenizer::Encoder& encoder)
      : text_(text), tokenizer_(tokenizer), encoder_(encoder) {
    ends_.reserve(ids.size());
    std::size_t end = 0;
    for (const std::int32_t id : ids) {
      const std::string_view bytes = tokenizer.bytes_of(id);
      is_same_ = is_same_ && text.substr(end).starts_with(bytes);
      ends_.push_back(end += bytes.size());
    }
    is_same_ = is_same_ && end == text.size();
    if (!is_same_) spelled_ = spelling(ids);
  }

  /// Returns the first token of which all characters lie behind `at`, a border between characters of the text.
  std::size_t first_behind(std::size_t at) {
    const Border border = border_at(at);
    if (border.place == 0 && border.is_between) return 0;
    // A token begins where the one before it ends.
    const auto before = border.is_between ? std::ranges::lower_bound(ends_, border.place)
                                          : std::ranges::upper_bound(ends_, border.place);
    return std::min(static_cast<std::size_t>(before - ends_.begin()) + 1, ends_.size());
  }
  /// Returns the token after the last one of which all characters lie in front of `at`.
  std::size_t end_before(std::size_t at) {
    return static_cast<std::size_t>(std::ranges::upper_bound(ends_, border_at(at).place) - ends_.begin());
  }

 private:
  /// A border of the text as a place in what the tokens spell, which may be inside of something that became one.
  struct Border {
    std::size_t place;
    bool is_between;
  };

  Border border_at(std::size_t at) {
    if (is_same_ || at == 0) return {at, true};
    if (at == text_.size()) return {spelled_.size(), true};
    // Text is encoded from a place near the border where it may be cut, so that all is encoded twice at most.
    constexpr std::size_t near = 1024;
    if (at < known_) known_ = known_spelled_ = 0;
    if (at > known_ + near) {
      const std::size_t cut = tokenizer_.cut_at_or_after(text_, at - near);
      if (cut <= at) {
        known_spelled_ += spell(known_, cut).size();
        known_ = cut;
      }
    }
    const std::string part = spell(known_, at);
    const std::string_view rest = std::string_view(spelled_).substr(std::min(known_spelled_, spelled_.size()));
    const auto same = std::ranges::mismatch(part, rest).in1 - part.begin();
    return {known_spelled_ + static_cast<std::size_t>(same), static_cast<std::size_t>(same) == part.size()};
  }
  std::string spell(std::size_t begin, std::size_t end) {
    ids_.clear();
    encoder_.encode(text_.substr(begin, end - begin), ids_, begin > 0);
    return spelling(ids_);
  }
  std::string spelling(std::span<const std::int32_t> ids) const {
    std::string spelled;
    for (const std::int32_t id : ids) spelled += tokenizer_.bytes_of(id);
    return spelled;
  }

  std::string_view text_;
  const Tokenizer& tokenizer_;
  Tokenizer::Encoder& encoder_;
  std::string spelled_;            ///< what the tokens stand for; empty if that is the text
  std::vector<std::size_t> ends_;  ///< of the tokens in it
  bool is_same_ = true;
  std::vector<std::int32_t> ids_;
  std::size_t known_ = 0, known_spelled_ = 0;  ///< a place in the text, and in what it is spelled as
};

}  // namespace

std::vector<bool> counted_tokens(const RenderedChat& chat, const std::vector<std::int32_t>& ids,
                                 const std::vector<std::int32_t>& special, const Tokenizer& tokenizer,
                                 Tokenizer::Encoder& encoder) {
  TokenPlaces places(chat.text, ids, tokenizer, encoder);
  std::vector<bool> counts(ids.size());
  for (const RenderedChat::Range& range : chat.counts) {
    const std::size_t begin = places.first_behind(range.begin);
    std::size_t end = places.end_before(range.end);
    if (!range.is_exact) {
      const auto is_special = [&](std::int32_t id) { return std::ranges::binary_search(special, id); };
      std::size_t last = end;
      while (last > begin && !is_special(ids[last - 1])) --last;
      if (last > begin) end = last;
    }
    for (std::size_t token = begin; token < end; ++token) counts[token] = true;
  }
  return counts;
}

void ChatEncoder::ask(std::span<const std::string> conversations) {
  if (failure_) return;  // the next start would fail as the first one did
  try {
    if (!renderer_) renderer_.emplace(form_);
    renderer_->ask(conversations);
  } catch (const Error&) {
    failure_ = std::current_exception();
  }
}

std::string ChatEncoder::take(Encoded& out) {
  if (failure_) std::rethrow_exception(failure_);
  RenderedChat chat;
  try {
    chat = renderer_->next();
  } catch (const Error&) {
    failure_ = std::current_exception();
    throw;
  }
  if (!chat.problem.empty()) return chat.problem;
  std::vector<std::int32_t> ids;
  encoder_.encode(chat.text, ids);
  if (const std::string lost = encoder_.take_lost(); !lost.empty())
    return lost + " has no token in the tokenizer's vocabulary";
  const std::vector<bool> counts = counted_tokens(chat, ids, special_ids_, tokenizer_, encoder_);
  const std::int64_t begin = std::ssize(out.ids);
  for (std::size_t token = 0; token < ids.size(); ++token) {
    if (counts[token]) continue;
    const std::int64_t at = begin + static_cast<std::int64_t>(token);
    const bool goes_on = token > 0 && !counts[token - 1];
    if (!goes_on) out.uncounted.push_back({at, at});
    out.uncounted.back().end = at + 1;
  }
  out.ids.insert(out.ids.end(), ids.begin(), ids.end());
  out.ends.push_back(std::ssize(out.ids));
  out.text_bytes += std::ssize(chat.text);
  ++out.conversations;
  if (std::ranges::find(counts, true) == counts.end()) ++out.silent_conversations;
  return {};
}

}  // namespace tessera
