#include "tessera/data/dataset.hpp"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>

#include "data/filled.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/data/corpus.hpp"
#include "tessera/data/reader.hpp"

namespace tessera {

namespace {

void require_sample(const TokenSource& source, TokenRange part, std::int64_t seq_len) {
  if (part.count > seq_len) return;
  throw refusal("{} tokens for validation ({}, {}) are less than one sample of train.seq_len + 1 = {}", part.count,
                part.first > 0 ? "data.val_fraction" : "data.val_source", source.describe(), seq_len + 1)
      .use("a longer one, or shorter sequences");
}

void require_documents(const TokenSource& source, const DataOptions& options) {
  if (source.has_documents() || !has_document_mask(options)) return;
  throw refuse(packs_documents(options) ? "data.packing" : "data.document_mask",
               packs_documents(options) ? "documents" : "true")
      .because("{} has no documents with known borders", source.describe())
      .use("text, or .bin files with an index");
}

/// Returns the first token of the last `fraction` of a corpus, or of the first document that begins there.
std::int64_t validation_begin(const TokenSource& source, TokenRange corpus, double fraction,
                              const DataOptions& options) {
  const std::int64_t end = corpus.first + corpus.count, first = end - tokens_for_validation(corpus.count, fraction);
  return packs_documents(options) && first > corpus.first && first < end ? source.document_end(first - 1) : first;
}

Sampler sampler_of(const TokenSource& source, TokenRange range, std::int64_t seq_len, SampleOrder order,
                   std::int64_t seed, const DataOptions& options) {
  if (!packs_documents(options)) return {range, seq_len, order, seed};
  return {std::make_shared<DocumentPacking>(source, range, seq_len, options.too_long), order, seed};
}

Split split_of(const TokenSource& source, TokenRange corpus, const DataOptions& options, double fraction,
               std::int64_t seq_len) {
  require_documents(source, options);
  if (!packs_documents(options)) {
    Split split = split_corpus(corpus.count, fraction, seq_len);
    split.train.first += corpus.first, split.validation.first += corpus.first;
    return split;
  }
  const std::int64_t border = validation_begin(source, corpus, fraction, options), end = corpus.first + corpus.count;
  if (fraction > 0 && border == end) {
    throw refuse("data.val_fraction", fraction)
        .because("the last document of {} is longer", source.describe())
        .use("a larger one if there are more documents, 0 for no evaluation, or data.val_source");
  }
  return {.train = {corpus.first, border - corpus.first}, .validation = {border, end - border}};
}

/// Refuses samples to train on of which the loss counts nothing, wherever else the corpus has something that counts.
void require_counted(const TokenSource& source, const Sampler& samples) {
  if (!source.masks_loss()) return;
  std::vector<std::int32_t> row(static_cast<std::size_t>(samples.seq_len()));
  for (std::int64_t sample = 0; sample < samples.samples_per_epoch(); ++sample)
    if (counted_targets(source, samples, sample, 1, row) > 0) return;
  throw refusal("the loss counts nothing in the {} samples of {} tokens to train on", samples.samples_per_epoch(),
                samples.seq_len())
      .use("text with more that counts, a smaller data.val_fraction, or a longer train.seq_len");
}

/// Does `work`, whose refusals then name the source of a mixture that they are about.
template <class F>
void naming(const std::string& source, const F& work) {
  try {
    work();
  } catch (const UsageError& error) {
    if (source.empty()) throw;
    throw UsageError("data.source, {}: {}", source, error.what());
  }
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
                                           const DataOptions& options, LastTargets last) {
  std::vector<ValidationSet> sets;
  sets.reserve(sources.size());
  for (NamedSource& one : sources) {
    require_documents(*one.tokens, options);
    const std::int64_t first = validation_begin(*one.tokens, {0, one.tokens->size()}, fraction, options);
    const bool packs = packs_documents(options);
    if (last == LastTargets::filled && !packs) one.tokens = filled_to_windows(std::move(one.tokens), first, seq_len);
    const TokenRange range{first, one.tokens->size() - first};
    if (!packs) require_sample(*one.tokens, range, seq_len);
    sets.push_back(
        {one.name, one.tokens.get(), sampler_of(*one.tokens, range, seq_len, SampleOrder::sequential, 0, options)});
  }
  return sets;
}

DataSources mix_sources(std::vector<NamedSource> sources) {
  DataSources mixed;
  if (sources.size() == 1) {
    mixed.train = std::move(sources[0].tokens);
    return mixed;
  }
  std::string name;
  std::vector<std::unique_ptr<TokenSource>> tokens;
  for (NamedSource& one : sources) {
    name += fmt::format("{}{}: {}", name.empty() ? "" : ", ", one.name, one.tokens->describe());
    mixed.mixture.push_back({one.name, one.share, one.tokens->size(), fingerprint_with_masks(*one.tokens)});
    tokens.push_back(std::move(one.tokens));
  }
  mixed.train = join_sources(name, std::move(tokens));
  return mixed;
}

Dataset::Dataset(DataSources sources, const DataOptions& options, std::int64_t vocab, std::int64_t seq_len)
    : vocab_(vocab),
      sources_(std::move(sources)),
      validation_(validation_sets(sources_.validation, 1, seq_len, options, LastTargets::left_out)),
      train_(split_sources(options, seq_len)) {}

/// Splits each source into samples to train on, which it returns, and to evaluate.
Sampler Dataset::split_sources(const DataOptions& options, std::int64_t seq_len) {
  const TokenSource& source = *sources_.train;
  const double fraction = sources_.validation.empty() ? options.val_fraction : 0.0;
  std::vector<MixedSource> parts = sources_.mixture;
  if (parts.empty()) parts.push_back({.name = "", .tokens = source.size()});
  std::vector<Sampler> train;
  std::vector<double> shares;
  std::int64_t first = 0;
  for (const MixedSource& part : parts) {
    naming(part.name, [&] {
      const Split split = split_of(source, {first, part.tokens}, options, fraction, seq_len);
      train.push_back(sampler_of(source, split.train, seq_len, options.order, options.seed, options));
      require_counted(source, train.back());
      if (split.validation.count > 0)
        validation_.push_back(
            {part.name, &source, sampler_of(source, split.validation, seq_len, SampleOrder::sequential, 0, options)});
      split_.train.count += split.train.count, split_.validation.count += split.validation.count;
      split_.validation.first = split.validation.first;
    });
    shares.push_back(part.share);
    first += part.tokens;
  }
  if (train.size() == 1) return train.front();
  Mixture::SampleTokens tokens;
  if (packs_documents(options))
    tokens = [train](std::size_t of, std::int64_t sample) { return train[of].tokens_in(sample); };
  return {std::move(train), Mixture(shares, tokens)};
}

std::int64_t most_documents(const std::vector<ValidationSet>& sets) {
  std::int64_t most = 0;
  for (const ValidationSet& set : sets) most = std::max(most, set.samples.most_documents(*set.source));
  return most;
}

std::int64_t Dataset::most_documents() const {
  return std::max(train_.most_documents(*sources_.train), tessera::most_documents(validation_));
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
  std::uint64_t hash = sources_.mixture.empty() ? fingerprint_with_masks(*sources_.train) : 0;
  for (const MixedSource& one : sources_.mixture) {
    const std::array<std::uint64_t, 2> part{std::bit_cast<std::uint64_t>(one.share), one.fingerprint};
    hash = XXH3_64bits_withSeed(part.data(), sizeof part, hash);
  }
  hash = XXH3_64bits_withSeed(borders.data(), sizeof borders, hash);
  for (const NamedSource& set : sources_.validation) {
    const std::uint64_t one = fingerprint_with_masks(*set.tokens);
    hash = XXH3_64bits_withSeed(&one, sizeof one, hash);
  }
  if (const DocumentPacking* const packing = train_.packing(); packing != nullptr) {
    const int by_tokens = sources_.mixture.empty() ? 0 : 2;  // unlike mixtures of samples
    const auto rule = static_cast<std::uint8_t>(static_cast<int>(packing->rule()) + by_tokens);
    hash = XXH3_64bits_withSeed(&rule, sizeof rule, hash);
  }
  return hash;
}

}  // namespace tessera
