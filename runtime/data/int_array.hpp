// An immutable array of integers of one of a few widths, owned or lying in a mapped file.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace railyard::data {

class IntArray {
 public:
  enum class Type : std::uint8_t { kInt16, kInt32, kUInt32, kInt64 };

  IntArray() = default;
  template <class T>
  explicit IntArray(std::vector<T> values) : type_(type_of<T>()), size_(values.size()) {
    auto owner = std::make_shared<const std::vector<T>>(std::move(values));
    data_ = reinterpret_cast<const std::byte*>(owner->data());
    owner_ = std::move(owner);
  }
  // Elements at `data`, which `owner` keeps alive; alignment does not matter.
  IntArray(Type type, const std::byte* data, std::size_t size, std::shared_ptr<const void> owner)
      : type_(type), data_(data), size_(size), owner_(std::move(owner)) {}

  [[nodiscard]] Type type() const { return type_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_ * width(type_)}; }
  [[nodiscard]] std::int64_t operator[](std::size_t i) const {
    switch (type_) {
      case Type::kInt16:
        return load<std::int16_t>(i);
      case Type::kInt32:
        return load<std::int32_t>(i);
      case Type::kUInt32:
        return load<std::uint32_t>(i);
      case Type::kInt64:
        break;
    }
    return load<std::int64_t>(i);
  }
  [[nodiscard]] static constexpr std::size_t width(Type type) {
    return type == Type::kInt16 ? 2 : type == Type::kInt64 ? 8 : 4;
  }
  template <class T>
  [[nodiscard]] static constexpr Type type_of() {
    if constexpr (std::is_same_v<T, std::int16_t>)
      return Type::kInt16;
    else if constexpr (std::is_same_v<T, std::int32_t>)
      return Type::kInt32;
    else if constexpr (std::is_same_v<T, std::uint32_t>)
      return Type::kUInt32;
    else {
      static_assert(std::is_same_v<T, std::int64_t>);
      return Type::kInt64;
    }
  }

 private:
  template <class T>
  [[nodiscard]] std::int64_t load(std::size_t i) const {
    T value;
    std::memcpy(&value, data_ + i * sizeof(T), sizeof(T));
    return static_cast<std::int64_t>(value);
  }

  Type type_ = Type::kInt32;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::shared_ptr<const void> owner_;
};

}  // namespace railyard::data
