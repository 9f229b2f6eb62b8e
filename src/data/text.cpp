#include <algorithm>
#include <optional>

#include "data/mapped_file.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/math.hpp"
#include "tessera/data/corpus.hpp"

namespace tessera {

namespace fs = std::filesystem;

namespace {

/// Linux allows a process 65,530 mappings by default. Files beyond this many are opened for each copy instead.
constexpr std::size_t kMostMappings = 16384;

/// One file's bytes, at place `first` of the corpus.
struct TextPart {
  fs::path file;
  std::int64_t first, size;
  std::optional<MappedFile> mapped;
};

class Text final : public TokenSource {
 public:
  Text(const fs::path& root, const std::vector<fs::path>& files) : root_(root) {
    for (const auto& file : files) add(file);
    if (size_ == 0)
      throw UsageError("{}: {} .txt files, all empty (no text): text to train on", root.string(), files.size());
  }

  std::int64_t size() const override { return size_; }
  std::int64_t id_bound() const override { return 256; }
  std::string describe() const override {
    return fmt::format("{} ({} text file{})", root_.string(), parts_.size(), parts_.size() == 1 ? "" : "s");
  }

  void copy(std::int64_t first, std::int64_t count, std::int32_t* out) const override {
    TESSERA_ASSERT(first >= 0 && count >= 0 && first <= size_ - count, "tokens {}+{} of {}", first, count, size_);
    auto part = std::ranges::upper_bound(parts_, first, {}, &TextPart::first) - 1;
    while (count > 0) {
      const std::int64_t inside = first - part->first;
      const std::int64_t here = std::min(count, part->size - inside);
      copy_part(*part, inside, here, out);
      first += here, count -= here, out += here, ++part;
    }
  }

 private:
  void add(const fs::path& file) {
    TextPart part{.file = file, .first = size_, .size = 0, .mapped = std::nullopt};
    if (parts_.size() < kMostMappings) {
      part.mapped.emplace(file);
      part.size = static_cast<std::int64_t>(part.mapped->bytes().size());
    } else {
      std::error_code error;
      part.size = static_cast<std::int64_t>(fs::file_size(file, error));
      if (error) throw IoError("{}: cannot be examined ({})", file.string(), error.message());
    }
    if (part.size == 0) return;
    size_ = checked_add(size_, part.size);
    parts_.push_back(std::move(part));
  }

  static void copy_part(const TextPart& part, std::int64_t inside, std::int64_t count, std::int32_t* out) {
    const auto widen = [](std::byte byte) { return static_cast<std::int32_t>(byte); };
    const auto length = static_cast<std::size_t>(count);
    if (part.mapped) {
      std::ranges::transform(part.mapped->bytes().subspan(static_cast<std::size_t>(inside), length), out, widen);
      return;
    }
    // The bytes are read into the last quarter of the output and widened from the front: no other memory is needed, and
    // writing element i overwrites bytes 4i to 4i+3, none of which holds an input after the i-th.
    auto* raw = reinterpret_cast<std::byte*>(out) + 3 * length;
    read_at(part.file, inside, {raw, length});
    for (std::size_t i = 0; i < length; ++i) out[i] = widen(raw[i]);
  }

  fs::path root_;
  std::vector<TextPart> parts_;
  std::int64_t size_ = 0;
};

[[noreturn]] void refuse_json(const fs::path& file) {
  throw UsageError("{}: JSON is not read in this version: a folder of .txt files, or a .bin file of tokens",
                   file.string());
}

bool is_json(const fs::path& file) { return file.extension() == ".json" || file.extension() == ".jsonl"; }

/// All .txt files below `folder`, by the bytes of their path below it: the same order on every machine.
std::vector<fs::path> text_files(const fs::path& folder) {
  std::vector<fs::path> files;
  try {
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      if (is_json(entry.path())) refuse_json(entry.path());
      if (entry.path().extension() == ".txt") files.push_back(entry.path().lexically_relative(folder));
    }
  } catch (const fs::filesystem_error& error) {
    throw IoError("{}: cannot be listed ({})", folder.string(), error.code().message());
  }
  std::ranges::sort(files, {}, [](const fs::path& file) { return file.generic_string(); });
  for (auto& file : files) file = folder / file;
  return files;
}

}  // namespace

std::unique_ptr<TokenSource> open_text(const fs::path& folder) {
  std::error_code error;
  if (fs::is_regular_file(folder, error)) {
    if (is_json(folder)) refuse_json(folder);
    return std::make_unique<Text>(folder, std::vector{folder});
  }
  if (!fs::is_directory(folder, error)) {
    throw UsageError("{}: no such folder or file: a folder of .txt files", folder.string());
  }
  const auto files = text_files(folder);
  if (files.empty()) throw UsageError("{}: no .txt file in it or below it: a folder of .txt files", folder.string());
  return std::make_unique<Text>(folder, files);
}

}  // namespace tessera
