#include "sweep/text_file.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>

#include "tessera/base/error.hpp"
#include "tessera/files/byte_file.hpp"

namespace tessera {

std::optional<std::string> read_small_file(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error) return std::nullopt;
  const FileDescriptor file = open_file(path, OpenFor::reading);
  std::string text(static_cast<std::size_t>(size_of_file(file, path)), '\0');
  text.resize(static_cast<std::size_t>(read_up_to(file, path, text.data(), static_cast<std::int64_t>(text.size()))));
  return text;
}

std::string text_behind(const std::filesystem::path& path, std::int64_t from) {
  constexpr std::int64_t most = 64 << 10;
  std::ifstream file(path, std::ios::binary);
  file.seekg(std::max(from, size_of(path) - most));
  return {std::istreambuf_iterator<char>(file), {}};
}

void make_folder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw IoError("cannot make the folder {} ({})", path.string(), error.message());
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
