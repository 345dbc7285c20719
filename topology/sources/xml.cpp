// Loads XML with pugixml.
#include "topology/sources/xml.hpp"

#include "runtime/base/error.hpp"
#include "topology/sources/text.hpp"

namespace railyard::topology {

XmlText::XmlText(std::string_view text, std::string name) : text_(text), name_(std::move(name)) {
  const auto result = document_.load_buffer(text.data(), text.size(), pugi::parse_default | pugi::parse_trim_pcdata);
  if (!result)
    throw UsageError("{}:{}: not well-formed XML: {}", name_, line_of(text, static_cast<std::size_t>(result.offset)),
                     result.description());
}

std::string XmlText::place(pugi::xml_node node) const {
  const auto offset = node.offset_debug();
  return fmt::format("{}:{}", name_, offset < 0 ? 1 : line_of(text_, static_cast<std::size_t>(offset)));
}

}  // namespace railyard::topology
