#include "tessera/files/hdf5.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "tessera/base/error.hpp"

namespace tessera {

namespace {

/// Takes the description of the entry that is nearest to the cause.
herr_t take_cause(unsigned depth, const H5E_error2_t* error, void* out) {
  if (depth == 0 && error->desc != nullptr) *static_cast<std::string*>(out) = error->desc;
  return 0;
}

/// Returns the cause of HDF5's last error. Where that is the system's, HDF5 adds the time, addresses and byte counts,
/// although the system's own words are enough.
std::string error_text() {
  constexpr std::string_view words = "error message = '";
  std::string text;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_cause, &text);
  H5Eclear2(H5E_DEFAULT);
  if (const std::size_t from = text.find(words); from != std::string::npos)
    text = text.substr(from + words.size(), text.find('\'', from + words.size()) - from - words.size());
  return text.empty() ? "no error text" : text;
}

void write_scalar(hid_t object, const std::string& name, hid_t file_type, hid_t memory_type, const void* value) {
  const std::string what = fmt::format("cannot write attribute {} of {}", name, hdf5_name(object));
  const Hdf5Space space(hdf5_check_id(H5Screate(H5S_SCALAR), what));
  const Hdf5Attribute attribute(
      hdf5_check_id(H5Acreate2(object, name.c_str(), file_type, space.id(), H5P_DEFAULT, H5P_DEFAULT), what));
  hdf5_check(H5Awrite(attribute.id(), memory_type, value), what);
}

/// Opens a scalar attribute whose type is of the wanted class.
Hdf5Attribute open_scalar(hid_t object, const std::string& name, H5T_class_t wanted) {
  hdf5_quiet();
  const std::string what = fmt::format("cannot read attribute {} of {}", name, hdf5_name(object));
  Hdf5Attribute attribute(hdf5_check_id(H5Aopen(object, name.c_str(), H5P_DEFAULT), what));
  const Hdf5Type type(hdf5_check_id(H5Aget_type(attribute.id()), what));
  const Hdf5Space space(hdf5_check_id(H5Aget_space(attribute.id()), what));
  if (H5Tget_class(type.id()) != wanted || H5Sget_simple_extent_npoints(space.id()) != 1) {
    throw IoError("{} (it is not a single value of the expected kind)", what);
  }
  return attribute;
}

template <class T>
T read_number(hid_t object, const std::string& name, H5T_class_t wanted, hid_t type) {
  const Hdf5Attribute attribute = open_scalar(object, name, wanted);
  T value{};
  hdf5_check(H5Aread(attribute.id(), type, &value),
             fmt::format("cannot read attribute {} of {}", name, hdf5_name(object)));
  return value;
}

/// Returns properties of an opened file without HDF5's own lock on it. RUN's lock and unpublished folders keep writers
/// apart, and file systems without locks (ENOLCK, EOPNOTSUPP) would refuse every file. HDF5_USE_FILE_LOCKING overrules
/// this; libraries before 1.10.7, and 1.12.0, have only that variable.
Hdf5Properties file_access(const std::string& what) {
  Hdf5Properties access(hdf5_check_id(H5Pcreate(H5P_FILE_ACCESS), what));
#if H5_VERSION_GE(1, 10, 7) && !(H5_VERSION_GE(1, 12, 0) && !H5_VERSION_GE(1, 12, 1))
  hdf5_check(H5Pset_file_locking(access.id(), false, true), what);
#endif
  return access;
}

}  // namespace

void hdf5_quiet() {
  // Everything here closes itself. HDF5's clean-up at exit only adds a crash (1.10.8) when closing a file had failed,
  // as on a full disk. Must be called before the library starts.
  static const herr_t no_clean_up_at_exit = H5dont_atexit();
  static_cast<void>(no_clean_up_at_exit);
  thread_local bool quiet = false;  // HDF5 keeps the setting per thread
  if (!quiet) quiet = H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) >= 0;
}

hid_t hdf5_check_id(hid_t id, const std::string& what) {
  if (id < 0) throw IoError("{} (HDF5: {})", what, error_text());
  return id;
}

void hdf5_check(herr_t result, const std::string& what) {
  if (result < 0) throw IoError("{} (HDF5: {})", what, error_text());
}

Hdf5Type hdf5_text_type() {
  hdf5_quiet();
  Hdf5Type type(hdf5_check_id(H5Tcopy(H5T_C_S1), "cannot make a string type"));
  hdf5_check(H5Tset_size(type.id(), H5T_VARIABLE), "cannot make a string type");
  hdf5_check(H5Tset_cset(type.id(), H5T_CSET_UTF8), "cannot make a string type");
  return type;
}

Hdf5Type hdf5_float_type(DType dtype) {
  constexpr const char* kMaking = "cannot make a type of numbers";
  Hdf5Type type(hdf5_check_id(H5Tcopy(H5T_IEEE_F32LE), kMaking));
  if (dtype == DType::fp32) return type;
  TESSERA_ASSERT(dtype == DType::bf16, "files have no {}", name_of(dtype));
  hdf5_check(H5Tset_fields(type.id(), 15, 7, 8, 0, 7), kMaking);  // sign, exponent, mantissa: the upper half of fp32
  hdf5_check(H5Tset_size(type.id(), 2), kMaking);
  return type;
}

std::string hdf5_version() {
  hdf5_quiet();  // asking for the version starts the library
  unsigned major = 0, minor = 0, release = 0;
  hdf5_check(H5get_libversion(&major, &minor, &release), "cannot ask for HDF5's version");
  return fmt::format("{}.{}.{}", major, minor, release);
}

Hdf5File Hdf5File::create(const std::filesystem::path& path, Create mode, Format format) {
  hdf5_quiet();
  const std::string what = fmt::format("cannot create {}", path.string());
  const Hdf5Properties access = file_access(what);
  const H5F_libver_t version = format == Format::v18 ? H5F_LIBVER_V18 : H5F_LIBVER_LATEST;
  hdf5_check(H5Pset_libver_bounds(access.id(), version, version), what);
  // By default every dataset holds up to 1 MiB of what was written, and files of metrics have a hundred, which grow for
  // days. Here and not per dataset, because the start of SWMR opens them anew.
  constexpr std::size_t kSlots = 7, kHeldBytes = 16 << 10;
  hdf5_check(H5Pset_cache(access.id(), 0, kSlots, kHeldBytes, 1.0), what);
  Hdf5File file;
  const unsigned flags = mode == Create::exclusive ? H5F_ACC_EXCL : H5F_ACC_TRUNC;
  file.file_ = Hdf5Handle<&H5Fclose>(hdf5_check_id(H5Fcreate(path.c_str(), flags, H5P_DEFAULT, access.id()), what));
  file.path_ = path;
  return file;
}

Hdf5File Hdf5File::open(const std::filesystem::path& path, bool swmr) {
  hdf5_quiet();
  const unsigned flags = H5F_ACC_RDONLY | (swmr ? H5F_ACC_SWMR_READ : 0u);
  const std::string what = fmt::format("cannot open {}", path.string());
  const Hdf5Properties access = file_access(what);
  // A block that a writer changes meanwhile is read again after 1, 2, 4 ... ns. By default that happens 100 times, so a
  // damaged block would keep the library asleep without end. 27 times are a tenth of a second.
  constexpr unsigned kAttempts = 27;
  if (swmr) hdf5_check(H5Pset_metadata_read_attempts(access.id(), kAttempts), what);
  Hdf5File file;
  file.file_ = Hdf5Handle<&H5Fclose>(hdf5_check_id(H5Fopen(path.c_str(), flags, access.id()), what));
  file.path_ = path;
  return file;
}

void Hdf5File::start_swmr_write() {
  hdf5_quiet();
  hdf5_check(H5Fstart_swmr_write(file_.id()),
             fmt::format("cannot make {} readable while it is written", path_.string()));
}

void Hdf5File::flush() {
  hdf5_quiet();
  hdf5_check(H5Fflush(file_.id(), H5F_SCOPE_GLOBAL), fmt::format("cannot write {}", path_.string()));
}

void Hdf5File::close() {
  if (!file_) return;
  hdf5_quiet();
  hdf5_check(H5Fclose(file_.release()), fmt::format("cannot close {}", path_.string()));
}

std::string hdf5_name(hid_t object) {
  hdf5_quiet();
  const auto ask = [object](auto function) {
    const ssize_t length = function(object, nullptr, 0);
    std::string text(length > 0 ? static_cast<std::size_t>(length) : 0, '\0');
    if (length > 0) function(object, text.data(), text.size() + 1);
    return text;
  };
  const std::string file = ask([](hid_t id, char* out, std::size_t size) { return H5Fget_name(id, out, size); });
  const std::string name = ask([](hid_t id, char* out, std::size_t size) { return H5Iget_name(id, out, size); });
  return fmt::format("{}:{}", file, name);
}

Hdf5Group hdf5_create_group(hid_t parent, const std::string& name) {
  hdf5_quiet();
  return Hdf5Group(hdf5_check_id(H5Gcreate2(parent, name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                                 fmt::format("cannot create group {} in {}", name, hdf5_name(parent))));
}

Hdf5Group hdf5_open_group(hid_t parent, const std::string& name) {
  hdf5_quiet();
  return Hdf5Group(hdf5_check_id(H5Gopen2(parent, name.c_str(), H5P_DEFAULT),
                                 fmt::format("cannot open group {} in {}", name, hdf5_name(parent))));
}

bool hdf5_has(hid_t parent, const std::string& name) {
  hdf5_quiet();
  const htri_t exists = H5Lexists(parent, name.c_str(), H5P_DEFAULT);
  hdf5_check(exists, fmt::format("cannot look for {} in {}", name, hdf5_name(parent)));
  return exists > 0;
}

std::vector<std::string> hdf5_list(hid_t group) {
  hdf5_quiet();
  std::vector<std::string> names;
  const auto add = [](hid_t, const char* name, const H5L_info_t*, void* out) -> herr_t {
    static_cast<std::vector<std::string>*>(out)->emplace_back(name);
    return 0;
  };
  hdf5_check(H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, nullptr, add, &names),
             fmt::format("cannot list {}", hdf5_name(group)));
  std::sort(names.begin(), names.end());
  return names;
}

void hdf5_write_attribute(hid_t object, const std::string& name, std::string_view value) {
  hdf5_quiet();
  const Hdf5Type type = hdf5_text_type();
  const std::string terminated(value);
  const char* text = terminated.c_str();
  write_scalar(object, name, type.id(), type.id(), &text);
}

void hdf5_write_attribute(hid_t object, const std::string& name, std::int64_t value) {
  hdf5_quiet();
  write_scalar(object, name, H5T_STD_I64LE, H5T_NATIVE_INT64, &value);
}

void hdf5_write_attribute(hid_t object, const std::string& name, double value) {
  hdf5_quiet();
  write_scalar(object, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &value);
}

void hdf5_update_attribute(hid_t object, const std::string& name, double value) {
  const Hdf5Attribute attribute = open_scalar(object, name, H5T_FLOAT);
  hdf5_check(H5Awrite(attribute.id(), H5T_NATIVE_DOUBLE, &value),
             fmt::format("cannot write attribute {} of {}", name, hdf5_name(object)));
}

template <>
std::string hdf5_read_attribute<std::string>(hid_t object, const std::string& name) {
  const Hdf5Attribute attribute = open_scalar(object, name, H5T_STRING);
  const std::string what = fmt::format("cannot read attribute {} of {}", name, hdf5_name(object));
  const Hdf5Type file_type(hdf5_check_id(H5Aget_type(attribute.id()), what));
  if (H5Tis_variable_str(file_type.id()) <= 0) {  // fixed length: other writers
    std::string text(H5Tget_size(file_type.id()), '\0');
    hdf5_check(H5Aread(attribute.id(), file_type.id(), text.data()), what);
    text.erase(std::find(text.begin(), text.end(), '\0'), text.end());
    return text;
  }
  char* text = nullptr;
  hdf5_check(H5Aread(attribute.id(), file_type.id(), &text), what);
  std::string value = text != nullptr ? text : "";
  H5free_memory(text);
  return value;
}

template <>
std::int64_t hdf5_read_attribute<std::int64_t>(hid_t object, const std::string& name) {
  return read_number<std::int64_t>(object, name, H5T_INTEGER, H5T_NATIVE_INT64);
}

template <>
double hdf5_read_attribute<double>(hid_t object, const std::string& name) {
  return read_number<double>(object, name, H5T_FLOAT, H5T_NATIVE_DOUBLE);
}

}  // namespace tessera
