#pragma once
// Patterns as tokenizer.json has them (Oniguruma's Ruby syntax) for PCRE2.

#include <string>
#include <string_view>

namespace tessera {

/// Returns a pattern that means to PCRE2 what `pattern` means to Oniguruma. White space (\s, \S) is written out, since
/// PCRE2 counts U+180E. UsageError naming the construct and its position for what the two may read differently. Reads
/// literals, classes, \s \S \d \r \n \t, \p of categories, groups, look-around, alternatives and quantifiers.
std::string pcre2_syntax(std::string_view pattern);

}  // namespace tessera
