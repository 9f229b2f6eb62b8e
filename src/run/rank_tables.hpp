#pragma once
// The reports of all ranks in a metrics file: their own values, [report, rank], and what they did in each timed step.

#include <string>
#include <vector>

#include "run/row_table.hpp"
#include "tessera/files/hdf5.hpp"
#include "tessera/run/metrics_file.hpp"

namespace tessera {

/// Creates /ranks; each row has all ranks of the layout.
RowTable<RankRow> create_ranks(hid_t file, const MetricsLayout& layout);

/// Creates /layers, for the norms of the named layers.
RowTable<RankRow> create_layers(hid_t file, const std::vector<std::string>& names);

/// Creates /overlap; each row has a time for every name.
RowTable<OverlapRow> create_overlap(hid_t file, const std::vector<std::string>& names);

}  // namespace tessera
