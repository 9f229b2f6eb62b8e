#include "data/filled.hpp"

#include <algorithm>

#include "tessera/base/format.hpp"
#include "tessera/base/math.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/data/token_decorator.hpp"

namespace tessera {

namespace {

class Filled final : public TokenDecorator {
 public:
  Filled(std::unique_ptr<TokenSource> source, std::int64_t size)
      : TokenDecorator(std::move(source)), end_(TokenDecorator::size()), size_(size) {}

  std::int64_t size() const override { return size_; }
  void copy(std::int64_t first, std::int64_t count, std::int32_t* out) const override {
    const std::int64_t real = before_end(first, count);
    if (real > 0) TokenDecorator::copy(first, real, out);
    std::fill(out + real, out + count, 0);
  }

  std::int64_t document_end(std::int64_t token) const override {
    return token < end_ ? TokenDecorator::document_end(token) : size_;
  }

  bool masks_loss() const override { return size_ > end_ || TokenDecorator::masks_loss(); }
  void mask_targets(std::int64_t first, std::int64_t count, std::int32_t* ids) const override {
    const std::int64_t real = before_end(first, count);
    if (real > 0) TokenDecorator::mask_targets(first, real, ids);
    std::fill(ids + real, ids + count, kUncountedToken);
  }

  std::string place(std::int64_t first, std::int64_t count) const override {
    return TokenDecorator::place(first, before_end(first, count));
  }

 private:
  std::int64_t before_end(std::int64_t first, std::int64_t count) const {
    return std::clamp<std::int64_t>(end_ - first, 0, count);
  }

  std::int64_t end_, size_;
};

}  // namespace

std::unique_ptr<TokenSource> filled_to_windows(std::unique_ptr<TokenSource> source, std::int64_t first,
                                               std::int64_t seq_len) {
  const std::int64_t targets = source->size() - first - 1;
  if (targets < 1) {
    throw refusal("{} does not work for validation", source->describe())
        .because("it has {}, and a prediction takes two", counted(targets + 1, "token"))
        .use("a longer text");
  }
  return std::make_unique<Filled>(std::move(source), first + 1 + round_up(targets, seq_len));
}

}  // namespace tessera
