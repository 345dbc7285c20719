// XML with places: loads a text and names the line of a node in messages. Entities are not expanded, so a small file
// stays small.
#pragma once

#include <pugixml.hpp>
#include <string>
#include <string_view>

namespace railyard::topology {

class XmlText {
 public:
  // Throws UsageError ("FILE:LINE: ...") when the text is not well-formed.
  XmlText(std::string_view text, std::string name);
  [[nodiscard]] pugi::xml_node root() const { return document_.document_element(); }
  [[nodiscard]] std::string place(pugi::xml_node node) const;
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  std::string_view text_;
  std::string name_;
  pugi::xml_document document_;
};

// Elements nested deeper than this are refused: real files stay below 40.
inline constexpr int kDeepestXml = 200;

}  // namespace railyard::topology
