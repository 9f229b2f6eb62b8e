#include "tessera/data/dataset.hpp"

#include <xxhash.h>

#include <algorithm>
#include <array>

#include "data/filled.hpp"
#include "tessera/base/refuse.hpp"

namespace tessera {

namespace {

void require_sample(const TokenSource& source, TokenRange part, std::int64_t seq_len) {
  if (part.count > seq_len) return;
  throw refusal("{} tokens for validation ({}, {}) are less than one sample of train.seq_len + 1 = {}", part.count,
                part.first > 0 ? "data.val_fraction" : "data.val_source", source.describe(), seq_len + 1)
      .use("a longer one, or shorter sequences");
}

void require_documents(const TokenSource& source) {
  if (source.has_documents()) return;
  throw refuse("data.document_mask", true)
      .because("{} has no documents with known borders", source.describe())
      .use("text, or .bin files with an index");
}

/// Returns a number for a source's tokens and, where it has them, for some of its documents' borders and masks.
std::uint64_t fingerprint_with_masks(const TokenSource& source) {
  std::uint64_t hash = fingerprint(source);
  constexpr std::int64_t places = 1024, length = 64;
  for (std::int64_t i = 0; i < places && source.has_documents(); ++i) {
    const std::int64_t end = source.document_end(i * source.size() / places);
    hash = XXH3_64bits_withSeed(&end, sizeof end, hash);
  }
  for (std::int64_t i = 0; i < places && source.masks_loss(); ++i) {
    std::array<std::int32_t, length> targets{};
    const std::int64_t first = i * source.size() / places;
    source.mask_targets(first, std::min(length, source.size() - first), targets.data());
    hash = XXH3_64bits_withSeed(targets.data(), sizeof targets, hash);
  }
  return hash;
}

}  // namespace

std::vector<ValidationSet> validation_sets(std::vector<NamedSource>& sources, double fraction, std::int64_t seq_len,
                                           bool document_mask, LastTargets last) {
  std::vector<ValidationSet> sets;
  sets.reserve(sources.size());
  for (NamedSource& one : sources) {
    if (document_mask) require_documents(*one.tokens);
    const std::int64_t tokens = one.tokens->size(), first = tokens - tokens_for_validation(tokens, fraction);
    if (last == LastTargets::filled) one.tokens = filled_to_windows(std::move(one.tokens), first, seq_len);
    const TokenRange range{first, one.tokens->size() - first};
    require_sample(*one.tokens, range, seq_len);
    sets.push_back({one.name, one.tokens.get(), Sampler(range, seq_len, SampleOrder::sequential, 0)});
  }
  return sets;
}

Dataset::Dataset(DataSources sources, const DataOptions& options, std::int64_t vocab, std::int64_t seq_len)
    : vocab_(vocab),
      sources_(std::move(sources)),
      split_(split_corpus(sources_.train->size(), sources_.validation.empty() ? options.val_fraction : 0.0, seq_len)),
      train_(split_.train, seq_len, options.order, options.seed),
      validation_(validation_sets(sources_.validation, 1, seq_len, has_document_mask(options), LastTargets::left_out)) {
  if (has_document_mask(options)) require_documents(*sources_.train);
  if (split_.validation.count > 0)
    validation_ = {{"", sources_.train.get(), Sampler(split_.validation, seq_len, SampleOrder::sequential, 0)}};
}

std::int64_t Dataset::validation_tokens() const {
  std::int64_t tokens = split_.validation.count;
  for (const NamedSource& set : sources_.validation) tokens += set.tokens->size();
  return tokens;
}

bool Dataset::masks_loss() const {
  return sources_.train->masks_loss() ||
         std::ranges::any_of(sources_.validation, [](const NamedSource& set) { return set.tokens->masks_loss(); });
}

std::uint64_t Dataset::fingerprint() const {
  const std::array<std::int64_t, 2> borders{split_.train.count, split_.validation.count};
  std::uint64_t hash = XXH3_64bits_withSeed(borders.data(), sizeof borders, fingerprint_with_masks(*sources_.train));
  for (const NamedSource& set : sources_.validation) {
    const std::uint64_t one = fingerprint_with_masks(*set.tokens);
    hash = XXH3_64bits_withSeed(&one, sizeof one, hash);
  }
  return hash;
}

}  // namespace tessera
