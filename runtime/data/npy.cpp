// .npy reading and writing.
#include "runtime/data/npy.hpp"

#include <charconv>
#include <string>

#include "runtime/base/error.hpp"
#include "runtime/data/mapped_file.hpp"
#include "runtime/data/output_file.hpp"

namespace railyard::data {
namespace {

constexpr std::string_view kMagic("\x93NUMPY\x01\x00", 8);
constexpr const char* kTypes[] = {"<i2", "<i4", "<u4", "<i8"};

}  // namespace

void write_npy(const std::filesystem::path& path, const IntArray& array, std::size_t columns) {
  const std::size_t rows = array.size() / columns;
  const std::string shape = columns > 1 ? fmt::format("({}, {})", rows, columns) : fmt::format("({},)", rows);
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}",
                                   kTypes[static_cast<std::size_t>(array.type())], shape);
  header.append(63 - (kMagic.size() + 2 + header.size()) % 64, ' ');
  header += '\n';
  const auto aside = aside_path(path);
  try {
    OutputFile out(aside);
    out.write(std::as_bytes(std::span(kMagic)));
    out.write_value(static_cast<std::uint16_t>(header.size()));
    out.write(std::as_bytes(std::span(header)));
    out.write(array.bytes());
    out.publish(path);
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(aside, ignored);
    throw;
  }
}

IntArray read_npy(const std::filesystem::path& path) {
  auto file = std::make_shared<const MappedFile>(path);
  const std::string_view text = file->text();
  const auto fail = [&](const char* what) {
    return UsageError("{}: not a .npy file of integers: {}", path.string(), what);
  };
  if (text.size() < 10 || !text.starts_with(kMagic)) throw fail("wrong magic or version");
  const std::size_t length = static_cast<unsigned char>(text[8]) + 256U * static_cast<unsigned char>(text[9]);
  if (text.size() < 10 + length) throw fail("header cut off");
  const std::string_view header = text.substr(10, length);
  if (header.find("'fortran_order': False") == std::string_view::npos) throw fail("Fortran order");
  std::size_t type = 0;
  while (type < 4 && header.find(kTypes[type]) == std::string_view::npos) ++type;
  if (type == 4) throw fail("other element type");
  std::size_t at = header.find("'shape': (");
  if (at == std::string_view::npos) throw fail("no shape");
  at += 10;
  std::size_t elements = 1;
  while (at < header.size() && header[at] != ')') {
    std::size_t extent = 0;
    const auto result = std::from_chars(header.data() + at, header.data() + header.size(), extent);
    if (result.ec != std::errc() || (extent != 0 && elements > text.size() / extent)) throw fail("bad shape");
    elements *= extent;
    at = std::min(header.find_first_not_of(", ", static_cast<std::size_t>(result.ptr - header.data())), header.size());
  }
  const auto kind = static_cast<IntArray::Type>(type);
  if (text.size() - 10 - length != elements * IntArray::width(kind))
    throw fail("size does not fit the shape: truncated");
  return {kind, file->bytes().data() + 10 + length, elements, file};
}

}  // namespace railyard::data
