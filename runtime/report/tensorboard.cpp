// Writing TensorBoard event files.
#include "runtime/report/tensorboard.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>

#include "runtime/base/crc32c.hpp"
#include "runtime/base/error.hpp"

namespace railyard {
namespace {

// Field numbers of event.proto and summary.proto.
constexpr int kEventWallTime = 1, kEventStep = 2, kEventFileVersion = 3, kEventSummary = 5, kEventSessionLog = 7;
constexpr int kSummaryValue = 1, kValueTag = 1, kValueSimple = 2, kSessionStatus = 1, kSessionStart = 1;

// A protobuf message under construction.
class Message {
 public:
  void varint(int field, std::uint64_t value) {
    key(field, 0);
    raw_varint(value);
  }
  void float64(int field, double value) {
    key(field, 1);
    little_endian(std::bit_cast<std::uint64_t>(value), 8);
  }
  void float32(int field, float value) {
    key(field, 5);
    little_endian(std::bit_cast<std::uint32_t>(value), 4);
  }
  void bytes(int field, std::string_view value) {
    key(field, 2);
    raw_varint(value.size());
    text_ += value;
  }
  void little_endian(std::uint64_t value, int size) {
    for (int i = 0; i < size; ++i) text_ += static_cast<char>(value >> (8 * i) & 0xff);
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  void key(int field, int wire_type) { raw_varint(static_cast<std::uint64_t>(field << 3 | wire_type)); }
  void raw_varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_ += static_cast<char>((value & 0x7f) | 0x80);
    text_ += static_cast<char>(value);
  }

  std::string text_;
};

// The rotation and offset keep the checksum of data that holds checksums from being trivial.
std::uint32_t masked_crc(std::string_view data) {
  const std::uint32_t crc = crc32c(std::as_bytes(std::span(data)));
  return std::rotr(crc, 15) + 0xa282ead8u;
}

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

Message event_at(std::optional<std::int64_t> step) {
  Message event;
  event.float64(kEventWallTime, now());
  if (step) event.varint(kEventStep, static_cast<std::uint64_t>(*step));
  return event;
}

std::filesystem::path new_event_path(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw RunError("{}: cannot make the folder: {}", folder.string(), error.message());
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  static std::atomic<int> count{0};
  return folder /
         fmt::format("events.out.tfevents.{:.0f}.{}.{}.{}", std::floor(now()), host.data(), ::getpid(), count++);
}

}  // namespace

EventFile::EventFile(const std::filesystem::path& folder, std::optional<std::int64_t> resumed_at)
    : path_(new_event_path(folder)), file_(path_) {
  Message version = event_at({});
  version.bytes(kEventFileVersion, "brain.Event:2");
  add_record(version.text());
  if (resumed_at) {
    Message session, event = event_at(resumed_at);
    session.varint(kSessionStatus, kSessionStart);
    event.bytes(kEventSessionLog, session.text());
    add_record(event.text());
  }
}

void EventFile::add(std::int64_t step, const std::vector<Scalar>& scalars) {
  Message summary, event = event_at(step);
  for (const Scalar& scalar : scalars) {
    Message value;
    value.bytes(kValueTag, scalar.tag);
    value.float32(kValueSimple, static_cast<float>(scalar.value));
    summary.bytes(kSummaryValue, value.text());
  }
  event.bytes(kEventSummary, summary.text());
  add_record(event.text());
}

void EventFile::add_record(std::string_view event) {
  Message length, record;
  length.little_endian(event.size(), 8);
  record.little_endian(event.size(), 8);
  record.little_endian(masked_crc(length.text()), 4);
  std::string text = record.text();
  text += event;
  Message checksum;
  checksum.little_endian(masked_crc(event), 4);
  text += checksum.text();
  file_.append(text);
}

// A reader drops points at and after the step that a start names: the first step of this start, not the checkpoint's;
// at 0 there may be an evaluation.
TensorBoard::TensorBoard(const std::filesystem::path& folder, std::optional<Resume> resume)
    : by_step_(folder, resume ? std::optional(resume->step > 0 ? resume->step + 1 : 0) : std::nullopt),
      by_samples_(
          folder / "samples",
          resume ? std::optional(resume->consumed_samples > 0 ? resume->consumed_samples + 1 : 0) : std::nullopt),
      consumed_samples_(resume ? resume->consumed_samples : 0) {}

void TensorBoard::step(const StepRecord& record) {
  consumed_samples_ = record.consumed_samples;
  std::vector<EventFile::Scalar> scalars = {
      {"lm loss", record.loss},
      {"learning-rate", record.lr},
      {"grad-norm", record.grad_norm},
      {"batch-size", static_cast<double>(record.global_batch)},
      {"loss-scale", record.loss_scale},
      {"world-size", static_cast<double>(record.gpus)},
      {"iteration-time", record.step_s},
      {"throughput", record.tflops_per_gpu},
      {"tokens-per-second", record.tokens_per_s},
  };
  if (record.mfu) scalars.push_back({"mfu", *record.mfu});
  if (record.mem_gib) scalars.push_back({"mem-max-allocated-bytes", *record.mem_gib * 1073741824.0});
  add(record.step, std::move(scalars));
}

void TensorBoard::evaluation(const EvaluationRecord& record) {
  add(record.step,
      {{"lm loss validation", record.valid_loss}, {"lm loss validation ppl", std::exp(record.valid_loss)}});
}

void TensorBoard::add(std::int64_t step, std::vector<EventFile::Scalar> scalars) {
  by_step_.add(step, scalars);
  for (EventFile::Scalar& scalar : scalars) scalar.tag += " vs samples";
  by_samples_.add(consumed_samples_, scalars);
}

}  // namespace railyard
