// Documents in JSON: as lines, and as one file.
#include "text/json_documents.hpp"

#include "fuzz/target.hpp"
#include "text/byte_stream.hpp"

using namespace tessera;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  const TakeFinding take = [](JsonFinding&&) {};
  static_cast<void>(begins_with_json_lines(text));
  fuzz::read_hostile([&] { read_json_line(text.substr(0, text.find('\n')), "text", take); });
  SourceFile file;
  file.path = fuzz::write_input("texts.json", text);
  file.kind = SourceKind::json;
  fuzz::read_hostile([&] {
    file.state = state_of(file.path);
    const auto bytes = open_bytes(file);
    std::int64_t line = 0;
    read_json_file({}, *bytes, "text", 1 << 20, line, take);
  });
  return 0;
}
