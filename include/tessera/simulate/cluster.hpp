#pragma once
// The prices of a machine: how long its kernels, collectives and copies take. `tessera bench calibrate` measures them,
// inputs/clusters/ has those of known machines.

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/backend/device_kind.hpp"
#include "tessera/kernels/kernel_call.hpp"
#include "tessera/schedule/operation.hpp"

namespace tessera {

/// What a price may depend on. The three sizes of a kernel call are the first three, those of attention the next three.
enum class PriceAxis : std::uint8_t { tokens, in, out, rows, sequence, head_width, flops, bytes, ranks };
inline constexpr int kPriceAxes = 9;

/// The quantities of one piece of work, by PriceAxis; those that it does not have are 0. A call has its sizes twice.
using WorkSize = std::array<double, kPriceAxes>;

/// Seconds over a grid of sizes. Between its points the logarithm of the time is linear in the logarithms of the sizes;
/// beyond an axis's ends it goes on as between its last two points, and never falls. If there is only one, it goes on
/// in proportion, but ranks make no difference then, because bytes are those that a rank sends.
class PriceTable {
 public:
  struct Axis {
    PriceAxis axis = PriceAxis::bytes;
    std::vector<double> values;  ///< ascending, above 0
  };
  PriceTable() = default;
  /// `seconds`: one per point of the grid, the last axis fastest.
  PriceTable(std::vector<Axis> axes, std::vector<double> seconds);

  double seconds(const WorkSize& size) const;
  const std::vector<Axis>& axes() const { return axes_; }
  std::span<const double> points() const { return seconds_; }
  /// The relative error that a price may have.
  double uncertainty = 0;
  /// Where the price comes from, if it was not measured with the rest: "predicted from bytes", "published: ...".
  std::string source;

 private:
  double logarithm_at(std::span<const std::pair<std::size_t, double>> places) const;

  std::vector<Axis> axes_;
  std::vector<double> seconds_;
};

/// A machine, or a cluster of them, as read from an INI file.
struct Cluster {
  std::string name, file;
  std::string hash;      ///< XXH3 of the file's bytes: 64 bits in hexadecimal
  std::string measured;  ///< date, versions and clocks, as the file says
  std::string host;      ///< the processor of the machine whose copies and host updates were priced; empty: not said
  DeviceKind device{};
  std::int64_t memory = 0;                          ///< bytes per rank; 0: not said
  std::int64_t ranks_per_node = 0;                  ///< 0: not said
  std::int64_t threads = 1;                         ///< compute threads per rank that the prices are for; CPU
  std::map<std::string, double, std::less<>> peak;  ///< FLOP/s per rank by type of compute: the reference for MFU
  double issue = 0;    ///< seconds of the host per operation that it hands to another queue
  double segment = 0;  ///< seconds of a segment's begin and end
  double step = 0;     ///< seconds of the host between two steps
  /// Factors of time: compute under a collective, or under copies; collectives under compute.
  double compute_under_collectives = 1, compute_under_copies = 1, collectives_under_compute = 1;
  double host_under_copies = 1;  ///< factor of the host's updates during copies, with which they share memory; GPU
  double untimed_matmuls = 1;    ///< factor of matmuls whose algorithm the library chose by shape; GPU
  double deterministic_attention = 1;  ///< factor of the library's attention backward with the same bits; GPU
  double documents_attention = 1;      ///< factor of the library's attention where it keeps documents apart; GPU
  double fp8_matmuls = 1;              ///< factor of linears in fp8
  /// "linear forward.fp32", "all-gather.node", "copy.to_host". Where a node's ranks share memory and caches, kernels
  /// and copies have an axis of the ranks that work on the node.
  std::map<std::string, PriceTable, std::less<>> prices;

  /// Returns a price. UsageError with the file and the names that it has if there is none.
  const PriceTable& price(std::string_view name) const;
};

/// Who runs a kernel: for a GPU its host; own kernels where a library's may; fp8: until it is a factor (calibrate).
enum class PricedBy : std::uint8_t { device, host, own, fp8 };
/// Returns the name of a kernel call's price: "linear forward gelu.bf16", "host adamw.fp32".
std::string price_name(const KernelCall& call, PricedBy by = PricedBy::device);
/// Returns that of a collective, or of a copy: "all-gather.node", "copy.to_host".
std::string price_name(OperationKind kind, bool within_node = false);

/// Reads a file. UsageError with file and line for unknown sections and keys, bad numbers and incomplete grids.
Cluster read_cluster(const std::filesystem::path& file);

/// Writes it so that read_cluster gives it back; `comment` stands at its top.
std::string cluster_text(const Cluster& cluster, const std::string& comment);

}  // namespace tessera
