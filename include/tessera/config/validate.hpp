#pragma once
// Valid combinations of options. Readers of options call validate; callers that know the world, validate_for_world.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/config/options.hpp"

namespace tessera {

/// An option that the other options leave without meaning, and why.
struct UnusedOption {
  std::string name;    ///< "shard.group_size"
  std::string reason;  ///< a clause: "only hsdp and hsdp-zero1 have a shard group smaller than the world"
};

/// Returns the options that have no meaning given the others (whether set or not).
std::vector<UnusedOption> unused_options(const Options& options);
/// Returns whether an option is not one of them.
bool has_effect(const Options& options, std::string_view name);

/// Resets those for which `may` returns true to their defaults, as if nobody had given them.
void drop_unused(Options& options, const std::function<bool(const std::string& name)>& may);

/// UsageError when a given option is unused, or when two options contradict each other.
void validate(const Options& options);
/// UsageError where data.document_mask = false contradicts data.packing = documents.
void require_documents_apart(const DataOptions& data);

/// Returns the steps at the end of `steps` in which schedule = wsd lets the learning rate fall: decay_fraction of them,
/// rounded down.
std::int64_t decay_steps(const OptimOptions& options, std::int64_t steps);

/// Returns the first step that is a multiple of both, at most the largest number.
std::int64_t common_multiple(std::int64_t a, std::int64_t b);

/// UsageError when the options are impossible in a run of `steps` steps, which train.epochs may decide, and whose
/// learning rate has a schedule of `schedule_steps` (0: as many).
void validate_for_steps(const Options& options, std::int64_t steps, std::int64_t schedule_steps = 0);

/// Returns the entries of checkpoint.allow: data, seq_len, global_batch, seed, order, moments. UsageError for another
/// name.
std::vector<std::string> allowed_changes(const CheckpointOptions& options);

/// Returns the micro-batches per rank and optimizer step on `world` ranks: train.accumulation, or the number that makes
/// train.global_batch. UsageError if ranks x train.micro_batch do not divide it; the message names the nearest that
/// they divide.
std::int64_t accumulation_of(const TrainOptions& options, std::int64_t world);

/// UsageError when the options are impossible on `world` ranks of which `ranks_per_node` share a node. The world must
/// be divisible by the group size and by grid.ranks_per_node (the message lists valid sizes). train.global_batch must
/// be divisible by the ranks.
void validate_for_world(const Options& options, std::int64_t world, std::int64_t ranks_per_node);

}  // namespace tessera
