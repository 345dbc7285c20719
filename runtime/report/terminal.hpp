// What a terminal can show, and small pictures made of characters.
#pragma once

#include <cstdio>
#include <span>
#include <string>

namespace railyard {

// Columns of the terminal behind `stream`; 0 when it is none, or one that cannot redraw (TERM=dumb).
int terminal_columns(std::FILE* stream);
// Whether colour is welcome on a terminal (NO_COLOR, https://no-color.org).
bool colour_is_welcome();
bool locale_is_utf8();

// `cells` characters of which `share` (0..1) are filled, to an eighth with Unicode.
std::string progress_bar(double share, int cells, bool unicode);
// One character for each of `cells` parts of `values`, by the mean of its known values.
std::string sparkline(std::span<const double> values, int cells);

}  // namespace railyard
