#include "tessera/data/dataset.hpp"

#include <xxhash.h>

#include <array>

#include "tessera/base/error.hpp"

namespace tessera {

namespace {

TokenRange all_of(const NamedSource& set, std::int64_t seq_len) {
  const std::int64_t tokens = set.tokens->size();
  if (tokens < seq_len + 1) {
    throw UsageError(
        "{} tokens for validation (data.val_source, {}) are less than one sample of train.seq_len + 1 = {}: a longer "
        "one, or shorter sequences",
        tokens, set.tokens->describe(), seq_len + 1);
  }
  return {0, tokens};
}

ValidationSet sequential(const std::string& name, const TokenSource& source, TokenRange range, std::int64_t seq_len) {
  return {name, &source, Sampler(range, seq_len, SampleOrder::sequential, 0)};
}

}  // namespace

std::vector<ValidationSet> validation_sets(const std::vector<NamedSource>& sources, std::int64_t seq_len) {
  std::vector<ValidationSet> sets;
  sets.reserve(sources.size());
  for (const NamedSource& one : sources)
    sets.push_back(sequential(one.name, *one.tokens, all_of(one, seq_len), seq_len));
  return sets;
}

Dataset::Dataset(DataSources sources, const DataOptions& options, std::int64_t vocab, std::int64_t seq_len)
    : vocab_(vocab),
      sources_(std::move(sources)),
      split_(split_corpus(sources_.train->size(), sources_.validation.empty() ? options.val_fraction : 0.0, seq_len)),
      train_(split_.train, seq_len, options.order, options.seed),
      validation_(validation_sets(sources_.validation, seq_len)) {
  if (split_.validation.count > 0) validation_ = {sequential("", *sources_.train, split_.validation, seq_len)};
}

std::int64_t Dataset::validation_tokens() const {
  std::int64_t tokens = split_.validation.count;
  for (const NamedSource& set : sources_.validation) tokens += set.tokens->size();
  return tokens;
}

std::uint64_t Dataset::fingerprint() const {
  const std::array<std::int64_t, 2> borders{split_.train.count, split_.validation.count};
  std::uint64_t hash = XXH3_64bits_withSeed(borders.data(), sizeof borders, tessera::fingerprint(*sources_.train));
  for (const NamedSource& set : sources_.validation) {
    const std::uint64_t one = tessera::fingerprint(*set.tokens);
    hash = XXH3_64bits_withSeed(&one, sizeof one, hash);
  }
  return hash;
}

}  // namespace tessera
