#pragma once
// Token files as other programs write them, and the messages of errors.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "temporary_folder.hpp"
#include "tessera/base/error.hpp"
#include "tessera/data/token_source.hpp"

using tessera::testing::bytes_of;
using tessera::testing::TemporaryFolder;

/// llm.c's header, then the tokens.
template <class T>
std::string llmc_bytes(std::int32_t magic, std::int32_t version, std::int32_t count, const std::vector<T>& tokens) {
  std::vector<std::int32_t> header(256);
  header[0] = magic, header[1] = version, header[2] = count;
  return bytes_of(header) + bytes_of(tokens);
}

/// Returns the message of the error of type E that `work` throws, with the exit code that it must have; "" if none.
template <class E>
std::string message_of(tessera::ExitCode code, const std::function<void()>& work) {
  try {
    work();
  } catch (const E& error) {
    return error.code() == code ? error.what() : "";
  }
  return "";
}
inline std::string usage_message(const std::function<void()>& work) {
  return message_of<tessera::UsageError>(tessera::ExitCode::usage, work);
}

/// Returns tokens first .. first+count-1.
inline std::vector<std::int32_t> some_of(const tessera::TokenSource& source, std::int64_t first, std::int64_t count) {
  std::vector<std::int32_t> out(static_cast<std::size_t>(count));
  source.copy(first, count, out.data());
  return out;
}
/// Returns all tokens, which are bytes.
inline std::string text_of(const tessera::TokenSource& source) {
  std::string text;
  for (const auto token : some_of(source, 0, source.size())) text += static_cast<char>(token);
  return text;
}
