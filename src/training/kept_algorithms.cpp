#include "tessera/training/kept_algorithms.hpp"

#include "tessera/base/error.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/durable_file.hpp"

namespace tessera {

std::string KeptAlgorithms::read() {
  for (const char* name : {kName, kOldName}) {
    const std::filesystem::path path = folder_ / name;
    std::error_code none;
    if (!std::filesystem::is_regular_file(path, none)) continue;
    try {
      const FileDescriptor file = open_file(path, OpenFor::reading);
      std::string text(static_cast<std::size_t>(size_of_file(file, path)), '\0');
      read_at(file, path, 0, text.data(), static_cast<std::int64_t>(text.size()));
      if (name == kName) known_ = text;
      return text;
    } catch (const IoError& error) {
      throw IoError("{}: delete it, and algorithms are selected anew", error.what());
    }
  }
  return {};
}

void KeptAlgorithms::write(const std::string& text) {
  if (text.empty() || text == known_) return;
  write_text_atomically(folder_ / kName, text);
  std::error_code none;
  std::filesystem::remove(folder_ / kOldName, none);
  known_ = text;
}

}  // namespace tessera
