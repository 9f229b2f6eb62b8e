#include "document.hpp"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

namespace {

const std::filesystem::path kRoot = std::filesystem::path(TESSERA_REFERENCE_DIR) / ".." / "..";

std::string marker(const std::string& table, const char* end) { return fmt::format("<!-- {}: {} -->\n", table, end); }

struct Document {
  std::string before, table, after;  ///< `before` ends with the first marker, `after` begins with the second
};

std::string read_text(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  REQUIRE(stream.good());
  return {std::istreambuf_iterator<char>(stream), {}};
}

Document split_at_markers(const std::string& text, const std::string& name) {
  const auto begin = text.find(marker(name, "begin")), end = text.find(marker(name, "end"));
  REQUIRE(begin != std::string::npos);
  REQUIRE(end != std::string::npos);
  const auto table = begin + marker(name, "begin").size();
  REQUIRE(table <= end);
  return {text.substr(0, table), text.substr(table, end - table), text.substr(end)};
}

}  // namespace

std::string first_difference(const std::string& found, const std::string& wanted) {
  std::istringstream a(found), b(wanted);
  for (int number = 1;; ++number) {
    std::string left, right;
    const bool more_left = static_cast<bool>(std::getline(a, left)),
               more_right = static_cast<bool>(std::getline(b, right));
    if (!more_left && !more_right) return "";
    if (more_left != more_right || left != right) {
      return "line " + std::to_string(number) + ": \"" + left + "\" instead of \"" + right + "\"";
    }
  }
}

namespace {

/// Checks that a file, of which `found` is a part, has `wanted` in its place; writes it instead if TESSERA_UPDATE is 1.
void check_part(const std::string& page, const Document& found, const std::string& wanted) {
  INFO(page << " differs from what the program says. TESSERA_UPDATE=1 build/ci/bin/test_commands rewrites it");
  if (const char* update = std::getenv("TESSERA_UPDATE"); update != nullptr && std::string(update) == "1") {
    std::ofstream stream(kRoot / page, std::ios::binary);
    stream << found.before << wanted << found.after;
    REQUIRE(stream.flush().good());
    return;
  }
  CHECK(first_difference(found.table, wanted) == "");
}

}  // namespace

void check_table(const std::string& page, const std::string& name, const std::string& markdown) {
  INFO(name);
  check_part(page, split_at_markers(read_text(kRoot / page), name), "\n" + markdown + "\n");
}

void check_file(const std::string& page, const std::string& text) {
  check_part(page, {"", std::filesystem::exists(kRoot / page) ? read_text(kRoot / page) : "", ""}, text);
}
