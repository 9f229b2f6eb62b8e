#include "tessera/files/json_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <string>

#include "tessera/base/error.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/files/byte_file.hpp"

namespace tessera {

namespace {

/// Configurations, indices and manifests need four.
constexpr int kDeepest = 64;

}  // namespace

std::string read_text_file(const std::filesystem::path& path, std::int64_t limit) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file && (errno == ENOENT || errno == ENOTDIR)) throw refusal("{} does not exist", path.string());
  if (!file) fail_to_read("open", path);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail_to_read("read", path);
  if (!S_ISREG(status.st_mode)) throw refusal("{} is not a file", path.string());
  if (status.st_size > limit)
    throw refusal("{} has {} bytes, but at most {} are read", path.string(), status.st_size, limit);
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  text.resize(static_cast<std::size_t>(read_up_to(file, path, text.data(), status.st_size)));
  return text;
}

nlohmann::json parse_json(const std::string& text) {
  return nlohmann::json::parse(text, [](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    if (depth > kDeepest) throw refusal("values are nested more than {} deep", kDeepest);
    return true;
  });
}

nlohmann::json read_json_object(const std::filesystem::path& path, std::int64_t limit) {
  nlohmann::json json;
  const std::string text = read_text_file(path, limit);
  try {
    json = parse_json(text);
  } catch (const UsageError& error) {
    throw UsageError("{} is not JSON that is read here: {}", path.string(), error.what());
  } catch (const nlohmann::json::exception& error) {
    throw refusal("{} is not JSON ({})", path.string(), error.what());
  }
  if (!json.is_object()) throw refusal("{} does not hold a JSON object", path.string());
  return json;
}

}  // namespace tessera
