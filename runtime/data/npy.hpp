// NumPy's .npy files of integers: written whole or not at all, read by mapping.
#pragma once

#include <filesystem>

#include "runtime/data/int_array.hpp"

namespace railyard::data {

// Version 1.0 of numpy/lib/format.py, little-endian, C order; `columns` > 1 makes a matrix of that many columns.
// RunError when it cannot be written.
void write_npy(const std::filesystem::path& path, const IntArray& array, std::size_t columns = 1);

// UsageError: not such a file, or its size does not fit its header.
IntArray read_npy(const std::filesystem::path& path);

}  // namespace railyard::data
