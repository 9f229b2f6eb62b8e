#pragma once
// Brings text into the form in which a tokenizer cuts it.

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/bpe_description.hpp"
#include "tokenizer/normal_form.hpp"

namespace tessera {

/// Writes `text` with all places of `from`, which is not empty, replaced into `out`; returns that.
std::string_view replaced(std::string_view text, std::string_view from, std::string_view to, std::string& out);

/// Keeps its scratch between calls.
class TextNormalizer {
 public:
  explicit TextNormalizer(std::vector<TextRule> rules) : rules_(std::move(rules)) {}
  /// Returns valid UTF-8 in that form: `text` itself where no rule changes anything, else the scratch. `goes_on`: text
  /// before it was normalised in another call, so that nothing is put before it.
  std::string_view normalize(std::string_view text, bool goes_on = false);

 private:
  std::vector<TextRule> rules_;
  NormalForm form_;
  std::array<std::string, 2> scratch_;
};

}  // namespace tessera
