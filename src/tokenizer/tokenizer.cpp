#include "tessera/tokenizer/tokenizer.hpp"

namespace tessera {

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t id : ids) text += bytes_of(id);
  return text;
}

}  // namespace tessera
