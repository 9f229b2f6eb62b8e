// A safetensors header is parsed as a stream of events. Nothing is built for unexpected contents, so that a hostile
// header costs at most its own size.

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "tessera/base/refuse.hpp"
#include "tessera/base/shown.hpp"
#include "tessera/formats/safetensors.hpp"

namespace tessera {

namespace {

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian and is read in place");

constexpr std::size_t kLongestName = 1024;
constexpr std::size_t kMostDimensions = 16;

/// Returns the bits of one element; nothing for unknown types.
std::optional<std::int64_t> element_bits(std::string_view dtype) {
  constexpr std::pair<std::string_view, std::int64_t> known[] = {
      {"F64", 64},  {"I64", 64}, {"U64", 64}, {"C64", 64},    {"F32", 32},    {"I32", 32}, {"U32", 32}, {"F16", 16},
      {"BF16", 16}, {"I16", 16}, {"U16", 16}, {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"I8", 8},   {"U8", 8},   {"BOOL", 8}};
  for (const auto& [name, bits] : known) {
    if (name == dtype) return bits;
  }
  return std::nullopt;
}

std::optional<DType> readable_dtype(std::string_view name) {
  if (name == "F32") return DType::fp32;
  if (name == "BF16") return DType::bf16;
  if (name == "F16") return DType::fp16;
  return std::nullopt;
}

/// nlohmann::json's SAX interface: a handler that returns false stops the parser.
class HeaderHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderHandler(std::string file) : file_(std::move(file)) {}

  SafetensorsHeader take() {
    if (place_ != Place::end) fail("its header is not complete");
    return std::move(header_);
  }

  bool start_object(std::size_t) override {
    switch (place_) {
      case Place::start:
        place_ = Place::names;
        return true;
      case Place::entry_value:
        place_ = Place::entry;
        return true;
      case Place::metadata_value:
        place_ = Place::metadata;
        return true;
      default:
        return unexpected("an object");
    }
  }

  bool key(string_t& name) override {
    switch (place_) {
      case Place::names:
        if (!names_.insert(name).second) fail("tensor {} is there twice", shown(name));
        if (name.size() > kLongestName) fail("a name has {} bytes, but the limit is {}", name.size(), kLongestName);
        if (name == "__metadata__") {
          place_ = Place::metadata_value;
        } else {
          entry_ = {};
          entry_.name = name;
          seen_dtype_ = seen_shape_ = seen_offsets_ = false;
          place_ = Place::entry_value;
        }
        return true;
      case Place::metadata:
        metadata_key_ = name;
        return true;
      case Place::entry:
        if (name == "dtype") return enter(Place::dtype, seen_dtype_);
        if (name == "shape") return enter(Place::shape_value, seen_shape_);
        if (name == "data_offsets") return enter(Place::offsets_value, seen_offsets_);
        fail("tensor {} has an unknown field {}", shown(entry_.name), shown(name));
      default:
        return unexpected("a name");
    }
  }

  bool string(string_t& value) override {
    if (place_ == Place::metadata) {
      header_.metadata[metadata_key_] = value;
      return true;
    }
    if (place_ != Place::dtype) return unexpected("text");
    if (value.size() > 16) fail("tensor {} has the unknown dtype {}", shown(entry_.name), shown(value));
    entry_.dtype_name = value;
    place_ = Place::entry;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ == Place::shape_value) {
      place_ = Place::shape;
    } else if (place_ == Place::offsets_value) {
      place_ = Place::offsets;
      offsets_.clear();
    } else {
      return unexpected("a list");
    }
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<number_unsigned_t>(INT64_MAX))
      fail("tensor {} has the impossible size {}", shown(entry_.name), value);
    if (place_ == Place::shape) {
      if (entry_.shape.size() == kMostDimensions) {
        fail("tensor {} has more than {} dimensions", shown(entry_.name), kMostDimensions);
      }
      entry_.shape.push_back(static_cast<std::int64_t>(value));
    } else if (place_ == Place::offsets) {
      if (offsets_.size() == 2) fail("tensor {} has more than two data_offsets", shown(entry_.name));
      offsets_.push_back(static_cast<std::int64_t>(value));
    } else {
      return unexpected("a number");
    }
    return true;
  }

  bool end_array() override {
    place_ = Place::entry;
    return true;
  }

  bool end_object() override {
    if (place_ == Place::entry) {
      finish_entry();
      place_ = Place::names;
    } else if (place_ == Place::metadata) {
      place_ = Place::names;
    } else {
      place_ = Place::end;
    }
    return true;
  }

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a truth value"); }
  bool number_integer(number_integer_t) override { return unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { return unexpected("a fraction"); }
  bool binary(binary_t&) override { return unexpected("binary data"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    fail("its header is not JSON at byte {}", position);
  }

 private:
  enum class Place {
    start,
    names,
    metadata_value,
    metadata,
    entry_value,
    entry,
    dtype,
    shape_value,
    shape,
    offsets_value,
    offsets,
    end
  };

  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) const {
    throw refusal("{} is not a proper safetensors file", file_)
        .because("{}", fmt::format(text, std::forward<Args>(args)...));
  }

  bool unexpected(const char* what) const {
    if (place_ == Place::start || place_ == Place::names || place_ == Place::metadata)
      fail("{} stands where it does not belong", what);
    fail("tensor {} has {} where it does not belong", shown(entry_.name), what);
  }

  bool enter(Place place, bool& seen) {
    if (std::exchange(seen, true)) fail("tensor {} has a field twice", shown(entry_.name));
    place_ = place;
    return true;
  }

  void finish_entry() {
    const std::string name = shown(entry_.name);
    if (!seen_dtype_ || !seen_shape_ || !seen_offsets_) fail("tensor {} lacks dtype, shape or data_offsets", name);
    if (offsets_.size() != 2 || offsets_[0] > offsets_[1]) fail("tensor {} has improper data_offsets", name);
    entry_.elements = 1;
    for (const std::int64_t extent : entry_.shape) {
      if (__builtin_mul_overflow(entry_.elements, extent, &entry_.elements))
        fail("tensor {} has an impossible shape", name);
    }
    entry_.first_byte = offsets_[0];
    entry_.bytes = offsets_[1] - offsets_[0];
    if (const auto bits = element_bits(entry_.dtype_name)) {
      std::int64_t wanted = 0;
      if (__builtin_mul_overflow(entry_.elements, *bits / 8, &wanted) || wanted != entry_.bytes) {
        fail("tensor {} has {} bytes, but {} elements of {}", name, entry_.bytes, entry_.elements, entry_.dtype_name);
      }
    }
    entry_.dtype = readable_dtype(entry_.dtype_name);
    header_.entries.push_back(std::move(entry_));
  }

  std::string file_;
  SafetensorsHeader header_;
  std::unordered_set<std::string> names_;
  Place place_ = Place::start;
  SafetensorsEntry entry_;
  std::string metadata_key_;
  std::vector<std::int64_t> offsets_;
  bool seen_dtype_ = false, seen_shape_ = false, seen_offsets_ = false;
};

/// Checks that the tensors follow each other without gaps and fill the data.
void check_coverage(const std::vector<SafetensorsEntry>& entries, std::int64_t data_bytes, const std::string& file) {
  std::vector<const SafetensorsEntry*> in_order;
  in_order.reserve(entries.size());
  for (const SafetensorsEntry& entry : entries) in_order.push_back(&entry);
  std::sort(in_order.begin(), in_order.end(), [](const auto* a, const auto* b) {
    return std::pair(a->first_byte, a->bytes) < std::pair(b->first_byte, b->bytes);
  });
  std::int64_t end = 0;
  for (const SafetensorsEntry* entry : in_order) {
    if (entry->bytes > data_bytes || entry->first_byte > data_bytes - entry->bytes) {
      throw refusal("{} is not a proper safetensors file", file)
          .because("tensor {} ends at byte {} of {}", shown(entry->name), entry->first_byte + entry->bytes, data_bytes)
          .hint("Check whether the file is cut short");
    }
    if (entry->first_byte != end) {
      throw refusal("{} is not a proper safetensors file", file)
          .because("tensor {} starts at byte {}, but the one before it ends at {}", shown(entry->name),
                   entry->first_byte, end);
    }
    end += entry->bytes;
  }
  if (end != data_bytes) {
    throw refusal("{} is not a proper safetensors file", file)
        .because("its tensors end at byte {} of {}", end, data_bytes);
  }
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::span<const char> text, std::int64_t data_bytes,
                                           const std::string& file) {
  HeaderHandler handler(file);
  nlohmann::json::sax_parse(text.begin(), text.end(), &handler);
  SafetensorsHeader header = handler.take();
  check_coverage(header.entries, data_bytes, file);
  std::sort(header.entries.begin(), header.entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return header;
}

}  // namespace tessera
