// Writes SVG shapes. Coordinates are in pixels from the top left corner.
#pragma once

#include <string>
#include <string_view>

namespace railyard::topology {

struct Style {
  std::string fill = "none";
  std::string stroke = "none";
  double width = 1;
  std::string dash;
  double radius = 0;  // of rectangle corners
  double opacity = 1;
};

struct TextStyle {
  double size = 12;
  std::string fill = "#1f2933";
  bool bold = false;
  std::string anchor = "start";  // start, middle, end
};

class SvgCanvas {
 public:
  void rectangle(double x, double y, double w, double h, const Style& style, std::string_view tooltip = {});
  void line(double x1, double y1, double x2, double y2, const Style& style);
  // A curve from (x1, y) up to `height` above and down to (x2, y).
  void arc(double x1, double x2, double y, double height, const Style& style, std::string_view tooltip = {});
  void text(double x, double y, std::string_view content, const TextStyle& style);
  // `content` cut so that it fits in `width`, with an ellipsis.
  void fitted(double x, double y, double width, std::string_view content, const TextStyle& style);
  [[nodiscard]] std::string finish(double width, double height) const;

 private:
  std::string body_;
};

// A colour of the wheel: hue in degrees, saturation and lightness from 0 to 1, as #rrggbb.
[[nodiscard]] std::string hsl(double hue, double saturation, double lightness);

}  // namespace railyard::topology
