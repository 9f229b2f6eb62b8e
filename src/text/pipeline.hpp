#pragma once
// Reads, encodes and hands over in order: one thread reads, several encode, the caller takes.

#include <functional>

#include "text/encode.hpp"

namespace tessera {

/// One item that is handed over: a piece's tokens, and the place after it.
struct EncodedPiece {
  Encoded tokens;
  PiecePlace after;
  std::int64_t taken = 0;  ///< bytes read of all files
};

/// Encodes the corpus from `from` on with so many threads (>= 1), and calls `take` on the calling thread for each piece
/// in order. The pieces do not depend on the threads. Memory is bounded: a few pieces per thread. Errors of reading and
/// encoding come in order too; an exception of `take` ends all.
void encode_corpus(const SourceList& sources, const Tokenizer& tokenizer, const PieceSettings& pieces,
                   const EncodeSettings& settings, PiecePlace from, int threads,
                   const std::function<void(EncodedPiece&&)>& take);

}  // namespace tessera
