// The cluster files that come with Tessera: each is read, and has what a step needs.

#include <catch2/catch.hpp>
#include <cmath>

#include "tessera/simulate/cluster.hpp"

using namespace tessera;

namespace {

std::filesystem::path folder() { return std::filesystem::path(TESSERA_REFERENCE_DIR) / "../../inputs/clusters"; }

WorkSize sizes(double first, double second, double third) {
  return {first, second, third, first, second, third, 0, 0, 0};
}

}  // namespace

TEST_CASE("known clusters have prices for a step in 16 bits") {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder())) {
    const Cluster cluster = read_cluster(entry.path());
    INFO(cluster.file);
    ++files;
    CHECK_FALSE(cluster.name.empty());
    CHECK_FALSE(cluster.measured.empty());
    CHECK(cluster.memory > 0);
    CHECK(cluster.ranks_per_node > 0);
    CHECK(cluster.peak.at("bf16") > 0);
    for (const char* name : {"embedding forward",
                             "embedding backward",
                             "norm forward",
                             "norm backward",
                             "gelu",
                             "rotary",
                             "swiglu",
                             "swiglu backward",
                             "dropout",
                             "cast",
                             "add",
                             "square sum",
                             "adamw",
                             "muon",
                             "muon direction",
                             "host adamw",
                             "host cast",
                             "linear forward",
                             "linear forward gelu",
                             "linear backward",
                             "linear backward gelu",
                             "attention forward",
                             "attention backward",
                             "head",
                             "head loss"}) {
      INFO(name);
      const PriceTable& table = cluster.price(std::string(name) + ".bf16");
      CHECK(table.uncertainty >= 0.02);
      for (const double seconds : table.points()) CHECK((std::isfinite(seconds) && seconds > 0));
    }
    for (const char* name :
         {"adamw.fp32", "cast.fp32", "add.fp32", "square sum.fp32", "orthogonalize.fp32", "all-gather.node",
          "reduce-scatter.node", "all-reduce.node", "exchange.node", "copy.to_host", "copy.to_device"}) {
      INFO(name);
      CHECK(cluster.prices.contains(name));
    }
    if (cluster.device == DeviceKind::cpu) continue;
    for (const auto& [name, table] : cluster.prices) {
      INFO(name);
      CHECK_FALSE(table.source.empty());  // not all of it was measured together
    }
    CHECK(cluster.prices.contains("all-gather.network"));
    CHECK(cluster.prices.contains("own attention forward.bf16"));
    CHECK(cluster.prices.contains("own attention backward.bf16"));
  }
  CHECK(files == 4);
}

TEST_CASE("prices of known GPUs are those that were measured") {
  const Cluster h100 = read_cluster(folder() / "h100.ini"), h200 = read_cluster(folder() / "h200.ini");
  CHECK(h100.price("linear forward.bf16").seconds(sizes(65536, 768, 2304)) == Approx(372e-6));
  CHECK(h200.price("linear forward.bf16").seconds(sizes(32768, 1024, 4096)) == Approx(402e-6));
  CHECK(h100.price("linear backward.bf16").seconds(sizes(65536, 768, 3072)) == Approx(1003e-6));
  CHECK(h100.price("attention backward.bf16").seconds(sizes(768, 1024, 64)) == Approx(1260e-6));
  CHECK(h100.price("head.bf16").seconds(sizes(65536, 768, 50257)) == Approx(25.6e-3));
  WorkSize bytes{};
  bytes[static_cast<std::size_t>(PriceAxis::bytes)] = 26 * 30.5e6;  // a block of GPT-2 1558M
  CHECK(h100.price("adamw.bf16").seconds(bytes) == Approx(268e-6).epsilon(0.03));
  CHECK(h200.price("adamw.bf16").seconds(bytes) == Approx(190e-6).epsilon(0.03));
}

TEST_CASE("collectives of a known cluster take longer for more bytes and over more ranks") {
  const Cluster h100 = read_cluster(folder() / "h100.ini");
  const auto seconds = [&](const char* name, double ranks, double bytes) {
    WorkSize size{};
    size[static_cast<std::size_t>(PriceAxis::ranks)] = ranks;
    size[static_cast<std::size_t>(PriceAxis::bytes)] = bytes;
    return h100.price(name).seconds(size);
  };
  CHECK(1e9 / seconds("all-gather.node", 8, 1e9) == Approx(350e9).epsilon(0.05));
  CHECK(2e9 / seconds("all-gather.network", 256, 2e9) == Approx(200e9).epsilon(0.1));
  CHECK(seconds("all-gather.node", 8, 1e6) < seconds("all-gather.network", 16, 1e6));
  CHECK(seconds("all-gather.network", 64, 1e8) < seconds("all-gather.network", 512, 1e8));
  CHECK(seconds("reduce-scatter.node", 8, 1 << 20) < seconds("reduce-scatter.node", 8, 1 << 24));
}
