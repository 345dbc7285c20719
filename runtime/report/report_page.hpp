// `railyard report`: a run as one HTML page that needs nothing else, neither network nor files.
#pragma once

#include <string>
#include <string_view>

#include "runtime/report/run_view.hpp"

namespace railyard {

// The whole page. Its size does not grow with the number of steps: curves are shortened to some hundred points.
std::string report_page(const RunView& run);

// Its style sheet and script (page_assets.cpp).
extern const std::string_view kPageStyle;
extern const std::string_view kPageScript;

}  // namespace railyard
