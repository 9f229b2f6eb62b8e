#pragma once
// Reads, encodes and hands over in order: one thread reads, several encode, the caller takes.

#include <functional>

#include "text/encode.hpp"

namespace tessera {

/// What is handed over: a piece's tokens, and the place after it.
struct EncodedPiece {
  Encoded tokens;
  PiecePlace after;
  std::int64_t taken = 0;  ///< bytes read of all files
};

/// Encodes the corpus from `from` on with so many threads (>= 1), and calls `take` on the calling thread for each piece
/// in order. What it is given does not depend on the threads. Memory is bounded: a few pieces a thread. Errors of
/// reading and encoding come in order too; an exception of `take` ends all.
void encode_corpus(const SourceList& sources, const Tokenizer& tokenizer, const PieceSettings& pieces,
                   const EncodeSettings& settings, PiecePlace from, int threads,
                   const std::function<void(EncodedPiece&&)>& take);

}  // namespace tessera
