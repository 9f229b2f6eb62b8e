#pragma once
// Turns text into a prepared corpus in a folder, once for all who want the same.

#include <memory>
#include <optional>
#include <string>

#include "tessera/text/chats.hpp"
#include "tessera/text/corpus.hpp"
#include "text/cache_lock.hpp"
#include "text/source_files.hpp"
#include "text/token_writer.hpp"

namespace tessera {

constexpr int kPreparedFormat = 2;  ///< of what is prepared: another one makes another key

/// Returns a path from the root; IoError if the working folder is not known.
std::filesystem::path absolute_path(const std::filesystem::path& path);

/// A corpus to prepare, and how.
struct PrepareJob {
  SourceList sources;  ///< examined
  std::string tokenizer_name;
  std::unique_ptr<Tokenizer> tokenizer;
  std::optional<std::int32_t> separator;
  std::string no_separator;         ///< why there is none, so that texts are refused; empty if that is meant
  std::vector<std::int32_t> begin;  ///< stands before each document
  std::string text_key;
  ChatForm chats;
  OnError on_error = OnError::stop;
  CorpusSettings settings;

  /// Returns the tokenizer as text, with what stands before each document.
  std::string describe_tokenizer() const;
  /// Returns whether conversations among its files would be read.
  bool may_have_chats() const;
  bool is_bytes() const { return tokenizer_name == "bytes"; }
  /// Returns a name for all that the tokens depend on: paths, sizes and times of the files, tokenizer and options.
  std::string key() const;
  std::int64_t token_bytes() const { return bytes_of_token(tokenizer->vocab()); }
  std::int64_t source_bytes() const;
};

/// Returns the job of the text that data.source or data.val_source names. UsageError.
PrepareJob prepare_job(const Options& options, const std::string& option, const CorpusSettings& settings);

/// Returns the folder of the prepared corpus in `cache`. Prepares it there if nobody has; waits, and says so once,
/// while another process does.
std::filesystem::path prepared_folder(const PrepareJob& job, const std::filesystem::path& cache);

/// Prepares it as a file with its index. UsageError if either is there.
void prepare_file(const PrepareJob& job, const std::filesystem::path& file);

}  // namespace tessera
