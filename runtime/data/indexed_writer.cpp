// Writes .bin and .idx.
#include "runtime/data/indexed_writer.hpp"

#include <climits>
#include <cstring>
#include <string_view>

#include "runtime/base/error.hpp"
#include "runtime/data/indexed_dataset.hpp"
#include "runtime/data/mapped_file.hpp"

namespace railyard::data {

IndexedWriter::IndexedWriter(std::filesystem::path prefix, TokenType type, bool multimodal, const WriterState& resume)
    : prefix_(dataset_prefix(prefix)), type_(type), state_(resume) {
  RAILYARD_CHECK(!token_is_float(type));
  bin_ = std::make_unique<OutputFile>(part(".bin.part"), resume.bytes);
  lengths_ = std::make_unique<OutputFile>(part(".lengths.part"), 4 * resume.sequences);
  documents_ = std::make_unique<OutputFile>(part(".documents.part"), 8 * resume.documents);
  if (multimodal) modes_ = std::make_unique<OutputFile>(part(".modes.part"), resume.sequences);
}

std::filesystem::path IndexedWriter::part(const char* name) const { return with_suffix(prefix_, name); }

void IndexedWriter::add(std::span<const std::int32_t> ids, std::uint8_t mode) {
  const std::size_t width = token_size(type_);
  scratch_.resize(ids.size() * width);
  const auto pack = [&]<class T>(T) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const T value = static_cast<T>(ids[i]);
      RAILYARD_CHECK(static_cast<std::int64_t>(value) == ids[i], "id {} in a file of {}", ids[i],
                     token_type_name(type_));
      std::memcpy(scratch_.data() + i * sizeof(T), &value, sizeof(T));
    }
  };
  switch (type_) {
    case TokenType::kUInt8:
      pack(std::uint8_t{});
      break;
    case TokenType::kInt8:
      pack(std::int8_t{});
      break;
    case TokenType::kInt16:
      pack(std::int16_t{});
      break;
    case TokenType::kUInt16:
      pack(std::uint16_t{});
      break;
    case TokenType::kInt32:
      pack(std::int32_t{});
      break;
    default:
      pack(std::int64_t{});
      break;
  }
  add_raw(std::as_bytes(std::span(scratch_)), mode);
}

void IndexedWriter::add_raw(std::span<const std::byte> bytes, std::uint8_t mode) {
  const std::size_t count = bytes.size() / token_size(type_);
  if (count > INT32_MAX)
    throw RunError("{}: a sequence of {} tokens: at most 2^31 - 1 can be written", prefix_.string(), count);
  bin_->write(bytes);
  lengths_->write_value(static_cast<std::int32_t>(count));
  if (modes_) modes_->write_value(mode);
  state_.bytes += bytes.size();
  ++state_.sequences;
}

void IndexedWriter::end_document() {
  documents_->write_value(static_cast<std::int64_t>(state_.sequences));
  ++state_.documents;
}

void IndexedWriter::sync() {
  bin_->sync();
  lengths_->sync();
  documents_->sync();
  if (modes_) modes_->sync();
}

void IndexedWriter::finish() {
  const auto idx = with_suffix(prefix_, ".idx");
  {
    lengths_->flush();
    documents_->flush();
    if (modes_) modes_->flush();
    OutputFile out(part(".idx.part"));
    out.write(std::as_bytes(std::span(std::string_view("MMIDIDX\0\0", 9))));
    out.write_value(std::uint64_t{1});
    out.write_value(static_cast<std::uint8_t>(type_));
    out.write_value(state_.sequences);
    out.write_value(state_.documents + 1);
    const MappedFile lengths(lengths_->path());
    out.write(lengths.bytes());
    std::int64_t pointer = 0;
    for (std::uint64_t i = 0; i < state_.sequences; ++i) {
      std::int32_t count = 0;
      std::memcpy(&count, lengths.bytes().data() + 4 * i, 4);
      out.write_value(pointer);
      pointer += static_cast<std::int64_t>(count) * static_cast<std::int64_t>(token_size(type_));
    }
    out.write_value(std::int64_t{0});
    out.write(MappedFile(documents_->path()).bytes());
    if (modes_) out.write(MappedFile(modes_->path()).bytes());
    out.sync();
    // A reader must never see a new .bin beside an old .idx: an old pair loses its .idx first.
    std::filesystem::remove(idx);
    bin_->publish(with_suffix(prefix_, ".bin"));
    out.publish(idx);
  }
  for (const char* name : {".lengths.part", ".documents.part", ".modes.part"}) std::filesystem::remove(part(name));
}

}  // namespace railyard::data
