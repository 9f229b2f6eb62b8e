#pragma once
// Instructions that are a function of each lane's values.

#include "gpu_emulator/ptx/instructions.hpp"
#include "gpu_emulator/ptx/warp.hpp"

namespace ptx {

template <class R, class A, auto F>
void unary(Warp& w, const Instruction& i, Mask lanes) {
  const Row& a = w.row(i.from[0]);
  Row& r = w.row(i.to[0]);
  each(lanes, [&](int lane) { set<R>(r, lane, static_cast<R>(F(get<A>(a, lane)))); });
}

template <class R, class A, class B, auto F>
void binary(Warp& w, const Instruction& i, Mask lanes) {
  const Row& a = w.row(i.from[0]);
  const Row& b = w.row(i.from[1]);
  Row& r = w.row(i.to[0]);
  each(lanes, [&](int lane) { set<R>(r, lane, static_cast<R>(F(get<A>(a, lane), get<B>(b, lane)))); });
}

template <class R, class A, class B, class C, auto F>
void ternary(Warp& w, const Instruction& i, Mask lanes) {
  const Row& a = w.row(i.from[0]);
  const Row& b = w.row(i.from[1]);
  const Row& c = w.row(i.from[2]);
  Row& r = w.row(i.to[0]);
  each(lanes, [&](int lane) { set<R>(r, lane, static_cast<R>(F(get<A>(a, lane), get<B>(b, lane), get<C>(c, lane)))); });
}

inline Spec plain(Handler run) {
  Spec spec;
  spec.run = run;
  spec.kind = Kind::arithmetic;
  return spec;
}

}  // namespace ptx
