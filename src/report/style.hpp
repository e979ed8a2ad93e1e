// How each model looks, the same in every figure: a colour, a dash pattern that survives greyscale, a width.
//
// The colours are those of Okabe and Ito, which the common kinds of colour blindness leave apart; all read on
// a white and on a dark page. The truth has the colour of the page's text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mac::report {

struct LineStyle {
  std::string colour;        // "#d55e00"; text_colour: that of the text
  std::vector<double> dash;  // lengths of line and gap, in line widths; empty: solid
  double width = 1.5;        // pixels
};

/// Stands for the colour of text: black in a PDF, light on a dark page.
inline constexpr std::string_view text_colour = "text";
inline constexpr std::string_view truth = "truth";  // the name under which figures draw the truth

/// gnuplot's factor for all dashes.
inline constexpr double dash_length = 1.5;

/// The style of a model by its name: mac, gru, markov, wilks, linear_memory, cubic_memory, polynomial, exact
/// (and exact_...). Any other name has one of the remaining looks, always the same one.
LineStyle style_of(std::string_view model);

/// A variable as it is written by hand: "phi1" is φ₁, "m2_psi" is m₂ (ψ), "C_omega1" is C (ω₁).
std::string symbol(std::string_view variable);

}  // namespace mac::report
