#pragma once
// Schedules and their memory as JSON. docs/manual/schedule_json.md documents every key. Numbers are integers, bytes are
// bytes; sizes grow linearly with the operations.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tessera/schedule/print.hpp"

namespace tessera {

/// Changes when the meaning of a key changes, not when a key is added.
inline constexpr const char* kScheduleFormat = "tessera-schedule-1";

/// Returns the whole step with its memory plan: the same facts as print_schedule, print_units and print_memory.
nlohmann::ordered_json schedule_json(const StepSchedule& schedule, const MemoryPlan& plan);

/// Returns the same as text on one line, as metrics.h5 keeps it.
std::string schedule_json_text(const StepSchedule& schedule, const MemoryPlan& plan);

/// Returns {"world": 4, "shard": 4, "replica": 1}.
nlohmann::ordered_json groups_json(const StepSchedule& schedule);

/// Returns {"parameters": 12, "gradients": 3, ...}, a key per category.
nlohmann::ordered_json categories_json(const CategoryBytes& bytes);

/// Returns a memory plan: at its peak, each category at its own peak, on the host, and by region.
nlohmann::ordered_json memory_json(const StepSchedule& schedule, const MemoryPlan& plan);

/// Returns one object per row, with the same facts as print_strategy_table and print_strategy_peaks.
nlohmann::ordered_json strategies_json(const std::vector<StrategyRow>& rows);

/// Returns a document on one line, without the line's end. Bytes that are not UTF-8 (names of folders) are replaced.
std::string json_text(const nlohmann::ordered_json& document);

}  // namespace tessera
