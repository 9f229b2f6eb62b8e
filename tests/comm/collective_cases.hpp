#pragma once
// Collectives against an explicit reference, for any communicator: used on threads and over mpiexec.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/counter_rng.hpp"
#include "tessera/base/dtype.hpp"
#include "tessera/base/math.hpp"
#include "tessera/comm/make_communicator.hpp"

namespace tessera::test {

/// Returns the value that member m contributes as element i: sizes and signs that make the order of a sum matter, some
/// subnormal.
inline float term(std::uint64_t seed, std::int64_t member, std::int64_t i) {
  const auto bits = philox(seed, RandomUse::chaos, static_cast<std::uint32_t>(member), static_cast<std::uint64_t>(i));
  const int exponent = static_cast<int>(bits[0] % 24) - 14;
  return std::ldexp(to_uniform(bits[1]) * 2 - 1, exponent);
}

/// Reads element i of an array.
inline float load(const void* data, DType dtype, std::int64_t i) {
  return with_float_type(dtype, [&]<class T>() { return static_cast<float>(static_cast<const T*>(data)[i]); });
}

inline void store(void* data, DType dtype, std::int64_t i, float value) {
  with_float_type(dtype, [&]<class T>() { static_cast<T*>(data)[i] = T(value); });
}

/// The contract's tree, written out: a node splits at the largest power of two below its size.
inline float tree_reference(const std::vector<float>& terms, std::size_t first, std::size_t count) {
  if (count == 1) return terms[first];
  const auto left = static_cast<std::size_t>(tree_split(static_cast<std::int64_t>(count)));
  return tree_reference(terms, first, left) + tree_reference(terms, first + left, count - left);
}

/// Fills this member's contribution [size * elements] at `data`.
inline void fill_contribution(void* data, DType wire, std::uint64_t seed, std::int64_t member, std::int64_t total) {
  for (std::int64_t i = 0; i < total; ++i) store(data, wire, i, term(seed, member, i));
}

/// Returns how many elements of `shard` differ from the reference in any bit.
inline std::int64_t wrong_sums(const void* shard, DType shard_dtype, DType wire, std::uint64_t seed, std::int64_t size,
                               std::int64_t member, std::int64_t elements) {
  std::int64_t wrong = 0;
  std::vector<float> terms(static_cast<std::size_t>(size));
  for (std::int64_t i = 0; i < elements; ++i) {
    for (std::int64_t s = 0; s < size; ++s) {
      char one[4];
      store(one, wire, 0, term(seed, s, member * elements + i));
      terms[static_cast<std::size_t>(s)] = load(one, wire, 0);
    }
    char expected[4];
    store(expected, shard_dtype, 0, tree_reference(terms, 0, terms.size()));
    const auto bytes = static_cast<std::size_t>(size_of(shard_dtype));
    if (std::memcmp(expected, static_cast<const char*>(shard) + static_cast<std::size_t>(i) * bytes, bytes) != 0)
      ++wrong;
  }
  return wrong;
}

/// Returns the bytes that run_collectives needs in a shared region.
inline std::int64_t bytes_needed(std::int64_t size, std::int64_t elements) {
  return round_up(size * elements * 4, 64) * 2;
}

/// An exchange drawn from a seed. Every element of `total` that each member sends goes to some member, in runs of odd
/// lengths. There it lies behind all that came before, in another order than it was sent.
inline std::vector<ExchangeRun> drawn_runs(std::uint64_t seed, std::int64_t size, std::int64_t total) {
  std::vector<ExchangeRun> runs;
  std::uint64_t draws = 0;
  const auto below = [&](std::int64_t n) {
    const auto bits = philox(seed + 3, RandomUse::chaos, 0, ++draws);
    return static_cast<std::int64_t>(bits[0]) % n;
  };
  for (std::int64_t sender = 0; sender < size; ++sender) {
    for (std::int64_t source = 0; source < total;) {
      const std::int64_t elements = std::min(total - source, 1 + below(total));
      runs.push_back({sender, below(size), source, 0, elements});
      source += elements;
    }
  }
  for (std::size_t i = runs.size(); i > 1; --i)
    std::swap(runs[i - 1], runs[static_cast<std::size_t>(below(static_cast<std::int64_t>(i)))]);
  std::vector<std::int64_t> ends(static_cast<std::size_t>(size));
  for (ExchangeRun& run : runs) {
    std::int64_t& end = ends[static_cast<std::size_t>(run.receiver)];
    run.target = end + 1;  // a gap, which stays as it is
    end += run.elements + 1;
  }
  return runs;
}

/// Returns what member `rank` has after an exchange of terms into `received`, which held zeros.
inline std::vector<std::byte> exchanged(std::span<const ExchangeRun> runs, std::uint64_t seed, std::int64_t rank,
                                        DType wire, std::size_t bytes) {
  std::vector<std::byte> expected(bytes);
  for (const ExchangeRun& run : runs) {
    for (std::int64_t i = 0; run.receiver == rank && i < run.elements; ++i)
      store(expected.data(), wire, run.target + i, term(seed + 3, run.sender, run.source + i));
  }
  return expected;
}

/// Elements that a member may receive of drawn_runs: all that is sent, and as many gaps.
inline std::int64_t most_received(std::int64_t size, std::int64_t total) { return 2 * size * total; }

/// Returns what an all_reduce has to make of the numbers that members give.
inline std::int64_t reduced(std::int64_t size, Reduction reduction, const auto& number) {
  std::uint64_t sum = 0;
  std::int64_t largest = number(0);
  for (std::int64_t member = 0; member < size; ++member) {
    sum += static_cast<std::uint64_t>(number(member));
    largest = std::max(largest, number(member));
  }
  return reduction == Reduction::max ? largest : static_cast<std::int64_t>(sum);
}

/// Plays every collective once with `elements` per rank; returns a description of errors ("" when there are none).
/// `base`: bytes_needed() bytes of the shared region, at the same offset on all ranks. `seed` equal on all ranks.
inline std::string run_collectives(Communicator& group, Stream& stream, std::byte* base, std::int64_t elements,
                                   DType wire, DType shard_dtype, std::uint64_t seed) {
  const std::int64_t size = group.size(), rank = group.rank(), total = size * elements;
  std::byte* const whole = base + round_up(total * 4, 64);

  fill_contribution(base, wire, seed, rank, total);
  std::vector<std::byte> shard(static_cast<std::size_t>(elements * 4 + 16), std::byte{0x5a});
  group.reduce_scatter(stream, base, wire, shard.data(), shard_dtype, elements);
  if (const auto wrong = wrong_sums(shard.data(), shard_dtype, wire, seed, size, rank, elements); wrong > 0) {
    return fmt::format("reduce_scatter: {} of {} elements", wrong, elements);
  }
  for (std::int64_t i = elements * size_of(shard_dtype); i < elements * 4 + 16; ++i) {
    if (shard[static_cast<std::size_t>(i)] != std::byte{0x5a}) return "reduce_scatter wrote behind the shard";
  }

  std::memset(whole, 0, static_cast<std::size_t>(total * 4));
  for (std::int64_t i = 0; i < elements; ++i) store(whole, wire, rank * elements + i, term(seed + 1, rank, i));
  group.all_gather(stream, whole, elements, wire);
  for (std::int64_t i = 0; i < total; ++i) {
    char expected[4];
    store(expected, wire, 0, term(seed + 1, i / elements, i % elements));
    const auto bytes = static_cast<std::size_t>(size_of(wire));
    if (std::memcmp(expected, whole + i * size_of(wire), bytes) != 0) return fmt::format("all_gather: element {}", i);
  }

  std::vector<std::int64_t> values(static_cast<std::size_t>(elements));
  const auto number = [&](std::int64_t member, std::int64_t i) {
    const auto bits =
        philox(seed + 2, RandomUse::chaos, static_cast<std::uint32_t>(member), static_cast<std::uint64_t>(i));
    return static_cast<std::int64_t>((static_cast<std::uint64_t>(bits[0]) << 32) | bits[1]);
  };
  for (const Reduction reduction : {Reduction::sum, Reduction::max}) {
    for (std::int64_t i = 0; i < elements; ++i) values[static_cast<std::size_t>(i)] = number(rank, i);
    group.all_reduce(stream, values.data(), elements, reduction);
    for (std::int64_t i = 0; i < elements; ++i) {
      if (values[static_cast<std::size_t>(i)] != reduced(size, reduction, [&](std::int64_t s) { return number(s, i); }))
        return fmt::format("all_reduce: {}", i);
    }
  }

  const std::vector<ExchangeRun> runs = drawn_runs(seed, size, elements);
  fill_contribution(base, wire, seed + 3, rank, elements);
  std::vector<std::byte> received(static_cast<std::size_t>(most_received(size, elements) * size_of(wire)));
  group.exchange(stream, base, received.data(), runs, wire);
  if (received != exchanged(runs, seed, rank, wire, received.size())) return "exchange";

  const int root = static_cast<int>(seed % static_cast<std::uint64_t>(size));
  for (std::int64_t i = 0; i < elements; ++i) {
    values[static_cast<std::size_t>(i)] = rank == root ? number(99, i) : 0;
  }
  group.broadcast(stream, values.data(), elements * 8, root);
  for (std::int64_t i = 0; i < elements; ++i) {
    if (values[static_cast<std::size_t>(i)] != number(99, i)) return fmt::format("broadcast: {}", i);
  }
  group.barrier(stream);
  return "";
}

}  // namespace tessera::test
