#include <system_error>

#include "tessera/base/error.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/tokenizer/tokenizer.hpp"
#include "tokenizer/bpe.hpp"
#include "tokenizer/bpe_description.hpp"

namespace tessera {

namespace {

bool has_vocab_and_merges(const std::filesystem::path& folder) {
  return path_exists(folder / "vocab.json") && path_exists(folder / "merges.txt");
}

BpeDescription read_description(const std::filesystem::path& path, const std::filesystem::path& folder,
                                bool is_folder) {
  if (!is_folder) {
    const std::filesystem::path name = path.filename();
    return name == "vocab.json" || name == "merges.txt" ? read_vocab_and_merges(folder) : read_tokenizer_json(path);
  }
  if (path_exists(folder / "tokenizer.json")) return read_tokenizer_json(folder / "tokenizer.json");
  if (has_vocab_and_merges(folder)) return read_vocab_and_merges(folder);
  if (const std::string foreign = foreign_tokenizer(folder); !foreign.empty())
    throw refusal("{} has no tokenizer that can be read, but {}", folder.string(), foreign)
        .hint(
            "Load it in Python with AutoTokenizer of Transformers, and save it with save_pretrained, which writes "
            "tokenizer.json");
  throw refusal("{} has no tokenizer that can be read", folder.string())
      .use("tokenizer.json, or vocab.json with merges.txt");
}

}  // namespace

std::filesystem::path tokenizer_in(const std::filesystem::path& folder) {
  return path_exists(folder / kNamedTokenizer) ? folder / kNamedTokenizer : folder;
}

bool has_tokenizer(const std::filesystem::path& folder) {
  const std::filesystem::path in = tokenizer_in(folder);
  return path_exists(in / "tokenizer.json") || has_vocab_and_merges(in);
}

std::string foreign_tokenizer(const std::filesystem::path& folder) {
  for (const char* name : {"tokenizer.model", "tekken.json", "spiece.model", "vocab.txt"}) {
    if (path_exists(folder / name)) return name;
  }
  return {};
}

std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& path) {
  if (!path_exists(path)) throw refusal("the tokenizer {} does not exist", path.string()).use("a folder or file");
  std::error_code ignored;  // path_exists has asked
  const bool is_folder = std::filesystem::is_directory(path, ignored);
  const std::filesystem::path folder = is_folder ? tokenizer_in(path) : path.parent_path();
  return make_bpe(read_description(path, folder, is_folder));
}

std::unique_ptr<Tokenizer> readable_tokenizer(const std::filesystem::path& folder) try {
  return has_tokenizer(folder) ? open_tokenizer(folder) : nullptr;
} catch (const Error&) {
  return nullptr;
}

}  // namespace tessera
