// The pipeline: one thread reads lines, workers tokenise, the caller's thread writes in order and keeps the journal.
#include "runtime/data/tokenize.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <memory>

#include "runtime/base/error.hpp"
#include "runtime/base/json.hpp"
#include "runtime/data/digest.hpp"
#include "runtime/data/indexed_dataset.hpp"
#include "runtime/data/indexed_writer.hpp"
#include "runtime/data/jsonl.hpp"
#include "runtime/data/parallel.hpp"

namespace railyard::data {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kKind = "railyard tokenize 1";
constexpr std::size_t kBatchBytes = 1 << 19;
constexpr auto kReportEvery = std::chrono::milliseconds(500);

// Where a run is: input, bytes and lines used of it, and how far the writers are.
struct Position {
  std::size_t input = 0;
  std::uint64_t bytes = 0;  // decompressed, of this input
  std::int64_t lines = 0;   // of this input
  TokenizeProgress progress;
  std::string digest;                // of the bytes used, for standard input
  std::vector<WriterState> writers;  // by key
};

struct Batch {
  LineBatch lines;
  std::size_t input = 0;
  std::uint64_t raw_bytes = 0;  // of all input files, used up to the end of the batch
};

// What a batch became: for each key the ids back to back, and one count a document.
struct Result {
  Batch batch;
  struct Key {
    std::vector<std::int32_t> ids;
    std::vector<std::uint32_t> counts;
  };
  std::vector<Key> keys;
  std::uint64_t documents = 0, skipped = 0;
};

// Keeps a second call away from the same output while this one lives.
class OutputLock {
 public:
  explicit OutputLock(const std::string& output) : path_(output + ".lock") {
    fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd_ < 0) throw UsageError("{}: cannot create: {}", path_, std::strerror(errno));
    if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      ::close(fd_);
      throw UsageError("{}: another process is writing this data set", path_);
    }
  }
  OutputLock(const OutputLock&) = delete;
  OutputLock& operator=(const OutputLock&) = delete;
  ~OutputLock() {
    ::unlink(path_.c_str());
    ::close(fd_);
  }

 private:
  std::string path_;
  int fd_ = -1;
};

class Tokenization {
 public:
  Tokenization(const TokenizeOptions& options, const std::function<void(const TokenizeProgress&)>& report)
      : options_(options),
        report_(report),
        tokenizer_(open_tokenizer(options.tokenizer)),
        type_(token_type_for(tokenizer_->vocab_size())),
        journal_(options.output + ".progress.json") {
    if (options.append_eod) {
      if (!tokenizer_->eod()) throw UsageError("--append-eod: the tokenizer has no end-of-document token");
      eod_ = *tokenizer_->eod();
    }
    describe();
  }

  TokenizeProgress run() {
    const std::filesystem::path parent = std::filesystem::path(options_.output).parent_path();
    if (!parent.empty()) std::filesystem::create_directories(parent);
    const OutputLock lock(options_.output);
    if (!options_.force)
      for (const std::string& key : options_.keys)
        if (const std::string idx = tokenized_prefix(options_.output, key) + ".idx"; std::filesystem::exists(idx))
          throw UsageError("{}: exists already; give another output, or --force to replace it", idx);
    load_journal();
    start_ = at_;
    for (std::size_t k = 0; k < options_.keys.size(); ++k)
      writers_.push_back(std::make_unique<IndexedWriter>(tokenized_prefix(options_.output, options_.keys[k]), type_,
                                                         false, at_.writers[k]));
    at_.progress.all_bytes = all_bytes_;
    at_.progress.resumed_bytes = at_.progress.bytes;
    last_journal_ = last_report_ = Clock::now();
    const std::size_t capacity = options_.threads + options_.threads / 2 + 2;
    ordered_pipeline<Batch, Result>(
        options_.threads, capacity, [this] { return produce(); }, [this] { return make_worker(); },
        [this](Result result) { consume(std::move(result)); });
    for (auto& writer : writers_) writer->finish();
    std::filesystem::remove(journal_);
    report_(at_.progress);
    return at_.progress;
  }

 private:
  // What must be the same for a stopped call to go on.
  void describe() {
    Json inputs = Json::array();
    for (const std::string& name : options_.inputs) {
      Json input{{"name", name}};
      struct stat status {};
      if (name != "-") {
        if (::stat(name.c_str(), &status) != 0) throw UsageError("{}: cannot read: {}", name, std::strerror(errno));
        if (S_ISREG(status.st_mode)) {
          input["size"] = status.st_size;
          input["changed"] = fmt::format("{}.{:09}", status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
          all_bytes_ += static_cast<std::uint64_t>(status.st_size);
        } else {
          known_size_ = false;
        }
      } else {
        known_size_ = false;
      }
      inputs.push_back(std::move(input));
    }
    if (!known_size_) all_bytes_ = 0;
    key_ = Json{{"kind", kKind},         {"inputs", std::move(inputs)},       {"tokenizer", tokenizer_->fingerprint()},
                {"keys", options_.keys}, {"append_eod", options_.append_eod}, {"skip_invalid", options_.skip_invalid}};
  }

  void load_journal() {
    at_.writers.assign(options_.keys.size(), {});
    std::error_code error;
    if (!std::filesystem::is_regular_file(journal_, error)) return;
    Position found;
    try {
      const Json json = read_json_file(journal_);
      if (json.at("key") != key_) return;  // other inputs or settings: from the start
      found.input = json.at("input").get<std::size_t>();
      found.bytes = json.at("bytes").get<std::uint64_t>();
      found.lines = json.at("lines").get<std::int64_t>();
      found.digest = json.at("digest").get<std::string>();
      found.progress.bytes = json.at("file_bytes").get<std::uint64_t>();
      found.progress.documents = json.at("documents").get<std::uint64_t>();
      found.progress.tokens = json.at("tokens").get<std::uint64_t>();
      found.progress.skipped = json.at("skipped").get<std::uint64_t>();
      for (const Json& writer : json.at("writers"))
        found.writers.push_back(
            {writer.at(0).get<std::uint64_t>(), writer.at(1).get<std::uint64_t>(), writer.at(2).get<std::uint64_t>()});
    } catch (const std::exception&) {
      return;
    }
    if (found.writers.size() != options_.keys.size() || found.input >= options_.inputs.size()) return;
    for (std::size_t k = 0; k < found.writers.size(); ++k) {
      const std::string prefix = tokenized_prefix(options_.output, options_.keys[k]);
      const auto at_least = [&](const char* suffix, std::uint64_t size) {
        std::error_code missing;
        const auto have = std::filesystem::file_size(prefix + suffix, missing);
        return !missing && have >= size;
      };
      if (!at_least(".bin.part", found.writers[k].bytes) ||
          !at_least(".lengths.part", 4 * found.writers[k].sequences) ||
          !at_least(".documents.part", 8 * found.writers[k].documents))
        return;
    }
    at_ = std::move(found);
  }

  void save_journal() {
    Json writers = Json::array();
    for (const auto& writer : writers_) {
      writer->sync();
      const WriterState state = writer->state();
      writers.push_back({state.bytes, state.sequences, state.documents});
    }
    write_file_atomic(journal_, Json{{"key", key_},
                                     {"input", at_.input},
                                     {"bytes", at_.bytes},
                                     {"lines", at_.lines},
                                     {"digest", options_.inputs[at_.input] == "-" ? seen_.hex() : ""},
                                     {"file_bytes", at_.progress.bytes},
                                     {"documents", at_.progress.documents},
                                     {"tokens", at_.progress.tokens},
                                     {"skipped", at_.progress.skipped},
                                     {"writers", std::move(writers)}}
                                        .dump(2) +
                                    "\n");
  }

  // Reading thread ------------------------------------------------------------------------------------------------
  std::optional<Batch> produce() {
    for (;;) {
      if (!stream_) {
        const bool first = reading_ == kNotStarted;
        reading_ = first ? start_.input : reading_ + 1;
        if (reading_ >= options_.inputs.size()) return std::nullopt;
        stream_ = std::make_unique<InputStream>(options_.inputs[reading_]);
        if (first) skip_to_start();
        reader_ = std::make_unique<LineReader>(*stream_, first ? start_.lines + 1 : 1);
      }
      Batch batch;
      batch.input = reading_;
      if (reader_->next(kBatchBytes, batch.lines)) {
        batch.raw_bytes = finished_bytes_ + stream_->position();
        return batch;
      }
      finished_bytes_ += stream_->position();
      stream_.reset();
    }
  }

  void skip_to_start() {
    finished_bytes_ = 0;
    for (std::size_t i = 0; i < start_.input; ++i) {
      std::error_code unknown;
      const auto size = std::filesystem::file_size(options_.inputs[i], unknown);
      finished_bytes_ += unknown ? 0 : size;
    }
    const bool piped = options_.inputs[start_.input] == "-";
    if (!piped && stream_->seek(start_.bytes)) return;
    std::string skipped(1 << 18, '\0');
    for (std::uint64_t left = start_.bytes; left > 0;) {
      const std::size_t count = stream_->read(skipped.data(), std::min<std::uint64_t>(left, skipped.size()));
      if (count == 0)
        throw UsageError("{}: ends before the place where the stopped run was; remove {} to start anew",
                         stream_->name(), journal_);
      if (piped) seen_.add(std::string_view(skipped.data(), count));
      left -= count;
    }
    if (piped && start_.bytes > 0 && seen_.hex() != start_.digest)
      throw UsageError("{}: other bytes than in the stopped run; remove {} to start anew", stream_->name(), journal_);
  }

  // Workers -------------------------------------------------------------------------------------------------------
  std::function<Result(Batch)> make_worker() {
    struct Tools {
      std::unique_ptr<Tokenizer> tokenizer;
      JsonLine line;
    };
    auto tools = std::make_shared<Tools>();
    tools->tokenizer = tokenizer_->clone();
    return [this, tools](Batch batch) {
      Result result;
      result.keys.resize(options_.keys.size());
      std::string_view text(batch.lines.text.data(), batch.lines.size);
      for (std::int64_t number = batch.lines.first_line; !text.empty(); ++number) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        const std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
        if (const std::string problem = encode_line(*tools->tokenizer, tools->line, line, result); problem.empty()) {
          ++result.documents;
        } else if (options_.skip_invalid) {
          ++result.skipped;
        } else {
          throw UsageError("{}:{}: {}; --skip-invalid leaves such lines out",
                           options_.inputs[batch.input] == "-" ? "standard input" : options_.inputs[batch.input],
                           number, problem);
        }
      }
      result.batch = std::move(batch);
      return result;
    };
  }

  // Appends a line's documents to the result; empty, or what is wrong with the line (and nothing is appended).
  std::string encode_line(Tokenizer& tokenizer, JsonLine& json, std::string_view line, Result& result) const {
    std::string problem = json.parse(line);
    std::vector<std::size_t> before;
    for (std::size_t k = 0; k < options_.keys.size() && problem.empty(); ++k) {
      Result::Key& key = result.keys[k];
      const std::string_view text = json.text(options_.keys[k], problem);
      if (!problem.empty()) break;
      const std::size_t first = key.ids.size();
      before.push_back(first);
      try {
        tokenizer.encode(text, key.ids);
      } catch (const UsageError& error) {
        problem = error.what();
        break;
      }
      if (key.ids.size() > first && options_.append_eod) key.ids.push_back(eod_);
      key.counts.push_back(static_cast<std::uint32_t>(key.ids.size() - first));
    }
    if (problem.empty()) return problem;
    for (std::size_t k = 0; k < before.size(); ++k) {
      result.keys[k].ids.resize(before[k]);
      result.keys[k].counts.resize(result.documents);
    }
    return problem;
  }

  // Writing -------------------------------------------------------------------------------------------------------
  void consume(Result result) {
    for (std::size_t k = 0; k < writers_.size(); ++k) {
      std::span<const std::int32_t> ids = result.keys[k].ids;
      at_.progress.tokens += ids.size();
      for (const std::uint32_t count : result.keys[k].counts) {
        if (count > 0) writers_[k]->add(ids.first(count));
        writers_[k]->end_document();
        ids = ids.subspan(count);
      }
    }
    const Batch& batch = result.batch;
    if (batch.input != at_.input) {
      at_.input = batch.input;
      at_.bytes = 0;
    }
    at_.bytes += batch.lines.size;
    at_.lines = batch.lines.first_line + batch.lines.lines - 1;
    at_.progress.bytes = batch.raw_bytes;
    at_.progress.documents += result.documents;
    at_.progress.skipped += result.skipped;
    if (options_.inputs[batch.input] == "-") seen_.add(std::string_view(batch.lines.text.data(), batch.lines.size));
    if (options_.on_batch) options_.on_batch(at_.progress);
    const auto now = Clock::now();
    if (std::chrono::duration<double>(now - last_journal_).count() >= options_.journal_seconds) {
      save_journal();
      last_journal_ = now;
    }
    if (now - last_report_ > kReportEvery) {
      report_(at_.progress);
      last_report_ = now;
    }
  }

  static constexpr std::size_t kNotStarted = ~std::size_t{0};

  const TokenizeOptions& options_;
  const std::function<void(const TokenizeProgress&)>& report_;
  std::unique_ptr<Tokenizer> tokenizer_;
  TokenType type_;
  std::int32_t eod_ = -1;
  std::string journal_;
  Json key_;
  std::uint64_t all_bytes_ = 0;
  bool known_size_ = true;

  Position at_;  // of the writing side
  Digest seen_;  // of standard input; the skipping reader fills it before the first batch
  std::vector<std::unique_ptr<IndexedWriter>> writers_;
  Clock::time_point last_journal_, last_report_;

  std::size_t reading_ = kNotStarted;  // of the reading side
  Position start_;
  std::uint64_t finished_bytes_ = 0;  // of the files before the one at hand
  std::unique_ptr<InputStream> stream_;
  std::unique_ptr<LineReader> reader_;
};

}  // namespace

std::string tokenized_prefix(const std::string& output, const std::string& key) {
  return output + "_" + key + "_document";
}

TokenizeProgress tokenize(const TokenizeOptions& options, const std::function<void(const TokenizeProgress&)>& report) {
  if (options.inputs.empty() || options.keys.empty() || options.threads < 1)
    throw UsageError("tokenize: needs an input, a key and a thread");
  return Tokenization(options, report).run();
}

}  // namespace railyard::data
