// Where the numbers of a host's columns lie. A layout gives a column's numbers by column(j)[component].
#pragma once

#include "coupling/network_columns.hpp"

namespace mac {

/// Two strides: component i of column j is data[i*component + j*column].
template <class T>
struct StridedLayout {
  Field<T> field;

  struct Column {
    T* first;
    std::ptrdiff_t component;
    T& operator[](std::size_t i) const { return first[static_cast<std::ptrdiff_t>(i) * component]; }
  };
  Column column(std::size_t j) const {
    return {field.data + static_cast<std::ptrdiff_t>(j) * field.column, field.component};
  }
};

/// An array for each component, on a grid of columns: column number a + extents[0] (b + extents[1] c) lies at
/// a strides[0] + b strides[1] + c strides[2] of each.
template <class T>
struct GridLayout {
  T* const* components;
  const std::size_t* extents;     // (3)
  const std::ptrdiff_t* strides;  // (3)

  struct Column {
    T* const* components;
    std::ptrdiff_t at;
    T& operator[](std::size_t i) const { return components[i][at]; }
  };
  Column column(std::size_t j) const {
    const std::size_t a = j % extents[0], b = j / extents[0] % extents[1], c = j / extents[0] / extents[1];
    return {components, static_cast<std::ptrdiff_t>(a) * strides[0] +
                            static_cast<std::ptrdiff_t>(b) * strides[1] +
                            static_cast<std::ptrdiff_t>(c) * strides[2]};
  }
};

/// Numbers number(0), ..., number(count - 1) to column j of a layout, in its scalar.
template <class Layout, class Number>
void put(const Layout& layout, std::size_t j, std::size_t count, const Number& number) {
  const auto column = layout.column(j);
  using Scalar = std::remove_reference_t<decltype(column[0])>;
  for (std::size_t i = 0; i < count; ++i) column[i] = static_cast<Scalar>(number(i));
}

}  // namespace mac
