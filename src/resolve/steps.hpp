#pragma once
// Steps of the table in steps.cpp that are in files of their own.

#include "tessera/resolve/resolved_run.hpp"

namespace tessera {

// data_steps.cpp
void find_reading(ResolvedRun& run, const ResolveSite& site);
void decide_documents(ResolvedRun& run, const ResolveSite& site);
void open_data(ResolvedRun& run, const ResolveSite& site);

// memory_steps.cpp
void decide_length(ResolvedRun& run, const ResolveSite& site);
void decide_by_memory(ResolvedRun& run, const ResolveSite& site);
void plan_schedule(ResolvedRun& run, const ResolveSite& site);
void require_memory(ResolvedRun& run, const ResolveSite& site);

}  // namespace tessera
