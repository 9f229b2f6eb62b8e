#include "gpu_emulator/ptx/report.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <vector>

namespace ptx {

namespace {

constexpr std::uint64_t kSector = 32, kWord = 4, kBanks = 32;

struct Book {
  std::mutex lock;
  std::map<std::string, Counts> kernels;
};

Book& book() {
  static auto* const all = new Book;  // alive when the program ends
  return *all;
}

const char* report_path() {
  static const char* const path =
      std::getenv("TESSERA_PTX_REPORT");  // NOLINT(concurrency-mt-unsafe): nobody changes it
  return path;
}

void add(Traffic& to, const Traffic& more) {
  to.requested += more.requested, to.units += more.units, to.least += more.least;
}

/// How many different values `of` has over pieces of `unit` bytes of the lanes' ranges.
std::int64_t distinct_pieces(const std::array<std::uint64_t, kLanes>& address, Mask lanes, int bytes,
                             std::uint64_t unit) {
  std::array<std::uint64_t, 2 * kLanes * 4> pieces;
  std::size_t count = 0;
  for (; lanes != 0; lanes &= lanes - 1) {
    const std::uint64_t from = address[static_cast<std::size_t>(std::countr_zero(lanes))];
    for (std::uint64_t p = from / unit; p <= (from + static_cast<std::uint64_t>(bytes) - 1) / unit; ++p) {
      if (count == 0 || pieces[count - 1] != p) pieces[count++] = p;
    }
  }
  std::sort(pieces.begin(), pieces.begin() + static_cast<std::ptrdiff_t>(count));
  return std::unique(pieces.begin(), pieces.begin() + static_cast<std::ptrdiff_t>(count)) - pieces.begin();
}

}  // namespace

std::int64_t sectors(const std::array<std::uint64_t, kLanes>& address, Mask lanes, int bytes) {
  return distinct_pieces(address, lanes, bytes, kSector);
}

std::int64_t distinct_bytes(const std::array<std::uint64_t, kLanes>& address, Mask lanes, int bytes) {
  return distinct_pieces(address, lanes, bytes, static_cast<std::uint64_t>(bytes)) * bytes;
}

std::int64_t waves(const std::array<std::uint64_t, kLanes>& address, Mask lanes, int bytes, std::int64_t& least) {
  // As many lanes go together as 128 bytes hold: all of them, halves (8 bytes each), quarters (16).
  const int together = bytes <= 4 ? kLanes : bytes == 8 ? kLanes / 2 : kLanes / 4;
  std::int64_t total = 0;
  least = 0;
  for (int first = 0; first < kLanes; first += together) {
    std::array<std::vector<std::uint64_t>, kBanks> words;
    bool any = false;
    for (int lane = first; lane < first + together; ++lane) {
      if ((lanes >> lane & 1u) == 0) continue;
      any = true;
      const std::uint64_t from = address[static_cast<std::size_t>(lane)];
      for (std::uint64_t w = from / kWord; w <= (from + static_cast<std::uint64_t>(bytes) - 1) / kWord; ++w) {
        auto& bank = words[w % kBanks];
        if (std::find(bank.begin(), bank.end(), w) == bank.end()) bank.push_back(w);
      }
    }
    std::size_t most = 0;
    for (const auto& bank : words) most = std::max(most, bank.size());
    total += static_cast<std::int64_t>(most);
    least += any ? 1 : 0;
  }
  return total;
}

void note_counts(const std::string& kernel, const Counts& counts) {
  const std::lock_guard guard(book().lock);
  Counts& all = book().kernels[kernel];
  all.launches += counts.launches, all.blocks += counts.blocks, all.lanes += counts.lanes;
  for (std::size_t i = 0; i < counts.instructions.size(); ++i) all.instructions[i] += counts.instructions[i];
  add(all.load, counts.load), add(all.store, counts.store), add(all.shared, counts.shared);
}

bool is_report_wanted() { return report_path() != nullptr; }

void write_report() {
  if (!is_report_wanted()) return;
  std::ofstream out(report_path());
  out << "kernel\tlaunches\tblocks\twarp_instructions\tlanes\tarithmetic\tmatrix\tglobal\tshared\tlocal\t"
         "synchronisation\tload_bytes\tload_sectors\tstore_bytes\tstore_sectors\tshared_waves\tshared_least\n";
  const std::lock_guard guard(book().lock);
  for (const auto& [name, c] : book().kernels) {
    std::int64_t all = 0;
    for (const std::int64_t n : c.instructions) all += n;
    const auto of = [&](Kind kind) { return c.instructions[static_cast<std::size_t>(kind)]; };
    out << name << '\t' << c.launches << '\t' << c.blocks << '\t' << all << '\t' << c.lanes << '\t'
        << of(Kind::arithmetic) << '\t' << of(Kind::matrix) << '\t' << of(Kind::global) << '\t' << of(Kind::shared)
        << '\t' << of(Kind::local) << '\t' << of(Kind::synchronisation) << '\t' << c.load.requested << '\t'
        << c.load.units << '\t' << c.store.requested << '\t' << c.store.units << '\t' << c.shared.units << '\t'
        << c.shared.least << '\n';
  }
}

}  // namespace ptx
