#pragma once
// Corpora as the options name them: opened as tokens, prepared in the cache at their first use.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/config/options.hpp"
#include "tessera/data/dataset.hpp"

namespace tessera {

/// How a corpus is prepared, where it has to be.
struct CorpusSettings {
  int threads = 1;                              ///< that encode
  std::function<void(const std::string&)> say;  ///< a line for the user; empty: silence
  std::function<std::string()> stop;            ///< returns why to stop, empty to go on; asked several times a second
  std::int64_t piece = std::int64_t{1} << 20;   ///< bytes that a thread encodes at a time
};

/// A vocabulary that is not known: it holds every id.
inline constexpr std::int64_t kAnyVocabulary = std::int64_t{1} << 32;

/// Opens the corpus that data.source names, checked against the model's vocabulary (check_vocabulary). Text that is not
/// read as it stands is prepared in the cache first, or awaited if another process does so. The sources of a mixture
/// follow each other. UsageError, IoError; Error with code stopped_early if `stop` said so.
std::unique_ptr<TokenSource> open_corpus(const Options& options, std::int64_t vocab,
                                         const CorpusSettings& settings = {});

/// Opens the same, each source of a mixture on its own; a single source has no name.
std::vector<NamedSource> open_sources(const Options& options, std::int64_t vocab, const CorpusSettings& settings);

/// Returns the options for each source of data.source, which is then the only one.
std::vector<Options> each_source(const Options& options);

/// Opens the corpora of data.val_source, as open_corpus does; none if it is empty.
std::vector<NamedSource> open_validation(const Options& options, std::int64_t vocab, const CorpusSettings& settings);

/// Says which file is both trained on and a validation set's; empty if none is.
std::string shared_validation(const Options& options);

/// Says which options of conversations are given; empty if none is, or the text has conversations.
std::string idle_chat_options(const Options& options, bool has_conversations);

/// Opens data.source and data.val_source as the data of a run. UsageError also when one is shorter than a sample.
Dataset open_dataset(const Options& options, std::int64_t vocab, std::int64_t seq_len,
                     const CorpusSettings& settings = {});

/// Returns the folder of the cache: data.cache, $TESSERA_CACHE, or `cache` next to the run folders.
std::filesystem::path cache_folder(const Options& options);

/// Prepares the text that data.source names (`option`: or data.val_source) in the cache, if it is not there. Returns
/// its folder, with the files of text/prepared.hpp.
std::filesystem::path prepare_in_cache(const Options& options, const std::string& option,
                                       const CorpusSettings& settings);

/// Prepares the text that data.source names as the file of data.output, which must not exist, with its index FILE.idx.
/// llm.c's header where its counts fit, else Tessera's own. UsageError, IoError.
void prepare_output(const Options& options, const CorpusSettings& settings);

/// Returns whether the sources are token files.
bool holds_tokens(const Options& options, const std::string& option);

/// Returns what the sources leave out and why, in one line; empty if nothing is.
std::string left_out(const Options& options, const std::string& option);

/// Returns whether any of the token files of data.source and data.val_source has no header.
bool reads_raw_tokens(const Options& options);

/// Returns whether the sources need no preparation: token files, synthetic text, .txt read as bytes.
bool is_read_directly(const Options& options, const std::string& option);

}  // namespace tessera
