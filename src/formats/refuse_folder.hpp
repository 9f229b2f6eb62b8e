#pragma once
// What a folder is that people give as a model and that cannot be read.

#include <filesystem>
#include <string>
#include <string_view>

#include "tessera/base/refuse.hpp"

namespace tessera {

/// Refuses a folder that lacks `missing`, or that only has a link to nothing there, and says what it is instead as far
/// as its files show: an adapter, the outer folder of the hub's cache, weights of another program.
Refusal refuse_folder(const std::filesystem::path& folder, std::string_view missing);

/// Returns how a folder's files say that its weights were quantized, "gptq"; empty if they do not.
std::string quantization_of(const std::filesystem::path& folder);

}  // namespace tessera
