#pragma once
// A Python program of the installation that answers by lines.

#include <sys/types.h>

#include <string>
#include <string_view>

#include "tessera/base/file_descriptor.hpp"

namespace tessera {

/// A running program of helpers/, in $TESSERA_PYTHON or else /usr/bin/python3. It is killed with the object.
class Helper {
 public:
  /// Starts helpers/SCRIPT. IoError if Python cannot be started; UsageError if the script is not there.
  explicit Helper(std::string_view script);
  ~Helper();
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  /// Sends a line, which the helper reads whole before it answers, so that neither waits for the other.
  void send(std::string_view line);
  /// Returns the next line of an answer. IoError if the helper has ended.
  std::string line();
  /// Returns so many bytes, which follow a line.
  std::string bytes(std::size_t count);

 private:
  void send_text(std::string_view text);
  void receive();

  std::string python_;
  FileDescriptor socket_;
  pid_t process_ = -1;
  std::string buffer_;    ///< what has come
  std::size_t used_ = 0;  ///< of it
};

}  // namespace tessera
