#include "tessera/text/choose_tokenizer.hpp"

#include "tessera/base/refuse.hpp"
#include "tessera/base/shown.hpp"

namespace tessera {

namespace fs = std::filesystem;

std::string tokenizer_name(const Options& options) {
  const auto known = [](const fs::path& path) { return is_byte_tokenizer(path) ? "bytes" : path.string(); };
  if (!options.data.tokenizer.empty()) return known(options.data.tokenizer);
  const fs::path from = options.model.from;
  if (from.empty()) return "bytes";
  // Runs and imported checkpoints keep the files of a Hugging Face folder; a run's checkpoint lies two folders below.
  for (const fs::path& folder : {from, from / "hugging_face", from / "../../hugging_face"}) {
    if (has_tokenizer(folder)) return known(folder.lexically_normal());
  }
  throw refusal("model.from = {} has neither tokenizer.json nor vocab.json with merges.txt to read text with",
                from.string())
      .use("data.tokenizer = bytes or a folder");
}

std::unique_ptr<Tokenizer> open_named_tokenizer(const std::string& name) {
  return name == "bytes" ? make_byte_tokenizer() : open_tokenizer(name);
}

std::optional<std::int32_t> separator_of(const DataOptions& options, const Tokenizer& tokenizer, bool is_bytes) {
  if (options.separator == "none") return std::nullopt;
  if (options.separator == "auto") {
    if (is_bytes) return std::nullopt;
    if (const auto id = tokenizer.end_of_text()) return id;
    throw refuse("data.separator", "auto")
        .because("{} does not name an end of text, so that nothing would tell documents apart", tokenizer.describe())
        .use("none, or a token's content");
  }
  if (const auto id = tokenizer.id_of(options.separator)) return id;
  throw refuse("data.separator", shown(options.separator))
      .because("{} has no such token", tokenizer.describe())
      .use("auto, none or a token's content");
}

}  // namespace tessera
