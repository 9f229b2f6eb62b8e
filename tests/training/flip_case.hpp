#pragma once
// Bits that are flipped between two steps, in the state or in a full copy of one rank.

#include <catch2/catch.hpp>
#include <set>

#include "training/draw.hpp"

namespace tessera::testing {

/// Returns configuration `seed`, with the state checked at every step. world 0: drawn, too.
inline Drawn checked(std::uint64_t seed, std::int64_t world) {
  Options options = base_options();
  options.train.steps = 4;
  options.run.check_every = 1;
  Drawn drawn = draw(seed, options, world == 0 ? 8 : world == 3 ? 6 : 4, world);
  drawn.options.precision.compute = std::array{DType::fp32, DType::bf16, DType::fp16}[seed % 3];
  drawn.options.checkpoint.async = seed % 4 == 0;
  drawn.text += fmt::format(" compute {}", name_of(drawn.options.precision.compute));
  return drawn;
}

/// A planted flip, as a check should name it.
struct Flip {
  std::int64_t rank = 0, after_step = 0;
  std::string what, text;
  bool is_copy = false;
};

/// Memory that is checked: some state of a unit, or its full copy.
struct CheckedPlace {
  std::string what;
  std::byte* data = nullptr;
  std::int64_t bytes = 0;
  bool is_copy = false;
};

inline std::vector<CheckedPlace> checked_places(const TrainingSession& session) {
  const StepSchedule& schedule = session.schedule();
  constexpr std::array<const char*, kStateKinds> kNames{"master weights", "first moments", "second moments"};
  std::vector<CheckedPlace> places;
  for (const UnitId unit : schedule.layout.units.ids()) {
    const std::string& name = schedule.unit(unit).name;
    for (const StateVector& vector : state_slice(schedule, session.resources(), unit).vectors) {
      if (vector.count == 0) continue;
      places.push_back({fmt::format("the {} of {} on", kNames[static_cast<std::size_t>(vector.kind)], name),
                        vector.data, vector.count * size_of(vector.dtype)});
    }
  }
  if (schedule.grid.world() == 1) return places;
  std::set<StorageId> seen;
  for (const Value& value : schedule.values) {
    const Storage& storage = schedule.storage(value.storage);
    if (value.kind != ValueKind::parameter || !storage.always_live || storage.space != MemorySpace::device) continue;
    if (value.elements != schedule.unit(value.unit).padded || !seen.insert(value.storage).second) continue;
    places.push_back({fmt::format("the full parameters of {} on", schedule.unit(value.unit).name),
                      session.resources().address(value.storage), value.bytes(), true});
  }
  return places;
}

/// Flips a drawn bit of a drawn place on this rank.
inline void flip(const TrainingSession& session, std::uint64_t seed, Flip& flip) {
  Draw d(seed);
  const std::vector<CheckedPlace> places = checked_places(session);
  const CheckedPlace& place = places[static_cast<std::size_t>(d.below(std::ssize(places)))];
  std::byte* const byte = place.data + d.below(place.bytes);
  const auto bit = static_cast<int>(d.below(8));
  std::byte value{};
  session.resources().device->copy(&value, byte, 1);
  value ^= std::byte{1} << bit;
  session.resources().device->copy(byte, &value, 1);
  flip.what = place.what, flip.is_copy = place.is_copy;
  flip.text = fmt::format("bit {} of byte {} of {} rank {} after step {}", bit, byte - place.data, place.what,
                          flip.rank, flip.after_step);
}

/// Trains, with a bit flipped after some step, unless `seed` is 0. Returns the message that each rank ends with; empty
/// if all is found to be in order. The last step is checked.
inline std::vector<std::string> train_with_flip(const Drawn& drawn, std::uint64_t seed, Flip* planted = nullptr,
                                                const Architecture* small = nullptr) {
  const Architecture architecture = small != nullptr ? *small : small_model(drawn.family);
  RunShape shape = run_shape(drawn.options, {architecture, drawn.world, drawn.ranks_per_node});
  shape.policy.offload_bucket = drawn.bucket;
  const PlannedRun planned = plan_shape(shape);
  require_verified(planned.schedule, planned.plan);
  Flip flipped;
  if (seed > 0) {
    Draw d(seed + 1000);
    flipped.rank = d.below(drawn.world);
    flipped.after_step = d.below(drawn.options.train.steps);
  }
  std::vector<std::string> said(static_cast<std::size_t>(drawn.world));
  run_ranks(drawn.world, drawn.ranks_per_node, [&](RankContext& context) {
    const Dataset data = open_dataset(drawn.options, architecture.vocab, planned.schedule.model.sequence);
    TrainingSession session(context, drawn.options, planned, data, drawn.machine);
    try {
      for (std::int64_t step = 0; step < session.steps(); ++step) {
        if (seed > 0 && step == flipped.after_step) {
          session.player().finish_step();  // what a step has left may not be looked at
          if (context.rank() == flipped.rank) flip(session, seed, flipped);
        }
        session.train_step();
        if (!data.validation().empty() && step == 1) session.evaluate(1);
        if (!planned.schedule.snapshot.empty()) session.take_snapshot();
      }
      session.check_state();
    } catch (const CorruptionError& error) {
      said[static_cast<std::size_t>(context.rank())] = error.what();
    }
  });
  if (planted != nullptr) *planted = flipped;
  return said;
}

/// Requires that a drawn flip is found on all ranks alike, and located.
inline void require_found(const Drawn& drawn, std::uint64_t seed, const Architecture* small = nullptr) {
  Flip planted;
  const std::vector<std::string> said = train_with_flip(drawn, seed, &planted, small);
  INFO(drawn.text << ": flip " << seed << ", " << planted.text << ": " << said[0]);
  for (const std::string& one : said) REQUIRE(one == said[0]);
  // Two ranks that hold the same cannot say which of them is right; all else is located to the rank.
  const bool is_located = !planted.is_copy || drawn.world > 2;
  const std::string where =
      is_located ? fmt::format("{} rank {} (", planted.what, planted.rank) : fmt::format("{} ranks 0 (", planted.what);
  REQUIRE_THAT(said[0], Catch::Contains(": " + where));
}

}  // namespace tessera::testing
