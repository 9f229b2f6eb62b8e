#pragma once
// A rank-aware log: rank 0 talks to the user, any rank may report an error.

#include <fmt/format.h>

#include <cstdio>
#include <string>

namespace tessera {

class Log {
 public:
  Log(int rank, int world) : rank_(rank), world_(world) {}
  void info(const std::string& line) const;   ///< stdout, rank 0 only
  void warn(const std::string& line) const;   ///< stderr, rank 0 only
  void error(const std::string& line) const;  ///< stderr, any rank, prefixed with the rank

 private:
  int rank_, world_;
};

/// Returns whether a person reads the stream on a terminal, where a line can be redrawn.
bool is_terminal(std::FILE* stream);

}  // namespace tessera
