#include "sweep/text_file.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>

namespace tessera {

std::string text_behind(const std::filesystem::path& path, std::int64_t from) {
  constexpr std::int64_t most = 64 << 10;
  std::ifstream file(path, std::ios::binary);
  file.seekg(std::max(from, size_of(path) - most));
  return {std::istreambuf_iterator<char>(file), {}};
}

std::int64_t size_of(const std::filesystem::path& path) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  return error ? 0 : static_cast<std::int64_t>(size);
}

void say(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace tessera
