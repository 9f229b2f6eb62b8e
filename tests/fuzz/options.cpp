// Options: an INI file, and after a line of "----" the words of a command line, one in each line. What they make is
// written as an INI file, and must be read back as the same.
#include "tessera/config/options.hpp"

#include "fuzz/target.hpp"
#include "tessera/config/describe.hpp"
#include "tessera/config/settings.hpp"

using namespace tessera;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parts = fuzz::parts_of(fuzz::text_of(data, size));
  std::vector<std::string> words;
  for (std::string_view rest = parts.size() > 1 ? parts.back() : ""; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    words.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  fuzz::read_hostile([&] { static_cast<void>(read_arguments(words)); });
  fuzz::read_hostile([&] {
    const Options options = parse_text(parts.front(), "run.ini", words);
    fuzz::require(parse_text(write_ini(options), "again.ini") == options, "written options are others");
  });
  return 0;
}
