// Loads and stores of the four memories, asynchronous copies, matrices from shared memory, atomics. Global addresses
// are the host's.

#include <atomic>
#include <cstring>

#include "gpu_emulator/ptx/functions.hpp"

namespace ptx {

namespace {

std::uint64_t address_of(Warp& w, const Instruction& i, int lane, std::size_t source = 0, std::size_t which = 0) {
  return w.row(i.from[source])[static_cast<std::size_t>(lane)] + static_cast<std::uint64_t>(i.offset[which]);
}

/// `bytes`: a power of two.
void check_alignment(Warp& w, std::uint64_t address, int bytes, int lane) {
  if ((address & static_cast<std::uint64_t>(bytes - 1)) != 0) w.fault("a misaligned access", lane);
}

template <class T>
std::uint64_t loaded(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

std::uint64_t value_of(const std::byte* data, const Spec& spec) {
  std::uint64_t bits = 0;
  switch (spec.size) {
    case 1:
      bits = loaded<std::uint8_t>(data);
      break;
    case 2:
      bits = loaded<std::uint16_t>(data);
      break;
    case 4:
      bits = loaded<std::uint32_t>(data);
      break;
    default:
      bits = loaded<std::uint64_t>(data);
  }
  const unsigned unused = 64u - 8u * spec.size;
  if (spec.is_signed) bits = static_cast<std::uint64_t>(static_cast<std::int64_t>(bits << unused) >> unused);
  return bits;
}

void take(Warp& w, const Instruction& i, int lane, const std::byte* data) {
  for (std::size_t e = 0; e < i.spec.count; ++e) {
    set<std::uint64_t>(w.row(i.to[e]), lane, value_of(data + e * i.spec.size, i.spec));
  }
}

/// The values behind the address.
void give(Warp& w, const Instruction& i, int lane, std::byte* data) {
  for (std::size_t e = 0; e < i.spec.count; ++e) {
    const std::uint64_t bits = w.row(i.from[1 + e])[static_cast<std::size_t>(lane)];
    std::memcpy(data + e * i.spec.size, &bits, i.spec.size);
  }
}

using Addresses = std::array<std::uint64_t, kLanes>;

Addresses addresses_of(Warp& w, const Instruction& i, Mask lanes, int bytes) {
  Addresses all{};
  each(lanes, [&](int lane) {
    all[static_cast<std::size_t>(lane)] = address_of(w, i, lane);
    check_alignment(w, all[static_cast<std::size_t>(lane)], bytes, lane);
  });
  return all;
}

void count_global(Traffic& traffic, const Addresses& addresses, Mask lanes, int bytes) {
  if (!is_report_wanted()) return;
  traffic.requested += distinct_bytes(addresses, lanes, bytes);
  traffic.units += sectors(addresses, lanes, bytes);
}
void count_shared(Warp& w, const Addresses& addresses, Mask lanes, int bytes) {
  if (!is_report_wanted()) return;
  Traffic& traffic = w.block().counts().shared;
  std::int64_t least = 0;
  traffic.units += waves(addresses, lanes, bytes, least);
  traffic.least += least;
  traffic.requested += distinct_bytes(addresses, lanes, bytes);
}

void load_parameter(Warp& w, const Instruction& i, Mask lanes) {
  const auto& memory = w.block().launch().parameters;
  each(lanes, [&](int lane) {
    const std::uint64_t at = address_of(w, i, lane);
    const int bytes = i.spec.size * i.spec.count;
    check_alignment(w, at, bytes, lane);
    if (at + static_cast<std::uint64_t>(bytes) > memory.size()) w.fault("a parameter that does not exist", lane);
    take(w, i, lane, memory.data() + at);
  });
}

void load_global(Warp& w, const Instruction& i, Mask lanes) {
  const int bytes = i.spec.size * i.spec.count;
  const Addresses addresses = addresses_of(w, i, lanes, bytes);
  count_global(w.block().counts().load, addresses, lanes, bytes);
  each(lanes, [&](int lane) {
    take(w, i, lane, reinterpret_cast<const std::byte*>(addresses[static_cast<std::size_t>(lane)]));
  });
}
void store_global(Warp& w, const Instruction& i, Mask lanes) {
  const int bytes = i.spec.size * i.spec.count;
  const Addresses addresses = addresses_of(w, i, lanes, bytes);
  count_global(w.block().counts().store, addresses, lanes, bytes);
  each(lanes,
       [&](int lane) { give(w, i, lane, reinterpret_cast<std::byte*>(addresses[static_cast<std::size_t>(lane)])); });
}

void require(Warp& w, bool right, int lane) {
  if (!right) w.fault(w.block().shared().what_is_wrong(), lane);
}

void load_shared(Warp& w, const Instruction& i, Mask lanes) {
  const int bytes = i.spec.size * i.spec.count;
  const Addresses addresses = addresses_of(w, i, lanes, bytes);
  count_shared(w, addresses, lanes, bytes);
  each(lanes, [&](int lane) {
    std::byte data[16];
    const auto at = static_cast<std::uint32_t>(addresses[static_cast<std::size_t>(lane)]);
    require(w, w.block().shared().read(w.toucher(lane), at, bytes, data), lane);
    take(w, i, lane, data);
  });
}
void store_shared(Warp& w, const Instruction& i, Mask lanes) {
  const int bytes = i.spec.size * i.spec.count;
  const Addresses addresses = addresses_of(w, i, lanes, bytes);
  count_shared(w, addresses, lanes, bytes);
  each(lanes, [&](int lane) {
    std::byte data[16];
    give(w, i, lane, data);
    const auto at = static_cast<std::uint32_t>(addresses[static_cast<std::size_t>(lane)]);
    require(w, w.block().shared().write(w.toucher(lane), at, bytes, data), lane);
  });
}

void load_local(Warp& w, const Instruction& i, Mask lanes) {
  const int bytes = i.spec.size * i.spec.count;
  each(lanes, [&](int lane) {
    const std::uint64_t at = address_of(w, i, lane);
    check_alignment(w, at, bytes, lane);
    take(w, i, lane, w.local(lane, static_cast<std::int64_t>(at), bytes));
  });
}
void store_local(Warp& w, const Instruction& i, Mask lanes) {
  const int bytes = i.spec.size * i.spec.count;
  each(lanes, [&](int lane) {
    const std::uint64_t at = address_of(w, i, lane);
    check_alignment(w, at, bytes, lane);
    give(w, i, lane, w.local(lane, static_cast<std::int64_t>(at), bytes));
  });
}

void add_atomically(Warp& w, const Instruction& i, Mask lanes) {
  each(lanes, [&](int lane) {
    const std::uint64_t at = address_of(w, i, lane);
    check_alignment(w, at, 8, lane);
    std::atomic_ref<std::uint64_t> place(*reinterpret_cast<std::uint64_t*>(at));
    set<std::uint64_t>(w.row(i.to[0]), lane, place.fetch_add(w.row(i.from[1])[static_cast<std::size_t>(lane)]));
  });
}

void enlarge_atomically(Warp& w, const Instruction& i, Mask lanes) {
  each(lanes, [&](int lane) {
    const std::uint64_t at = address_of(w, i, lane);
    check_alignment(w, at, 4, lane);
    const auto value = get<std::uint32_t>(w.row(i.from[1]), lane);
    std::atomic_ref<std::uint32_t> place(*reinterpret_cast<std::uint32_t*>(at));
    std::uint32_t old = place.load();
    while (old < value && !place.compare_exchange_weak(old, value)) {
    }
    set<std::uint32_t>(w.row(i.to[0]), lane, old);
  });
}

/// cp.async [shared], [global], 16, bytes that are read: the others become 0. It arrives when it is waited for.
void copy_asynchronously(Warp& w, const Instruction& i, Mask lanes) {
  Addresses to{}, from{};
  Mask reading = 0;
  each(lanes, [&](int lane) {
    const auto l = static_cast<std::size_t>(lane);
    to[l] = address_of(w, i, lane), from[l] = address_of(w, i, lane, 1, 1);
    const auto whole = get<int>(w.row(i.from[2]), lane);
    const int bytes = i.sources > 3 ? get<int>(w.row(i.from[3]), lane) : whole;
    if (whole != 16 || bytes < 0 || bytes > 16) w.fault("cp.async of other than 16 bytes", lane);
    check_alignment(w, to[l], 16, lane);
    if (bytes > 0) check_alignment(w, from[l], 16, lane), reading |= Mask{1} << lane;
    require(w, w.block().shared().expect(w.toucher(lane), static_cast<std::uint32_t>(to[l]), 16), lane);
    w.copies(lane).back().push_back(
        {static_cast<std::uint32_t>(to[l]), reinterpret_cast<const std::byte*>(from[l]), bytes});
  });
  count_global(w.block().counts().load, from, reading, 16);
  count_shared(w, to, lanes, 16);
}
void commit_copies(Warp& w, const Instruction&, Mask lanes) {
  each(lanes, [&](int lane) { w.copies(lane).emplace_back(); });
}
void wait_for_copies(Warp& w, const Instruction& i, Mask lanes) {
  each(lanes, [&](int lane) {
    const auto pending = get<std::uint32_t>(w.row(i.from[0]), lane);
    auto& groups = w.copies(lane);
    while (groups.size() > pending + 1) {
      for (const Warp::Copy& copy : groups.front()) {
        std::byte data[16] = {};
        if (copy.bytes > 0) std::memcpy(data, copy.from, static_cast<std::size_t>(copy.bytes));
        w.block().shared().arrive(w.toucher(lane), copy.to, 16, data);
      }
      groups.erase(groups.begin());
    }
  });
}

/// ldmatrix.m8n8.x4: lane 8 m + r names row r of matrix m. Of each matrix or its transpose, lane l gets row l / 4,
/// elements 2 (l % 4) and the next.
template <bool Transposed>
void load_matrices(Warp& w, const Instruction& i, Mask lanes) {
  const Addresses addresses = addresses_of(w, i, lanes, 16);
  count_shared(w, addresses, lanes, 16);
  std::uint16_t element[4][8][8];
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto at = static_cast<std::uint32_t>(addresses[static_cast<std::size_t>(lane)]);
    require(w, w.block().shared().read(w.toucher(lane), at, 16, element[lane / 8][lane % 8]), lane);
  }
  for (std::size_t m = 0; m < 4; ++m) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const int g = lane / 4, t = 2 * (lane % 4);
      const std::uint32_t low = Transposed ? element[m][t][g] : element[m][g][t];
      const std::uint32_t high = Transposed ? element[m][t + 1][g] : element[m][g][t + 1];
      set<std::uint32_t>(w.row(i.to[m]), lane, low | high << 16);
    }
  }
}

void accesses(Table& t, const std::string& space, Handler load, Handler store, Kind kind) {
  struct Type {
    const char* name;
    std::uint8_t size;
    bool is_signed;
  };
  for (const Type& type : {Type{"b8", 1, false},
                           {"u8", 1, false},
                           {"s8", 1, true},
                           {"b16", 2, false},
                           {"u16", 2, false},
                           {"s16", 2, true},
                           {"b32", 4, false},
                           {"u32", 4, false},
                           {"s32", 4, true},
                           {"f32", 4, false},
                           {"b64", 8, false},
                           {"u64", 8, false},
                           {"s64", 8, true},
                           {"f64", 8, false}}) {
    for (const auto count : std::array<std::uint8_t, 3>{1, 2, 4}) {
      Spec spec;
      spec.kind = kind, spec.size = type.size, spec.count = count, spec.is_signed = type.is_signed;
      const std::string vector = count == 1 ? "" : count == 2 ? ".v2" : ".v4";
      const std::string end = "." + space + vector + "." + type.name;
      spec.run = load, spec.has_result = true;
      t["ld" + end] = spec;
      if (store == nullptr) continue;
      spec.run = store, spec.has_result = false;
      t["st" + end] = spec;
    }
  }
}

Spec other(Handler run, Kind kind, bool has_result) {
  Spec spec;
  spec.run = run, spec.kind = kind, spec.has_result = has_result;
  return spec;
}

}  // namespace

void add_memory(Table& t) {
  accesses(t, "param", load_parameter, nullptr, Kind::other);
  accesses(t, "global", load_global, store_global, Kind::global);
  accesses(t, "global.nc", load_global, nullptr, Kind::global);
  accesses(t, "shared", load_shared, store_shared, Kind::shared);
  accesses(t, "local", load_local, store_local, Kind::local);
  t["atom.global.add.u64"] = other(add_atomically, Kind::global, true);
  t["atom.global.max.u32"] = other(enlarge_atomically, Kind::global, true);
  t["cp.async.cg.shared.global"] = other(copy_asynchronously, Kind::global, false);
  t["cp.async.commit_group"] = other(commit_copies, Kind::other, false);
  t["cp.async.wait_group"] = other(wait_for_copies, Kind::other, false);
  Spec matrices = other(load_matrices<false>, Kind::shared, true);
  matrices.control = Control::meeting;
  t["ldmatrix.sync.aligned.m8n8.x4.shared.b16"] = matrices;
  matrices.run = load_matrices<true>;
  t["ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"] = matrices;
  // One address space each: an address is the same in all of them.
  for (const char* name : {"cvta.to.global.u64", "cvta.to.local.u64", "cvta.local.u64", "cvta.global.u64"}) {
    t[name] = plain(unary<std::uint64_t, std::uint64_t, [](std::uint64_t a) { return a; }>);
  }
}

}  // namespace ptx
