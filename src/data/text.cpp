#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string_view>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/math.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/data/corpus.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/mapped_file.hpp"

namespace tessera {

namespace fs = std::filesystem;

namespace {

/// Linux allows a process 65,530 mappings by default. Files beyond this many are opened for each copy instead.
constexpr std::size_t kMostMappings = 16384;

/// A place in a longer file is said in bytes, because its lines are counted from the start.
constexpr std::size_t kLongestCounted = std::size_t{1} << 24;

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

/// One file's bytes as tokens.
class TextFile final : public TokenSource {
 public:
  /// `name` is that of the corpus, for the case that it is this file alone.
  TextFile(std::string name, fs::path file, bool is_mapped) : name_(std::move(name)), file_(std::move(file)) {
    if (is_mapped) {
      mapped_.emplace(file_);
      size_ = std::ssize(mapped_->bytes());
    } else {
      std::error_code error;
      size_ = static_cast<std::int64_t>(fs::file_size(file_, error));
      if (error) throw IoError("{} cannot be examined ({})", file_.string(), error.message());
    }
    begin_ = length_of_mark();
    size_ -= begin_;
  }

  std::int64_t size() const override { return size_; }
  std::int64_t id_bound() const override { return 256; }
  std::string describe() const override { return name_ + " (1 text file)"; }

  std::string place(std::int64_t first, std::int64_t count) const override {
    if (!mapped_ || mapped_->bytes().size() > kLongestCounted)
      return fmt::format("{}, bytes {} to {}", file_.string(), begin_ + first, begin_ + first + count - 1);
    const auto bytes = mapped_->bytes();
    const auto begin = bytes.begin() + begin_ + first;
    const auto before = std::count(bytes.begin(), begin, std::byte('\n'));
    const auto within = std::count(begin, begin + count - 1, std::byte('\n'));  // a line's end is on the line
    return fmt::format("{}, lines {} to {}", file_.string(), before + 1, before + within + 1);
  }

  void copy(std::int64_t first, std::int64_t count, std::int32_t* out) const override {
    TESSERA_ASSERT(first >= 0 && count >= 0 && first <= size_ - count, "tokens {}+{} of {}", first, count, size_);
    const auto widen = [](std::byte byte) { return static_cast<std::int32_t>(byte); };
    const auto length = static_cast<std::size_t>(count);
    if (mapped_) {
      std::ranges::transform(mapped_->bytes().subspan(static_cast<std::size_t>(begin_ + first), length), out, widen);
      return;
    }
    // The bytes are read into the last quarter of the output and widened from the front, so that no other memory is
    // needed. Writing element i overwrites bytes 4i to 4i+3, none of which holds an input after the i-th.
    auto* raw = reinterpret_cast<std::byte*>(out) + 3 * length;
    read_at(file_, begin_ + first, {raw, length});
    for (std::size_t i = 0; i < length; ++i) out[i] = widen(raw[i]);
  }

 private:
  /// Returns the length of the byte order mark at the file's start, which is not text.
  std::int64_t length_of_mark() const {
    std::array<char, kByteOrderMark.size()> start{};
    if (size_ < std::ssize(start)) return 0;
    if (mapped_) {
      std::memcpy(start.data(), mapped_->bytes().data(), start.size());
    } else {
      read_at(file_, 0, std::as_writable_bytes(std::span(start)));
    }
    const std::string_view found(start.data(), start.size());
    refuse_utf16(file_, found);
    return found == kByteOrderMark ? std::ssize(start) : 0;
  }

  std::string name_;
  fs::path file_;
  std::int64_t begin_ = 0, size_ = 0;
  std::optional<MappedFile> mapped_;
};

}  // namespace

std::unique_ptr<TokenSource> open_text_files(const std::string& name, const std::vector<fs::path>& files) {
  std::vector<std::unique_ptr<TokenSource>> parts;
  for (const fs::path& file : files) {
    auto part = std::make_unique<TextFile>(name, file, parts.size() < kMostMappings);
    if (part->size() > 0) parts.push_back(std::move(part));
  }
  if (parts.empty())
    throw refusal("{} has no text to train on", name).because("its .txt files are empty, {} in all", files.size());
  const std::string count = counted(std::ssize(parts), "text file");
  return join_sources(fmt::format("{} ({})", name, count), std::move(parts));
}

void refuse_utf16(const fs::path& file, std::string_view start) {
  if (!start.starts_with("\xff\xfe") && !start.starts_with("\xfe\xff")) return;
  throw refusal("{} begins with the byte order mark of UTF-16, and only UTF-8 is read", file.string())
      .hint("Convert it first: iconv -f UTF-16 -t UTF-8 {} > NEW", file.string());
}

}  // namespace tessera
