// SVG shapes and colours.
#include "topology/render/svg_canvas.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace railyard::topology {
namespace {

// XML text; control characters, which XML forbids, and bytes that are not UTF-8 sequences of their own become "?".
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7F)
      out += '?';
    else
      out += c;
  }
  return out;
}

std::string paint(const Style& style) {
  std::string text =
      fmt::format("fill=\"{}\" stroke=\"{}\" stroke-width=\"{:.1f}\"", style.fill, style.stroke, style.width);
  if (!style.dash.empty()) text += fmt::format(" stroke-dasharray=\"{}\"", style.dash);
  if (style.opacity < 1) text += fmt::format(" opacity=\"{:.2f}\"", style.opacity);
  return text;
}

std::string titled(const std::string& element, std::string_view shape, std::string_view tooltip) {
  if (tooltip.empty()) return element + "/>\n";
  return fmt::format("{}><title>{}</title></{}>\n", element, escaped(tooltip), shape);
}

}  // namespace

void SvgCanvas::rectangle(double x, double y, double w, double h, const Style& style, std::string_view tooltip) {
  body_ += titled(fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"{:.1f}\" {}", x,
                              y, w, h, style.radius, paint(style)),
                  "rect", tooltip);
}

void SvgCanvas::line(double x1, double y1, double x2, double y2, const Style& style) {
  body_ += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke-linecap=\"round\" {}/>\n",
                       x1, y1, x2, y2, paint(style));
}

void SvgCanvas::arc(double x1, double x2, double y, double height, const Style& style, std::string_view tooltip) {
  body_ += titled(fmt::format("<path d=\"M{:.1f} {:.1f} C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}\" {}", x1, y, x1,
                              y - height * 1.33, x2, y - height * 1.33, x2, y, paint(style)),
                  "path", tooltip);
}

void SvgCanvas::text(double x, double y, std::string_view content, const TextStyle& style) {
  body_ += fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{:.1f}\" fill=\"{}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
      style.size, style.fill, style.anchor, style.bold ? " font-weight=\"600\"" : "", escaped(content));
}

void SvgCanvas::fitted(double x, double y, double width, std::string_view content, const TextStyle& style) {
  const auto room = static_cast<std::size_t>(std::max(1.0, width / (style.size * (style.bold ? 0.6 : 0.56))));
  if (content.size() <= room) return text(x, y, content, style);
  text(x, y, std::string(content.substr(0, room > 2 ? room - 2 : 1)) + "..", style);
}

std::string SvgCanvas::finish(double width, double height) const {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "font-family=\"Inter, 'Segoe UI', 'Helvetica Neue', 'DejaVu Sans', sans-serif\">\n<rect width=\"100%\" "
      "height=\"100%\" fill=\"#f7f9fb\"/>\n{2}</svg>\n",
      width, height, body_);
}

std::string hsl(double hue, double saturation, double lightness) {
  const auto channel = [&](double offset) {
    const double k = std::fmod(offset + hue / 30.0, 12.0);
    const double value =
        lightness - saturation * std::min(lightness, 1 - lightness) * std::max(-1.0, std::min({k - 3, 9 - k, 1.0}));
    return static_cast<int>(std::lround(value * 255));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", channel(0), channel(8), channel(4));
}

}  // namespace railyard::topology
