// What stands before a document.

#include "tessera/base/refuse.hpp"
#include "tessera/base/shown.hpp"
#include "tessera/tokenizer/tokenizer.hpp"

namespace tessera {

std::string begin_name(const Tokenizer& tokenizer) {
  std::string name;
  for (const std::int32_t id : tokenizer.before_text()) name += tokenizer.bytes_of(id);
  return name.empty() ? "none" : name;
}

std::vector<std::int32_t> begin_of(const Tokenizer& tokenizer, const std::string& begin) {
  if (begin == "none") return {};
  if (begin == "auto" || begin == begin_name(tokenizer)) return tokenizer.before_text();
  if (const auto id = tokenizer.id_of(begin)) return {*id};
  throw refuse("data.begin", shown(begin))
      .because("{} has no such token", tokenizer.describe())
      .use("auto, none or a token's content");
}

void encode_prompt(const Tokenizer& tokenizer, Tokenizer::Encoder& encoder, std::string_view text,
                   std::vector<std::int32_t>& ids) {
  encoder.encode(text, ids);
  if (const std::string lost = encoder.take_lost(); !lost.empty())
    throw refusal("{} of a text has no token in {}", lost, tokenizer.describe()).hint("Leave it out");
}

}  // namespace tessera
