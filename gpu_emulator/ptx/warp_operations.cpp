// Control, barriers, and joint operations of a warp's lanes: shuffles, votes, matrices.

#include <bit>

#include "gpu_emulator/ptx/functions.hpp"
#include "tessera/base/dtype.hpp"

namespace ptx {

namespace {

Spec control(Control what) {
  Spec spec;
  spec.control = what;
  spec.has_result = false;
  if (what == Control::block_barrier) spec.kind = Kind::synchronisation;
  return spec;
}

Spec meeting(Handler run, Kind kind, bool has_result, std::int8_t member) {
  Spec spec;
  spec.run = run;
  spec.control = Control::meeting;
  spec.kind = kind;
  spec.has_result = has_result;
  spec.member = member;
  return spec;
}

void order_memory(Warp& w, const Instruction&, Mask lanes) {
  if ((w.alive() & ~lanes) == 0) w.order_memory();  // a barrier of some lanes orders less than we keep track of
}

/// shfl d, a, b, c, members: from lane `source(lane, b)`; the lanes that a warp of 32 has (c = 31).
template <auto Source>
void shuffle(Warp& w, const Instruction& i, Mask lanes) {
  const Row a = w.row(i.from[0]);
  const Row& b = w.row(i.from[1]);
  const Row& c = w.row(i.from[2]);
  Row& result = w.row(i.to[0]);
  each(lanes, [&](int lane) {
    if ((get<std::uint32_t>(c, lane) & 0x1f1fu) != 31) w.fault("a shuffle within parts of a warp", lane);
    const std::uint32_t from = Source(static_cast<std::uint32_t>(lane), get<std::uint32_t>(b, lane));
    if (from >= kLanes) w.fault("a shuffle from beyond the warp", lane);
    if ((lanes >> from & 1u) == 0) w.fault("a shuffle that reads a lane outside of its mask", lane);
    set<std::uint32_t>(result, lane, get<std::uint32_t>(a, static_cast<int>(from)));
    if (i.results == 2) set<std::uint64_t>(w.row(i.to[1]), lane, 1);  // the lane that is read exists
  });
}

template <bool Any>
void vote(Warp& w, const Instruction& i, Mask lanes) {
  std::uint32_t ballot = 0;
  each(lanes, [&](int lane) {
    ballot |= static_cast<std::uint32_t>(w.row(i.from[0])[static_cast<std::size_t>(lane)] & 1u) << lane;
  });
  each(lanes, [&](int lane) {
    set<std::uint64_t>(w.row(i.to[0]), lane, Any ? static_cast<std::uint64_t>(ballot != 0) : ballot);
  });
}

template <class T>
float element(const Row& row, int lane, int which) {
  T value;
  value.bits = static_cast<std::uint16_t>(row[static_cast<std::size_t>(lane)] >> (16 * which));
  return static_cast<float>(value);
}

/// mma.m16n8k16 d, a, b, c (PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type"). With group = l / 4
/// and t = l % 4, element i of lane l's fragment is at
///   A: row group (i = 0, 1, 4, 5) or group + 8, column 2 t + i % 2, plus 8 from i = 4 on;
///   B: row 2 t + i % 2, plus 8 from i = 2 on, column group;
///   C and D: row group (i < 2) or group + 8, column 2 t + i % 2.
template <class T>
void multiply(Warp& w, const Instruction& i, Mask) {
  float a[16][16], b[16][8], d[16][8];
  for (int lane = 0; lane < kLanes; ++lane) {
    const int group = lane / 4, t = lane % 4;
    for (int e = 0; e < 8; ++e) {
      const int row = (e % 4) < 2 ? group : group + 8;
      a[row][2 * t + e % 2 + (e < 4 ? 0 : 8)] = element<T>(w.row(i.from[static_cast<std::size_t>(e / 2)]), lane, e % 2);
    }
    for (int e = 0; e < 4; ++e) {
      b[2 * t + e % 2 + (e < 2 ? 0 : 8)][group] =
          element<T>(w.row(i.from[static_cast<std::size_t>(4 + e / 2)]), lane, e % 2);
      d[e < 2 ? group : group + 8][2 * t + e % 2] = get<float>(w.row(i.from[static_cast<std::size_t>(6 + e)]), lane);
    }
  }
  for (int row = 0; row < 16; ++row) {
    for (int k = 0; k < 16; ++k) {
      for (int column = 0; column < 8; ++column) d[row][column] += a[row][k] * b[k][column];
    }
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int e = 0; e < 4; ++e) {
      set<float>(w.row(i.to[static_cast<std::size_t>(e)]), lane,
                 d[e < 2 ? lane / 4 : lane / 4 + 8][2 * (lane % 4) + e % 2]);
    }
  }
}

}  // namespace

void add_warp_operations(Table& t) {
  t["bra"] = t["bra.uni"] = control(Control::branch);
  t["ret"] = t["exit"] = control(Control::leave);
  t["bar.sync"] = t["barrier.sync"] = control(Control::block_barrier);
  t["bar.warp.sync"] = meeting(order_memory, Kind::synchronisation, false, 0);
  t["shfl.sync.bfly.b32"] = meeting(shuffle<[](std::uint32_t lane, std::uint32_t b) { return lane ^ (b & 0x1fu); }>,
                                    Kind::arithmetic, true, 3);
  t["shfl.sync.idx.b32"] =
      meeting(shuffle<[](std::uint32_t, std::uint32_t b) { return b & 0x1fu; }>, Kind::arithmetic, true, 3);
  t["vote.sync.ballot.b32"] = meeting(vote<false>, Kind::arithmetic, true, 1);
  t["vote.sync.any.pred"] = meeting(vote<true>, Kind::arithmetic, true, 1);
  const std::string mma = "mma.sync.aligned.m16n8k16.row.col.f32.";
  t[mma + "bf16.bf16.f32"] = meeting(multiply<tessera::bf16>, Kind::matrix, true, -1);
  t[mma + "f16.f16.f32"] = meeting(multiply<tessera::fp16>, Kind::matrix, true, -1);
}

}  // namespace ptx
