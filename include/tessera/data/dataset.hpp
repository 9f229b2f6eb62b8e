#pragma once
// The data of a run: a corpus, split or with separate corpora for evaluation, and the order of its samples.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/config/options.hpp"
#include "tessera/data/sampler.hpp"
#include "tessera/data/token_source.hpp"

namespace tessera {

/// A corpus of several; `name` is empty where there is only one.
struct NamedSource {
  std::string name;
  std::unique_ptr<TokenSource> tokens;
  double share = 1;  ///< of a mixture
};

/// A source of a mixture, whose tokens follow those of the source before.
struct MixedSource {
  std::string name;
  double share = 1;
  std::int64_t tokens = 0;
  std::uint64_t fingerprint = 0;  ///< masks and documents' borders included
};

/// The opened sources of a run.
struct DataSources {
  std::unique_ptr<TokenSource> train;
  std::vector<NamedSource> validation;  ///< empty: data.val_fraction of `train` is kept for evaluation
  std::vector<MixedSource> mixture{};   ///< of what `train` is joined; empty for a single source
};

/// Joins the sources of a mixture. A single source does not become one.
DataSources mix_sources(std::vector<NamedSource> sources);

/// One set that a run evaluates, with its samples in order.
struct ValidationSet {
  std::string name;
  const TokenSource* source;
  Sampler samples;
};

/// What becomes of the last targets of a corpus, which make no sample: they are left out, or the corpus is filled up to
/// a sample with tokens whose loss does not count. Packed documents leave none.
enum class LastTargets : std::uint8_t { left_out, filled };

/// Returns sets of the last `fraction` of each corpus, in order. The corpora must outlive them; `filled` replaces them.
/// UsageError when a set is shorter than a sample, or with `filled` has no target.
std::vector<ValidationSet> validation_sets(std::vector<NamedSource>& sources, double fraction, std::int64_t seq_len,
                                           const DataOptions& options, LastTargets last);

/// Returns the most documents of any of their samples.
std::int64_t most_documents(const std::vector<ValidationSet>& sets);

class Dataset {
 public:
  /// UsageError when a source is shorter than one sample, has no counted token in its part for training, or has no
  /// documents with data.document_mask or data.packing = documents; that one's parts for training and validation begin
  /// and end where documents do. Each source of a mixture is split, and its last part is a validation set with its
  /// name.
  Dataset(DataSources sources, const DataOptions& options, std::int64_t vocab, std::int64_t seq_len);

  const TokenSource& source() const { return *sources_.train; }
  /// Returns the split; of a mixture the numbers of tokens alone.
  const Split& split() const { return split_; }
  const std::vector<MixedSource>& mixture() const { return sources_.mixture; }
  /// Returns the training samples, in the order of data.order.
  const Sampler& train() const { return train_; }
  /// Returns the sets that are evaluated; empty without data.val_source when data.val_fraction is 0.
  const std::vector<ValidationSet>& validation() const { return validation_; }
  /// Returns the number of tokens for evaluation.
  std::int64_t validation_tokens() const;
  std::int64_t vocab() const { return vocab_; }
  /// Returns the most documents of any sample that is trained on or evaluated.
  std::int64_t most_documents() const;
  /// Returns whether the loss of any source leaves tokens out.
  bool masks_loss() const;
  /// Computes tessera::fingerprint of all sources; includes the split, a mixture's shares, and with data.document_mask
  /// documents' borders.
  std::uint64_t fingerprint() const;

 private:
  Sampler split_sources(const DataOptions& options, std::int64_t seq_len);

  std::int64_t vocab_;
  DataSources sources_;
  Split split_;
  std::vector<ValidationSet> validation_;
  Sampler train_;  ///< last, because splitting the sources makes all three
};

}  // namespace tessera
