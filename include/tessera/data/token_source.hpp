#pragma once
// A corpus as one long row of tokens, wherever it is stored.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tessera {

/// A target that the loss leaves out.
inline constexpr std::int32_t kUncountedToken = -1;

/// What the loss counts of a source, as it was noted when it was prepared.
struct CountedShare {
  std::int64_t tokens = 0, of_tokens = 0;
  std::int64_t conversations = 0, silent_conversations = 0;  ///< in the silent ones nothing counts
};

/// Returns "31.4% of 12.3M tokens count, in 98.2% of 40,312 conversations".
std::string describe(const CountedShare& share);

/// Read-only tokens 0 .. size()-1. All calls may come from several threads at once.
class TokenSource {
 public:
  virtual ~TokenSource() = default;

  virtual std::int64_t size() const = 0;

  /// Returns a bound: every token id is below it, as far as the format says without reading (256 for bytes, 65536 for
  /// uint16).
  virtual std::int64_t id_bound() const = 0;

  /// Copies tokens first .. first+count-1 into out [count]. The range must lie inside the source (else InternalError).
  /// IoError when a file cannot be read; UsageError for a stored id that does not fit int32.
  virtual void copy(std::int64_t first, std::int64_t count, std::int32_t* out) const = 0;

  /// Returns whether the borders of documents are known.
  virtual bool has_documents() const { return false; }
  /// Returns the token after the last one of the document that holds `token`. InternalError without has_documents().
  virtual std::int64_t document_end(std::int64_t token) const;

  /// Returns whether the loss leaves some tokens out, as targets.
  virtual bool masks_loss() const { return false; }
  /// Puts kUncountedToken in the place of those among targets first .. first+count-1, which are in ids [count].
  virtual void mask_targets(std::int64_t first, std::int64_t count, std::int32_t* ids) const;

  /// Returns what the loss counts, apart from documents' first tokens.
  virtual CountedShare counted_share() const { return {size(), size(), 0, 0}; }

  /// Says where tokens first .. first+count-1 come from, for a person who looks for them: "a.txt, lines 3 to 7",
  /// "corpus/, documents 12 to 13", "train.bin, tokens 512 to 1024".
  virtual std::string place(std::int64_t first, std::int64_t count) const;

  /// Returns one human-readable line: "3 text files in corpus/", "synthetic text".
  virtual std::string describe() const = 0;

  /// Returns what was left out and why, in one line: "hidden: 1 (.git)". Empty if nothing was.
  virtual std::string skipped() const { return {}; }
};

/// Copies, with a UsageError naming position, id and vocabulary when a token is not below `vocab`.
void copy_checked(const TokenSource& source, std::int64_t first, std::int64_t count, std::int64_t vocab,
                  std::int32_t* out);

/// Fills out [count] with the positions of tokens first .. first+count-1, each in its document. A document that began
/// before `first` begins there. The source must have documents.
void fill_positions(const TokenSource& source, std::int64_t first, std::int64_t count, std::int32_t* out);

/// UsageError when a token is not below `vocab`. Reads nothing when the format rules that out, and everything up to
/// 2^26 tokens. Of a longer source it reads only the two ends; its other tokens are checked when they are used.
void check_vocabulary(const TokenSource& source, std::int64_t vocab);

/// Returns a number for the content: size and up to 66 blocks of tokens, evenly spaced, both ends among them. Depends
/// on the tokens only, not on how they are stored. An edit of a long corpus between these blocks that keeps its length
/// goes unnoticed: this finds another corpus, not an edited one.
std::uint64_t fingerprint(const TokenSource& source);

/// Holds tokens in memory; every id must be in 0 .. id_bound-1.
std::unique_ptr<TokenSource> tokens_in_memory(std::vector<std::int32_t> tokens, std::int64_t id_bound);

}  // namespace tessera
