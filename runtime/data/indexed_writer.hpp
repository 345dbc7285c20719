// Writing a Megatron data set: any number of sequences in bounded memory, published whole, able to go on after a stop.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "runtime/data/output_file.hpp"
#include "runtime/data/token_view.hpp"

namespace railyard::data {

// How far a writer is; what a stopped one needs to go on.
struct WriterState {
  std::uint64_t bytes = 0;  // of .bin
  std::uint64_t sequences = 0;
  std::uint64_t documents = 0;
};

// Until finish(), tokens and tables lie in PREFIX.{bin,lengths,documents,modes}.part. Failures are RunErrors.
class IndexedWriter {
 public:
  // Starts anew, or goes on from `resume`, dropping what lies behind it.
  IndexedWriter(std::filesystem::path prefix, TokenType type, bool multimodal = false, const WriterState& resume = {});

  // One sequence; ids must fit the type (RAILYARD_CHECK). At most 2^31 - 1 tokens: RunError.
  void add(std::span<const std::int32_t> ids, std::uint8_t mode = 0);
  // The same from bytes of the type.
  void add_raw(std::span<const std::byte> bytes, std::uint8_t mode = 0);
  void end_document();

  [[nodiscard]] WriterState state() const { return state_; }
  // Makes all so far durable, so that state() can be resumed from after any crash.
  void sync();
  // Writes .idx, renames .bin and then .idx into place, removes the parts.
  void finish();

 private:
  [[nodiscard]] std::filesystem::path part(const char* name) const;

  std::filesystem::path prefix_;
  TokenType type_;
  WriterState state_;
  std::unique_ptr<OutputFile> bin_, lengths_, documents_, modes_;
  std::string scratch_;
};

}  // namespace railyard::data
