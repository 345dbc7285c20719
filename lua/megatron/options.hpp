// Megatron-LM's command-line options and what they are called here: for answering a key of a job file that bears
// Megatron's name, and for turning a list of flags into a job file. Names and defaults follow Megatron-Core
// (megatron/training/arguments.py and the configuration classes from which it makes flags).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace railyard::lua {

struct MegatronOption {
  enum class Means {
    kCopy,     // the value, at `ours`
    kSet,      // a flag: `ours` becomes true
    kClear,    // a flag: `ours` becomes false
    kWord,     // the value in other words, at `ours`: see megatron_word()
    kSpecial,  // concerns several keys; import.cpp knows
    kNothing,  // needs no counterpart: `note` says why
    kLacking,  // cannot be expressed: `note` says why, or is empty
  };
  std::string_view name;  // without the leading dashes
  int values;             // how many values follow; -1: all up to the next option
  Means means;
  std::string_view ours;  // key path, or empty
  std::string_view note;
};

std::span<const MegatronOption> megatron_options();

// Finds an option by its name, written with '-' or '_'.
const MegatronOption* find_megatron_option(std::string_view name);

// The answer to a job file's key that bears Megatron's name: "Megatron's --micro-batch-size is train.micro_batch here".
std::optional<std::string> megatron_answer(const std::string& key);

// "RMSNorm" is "rmsnorm" for --normalization; nothing for a value that has no word here.
std::optional<std::string_view> megatron_word(std::string_view option, std::string_view value);

}  // namespace railyard::lua
