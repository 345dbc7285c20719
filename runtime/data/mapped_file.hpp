// A file mapped into memory for reading.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace railyard::data {

class MappedFile {
 public:
  MappedFile() = default;
  // Maps the whole file; an empty one gives an empty span. UsageError when it is missing or not a readable plain file.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  [[nodiscard]] std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(address_), size_}; }
  [[nodiscard]] std::string_view text() const { return {static_cast<const char*>(address_), size_}; }
  [[nodiscard]] std::size_t size() const { return size_; }

  // Tells the kernel that pages are wanted in no order (random samples), or once from front to back.
  void expect_random() const;
  void expect_sequential() const;

 private:
  void* address_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace railyard::data
