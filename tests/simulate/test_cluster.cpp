// Cluster files: what is written reads back, and what is not understood is refused where it stands.

#include <algorithm>
#include <catch2/catch.hpp>

#include "message_of.hpp"
#include "temporary_folder.hpp"
#include "tessera/base/error.hpp"
#include "tessera/simulate/cluster.hpp"

using namespace tessera;
using Catch::Matchers::Contains;
using tessera::testing::TemporaryFolder;

namespace {

Cluster read(const std::string& text) {
  const TemporaryFolder folder;
  return read_cluster(folder.write("machine.ini", text));
}

/// Returns what read_cluster says about a text that it refuses.
std::string refused(const std::string& text) {
  return test::message_of<UsageError>([&] { read(text); });
}

Cluster example() {
  Cluster c;
  c.name = "two cores; one socket";  // needs quotes
  c.measured = "2026-11-25, version 0.1.0 (0123abc), 2.4 GHz";
  c.host = "A Processor (R) @ 2.4 GHz";
  c.device = DeviceKind::cuda;
  c.memory = 80'000'000'000;
  c.ranks_per_node = 8, c.threads = 16;
  c.peak = {{"bf16", 7.5e14}, {"fp32", 5.1e13}};
  c.issue = 4.5e-6, c.segment = 2e-5, c.step = 1e-4;
  c.compute_under_collectives = 1.05, c.compute_under_copies = 1.01, c.collectives_under_compute = 1.2,
  c.host_under_copies = 1.6;
  PriceTable linear({{PriceAxis::tokens, {128, 16384}}, {PriceAxis::in, {64, 128, 4096}}, {PriceAxis::out, {1600}}},
                    {1e-6, 2e-6, 3e-5, 1.5e-5, 2.25e-4, 0.125});
  linear.uncertainty = 0.035;
  c.prices.emplace("linear forward.bf16", linear);
  PriceTable attention({{PriceAxis::rows, {8}}, {PriceAxis::sequence, {1024}}, {PriceAxis::head_width, {64, 128}}},
                       {1, 2});
  attention.source = "predicted: twice what # others reach";
  c.prices.emplace("attention backward.bf16", attention);
  c.prices.emplace("all-gather.node",
                   PriceTable({{PriceAxis::ranks, {2, 8}}, {PriceAxis::bytes, {4096, 1 << 24}}}, {1, 2, 3, 4}));
  c.prices.emplace("orthogonalize.fp32", PriceTable({{PriceAxis::flops, {1e9}}}, {0.5}));
  return c;
}

}  // namespace

TEST_CASE("a cluster file reads back as it was written") {
  const Cluster written = example();
  const std::string text = cluster_text(written, "# What is measured.\n");
  CAPTURE(text);
  CHECK_THAT(text, Contains("tokens = 128, 16384\nin = 64, 128, 4096\nout = 1600\n"));
  CHECK_THAT(text, Contains("rows = 8\nsequence = 1024\nhead_width = 64, 128\n"));
  const Cluster c = read(text);
  CHECK(cluster_text(c, "# What is measured.\n") == text);
  CHECK(c.name == written.name);
  CHECK((c.measured == written.measured && c.host == written.host));
  CHECK(c.device == DeviceKind::cuda);
  CHECK(c.memory == written.memory);
  CHECK(c.ranks_per_node == 8);
  CHECK(c.threads == 16);
  CHECK(c.peak == written.peak);
  CHECK(c.issue == 4.5e-6);
  CHECK(c.segment == 2e-5);
  CHECK(c.step == 1e-4);
  CHECK(c.compute_under_collectives == 1.05);
  CHECK(c.compute_under_copies == 1.01);
  CHECK(c.host_under_copies == 1.6);
  CHECK(c.collectives_under_compute == 1.2);
  REQUIRE(c.prices.size() == written.prices.size());
  for (const auto& [name, table] : written.prices) {
    INFO(name);
    const PriceTable& again = c.price(name);
    CHECK(std::ranges::equal(again.points(), table.points()));
    CHECK(again.uncertainty == table.uncertainty);
    CHECK(again.source == table.source);
    REQUIRE(again.axes().size() == table.axes().size());
    for (std::size_t i = 0; i < table.axes().size(); ++i) {
      CHECK(again.axes()[i].axis == table.axes()[i].axis);
      CHECK(again.axes()[i].values == table.axes()[i].values);
    }
  }
}

TEST_CASE("a cluster that says little has defaults") {
  const Cluster c = read("[cast.bf16]\nbytes = 1, 2\nseconds = 1, 2\n");
  CHECK(c.device == DeviceKind::cpu);
  CHECK(c.memory == 0);
  CHECK(c.compute_under_collectives == 1);
  CHECK(c.price("cast.bf16").uncertainty == 0);
}

TEST_CASE("unknown keys of a cluster file are refused with their place and the nearest name") {
  CHECK_THAT(refused("[machine]\nname = a\nmemori = 80GB\n"),
             Contains("machine.ini:3: 'memori' is not a key of [machine]") && Contains("The nearest key is memory."));
  CHECK_THAT(refused("[slowdown]\ncompute_under_copy = 2\n"),
             Contains("machine.ini:2") && Contains("compute_under_copies."));
  CHECK_THAT(refused("[cast.bf16]\nbites = 1\nseconds = 1\n"), Contains("machine.ini:2") && Contains("key is bytes."));
}

TEST_CASE("bad values of a cluster file are refused with their place") {
  const auto section = [](const std::string& lines) { return refused("[cast.bf16]\n" + lines); };
  CHECK_THAT(refused("[machine]\ndevice = gpu\n"), Contains("machine.ini:2") && Contains("cpu or cuda"));
  CHECK_THAT(refused("[machine]\nmemory = much\n"), Contains("machine.ini:2") && Contains("80GB"));
  CHECK_THAT(refused("[peak]\nbf16 = -1\n"), Contains("machine.ini:2") && Contains("'-1'"));
  CHECK_THAT(section("bytes = 1, none\nseconds = 1, 2\n"), Contains("machine.ini:2") && Contains("'none'"));
  CHECK_THAT(section("bytes = 2, 2\nseconds = 1, 2\n"), Contains("machine.ini:2") && Contains("do not rise"));
  CHECK_THAT(section("tokens = 1\nrows = 1\nseconds = 1\n"), Contains("machine.ini:3"));
  CHECK_THAT(section("bytes = 1\nseconds = 0\n"), Contains("machine.ini:3"));
}

TEST_CASE("incomplete grids of a cluster file are refused") {
  CHECK_THAT(refused("[machine]\nname = a\n\n[linear forward.fp32]\ntokens = 1, 2\nin = 1, 2\nseconds = 1, 2, 3\n"),
             Contains("machine.ini:4: [linear forward.fp32] has 3 seconds for 4 points of its axes"));
  CHECK_THAT(refused("[cast.bf16]\nseconds = 1\n"), Contains("has 1 seconds for 0 points"));
  CHECK_THAT(refused("[cast.bf16]\n"), Contains("machine.ini:1"));
  std::string many = "[linear forward.fp32]\ntokens = 1";
  for (int i = 2; i <= 70; ++i) many += ", " + std::to_string(i);
  const std::string same = many.substr(many.find("= ") + 2);
  CHECK_THAT(refused(many + "\nin = " + same + "\nseconds = 1\n"), Contains("4900 points") && Contains("at most 4096"));
  CHECK_THAT(refused("[machine]\nname = a\n"), Contains("has no price"));
}

TEST_CASE("a price that a cluster lacks is refused with the nearest that it has") {
  Cluster c = example();
  c.file = "h100.ini";
  CHECK_THROWS_WITH(c.price("linear forward.fp32"), Contains("h100.ini has no price for 'linear forward.fp32'") &&
                                                        Contains("use precision.compute = bf16") &&
                                                        Contains("tessera bench calibrate"));
  CHECK_THROWS_WITH(c.price("linear forwards.fp32"), Contains("Its nearest is [linear forward.bf16]"));
}

TEST_CASE("A cluster knows the hash of its file's bytes") {
  const std::string text = "[cast.fp32]\nbytes = 1\nseconds = 1\n";
  CHECK(read(text).hash == "f8db7e0028f4000e");  // XXH3 of these bytes, by xxhash's own header
  CHECK(read(text + "# measured again\n").hash != read(text).hash);
}
