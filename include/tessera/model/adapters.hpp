#pragma once
// Which linears of a model may have low-rank adapters (Architecture::adapters), and how these are named.

#include <string>
#include <string_view>
#include <vector>

#include "tessera/model/architecture.hpp"

namespace tessera {

/// The end of the names of an adapter's matrices, A [rank, in] and B [out, rank], behind that of the module.
inline constexpr std::string_view kAdapterA = "lora_A.weight", kAdapterB = "lora_B.weight";

/// Returns the modules of a block that are linears, as the block names them and in its order: "self_attn.q_proj", ...
std::vector<std::string> linear_modules(const Architecture& architecture);

/// Returns those that a list names: "all" (PEFT's "all-linear"), or names with commas, and perhaps blanks, between,
/// each a module's or its end behind a dot, as PEFT reads them. UsageError, which lists the modules, for a name that is
/// none.
std::vector<std::string> named_modules(const Architecture& architecture, std::string_view list);

/// Returns the words that name these modules, each its last one if no other module ends with it: "q_proj", "v_proj".
std::vector<std::string> short_names(const Architecture& architecture, const std::vector<std::string>& modules);

}  // namespace tessera
