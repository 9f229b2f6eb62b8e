#include "tessera/optimizer/state_slice.hpp"

namespace tessera {

void add_vectors(StateSlice& slice, std::span<const StateKind> kinds, float* data) {
  for (const StateKind kind : kinds) {
    slice.vectors.push_back({kind, data});
    data += slice.count;
  }
}

}  // namespace tessera
