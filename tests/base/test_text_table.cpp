#include <catch2/catch.hpp>

#include "tessera/base/text_table.hpp"

using namespace tessera;

TEST_CASE("Columns are as wide as their widest cell and keep their side") {
  TextTable table({"name", ">bytes", "note"});
  table.row({"a", "1"});
  table.row({"longer one", "12345678", "end"});
  CHECK(table.text() ==
        "  name           bytes  note\n"
        "  a                  1\n"
        "  longer one  12345678  end\n");
}

TEST_CASE("Characters count, not bytes") {
  TextTable table({">\xc2\xb5s", "x"});
  table.row({"\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac", "1"});
  table.row({"abcd", "2"});
  CHECK(table.text() ==
        "    \xc2\xb5s  x\n"
        "   \xe2\x82\xac\xe2\x82\xac\xe2\x82\xac  1\n"
        "  abcd  2\n");
}

TEST_CASE("A line of its own widens no column, and no line ends in blanks") {
  TextTable table({"a", "b"});
  table.row({"1", ""});
  table.line("a remark that is longer than all columns");
  table.row({});
  table.row({"2", "3"});
  CHECK(table.text() ==
        "  a  b\n"
        "  1\n"
        "  a remark that is longer than all columns\n"
        "\n"
        "  2  3\n");
}
