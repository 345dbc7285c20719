// Keeps what mpirun and srun say about a rank's exit code out of the user's sight: the rank has said why already.
#pragma once

#include <filesystem>
#include <string>
#include <thread>

namespace railyard::launch {

// Splits a stream into lines for the user and lines that only repeat that a rank has ended, or what a rank has said.
class NoiseFilter {
 public:
  // Takes some bytes; appends to `shown` what the user should see and to `hidden` the rest. Incomplete lines are held
  // back, except those that end in a carriage return (a live bar).
  void feed(std::string_view bytes, std::string& shown, std::string& hidden);
  // What is left at the end.
  void finish(std::string& shown, std::string& hidden);
  // The last message of a rank ("railyard: ..." without that word); empty: none has said anything.
  [[nodiscard]] const std::string& last_message() const { return last_message_; }

 private:
  void line(const std::string& text, std::string& shown, std::string& hidden);
  std::string partial_, last_message_;
  std::string block_;  // lines since the ruler that opens one of Open MPI's boxed messages
  bool in_block_ = false;
};

// A pipe whose other end is a child's standard error: a thread passes on what the filter shows and writes the rest to
// `file`.
class FilteredErrors {
 public:
  explicit FilteredErrors(std::filesystem::path file);
  FilteredErrors(const FilteredErrors&) = delete;
  FilteredErrors& operator=(const FilteredErrors&) = delete;
  ~FilteredErrors();  // closes our end and waits until all is passed on
  // For the child.
  [[nodiscard]] int write_end() const { return write_end_; }
  // Our copy of the child's end; to be closed once the child has it, so that the stream can end.
  void close_write_end();
  // Waits until all is passed on, and returns the last message of a rank; empty: none.
  std::string finish();

 private:
  void pass_on();
  std::filesystem::path file_;
  int read_end_ = -1, write_end_ = -1;
  NoiseFilter filter_;  // of the thread
  std::thread thread_;
};

}  // namespace railyard::launch
