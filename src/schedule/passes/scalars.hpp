#pragma once
// The pass over a step's scalars: loss and norms are added up on each rank, summed over the world once with the wish to
// stop, and make the clip coefficient. In a step of several micro-steps each begins with a sum of that wish alone.

#include "schedule/writer.hpp"

namespace tessera {

class Scalars {
 public:
  explicit Scalars(Writer& writer);

  /// Lets the head count its loss: from zero where `starts`.
  void count_loss(Operation& head, bool starts);
  /// Emits the norm of a finished gradient, of which each element lies on exactly one rank.
  void measure(ValueId gradient);
  /// Emits this rank's wish to stop, alone, and its sum over the world.
  void sum_wish();
  /// Emits the wish to stop as it is when the rest of the step is done; the step's sums include it.
  void take_wish();
  /// Emits the sum over the world.
  void reduce();
  /// Emits the clip coefficient of the step.
  ValueId clip();
  /// Emits the copy of the clip coefficient to the host, for updates there.
  void store(ValueId clipped);
  /// Returns that copy.
  ValueId stored() { return w_.current(on_host_); }

 private:
  void sum_over_world(StorageId storage);
  Writer& w_;
  Value sum_of_rank_;  ///< partial over the world
  StorageId sums_, results_, on_host_, wish_;
};

}  // namespace tessera
