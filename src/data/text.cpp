#include <algorithm>
#include <optional>

#include "tessera/base/error.hpp"
#include "tessera/base/mapped_file.hpp"
#include "tessera/base/math.hpp"
#include "tessera/base/shown.hpp"
#include "tessera/data/corpus.hpp"

namespace tessera {

namespace fs = std::filesystem;

namespace {

/// Linux allows a process 65,530 mappings by default. Files beyond this many are opened for each copy instead.
constexpr std::size_t kMostMappings = 16384;

/// One file's bytes, at offset `first` of the corpus.
struct TextPart {
  fs::path file;
  std::int64_t first, size;
  std::optional<MappedFile> mapped;
};

/// Returns "a, b, c and 7 more"
std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t most = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i) text += (i == 0 ? "" : ", ") + names[i];
  return names.size() <= most ? text : fmt::format("{} and {} more", text, names.size() - most);
}

class Text final : public TokenSource {
 public:
  Text(const fs::path& root, const std::vector<fs::path>& files, std::string skipped = {})
      : root_(root), skipped_(std::move(skipped)) {
    for (const auto& file : files) add(file);
    if (size_ == 0)
      throw UsageError("{}: {} .txt files, all empty (no text): text to train on", root.string(), files.size());
  }

  std::int64_t size() const override { return size_; }
  std::int64_t id_bound() const override { return 256; }
  std::string describe() const override {
    return fmt::format("{} ({} text file{})", root_.string(), parts_.size(), parts_.size() == 1 ? "" : "s");
  }

  std::string skipped() const override { return skipped_; }

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
    // The bytes are read into the last quarter of the output and widened from the front: no other memory is needed.
    // Writing element i overwrites bytes 4i to 4i+3, none of which holds an input after the i-th.
    auto* raw = reinterpret_cast<std::byte*>(out) + 3 * length;
    read_at(part.file, inside, {raw, length});
    for (std::size_t i = 0; i < length; ++i) out[i] = widen(raw[i]);
  }

  fs::path root_;
  std::string skipped_;
  std::vector<TextPart> parts_;
  std::int64_t size_ = 0;
};

[[noreturn]] void refuse_json(const fs::path& file) {
  throw UsageError("{}: JSON is not read in this version: a folder of .txt files, or a .bin file of tokens",
                   file.string());
}

bool is_json(const fs::path& file) { return file.extension() == ".json" || file.extension() == ".jsonl"; }

/// The contents of a folder: files in the order of the bytes of their paths below it, the same on every machine.
/// Left-out entries are listed with the reason.
struct Listing {
  std::vector<fs::path> files;
  std::vector<std::string> skipped;
};

/// Adds one entry. Links to files are followed; links to folders are not, as they may lead in circles.
void list_entry(const fs::directory_entry& entry, const fs::path& folder, Listing& out) {
  const fs::path& path = entry.path();
  const std::string name = path.lexically_relative(folder).generic_string();
  const bool is_text = path.extension() == ".txt";
  std::error_code error;
  const fs::file_status status = entry.status(error);
  if (status.type() == fs::file_type::regular) {
    if (is_json(path)) refuse_json(path);
    if (is_text) out.files.emplace_back(name);
  } else if (status.type() == fs::file_type::directory) {
    if (entry.is_symlink(error)) out.skipped.push_back(shown(name) + " (a link to a folder)");
  } else if (is_text && status.type() == fs::file_type::not_found) {
    throw IoError("{} is a link to nothing: remove it, or put the file there", path.string());
  } else if (is_text && error) {
    throw IoError("{} cannot be examined ({})", path.string(), error.message());
  } else if (is_text) {
    out.skipped.push_back(shown(name) + " (not a file)");
  }
}

/// Lists all .txt files below `folder`. IoError for unreadable entries: no part of a corpus goes missing unnoticed.
Listing text_files(const fs::path& folder) {
  Listing out;
  try {
    for (const auto& entry : fs::recursive_directory_iterator(folder)) list_entry(entry, folder, out);
  } catch (const fs::filesystem_error& error) {
    throw IoError("{}: cannot be listed ({})", folder.string(), error.code().message());
  }
  std::ranges::sort(out.files, {}, [](const fs::path& file) { return file.generic_string(); });
  std::ranges::sort(out.skipped);
  for (auto& file : out.files) file = folder / file;
  return out;
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
  const Listing listing = text_files(folder);
  if (listing.files.empty()) {
    throw UsageError("{}: no .txt file in it or below it{}: a folder of .txt files", folder.string(),
                     listing.skipped.empty() ? "" : " but " + some_of(listing.skipped));
  }
  return std::make_unique<Text>(folder, listing.files, some_of(listing.skipped));
}

}  // namespace tessera
