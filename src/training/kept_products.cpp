#include "tessera/training/kept_products.hpp"

#include <fstream>
#include <iterator>

#include "tessera/base/error.hpp"
#include "tessera/files/durable_file.hpp"

namespace tessera {

std::string KeptProducts::read() {
  std::error_code none;
  if (!std::filesystem::is_regular_file(path_, none)) return {};
  std::ifstream file(path_, std::ios::binary);
  known_.assign(std::istreambuf_iterator<char>(file), {});
  if (!file) throw IoError("{} cannot be read: delete it, and algorithms are chosen anew", path_.string());
  return known_;
}

void KeptProducts::write(const std::string& text) {
  if (text.empty() || text == known_) return;
  write_text_atomically(path_, text);
  known_ = text;
}

}  // namespace tessera
