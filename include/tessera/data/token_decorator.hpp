#pragma once
// Tokens of another source, to which a derived class adds something.

#include <memory>
#include <string>

#include "tessera/data/token_source.hpp"

namespace tessera {

class TokenDecorator : public TokenSource {
 public:
  explicit TokenDecorator(std::unique_ptr<TokenSource> tokens) : tokens_(std::move(tokens)) {}
  std::int64_t size() const override { return tokens_->size(); }
  std::int64_t id_bound() const override { return tokens_->id_bound(); }
  void copy(std::int64_t first, std::int64_t count, std::int32_t* out) const override {
    tokens_->copy(first, count, out);
  }
  bool has_documents() const override { return tokens_->has_documents(); }
  std::int64_t document_end(std::int64_t token) const override { return tokens_->document_end(token); }
  bool masks_loss() const override { return tokens_->masks_loss(); }
  void mask_targets(std::int64_t first, std::int64_t count, std::int32_t* ids) const override {
    tokens_->mask_targets(first, count, ids);
  }
  CountedShare counted_share() const override { return tokens_->counted_share(); }
  std::string place(std::int64_t first, std::int64_t count) const override { return tokens_->place(first, count); }
  std::string describe() const override { return tokens_->describe(); }
  std::string skipped() const override { return tokens_->skipped(); }

 private:
  std::unique_ptr<TokenSource> tokens_;
};

}  // namespace tessera
