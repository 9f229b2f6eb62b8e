#pragma once
// Positions in lists, as types: the id of a unit cannot be taken for that of a tensor.

#include <fmt/core.h>

#include <compare>
#include <concepts>
#include <cstdint>
#include <ranges>
#include <utility>
#include <vector>

namespace tessera {

/// The position of an `Item` in the list that owns all items. A default id names none, and is less than every other.
template <class Item>
class Id {
 public:
  constexpr Id() = default;
  template <std::integral Number>
  constexpr explicit Id(Number position) : position_(static_cast<std::int32_t>(position)) {}

  /// Returns whether it names an item.
  constexpr explicit operator bool() const { return position_ >= 0; }
  /// Returns the position, -1 for none: to print or hash.
  constexpr std::int32_t number() const { return position_; }

  constexpr auto operator<=>(const Id&) const = default;
  constexpr Id& operator++() { return ++position_, *this; }
  constexpr Id operator++(int) { return Id(position_++); }
  constexpr Id& operator--() { return --position_, *this; }
  constexpr Id operator+(std::int64_t count) const { return Id(position_ + count); }
  constexpr Id operator-(std::int64_t count) const { return Id(position_ - count); }
  constexpr std::int64_t operator-(Id other) const { return std::int64_t{position_} - other.position_; }

 private:
  std::int32_t position_ = -1;
};

/// Ids [first, last), to loop over.
template <class Key>
using IdRange = std::ranges::iota_view<Key, Key>;

/// A vector that is indexed by ids alone.
template <class Key, class T>
class IndexedVector : public std::vector<T> {
 public:
  using std::vector<T>::vector;

  decltype(auto) operator[](Key key) { return std::vector<T>::operator[](static_cast<std::size_t>(key.number())); }
  decltype(auto) operator[](Key key) const {
    return std::vector<T>::operator[](static_cast<std::size_t>(key.number()));
  }
  T& at(Key key) { return std::vector<T>::at(static_cast<std::size_t>(key.number())); }
  const T& at(Key key) const { return std::vector<T>::at(static_cast<std::size_t>(key.number())); }
  /// Returns the ids of all elements, in order.
  IdRange<Key> ids() const { return IdRange<Key>(Key(0), end_id()); }
  /// Returns the id that the next element gets.
  Key end_id() const { return Key(this->size()); }
  /// Appends an element and returns its id.
  Key add(T element) {
    this->push_back(std::move(element));
    return Key(this->size() - 1);
  }
};

}  // namespace tessera

/// Prints the position.
template <class Item>
struct fmt::formatter<tessera::Id<Item>> : fmt::formatter<std::int32_t> {
  auto format(tessera::Id<Item> id, format_context& context) const {
    return formatter<std::int32_t>::format(id.number(), context);
  }
};
