#pragma once
// A run compared with the checkpoint that it is to continue from.

#include "tessera/training/resume.hpp"

namespace tessera {

/// Throws UsageError naming the settings that must not differ from the checkpoint's.
void require_fit(const std::filesystem::path& checkpoint, const ResumeSettings& settings, const Manifest& manifest);

/// Returns permitted differences: "ranks 2 -> 4, shard.strategy zero3 -> ddp", or empty. If the learning rate then
/// takes another course, also "rate 1.50e-05 at step 10 of 10 -> 3.00e-04 at step 11 of 20".
std::string changes_since(const std::filesystem::path& checkpoint, const ResumeSettings& settings,
                          const Manifest& manifest);

}  // namespace tessera
