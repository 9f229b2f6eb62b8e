#include "tokenizer/normal_form.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "tessera/base/error.hpp"
#include "tokenizer/code_points.hpp"

namespace tessera {

namespace {

constexpr auto kForm = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
constexpr std::size_t kLongestDecomposition = 18;  // of one code point; canonical ones have four

int combining_class(std::int32_t point) { return utf8proc_get_property(point)->combining_class; }

/// Sorts each run of marks by class, marks of one class in their order. (utf8proc's own sort is quadratic.)
void sort_marks(std::vector<std::int32_t>& points) {
  for (auto first = points.begin(); first != points.end();) {
    if (combining_class(*first) == 0) {
      ++first;
      continue;
    }
    const auto last = std::find_if(first, points.end(), [](std::int32_t point) { return combining_class(point) == 0; });
    std::stable_sort(first, last,
                     [](std::int32_t a, std::int32_t b) { return combining_class(a) < combining_class(b); });
    first = last;
  }
}

/// Returns where a run of non-ASCII characters ends, and whether each stays alone.
struct Run {
  std::size_t end;
  bool stays;
};
Run non_ascii_run(std::string_view text, std::size_t at) {
  bool stays = true;
  while (at < text.size() && static_cast<unsigned char>(text[at]) >= 0x80) {
    const DecodedPoint next = first_point(text.substr(at));
    stays = stays && stays_alone(next.point);
    at += next.length;
  }
  return {at, stays};
}

}  // namespace

bool stays_alone(char32_t point) {
  struct Range {
    char32_t first, last;
  };
  static constexpr std::array kRanges{
      Range{0x4e00, 0x9fff},   Range{0, 0x2ff},         Range{0x388, 0x482},   Range{0x48a, 0x58f},
      Range{0xac00, 0xd7a3},   Range{0x3041, 0x3096},   Range{0x309b, 0x30ff}, Range{0x2010, 0x205f},
      Range{0x3001, 0x3029},   Range{0xff00, 0xffef},   Range{0x5d0, 0x5ea},   Range{0x904, 0x928},
      Range{0x1f000, 0x1faff}, Range{0x20000, 0x2a6df}, Range{0x1e00, 0x1f70}, Range{0x2190, 0x2328}};
  return std::any_of(kRanges.begin(), kRanges.end(),
                     [&](const Range& range) { return point >= range.first && point <= range.last; });
}

void NormalForm::append_composed(std::string_view run) {
  points_.clear();
  std::array<std::int32_t, kLongestDecomposition> parts{};
  while (!run.empty()) {
    const DecodedPoint next = first_point(run);
    run.remove_prefix(next.length);
    const auto count =
        utf8proc_decompose_char(static_cast<std::int32_t>(next.point), parts.data(), parts.size(), kForm, nullptr);
    TESSERA_ASSERT(count >= 0 && count <= static_cast<utf8proc_ssize_t>(parts.size()), "U+{:04X} decomposes into {}",
                   static_cast<unsigned>(next.point), count);
    points_.insert(points_.end(), parts.begin(), parts.begin() + count);
  }
  sort_marks(points_);
  const auto count = utf8proc_normalize_utf32(points_.data(), static_cast<utf8proc_ssize_t>(points_.size()), kForm);
  TESSERA_ASSERT(count >= 0, "normal form of {} code points: {}", points_.size(), utf8proc_errmsg(count));
  for (utf8proc_ssize_t i = 0; i < count; ++i)
    append_point(composed_, static_cast<char32_t>(points_[static_cast<std::size_t>(i)]));
}

std::string_view NormalForm::compose(std::string_view text) {
  if (text.data() == composed_.data()) return text;  // what it returned before
  std::size_t kept = 0;                              // text before it is in composed_, once anything is
  bool changed = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (static_cast<unsigned char>(text[at]) < 0x80) continue;
    const Run run = non_ascii_run(text, at);
    if (!run.stays) {
      if (!changed) composed_.clear();
      changed = true;
      const std::size_t first = at > kept ? at - 1 : at;  // a mark joins the ASCII letter before it
      composed_ += text.substr(kept, first - kept);
      append_composed(text.substr(first, run.end - first));
      kept = run.end;
    }
    at = run.end - 1;
  }
  if (!changed) return text;
  composed_ += text.substr(kept);
  return composed_;
}

}  // namespace tessera
