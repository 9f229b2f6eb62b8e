#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string_view>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/mapped_file.hpp"
#include "tessera/base/math.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/data/corpus.hpp"

namespace tessera {

namespace fs = std::filesystem;

namespace {

/// Linux allows a process 65,530 mappings by default. Files beyond this many are opened for each copy instead.
constexpr std::size_t kMostMappings = 16384;

/// A place in a longer file is said in bytes, because its lines are counted from the start.
constexpr std::size_t kLongestCounted = std::size_t{1} << 24;

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

/// One file's bytes from `begin` on, at offset `first` of the corpus.
struct TextPart {
  fs::path file;
  std::int64_t begin, first, size;
  std::optional<MappedFile> mapped;
};

class Text final : public TokenSource {
 public:
  Text(std::string name, const std::vector<fs::path>& files) : name_(std::move(name)) {
    for (const auto& file : files) add(file);
    if (size_ == 0) {
      throw refusal("{} has no text to train on", name_).because("its .txt files are empty, {} in all", files.size());
    }
  }

  std::int64_t size() const override { return size_; }
  std::int64_t id_bound() const override { return 256; }
  std::string describe() const override {
    return fmt::format("{} ({})", name_, counted(std::ssize(parts_), "text file"));
  }

  std::string place(std::int64_t first, std::int64_t count) const override {
    std::string places;
    for_parts(first, count, [&](const TextPart& part, std::int64_t inside, std::int64_t here) {
      places += (places.empty() ? "" : "; ") + lines_of(part, inside, here);
    });
    return places;
  }

  void copy(std::int64_t first, std::int64_t count, std::int32_t* out) const override {
    for_parts(first, count, [&](const TextPart& part, std::int64_t inside, std::int64_t here) {
      copy_part(part, inside, here, out);
      out += here;
    });
  }

 private:
  /// Calls f(part, first byte in it, bytes) for each file that has some of these tokens.
  template <class F>
  void for_parts(std::int64_t first, std::int64_t count, const F& f) const {
    TESSERA_ASSERT(first >= 0 && count >= 0 && first <= size_ - count, "tokens {}+{} of {}", first, count, size_);
    for (auto part = std::ranges::upper_bound(parts_, first, {}, &TextPart::first) - 1; count > 0; ++part) {
      const std::int64_t inside = first - part->first;
      const std::int64_t here = std::min(count, part->size - inside);
      f(*part, inside, here);
      first += here, count -= here;
    }
  }

  static std::string lines_of(const TextPart& part, std::int64_t inside, std::int64_t count) {
    if (!part.mapped || part.mapped->bytes().size() > kLongestCounted)
      return fmt::format("{}, bytes {} to {}", part.file.string(), part.begin + inside,
                         part.begin + inside + count - 1);
    const auto bytes = part.mapped->bytes();
    const auto begin = bytes.begin() + part.begin + inside;
    const auto before = std::count(bytes.begin(), begin, std::byte('\n'));
    const auto within = std::count(begin, begin + count - 1, std::byte('\n'));  // a line's end is on the line
    return fmt::format("{}, lines {} to {}", part.file.string(), before + 1, before + within + 1);
  }

  void add(const fs::path& file) {
    TextPart part{.file = file, .begin = 0, .first = size_, .size = 0, .mapped = std::nullopt};
    if (parts_.size() < kMostMappings) {
      part.mapped.emplace(file);
      part.size = static_cast<std::int64_t>(part.mapped->bytes().size());
    } else {
      std::error_code error;
      part.size = static_cast<std::int64_t>(fs::file_size(file, error));
      if (error) throw IoError("{} cannot be examined ({})", file.string(), error.message());
    }
    part.begin = mark_of(part);
    part.size -= part.begin;
    if (part.size == 0) return;
    size_ = checked_add(size_, part.size);
    parts_.push_back(std::move(part));
  }

  /// Returns the length of the byte order mark at the file's start, which is not text.
  static std::int64_t mark_of(const TextPart& part) {
    std::array<char, kByteOrderMark.size()> start{};
    if (part.size < static_cast<std::int64_t>(start.size())) return 0;
    if (part.mapped) {
      std::memcpy(start.data(), part.mapped->bytes().data(), start.size());
    } else {
      read_at(part.file, 0, std::as_writable_bytes(std::span(start)));
    }
    const std::string_view found(start.data(), start.size());
    refuse_utf16(part.file, found);
    return found == kByteOrderMark ? std::ssize(start) : 0;
  }

  static void copy_part(const TextPart& part, std::int64_t inside, std::int64_t count, std::int32_t* out) {
    const auto widen = [](std::byte byte) { return static_cast<std::int32_t>(byte); };
    const auto length = static_cast<std::size_t>(count);
    if (part.mapped) {
      std::ranges::transform(part.mapped->bytes().subspan(static_cast<std::size_t>(part.begin + inside), length), out,
                             widen);
      return;
    }
    // The bytes are read into the last quarter of the output and widened from the front, so that no other memory is
    // needed. Writing element i overwrites bytes 4i to 4i+3, none of which holds an input after the i-th.
    auto* raw = reinterpret_cast<std::byte*>(out) + 3 * length;
    read_at(part.file, part.begin + inside, {raw, length});
    for (std::size_t i = 0; i < length; ++i) out[i] = widen(raw[i]);
  }

  std::string name_;
  std::vector<TextPart> parts_;
  std::int64_t size_ = 0;
};

}  // namespace

std::unique_ptr<TokenSource> open_text_files(const std::string& name, const std::vector<fs::path>& files) {
  return std::make_unique<Text>(name, files);
}

void refuse_utf16(const fs::path& file, std::string_view start) {
  if (!start.starts_with("\xff\xfe") && !start.starts_with("\xfe\xff")) return;
  throw refusal("{} begins with the byte order mark of UTF-16, and only UTF-8 is read", file.string())
      .hint("Convert it first: iconv -f UTF-16 -t UTF-8 {} > NEW", file.string());
}

}  // namespace tessera
