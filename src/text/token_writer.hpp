#pragma once
// Writes tokens and documents' borders into a folder, so that a later process can go on.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/file_descriptor.hpp"
#include "tessera/data/token_header.hpp"
#include "tessera/data/token_source.hpp"
#include "text/pipeline.hpp"

namespace tessera {

inline constexpr std::string_view kJournal = "journal.json";

/// How far the tokens are valid, and what was found up to there.
struct WriteState {
  PiecePlace place;
  std::int64_t tokens = 0, documents = 0, runs = 0;  ///< runs that the loss leaves out
  std::int64_t uncounted = 0;                        ///< tokens in them
  std::int64_t conversations = 0, silent_conversations = 0;
  std::int64_t text_bytes = 0, bad = 0;
  double seconds = 0;                   ///< of all processes that worked on it
  std::vector<std::string> bad_places;  ///< the first, as text
  CountedShare counted() const { return {tokens - uncounted, tokens, conversations, silent_conversations}; }
};

/// FOLDER/tokens.bin, documents.idx, uncounted.idx, and journal.json, which says how far all are on disk. Every write
/// has its fixed place, so a process that wrongly goes on writes the same bytes again.
class TokenWriter {
 public:
  /// Creates the folder, or goes on from its journal if it is of the same `key`; anything else in it is overwritten.
  /// IoError.
  TokenWriter(std::filesystem::path folder, const std::string& key, std::int64_t token_bytes);

  /// Where the journal stood, and what was appended since.
  const WriteState& state() const { return state_; }
  WriteState& state() { return state_; }

  /// Appends a piece; the state moves to the place after it.
  void append(const EncodedPiece& piece);
  /// Writes what is there to disk, then the journal. IoError.
  void commit();
  /// Writes the headers and all else to disk: the files are complete. A mask without runs is removed.
  void finish(TokenHeader kind);
  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path tokens_file() const;
  std::filesystem::path documents_file() const;
  std::filesystem::path mask_file() const;
  std::filesystem::path journal_file() const { return folder_ / kJournal; }

 private:
  bool read_journal();
  void begin_anew();
  void write_buffers();
  std::int64_t written_tokens() const;

  std::filesystem::path folder_;
  std::string key_;
  std::int64_t token_bytes_;
  FileDescriptor tokens_, documents_, mask_;
  WriteState state_;
  std::vector<std::byte> token_buffer_;
  std::vector<std::int64_t> end_buffer_;
  std::vector<TokenRun> run_buffer_;
};

}  // namespace tessera
