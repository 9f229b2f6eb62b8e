#pragma once
// A source that whole windows cover.

#include <memory>

#include "tessera/data/token_source.hpp"

namespace tessera {

/// Adds tokens whose loss does not count to the end of `source`, so that windows of `seq_len` from token `first` on
/// have each later token as a target. UsageError if there is none.
std::unique_ptr<TokenSource> filled_to_windows(std::unique_ptr<TokenSource> source, std::int64_t first,
                                               std::int64_t seq_len);

}  // namespace tessera
