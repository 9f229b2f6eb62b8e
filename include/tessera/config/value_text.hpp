#pragma once
// Values as users write them. Each read_* returns nothing when the text is not such a value; each *_text writes the
// shortest text that reads back to the same value.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/config/options.hpp"

namespace tessera {

/// Reads an integer: digits, or a decimal number with K, M or G (powers of 1000) or an exponent: 500K, 1.5M, 1e6.
std::optional<std::int64_t> read_count(std::string_view text);

/// Reads a count, or "auto", which is kAutomaticCount.
std::optional<std::int64_t> read_count_or_auto(std::string_view text);
std::string count_or_auto_text(std::int64_t every);

/// Reads train.seq_len: a count of at most 2^31, or "fit", which is kFittingLength.
std::optional<std::int64_t> read_length(std::string_view text);
std::string length_text(std::int64_t length);

/// Reads a finite decimal number.
std::optional<double> read_number(std::string_view text);
std::string number_text(double value);

/// Reads integral bytes with a unit or none. B, kB or KB, MB, GB, TB are powers of 1000; KiB, MiB, GiB, TiB powers of
/// 1024.
std::optional<std::int64_t> read_bytes(std::string_view text);
std::string exact_bytes_text(std::int64_t bytes);

/// Reads such sizes with commas between them; empty text is an empty list.
std::optional<std::vector<std::int64_t>> read_byte_list(std::string_view text);
std::string byte_list_text(const std::vector<std::int64_t>& sizes);
/// Counts with commas between them: "1,2,4"; an empty text is an empty list.
std::optional<std::vector<std::int64_t>> read_count_list(std::string_view text);
std::string count_list_text(const std::vector<std::int64_t>& values);

/// Reads seconds: a number with us, ms, s, min or h or no unit, or HH:MM:SS.
std::optional<double> read_seconds(std::string_view text);

/// Reads bytes per second: a number with a byte unit and "/s", or neither.
std::optional<double> read_bandwidth(std::string_view text);

/// Reads "none" or "latency,bandwidth".
std::optional<Emulation> read_emulation(std::string_view text);
std::string emulation_text(const Emulation& emulation);

/// Reads "true", "false" or a number of ranks above 0.
std::optional<ReshardAfterForward> read_reshard(std::string_view text);
std::string reshard_text(const ReshardAfterForward& reshard);

/// Reads "fit", or a number from 0 to 1.
std::optional<OffloadFraction> read_fraction(std::string_view text);
std::string fraction_text(const OffloadFraction& fraction);

/// Reads "none" or "a:b", two counts with 1 <= a <= b.
std::optional<StepRange> read_step_range(std::string_view text);
std::string step_range_text(const StepRange& range);

std::optional<std::string> read_plain_text(std::string_view text);

std::string_view trimmed(std::string_view text);

/// Returns the texts between commas, which are one more than there are commas.
std::vector<std::string_view> items_of(std::string_view text);

}  // namespace tessera
