// What the scenario files cannot hold: odd files, recorded facts, shipped examples and presets, mutated texts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <random>

#include "lua/host/embedded.hpp"
#include "lua/job.hpp"
#include "lua/schema/job_schema.hpp"
#include "lua/schema/places.hpp"
#include "runtime/base/error.hpp"
#include "tests/lua/temporary_files.hpp"

namespace railyard::lua {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kJob = R"(local models = require "railyard.models"
return job {
  model = models.tiny_llama {},
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
)";

std::string refusal(const std::string& text, const JobOptions& options = {}) {
  try {
    evaluate_job_text(text, "job.lua", options);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

std::string refusal_of_file(const fs::path& path) {
  try {
    evaluate_job(path);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(JobFile, refuses_what_is_no_text_file) {
  TemporaryFiles files;
  EXPECT_THAT(refusal_of_file(files.folder() / "none.lua"), HasSubstr("none.lua: there is no such file"));
  EXPECT_THAT(refusal_of_file(files.folder()), HasSubstr("is a folder, not a Lua file"));
  const auto pipe = files.folder() / "pipe.lua";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(refusal_of_file(pipe), HasSubstr("pipe.lua: is no plain file"));
  EXPECT_THAT(refusal_of_file(files.write("binary.lua", std::string("\x1bLua\x54\x00", 6))),
              HasSubstr("compiled Lua (bytecode)"));
  EXPECT_THAT(refusal_of_file(files.write("large.lua", std::string(5 << 20, ' '))),
              HasSubstr("more than a Lua file may have"));
  EXPECT_THAT(refusal_of_file(files.write("nul.lua", std::string("return\0job", 10))), HasSubstr("nul.lua:1: "));
}

TEST(JobFile, reads_dos_line_ends_and_a_byte_order_mark) {
  std::string dos = "\xEF\xBB\xBF";
  for (const char c : kJob) dos += c == '\n' ? "\r\n" : std::string(1, c);
  const EvaluatedJob job = evaluate_job_text(dos, "job.lua");
  EXPECT_EQ(job.spec.train.iterations, 10);
  EXPECT_THAT(job.warnings, ElementsAre(HasSubstr("byte order mark")));
  std::string wrong = dos;
  wrong.replace(wrong.find("iterations"), 10, "iteratons");
  EXPECT_THAT(refusal(wrong), HasSubstr("job.lua:5: train.iteratons: unknown key"));
}

TEST(JobFile, records_what_it_read) {
  TemporaryFiles files;
  files.write("common.lua", "return { batch = 8 }\n");
  std::string text = "#!/usr/bin/env railyard\n#SBATCH --nodes=2 -p gpu\nlocal c = require \"common\"\n" + kJob;
  text.replace(text.find("global_batch = 4"), 16,
               "global_batch = c.batch + (env.EXTRA and 1 or 0), seed = tonumber(arg[1])");
  JobOptions options;
  options.arguments = {"99"};
  options.environment = [](const std::string&) { return std::nullopt; };
  const EvaluatedJob job = evaluate_job(files.write("run.lua", text), options);
  EXPECT_EQ(job.spec.train.global_batch, 8);
  EXPECT_EQ(job.spec.train.seed, 99U);
  EXPECT_EQ(job.spec.name, "run");
  EXPECT_EQ(job.sources.size(), 2U);
  EXPECT_EQ(job.sources[0].text, text);
  EXPECT_THAT(job.sources[1].name, HasSubstr("common.lua"));
  EXPECT_THAT(job.environment, ElementsAre(testing::Pair("EXTRA", std::nullopt)));
  ASSERT_EQ(job.sbatch.size(), 2U);
  EXPECT_EQ(job.sbatch[1].name, "partition");
  EXPECT_EQ(job.arguments, options.arguments);
}

TEST(JobFile, finds_modules_of_a_spooled_copy_in_the_given_folders) {
  TemporaryFiles files;
  files.write("submit/parts/common.lua", "return { batch = 8 }\n");
  std::string text = "local c = require \"parts.common\"\n" + kJob;
  text.replace(text.find("global_batch = 4"), 16, "global_batch = c.batch");
  JobOptions options;
  options.module_folders = {files.folder() / "submit"};
  options.display_name = "job.lua";
  EXPECT_EQ(evaluate_job(files.write("spool/slurm_script", text), options).spec.train.global_batch, 8);
}

TEST(JobFile, hands_on_what_it_prints) {
  std::string printed;
  JobOptions options;
  options.print = [&](std::string_view line) { printed += line; };
  evaluate_job_text("print('a', 1, nil)\n" + kJob, "job.lua", options);
  EXPECT_EQ(printed, "a\t1\tnil");
}

TEST(JobFile, names_the_setting_that_is_wrong) {
  JobOptions options;
  options.sets = {"train.lr.peek=1"};
  EXPECT_EQ(refusal(kJob, options), "--set train.lr.peek=1: train.lr.peek: unknown key; did you mean peak?");
  options.sets = {"parallel.tp=3"};
  EXPECT_THAT(refusal(kJob, options),
              HasSubstr("--set parallel.tp=3: parallel.tp: tp 3 does not divide model.heads 4"));
}

TEST(JobFile, stops_at_the_time_limit) {
  JobOptions options;
  options.limits.cpu_seconds = 0.1;
  options.limits.instructions = std::int64_t{1} << 60;
  EXPECT_THAT(refusal("while true do end", options), HasSubstr("job.lua:1: stopped after 0.1 s of processor time"));
  // Few instructions, each with much work.
  EXPECT_THAT(refusal("local a, b = ('x'):rep(2^24) .. 'y', ('x'):rep(2^24) .. 'z'\nwhile true do local _ = a == b end",
                      options),
              HasSubstr("processor time"));
}

TEST(JobFile, refuses_tables_that_unfold_without_end) {
  EXPECT_THAT(refusal("local t = {1}\nfor i = 1, 40 do t = {t, t} end\nreturn job { name = t }"),
              HasSubstr("holds more than 200000 values"));
  EXPECT_THAT(
      refusal("local s = ('x'):rep(2^22)\nlocal t = {}\nfor i = 1, 1000 do t[i] = s end\nreturn job { name = t }"),
      HasSubstr("more than 32 MiB of text"));
  EXPECT_THAT(refusal("local t = {}\nfor i = 1, 1000 do t = {t} end\nreturn job { name = t }"),
              HasSubstr("nested deeper than 64 tables"));
  EXPECT_THAT(refusal("local t = {}\nfor i = 1, 20000 do t['k' .. i] = 1 end\nreturn job { run = t }"),
              HasSubstr("more than 10000 keys"));
}

// Every path of `json` that leads to a plain value.
void add_paths(const Json& json, const std::string& path, std::vector<std::string>& paths) {
  if (json.is_object() && !json.empty())
    for (const auto& [key, value] : json.items()) add_paths(value, path.empty() ? key : path + "." + key, paths);
  else
    paths.push_back(path);
}

// What the schema knows and what JobSpec holds must be the same keys, but for those that are spelt differently.
TEST(JobSchema, has_the_keys_of_job_json) {
  const EvaluatedJob job = evaluate_job_text(kJob, "job.lua");
  std::vector<std::string> resolved, known;
  add_paths(job.resolved, "", resolved);
  for (const Key& key : job_schema().keys())
    if (key.built != Built::kNo && key.kind != Kind::kTable && key.path.find("[]") == std::string::npos)
      known.push_back(key.path);
  const std::vector<std::string> only_json{"model.rope_scaling", "checkpoint.init_from", "train.optimizer.beta1",
                                           "train.optimizer.beta2"};
  const std::vector<std::string> only_schema{"train.samples", "train.optimizer.betas", "data.per_split"};
  for (const std::string& path : resolved)
    EXPECT_TRUE(std::count(known.begin(), known.end(), path) + std::count(only_json.begin(), only_json.end(), path) ==
                1)
        << path;
  for (const std::string& path : known) {
    if (path.starts_with("model.rope_scaling.") || path.starts_with("checkpoint.init_from.")) continue;
    EXPECT_TRUE(std::count(resolved.begin(), resolved.end(), path) +
                    std::count(only_schema.begin(), only_schema.end(), path) ==
                1)
        << path;
  }
}

TEST(Examples, resolve) {
  JobOptions lenient;
  lenient.require_built = false;
  int count = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(RAILYARD_SOURCE_DIR) / "examples")) {
    if (entry.path().extension() != ".lua") continue;
    ++count;
    SCOPED_TRACE(entry.path());
    const EvaluatedJob job = evaluate_job(entry.path(), lenient);
    EXPECT_EQ(JobSpec::from_json(job.resolved).to_json(), job.resolved);
    EXPECT_THAT(job.warnings, testing::IsEmpty());
    EXPECT_FALSE(job.sbatch.empty());
  }
  EXPECT_GE(count, 4);
}

TEST(Examples, of_this_machine_run_as_they_are) {
  const fs::path folder = fs::path(RAILYARD_SOURCE_DIR) / "examples";
  const JobSpec first = evaluate_job(folder / "first_train.lua").spec;
  EXPECT_EQ(first.parallel.tp * first.parallel.dp, 4);
  const JobSpec nano = evaluate_job(folder / "nanogpt_char.lua").spec;
  EXPECT_EQ(nano.model.layers, 4);
  EXPECT_EQ(nano.eval.batches, 200);
}

TEST(Models, every_preset_is_a_whole_model) {
  JobOptions lenient;
  lenient.require_built = false;
  std::vector<std::string> names;
  lenient.print = [&](std::string_view name) { names.emplace_back(name); };
  evaluate_job_text(
      "for name in pairs(require 'railyard.models') do if name ~= 'transformer' then print(name) end end\n" + kJob,
      "job.lua", lenient);
  EXPECT_GT(names.size(), 25U);
  for (const std::string& name : names) {
    std::string text = kJob;
    text.replace(text.find("tiny_llama {}"), 13, name + "()");
    const std::string message = refusal(text, lenient);
    if (message == "no error") continue;
    EXPECT_THAT(message, HasSubstr("not built yet; leave it out")) << name;  // experts and the like
  }
}

// Sizes that their makers publish as parameter counts (in millions, with the embedding counted once when tied).
TEST(Models, presets_have_the_published_number_of_parameters) {
  JobOptions lenient;
  lenient.require_built = false;
  for (const auto& [name, millions] : std::vector<std::pair<std::string, double>>{
           {"gpt2_124m", 124.4},  {"gpt2_355m", 354.8},      {"gpt2_774m", 774.0},     {"gpt2_1558m", 1557.6},
           {"llama2_7b", 6738},   {"llama2_13b", 13016},     {"llama2_70b", 68977},    {"llama3_8b", 8030},
           {"llama3_70b", 70554}, {"llama3_1_405b", 405853}, {"llama3_2_1b", 1236},    {"llama3_2_3b", 3213},
           {"mistral_7b", 7242},  {"qwen2_5_0_5b", 494},     {"qwen2_5_7b", 7616},     {"qwen2_5_72b", 72706},
           {"qwen3_8b", 8191},    {"qwen3_0_6b", 596},       {"nemotron4_15b", 15628}, {"nemotron4_340b", 341029}}) {
    std::string text = kJob;
    text.replace(text.find("tiny_llama {}"), 13, name + "()");
    const ModelSpec m = evaluate_job_text(text, "job.lua", lenient).spec.model;
    const double hidden = static_cast<double>(m.hidden), queries = static_cast<double>(m.heads * m.head_dim),
                 keys = static_cast<double>(m.kv_heads * m.head_dim);
    const double ffn = static_cast<double>(m.ffn), layers = static_cast<double>(m.layers),
                 vocab = static_cast<double>(m.vocab);
    const double norm = m.norm == "rmsnorm" ? 1 : 2;
    double layer =
        hidden * (queries + 2 * keys) + queries * hidden + (m.gated() ? 3 : 2) * hidden * ffn + 2 * norm * hidden;
    if (m.bias)
      layer += queries + 2 * keys + hidden + ffn + hidden;
    else if (m.qkv_bias)
      layer += queries + 2 * keys;
    if (m.qk_norm) layer += 2 * static_cast<double>(m.head_dim);
    double total = layers * layer + norm * hidden + vocab * hidden * (m.tied_embeddings ? 1 : 2);
    if (m.position == "learned") total += static_cast<double>(m.max_positions) * hidden;
    EXPECT_NEAR(total / 1e6, millions, 0.002 * millions) << name;
  }
}

// Broken texts of every kind must end in a result or in a UsageError, soon.
TEST(JobFile, survives_mutations) {
  std::mt19937 random(7);
  std::vector<std::string> seeds{kJob};
  for (const auto& entry : fs::directory_iterator(fs::path(RAILYARD_SOURCE_DIR) / "examples"))
    if (entry.path().extension() == ".lua") seeds.push_back(read_file(entry.path()));
  const std::vector<std::string> pieces{"{",
                                        "}",
                                        "(",
                                        ")",
                                        "=",
                                        ",",
                                        "nil",
                                        "\"",
                                        "--[[",
                                        "]]",
                                        "1e999",
                                        "-",
                                        "function() end",
                                        "\0",
                                        "\xff",
                                        "\n",
                                        "..",
                                        "[\"x\"] = ",
                                        "0/0",
                                        "setmetatable({}, {})",
                                        "#",
                                        "job",
                                        "return ",
                                        "1 << 63",
                                        "'\\0'"};
  JobOptions options;
  options.limits.instructions = 2'000'000;
  options.limits.memory = std::size_t{8} << 20;
  options.print = [](std::string_view) {};
  const auto start = std::chrono::steady_clock::now();
  int refused = 0, rounds = 0;
  for (; rounds < 3000 && std::chrono::steady_clock::now() - start < std::chrono::seconds(10); ++rounds) {
    std::string text = seeds[random() % seeds.size()];
    for (unsigned i = 1 + random() % 3; i > 0 && !text.empty(); --i) {
      const std::size_t at = random() % text.size(), length = random() % 12;
      switch (random() % 4) {
        case 0:
          text.erase(at, length);
          break;
        case 1:
          text.insert(at, pieces[random() % pieces.size()]);
          break;
        case 2:
          text[at] = static_cast<char>(random());
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), length));
          break;
      }
    }
    try {
      (void)evaluate_job_text(text, "job.lua", options);
    } catch (const UsageError& error) {
      ++refused;
      ASSERT_FALSE(std::string(error.what()).empty());
    }
  }
  EXPECT_GT(refused, rounds / 4);
}

}  // namespace
}  // namespace railyard::lua
