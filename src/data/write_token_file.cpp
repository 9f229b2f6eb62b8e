#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <vector>

#include "data/llmc_tokens.hpp"
#include "tessera/base/error.hpp"
#include "tessera/data/corpus.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kBlock = 1 << 20;  // tokens

template <class Id>
void write_ids(const TokenSource& source, std::ofstream& file) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(kBlock));
  std::vector<Id> narrow(ids.size());
  for (std::int64_t first = 0; first < source.size(); first += kBlock) {
    const std::int64_t count = std::min(kBlock, source.size() - first);
    source.copy(first, count, ids.data());
    std::transform(ids.begin(), ids.begin() + count, narrow.begin(),
                   [](std::int32_t id) { return static_cast<Id>(id); });
    file.write(reinterpret_cast<const char*>(narrow.data()),
               static_cast<std::streamsize>(count) * static_cast<std::streamsize>(sizeof(Id)));
  }
}

}  // namespace

void write_token_file(const TokenSource& source, const std::filesystem::path& path) {
  if (source.size() > std::numeric_limits<std::int32_t>::max()) {
    throw UsageError("{}: {} tokens (the header of llm.c's file counts them in 31 bits): at most {}", path.string(),
                     source.size(), std::numeric_limits<std::int32_t>::max());
  }
  const bool is_wide = source.id_bound() > 65536;
  const LlmcTokenKind& kind = kLlmcTokenKinds[is_wide ? 1 : 0];
  std::array<std::int32_t, kLlmcTokenHeader / 4> header{};
  header[0] = kind.magic;
  header[1] = kind.version;
  header[2] = static_cast<std::int32_t>(source.size());
  const std::filesystem::path beside = path.string() + ".tmp";
  std::ofstream file(beside, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(header.data()), sizeof header);
  if (is_wide) {
    write_ids<std::uint32_t>(source, file);
  } else {
    write_ids<std::uint16_t>(source, file);
  }
  file.close();
  std::error_code error;
  if (!file.good()) {
    std::filesystem::remove(beside, error);
    throw IoError("cannot write {}", beside.string());
  }
  std::filesystem::rename(beside, path, error);
  if (error) throw IoError("cannot rename {} to {} ({})", beside.string(), path.string(), error.message());
}

}  // namespace tessera
