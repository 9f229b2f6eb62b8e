#pragma once
// Files of text, compressed ones among them, and what the errors about them say.

#include <zlib.h>
#include <zstd.h>

#include <catch2/catch.hpp>
#include <functional>
#include <string>

#include "temporary_folder.hpp"
#include "tessera/base/error.hpp"
#include "text/source_files.hpp"

namespace tessera::testing {

inline std::string gzipped(const std::string& text) {
  z_stream state{};
  REQUIRE(::deflateInit2(&state, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(::deflateBound(&state, text.size()) + 32, '\0');
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));  // NOLINT: zlib does not write there
  state.avail_in = static_cast<uInt>(text.size());
  state.next_out = reinterpret_cast<Bytef*>(out.data());
  state.avail_out = static_cast<uInt>(out.size());
  REQUIRE(::deflate(&state, Z_FINISH) == Z_STREAM_END);
  out.resize(state.total_out);
  ::deflateEnd(&state);
  return out;
}

inline std::string zstd_compressed(const std::string& text) {
  std::string out(::ZSTD_compressBound(text.size()), '\0');
  ZSTD_CCtx* const context = ::ZSTD_createCCtx();
  ::ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);  // as the zstd program does
  const std::size_t size = ::ZSTD_compress2(context, out.data(), out.size(), text.data(), text.size());
  ::ZSTD_freeCCtx(context);
  REQUIRE(::ZSTD_isError(size) == 0);
  out.resize(size);
  return out;
}

/// Returns the message of the error that `work` throws; "" if none.
template <class E = UsageError>
std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const E& error) {
    return error.what();
  }
  return "";
}

inline SourceList examined(const std::string& given) {
  SourceList list = list_sources(given, "data.source");
  examine_files(list);
  return list;
}

}  // namespace tessera::testing
