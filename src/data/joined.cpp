#include <algorithm>

#include "tessera/base/error.hpp"
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
    }
  }

  std::int64_t size() const override { return size_; }
  std::int64_t id_bound() const override { return bound_; }
  std::string describe() const override { return fmt::format("{} ({} token files)", name_, parts_.size()); }

  void copy(std::int64_t first, std::int64_t count, std::int32_t* out) const override {
    TESSERA_ASSERT(first >= 0 && count >= 0 && first <= size_ - count, "tokens {}+{} of {}", first, count, size_);
    auto part = static_cast<std::size_t>(std::ranges::upper_bound(begins_, first) - begins_.begin()) - 1;
    for (; count > 0; ++part) {
      const std::int64_t inside = first - begins_[part];
      const std::int64_t here = std::min(count, parts_[part]->size() - inside);
      parts_[part]->copy(inside, here, out);
      first += here, count -= here, out += here;
    }
  }

 private:
  std::string name_;
  std::vector<std::unique_ptr<TokenSource>> parts_;
  std::vector<std::int64_t> begins_;
  std::int64_t size_ = 0, bound_ = 0;
};

}  // namespace

std::unique_ptr<TokenSource> join_sources(const std::string& name, std::vector<std::unique_ptr<TokenSource>> parts) {
  TESSERA_ASSERT(!parts.empty(), "{} has parts", name);
  if (parts.size() == 1) return std::move(parts.front());
  return std::make_unique<Joined>(name, std::move(parts));
}

}  // namespace tessera
