#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/math.hpp"
#include "tessera/data/corpus.hpp"

namespace tessera {

namespace {

class Joined final : public TokenSource {
 public:
  Joined(std::string name, std::vector<std::unique_ptr<TokenSource>> parts)
      : name_(std::move(name)), parts_(std::move(parts)) {
    for (const auto& part : parts_) {
      begins_.push_back(size_);
      size_ = checked_add(size_, part->size());
      bound_ = std::max(bound_, part->id_bound());
      has_documents_ = has_documents_ && part->has_documents();
    }
  }

  std::int64_t size() const override { return size_; }
  std::int64_t id_bound() const override { return bound_; }
  std::string describe() const override { return name_; }
  std::string skipped() const override { return joined(parts_, &TokenSource::skipped, "; "); }

  bool has_documents() const override { return has_documents_; }
  /// A document ends with its file at the latest.
  std::int64_t document_end(std::int64_t token) const override {
    const auto part = part_of(token);
    return begins_[part] + parts_[part]->document_end(token - begins_[part]);
  }

  bool masks_loss() const override {
    return std::ranges::any_of(parts_, [](const auto& part) { return part->masks_loss(); });
  }
  CountedShare counted_share() const override {
    CountedShare sum;
    for (const auto& part : parts_) {
      const CountedShare share = part->counted_share();
      sum.tokens += share.tokens, sum.of_tokens += share.of_tokens;
      sum.conversations += share.conversations, sum.silent_conversations += share.silent_conversations;
    }
    return sum;
  }
  void mask_targets(std::int64_t first, std::int64_t count, std::int32_t* ids) const override {
    TESSERA_ASSERT(first >= 0 && count >= 0 && first <= size_ - count, "tokens {}+{} of {}", first, count, size_);
    for_parts(first, count, [&](const TokenSource& part, std::int64_t inside, std::int64_t here) {
      part.mask_targets(inside, here, ids);
      ids += here;
    });
  }

  std::string place(std::int64_t first, std::int64_t count) const override {
    std::string places;
    for_parts(first, count, [&](const TokenSource& part, std::int64_t inside, std::int64_t here) {
      places += (places.empty() ? "" : "; ") + part.place(inside, here);
    });
    return places;
  }

  void copy(std::int64_t first, std::int64_t count, std::int32_t* out) const override {
    TESSERA_ASSERT(first >= 0 && count >= 0 && first <= size_ - count, "tokens {}+{} of {}", first, count, size_);
    for_parts(first, count, [&](const TokenSource& part, std::int64_t inside, std::int64_t here) {
      part.copy(inside, here, out);
      out += here;
    });
  }

 private:
  std::size_t part_of(std::int64_t token) const {
    return static_cast<std::size_t>(std::ranges::upper_bound(begins_, token) - begins_.begin()) - 1;
  }

  /// Calls f(part, first token in it, tokens) for each part that has some of these tokens.
  template <class F>
  void for_parts(std::int64_t first, std::int64_t count, const F& f) const {
    for (std::size_t part = part_of(first); count > 0; ++part) {
      const std::int64_t inside = first - begins_[part];
      const std::int64_t here = std::min(count, parts_[part]->size() - inside);
      f(*parts_[part], inside, here);
      first += here, count -= here;
    }
  }

  std::string name_;
  std::vector<std::unique_ptr<TokenSource>> parts_;
  std::vector<std::int64_t> begins_;
  std::int64_t size_ = 0, bound_ = 0;
  bool has_documents_ = true;
};

}  // namespace

std::unique_ptr<TokenSource> join_sources(const std::string& name, std::vector<std::unique_ptr<TokenSource>> parts) {
  TESSERA_ASSERT(!parts.empty(), "{} has parts", name);
  if (parts.size() == 1) return std::move(parts.front());
  return std::make_unique<Joined>(name, std::move(parts));
}

}  // namespace tessera
