#pragma once
// Whether a stream's text ends up on a terminal.

#include <cstdio>

namespace tessera {

/// Returns whether a person reads the stream on a terminal, where a line can be redrawn.
bool is_terminal(std::FILE* stream);

}  // namespace tessera
