#pragma once
// run.dump: the gradients and weights of one step in HDF5, under Hugging Face names. /gradients/NAME and /weights/NAME
// are float32 in full shape; / has the attributes step, loss and grad_norm.

#include <array>
#include <boost/icl/interval_set.hpp>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "tessera/files/fresh_output.hpp"
#include "tessera/files/hdf5_data.hpp"
#include "tessera/model/parts.hpp"

namespace tessera {

enum class DumpTable { gradients, weights };

/// Takes tensors by runs of elements in any order, so that no rank holds the full model. Used by one thread (the I/O
/// thread during training). The file gets its name only once finish() has returned.
class DumpFile {
 public:
  /// Throws IoError if the file cannot be made; an existing file of that name is replaced at finish().
  DumpFile(const std::filesystem::path& path, const std::vector<ParameterTensor>& tensors);
  /// Writes elements [first, first + values.size()) of a tensor, row-major. Throws InternalError for elements outside
  /// it, or written twice.
  void write(DumpTable table, TensorId tensor, std::int64_t first, std::span<const float> values);
  /// Completes the file. Throws InternalError naming the tensor if an element is missing.
  void finish(std::int64_t step, double loss, double grad_norm);

 private:
  struct Tensor {
    Hdf5Array<float> array;
    boost::icl::interval_set<std::int64_t> written;  ///< elements
  };
  struct Table {
    const char* name;
    IndexedVector<TensorId, Tensor> tensors;
  };

  ReplacedFile output_;
  IndexedVector<TensorId, std::string> names_;
  Hdf5File file_;
  std::array<Table, 2> tables_{{{"gradients", {}}, {"weights", {}}}};  ///< in the order of the enumeration
};

}  // namespace tessera
