#pragma once
// HDF5's serial C API with handles that close themselves and errors with HDF5's own text: files, groups, attributes.
// Datasets are in files/hdf5_data.hpp.
//
// HDF5 is called from one thread at a time: in a run that is the I/O thread (files/io_thread.hpp). Every function
// throws IoError when HDF5 reports a failure; HDF5's own printing to stderr is switched off.

#include <hdf5.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/dtype.hpp"
#include "tessera/base/unique_handle.hpp"

#ifdef H5_HAVE_PARALLEL
#error "this is a parallel HDF5 (known to corrupt files with Open MPI): build with the serial one, Debian's hdf5-serial"
#endif

namespace tessera {

/// Closes an identifier. Failures are ignored here: data that must not be lost is flushed or closed explicitly before.
template <herr_t (*Close)(hid_t)>
struct CloseHdf5 {
  static hid_t none() { return H5I_INVALID_HID; }
  void operator()(hid_t id) const { Close(id); }
};
template <herr_t (*Close)(hid_t)>
struct Hdf5Handle : UniqueHandle<hid_t, CloseHdf5<Close>> {
  Hdf5Handle() = default;
  explicit Hdf5Handle(hid_t id) : UniqueHandle<hid_t, CloseHdf5<Close>>(id) {}
  hid_t id() const { return this->get(); }
};

using Hdf5Group = Hdf5Handle<&H5Gclose>;
using Hdf5Dataset = Hdf5Handle<&H5Dclose>;
using Hdf5Space = Hdf5Handle<&H5Sclose>;
using Hdf5Type = Hdf5Handle<&H5Tclose>;
using Hdf5Properties = Hdf5Handle<&H5Pclose>;
using Hdf5Attribute = Hdf5Handle<&H5Aclose>;

/// Switches off HDF5's own error printing for the calling thread (HDF5 keeps that setting per thread). The functions of
/// this module call it; call it yourself before using the C API directly.
void hdf5_quiet();

/// Returns `id` if it is valid; otherwise IoError "WHAT (HDF5: its own text)".
hid_t hdf5_check_id(hid_t id, const std::string& what);
/// Throws IoError "WHAT (HDF5: its own text)" if `result` is negative.
void hdf5_check(herr_t result, const std::string& what);

/// Returns the type of UTF-8 text of variable length.
Hdf5Type hdf5_text_type();
/// Returns the type of fp32 or bf16 in files, little-endian. HDF5 has none for bf16, so it is described by its fields.
Hdf5Type hdf5_float_type(DType dtype);
/// Returns the version of the loaded library, "1.10.8".
std::string hdf5_version();

/// An open file.
class Hdf5File {
 public:
  enum class Create { exclusive, truncate };  ///< exclusive: IoError if the file exists

  /// `newest` is H5F_LIBVER_LATEST, which SWMR needs. Its files do not open after their writer was killed unless SWMR
  /// had begun. A file of `v18` is complete whenever it was flushed: a copy made then is a good file.
  enum class Format { newest, v18 };

  static Hdf5File create(const std::filesystem::path& path, Create mode = Create::exclusive,
                         Format format = Format::newest);
  /// Opens for reading. `swmr` opens a file that a living or killed writer holds open.
  static Hdf5File open(const std::filesystem::path& path, bool swmr = false);

  hid_t id() const { return file_.id(); }
  bool is_open() const { return static_cast<bool>(file_); }
  const std::filesystem::path& path() const { return path_; }
  /// Lets readers follow from now on; no group, dataset or attribute can be created any more.
  void start_swmr_write();
  /// Hands everything to the operating system.
  void flush();
  /// Closes, and reports errors in doing so. All other handles into the file must be gone. Closing twice is harmless.
  void close();

 private:
  Hdf5Handle<&H5Fclose> file_;
  std::filesystem::path path_;
};

/// Returns "FILE:/group/dataset" for messages; any kind of object.
std::string hdf5_name(hid_t object);

Hdf5Group hdf5_create_group(hid_t parent, const std::string& name);
Hdf5Group hdf5_open_group(hid_t parent, const std::string& name);
/// Returns whether the group has a link of this name (one path component).
bool hdf5_has(hid_t parent, const std::string& name);
/// Returns the names in a group, in alphabetical order.
std::vector<std::string> hdf5_list(hid_t group);

/// Writes new scalar attributes; text is UTF-8 of variable length (h5py shows str).
void hdf5_write_attribute(hid_t object, const std::string& name, std::string_view value);
void hdf5_write_attribute(hid_t object, const std::string& name, std::int64_t value);
void hdf5_write_attribute(hid_t object, const std::string& name, double value);
/// Puts a new value into an existing attribute of type double; allowed while SWMR writing.
void hdf5_update_attribute(hid_t object, const std::string& name, double value);

/// Reads an attribute. T is std::string, std::int64_t or double. IoError if it is missing or of another class.
template <class T>
T hdf5_read_attribute(hid_t object, const std::string& name);

/// Checks the global heaps of an HDF5 file, in which texts of any length lie: collections that begin with "GCOL", a
/// version, and their size, followed by objects with their sizes (HDF5 File Format Specification 3.0, III.E). libhdf5
/// 1.10 adds up the sizes without checking them, so with a damaged one it loops without end or reads beyond its memory.
/// IoError if a collection is longer than the file, or its objects do not fill it.
void check_hdf5_heaps(const std::filesystem::path& path);

}  // namespace tessera
