#include "tessera/training/kept_algorithms.hpp"

#include "tessera/base/error.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/durable_file.hpp"

namespace tessera {

std::string KeptAlgorithms::read() {
  std::error_code none;
  if (!std::filesystem::is_regular_file(path_, none)) return {};
  try {
    const FileDescriptor file = open_file(path_, OpenFor::reading);
    std::string text(static_cast<std::size_t>(size_of_file(file, path_)), '\0');
    read_at(file, path_, 0, text.data(), static_cast<std::int64_t>(text.size()));
    known_ = text;
    return text;
  } catch (const IoError& error) {
    throw IoError("{}. Delete it, and algorithms are selected again.", error.what());
  }
}

void KeptAlgorithms::write(const std::string& text) {
  if (text.empty() || text == known_) return;
  write_text_atomically(path_, text);
  known_ = text;
}

}  // namespace tessera
