#include "data/raw_tokens.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string_view>

#include "tessera/base/refuse.hpp"
#include "tessera/files/byte_file.hpp"

namespace tessera {

namespace {

using namespace std::string_view_literals;

/// How files of other formats begin, some of which are called .bin.
struct OtherFormat {
  std::string_view magic, name;
};
constexpr OtherFormat kOtherFormats[] = {{"\x93NUMPY"sv, "one of NumPy's .npy"},
                                         {"PK\3\4"sv, "a zip archive, as PyTorch writes weights"},
                                         {"\x1f\x8b\x08"sv, "compressed with gzip"},
                                         {"\x28\xb5\x2f\xfd"sv, "compressed with zstd"},
                                         {"\xfd\x37zXZ\0"sv, "compressed with xz"},
                                         {"BZh91AY&SY"sv, "compressed with bzip2"},
                                         {"PAR1"sv, "a Parquet file"},
                                         {"ARROW1"sv, "an Arrow file"},
                                         {"\x89HDF\r\n"sv, "an HDF5 file"},
                                         {"MMIDIDX\0\0"sv, "an index of Megatron's"},
                                         {"TESSERAD"sv, "an index of documents"},
                                         {"TESSERAM"sv, "a mask of the loss"}};

bool begins_with(std::span<const std::byte> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

/// Returns whether numbers of type Id are rather halves of longer ones, least significant first: where it was looked,
/// every second one is at most `most`, and many of the others are larger. Tokens do not care whether their place is
/// even: of 32 that are larger, chance would put none at the odd places once in 2^32 files.
template <class Id>
bool are_halves(std::span<const std::byte> bytes, Id most) {
  constexpr std::size_t stretch = std::size_t{1} << 15, wanted = 32;  // pairs
  const std::size_t pairs = bytes.size() / (2 * sizeof(Id));
  std::size_t larger = 0;
  const auto holds = [&](std::size_t first) {
    for (std::size_t i = first; i < std::min(pairs, first + stretch); ++i) {
      std::array<Id, 2> pair{};
      std::memcpy(pair.data(), bytes.data() + i * sizeof pair, sizeof pair);
      if (pair[1] > most) return false;
      larger += pair[0] > most ? 1 : 0;
    }
    return true;
  };
  return holds(0) && (pairs <= stretch || (holds(pairs / 2) && holds(pairs - stretch))) && larger >= wanted;
}

/// Returns the code of the type of numbers in the index that Megatron writes next to its FILE.bin; nothing without one.
std::optional<int> megatron_type(std::filesystem::path file) {
  constexpr std::string_view magic = "MMIDIDX\0\0"sv;
  std::array<std::byte, magic.size() + sizeof(std::uint64_t) + 1> start{};
  std::error_code error;
  file.replace_extension(".idx");
  if (std::filesystem::file_size(file, error) < start.size() || error) return std::nullopt;
  read_at(file, 0, start);
  return begins_with(start, magic) ? std::optional(static_cast<int>(start.back())) : std::nullopt;
}

/// Returns what says that the numbers are wider than 16 bits; nothing if they may be uint16.
std::optional<std::string> reason_for_more(const std::filesystem::path& file, std::span<const std::byte> bytes,
                                           std::int64_t vocab) {
  constexpr int int16 = 3, uint16 = 8;
  if (const auto type = megatron_type(file); type && *type != int16 && *type != uint16)
    return fmt::format("the index next to it says that they have another type (Megatron's code {})", *type);
  if (vocab > 65536) return fmt::format("a vocabulary of {} ids needs more bits", vocab);
  // The upper halves of ids are 0, and where the vocabulary is not known, at most 3: it has at most 2^18 ids today.
  if (are_halves<std::uint16_t>(bytes, 0) || (vocab == 0 && are_halves<std::uint16_t>(bytes, 3)))
    return "every second one is 0, or nearly so, as in a file of 32-bit numbers";
  return std::nullopt;
}

}  // namespace

std::int64_t raw_token_bytes(const std::filesystem::path& file, std::span<const std::byte> bytes,
                             const RawTokens& raw) {
  const std::string name = file.string();
  for (const OtherFormat& other : kOtherFormats) {
    if (!begins_with(bytes, other.magic)) continue;
    throw refusal("{} is {}, and not a file of tokens", name, other.name)
        .use("the numbers alone, as NumPy's tofile writes them, or a file that tessera data prepare wrote");
  }
  if (raw.bytes == TokenBytes::four) return 4;
  if (raw.bytes == TokenBytes::two) return 2;
  const auto reason = reason_for_more(file, bytes, raw.vocab);
  if (!reason) return 2;
  auto refused = refusal("{} has no header, and its numbers cannot be taken for 16-bit tokens", name);
  refused.because("{}", *reason);
  if (are_halves<std::uint32_t>(bytes, 0)) {
    throw refused.hint(
        "They have 64 bits: write them with NumPy's astype(numpy.uint32).tofile, and set data.token_bytes = 4");
  }
  throw refused.hint("Set data.token_bytes = 4 if they are uint32, or 2 if they are uint16 all the same");
}

}  // namespace tessera
