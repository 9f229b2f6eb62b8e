#include "tessera/run/published.hpp"

#include <nlohmann/json.hpp>
#include <sstream>

#include "tessera/base/error.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/run/metrics_history.hpp"

namespace tessera {

namespace {

/// Returns a step, `key` of a JSON object that has the other key as well; nothing for any other text.
std::optional<std::int64_t> step_in(const std::string& text, const char* key, const char* other) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains(other) || !json.contains(key)) return std::nullopt;
  return json[key].is_number_integer() ? std::optional(json[key].get<std::int64_t>()) : std::nullopt;
}

/// Returns the text of a file that a run writes for information; empty where none can be read, which costs a run
/// nothing.
std::string text_of(const std::filesystem::path& file) {
  try {
    return read_small_file(file).value_or("");
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

std::optional<std::int64_t> published_checkpoint(const std::filesystem::path& run) {
  std::optional<std::int64_t> last;
  std::error_code unseen;
  if (!std::filesystem::is_directory(run, unseen)) return last;
  std::istringstream lines(text_of(run / "log.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    if (line.find(kCheckpointKey) == std::string::npos) continue;
    if (const auto step = step_in(line, "step", kCheckpointKey)) last = step;
  }
  const std::vector<std::int64_t> numbers = metrics_files(run);
  for (auto number = numbers.rbegin(); !last && number != numbers.rend(); ++number)
    last = last_checkpoint_in(metrics_path(run, *number));
  return last ? last : step_in(text_of(run / "status.json"), "checkpoint", "state");
}

}  // namespace tessera
