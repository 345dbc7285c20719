// The `train`, `valid`, `test` lists of a job as data sets: Megatron files, split and blended.
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <memory>

#include "runtime/data/dataset.hpp"

namespace railyard::data {

// Opens the lists of `job`. With a `train` list alone each of its files is split by data.split; with a `valid` or
// `test` list every list is used whole. Megatron-Core's rules: a part of a weighted blend is asked for half a percent
// more than its share; without weights parts count by their length and are read once. Where the greedy order wants more
// samples of a part than that (Megatron stops with an IndexError there), the part is built again with as many as it
// takes.
std::array<std::unique_ptr<Dataset>, 3> open_sources(
    const JobSpec& job, const std::filesystem::path& cache, const SampleRules& rules,
    const std::function<std::filesystem::path(const std::string&)>& locate);

}  // namespace railyard::data
