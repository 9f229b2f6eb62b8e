#include "tokenizer/text_normalizer.hpp"

#include <algorithm>

namespace tessera {

std::string_view replaced(std::string_view text, std::string_view from, std::string_view to, std::string& out) {
  out.clear();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t found = std::min(text.find(from, at), text.size());
    out.append(text.substr(at, found - at));
    if (found < text.size()) out.append(to);
    at = found + from.size();
  }
  return out;
}

std::string_view TextNormalizer::normalize(std::string_view text, bool goes_on) {
  for (const TextRule& rule : rules_) {
    // The scratch that does not hold the text.
    std::string& out = scratch_[text.data() == scratch_[0].data() ? 1 : 0];
    switch (rule.kind) {
      case TextRule::Kind::nfc:
        text = form_.compose(text);
        break;
      case TextRule::Kind::replace:
        text = replaced(text, rule.from, rule.to, out);
        break;
      case TextRule::Kind::prepend:
        if (!text.empty() && !goes_on) text = out.assign(rule.to).append(text);
        break;
      default:
        break;
    }
  }
  return text;
}

}  // namespace tessera
