#include "tessera/base/hub_name.hpp"

#include <fmt/format.h>

#include <regex>
#include <system_error>

namespace tessera {

std::string hub_hint(const std::filesystem::path& path) {
  const std::regex name(R"([A-Za-z0-9][\w.-]*/([A-Za-z0-9][\w.-]*))");
  std::smatch parts;
  std::error_code ignored;
  const std::string text = path.string();
  if (!std::regex_match(text, parts, name) || text.ends_with(".ini") ||
      std::filesystem::exists(path.parent_path(), ignored))
    return {};
  return fmt::format(
      "If this is a model on the Hugging Face hub, download it first (hf download {0} --local-dir {1}) and give "
      "--model.from={1}",
      text, parts[1].str());
}

}  // namespace tessera
