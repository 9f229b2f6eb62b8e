#pragma once
// HDF5 datasets: arrays written whole or by runs of elements, and series that grow. T is float, double or std::int64_t;
// files hold little-endian IEEE and two's complement, whatever the machine.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/files/hdf5.hpp"

namespace tessera {

/// A dataset of fixed shape (row-major), read and written by runs of consecutive elements.
template <class T>
class Hdf5Array {
 public:
  /// Creates it contiguous and unfilled: the caller writes every element.
  static Hdf5Array create(hid_t parent, const std::string& name, const std::vector<std::int64_t>& shape);
  /// Creates one chunk, filled with `fill`, so that SWMR readers can follow rewritten elements. One dimension.
  static Hdf5Array create_rewritable(hid_t parent, const std::string& name, std::int64_t elements, T fill);
  /// Opens it. IoError if it is missing or its elements are of another class (integer, float, text).
  static Hdf5Array open(hid_t parent, const std::string& name);

  const std::vector<std::int64_t>& shape() const { return shape_; }
  std::int64_t elements() const { return elements_; }
  /// Writes elements [first, first + values.size()) in row-major order; IoError if they are not all inside.
  void write(std::int64_t first, std::span<const T> values);
  void read(std::int64_t first, std::span<T> values) const;
  void flush();

 private:
  Hdf5Dataset dataset_;
  std::vector<std::int64_t> shape_;
  std::int64_t elements_ = 0;
};

/// A dataset that grows at its end: chunked, unlimited, readable by SWMR.
template <class T>
class Hdf5Series {
 public:
  Hdf5Series() = default;
  /// Creates it empty, of one dimension. With a width it has two: rows of so many elements each.
  static Hdf5Series create(hid_t parent, const std::string& name, std::int64_t width = 0);
  std::int64_t size() const { return size_; }
  /// Appends elements; with a width whole rows, one after the other.
  void append(std::span<const T> values);
  void flush();

 private:
  Hdf5Dataset dataset_;
  std::int64_t width_ = 0, size_ = 0;
};

/// A one-dimensional dataset of UTF-8 texts that grows at its end. Each has the same number of bytes, padded with 0:
/// SWMR readers cannot follow texts of variable length.
class Hdf5Texts {
 public:
  Hdf5Texts() = default;
  static Hdf5Texts create(hid_t parent, const std::string& name, std::int64_t bytes);
  /// Appends a text; a longer one is cut after a whole character.
  void append(std::string text);
  void flush();

 private:
  Hdf5Dataset dataset_;
  Hdf5Type type_;
  std::int64_t bytes_ = 0, size_ = 0;
};

/// Writes a whole new dataset; values.size() is the product of `shape`.
template <class T>
void hdf5_write(hid_t parent, const std::string& name, std::span<const T> values,
                const std::vector<std::int64_t>& shape);
/// Refuses to take memory for elements of a dataset that cannot be there (IoError): nothing that Tessera writes is
/// compressed, so the file has a byte for each.
void hdf5_require_room(hid_t parent, const std::string& name, std::int64_t elements);
/// Reads a whole dataset.
template <class T>
std::vector<T> hdf5_read(hid_t parent, const std::string& name);

/// Writes one-dimensional datasets of UTF-8 strings of variable length.
void hdf5_write_strings(hid_t parent, const std::string& name, const std::vector<std::string>& values);
std::vector<std::string> hdf5_read_strings(hid_t parent, const std::string& name);

/// Writes a scalar dataset: one UTF-8 string of variable length; its own attributes may follow.
Hdf5Dataset hdf5_write_text(hid_t parent, const std::string& name, const std::string& text);

}  // namespace tessera
