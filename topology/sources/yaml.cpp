// Builds a YAML tree from libyaml's events.
#include "topology/sources/yaml.hpp"

#include <yaml.h>

#include <memory>

#include "runtime/base/error.hpp"

namespace railyard::topology {
namespace {

constexpr int kDeepestYaml = 64;

class Parser {
 public:
  Parser(std::string_view text, const std::string& name) : name_(name) {
    if (yaml_parser_initialize(&parser_) == 0) throw std::bad_alloc();
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()), text.size());
  }
  ~Parser() {
    yaml_event_delete(&event_);
    yaml_parser_delete(&parser_);
  }
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;

  YamlNode document() {
    do {
      next();
      if (event_.type == YAML_STREAM_END_EVENT) throw UsageError("{}:1: the YAML file is empty", name_);
    } while (event_.type == YAML_STREAM_START_EVENT || event_.type == YAML_DOCUMENT_START_EVENT);
    return value(0);
  }

 private:
  void next() {
    yaml_event_delete(&event_);
    event_ = {};
    if (yaml_parser_parse(&parser_, &event_) == 0)
      throw UsageError("{}:{}: not valid YAML: {}", name_, parser_.problem_mark.line + 1,
                       parser_.problem == nullptr ? "unreadable" : parser_.problem);
  }

  // The value that the current event begins.
  YamlNode value(int depth) {
    YamlNode node;
    node.line = static_cast<int>(event_.start_mark.line) + 1;
    if (depth > kDeepestYaml) throw UsageError("{}:{}: YAML is nested too deeply", name_, node.line);
    switch (event_.type) {
      case YAML_SCALAR_EVENT:
        node.scalar.assign(reinterpret_cast<const char*>(event_.data.scalar.value), event_.data.scalar.length);
        return node;
      case YAML_SEQUENCE_START_EVENT:
        node.kind = YamlNode::Kind::kList;
        for (next(); event_.type != YAML_SEQUENCE_END_EVENT; next()) node.items.push_back(value(depth + 1));
        return node;
      case YAML_MAPPING_START_EVENT:
        node.kind = YamlNode::Kind::kMap;
        for (next(); event_.type != YAML_MAPPING_END_EVENT; next()) {
          if (event_.type != YAML_SCALAR_EVENT)
            throw UsageError("{}:{}: a YAML key must be a plain word", name_, event_.start_mark.line + 1);
          std::string key(reinterpret_cast<const char*>(event_.data.scalar.value), event_.data.scalar.length);
          next();
          node.entries.push_back({std::move(key), value(depth + 1)});
        }
        return node;
      default:
        throw UsageError("{}:{}: YAML aliases are not read here; write the value out", name_, node.line);
    }
  }

  const std::string& name_;
  yaml_parser_t parser_{};
  yaml_event_t event_{};
};

}  // namespace

const YamlNode* YamlNode::find(std::string_view key) const {
  for (const auto& [name, node] : entries)
    if (name == key) return &node;
  return nullptr;
}

YamlNode read_yaml(std::string_view text, const std::string& name) { return Parser(text, name).document(); }

}  // namespace railyard::topology
